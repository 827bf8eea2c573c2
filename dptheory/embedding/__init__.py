"""Gradient embedding perturbation: noise, error, subspace, risk."""
