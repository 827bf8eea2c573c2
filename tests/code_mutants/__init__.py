"""Mutants of the code itself: which small mistakes in the source would the tests notice?"""
