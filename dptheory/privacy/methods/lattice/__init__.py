"""Sums of many losses on a lattice, from both sides, whatever they are of."""
