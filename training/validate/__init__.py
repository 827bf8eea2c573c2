"""Predicted against measured: the theory's numbers beside those of a short DP-SGD run on real images."""
