"""Gaussian releases without sampling: closed forms."""
