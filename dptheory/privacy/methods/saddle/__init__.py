"""Noisy values of Poisson samples: the inversion integral on the saddle line, in doubles and in ball arithmetic."""
