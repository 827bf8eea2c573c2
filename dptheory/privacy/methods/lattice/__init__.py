"""Sums of many losses that are alike, on a lattice."""
