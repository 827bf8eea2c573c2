"""Renyi divergences of all kinds of steps, and what they say about epsilon and delta."""
