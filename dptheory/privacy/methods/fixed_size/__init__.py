"""Batches of a fixed size, drawn afresh without replacement: upper bounds."""
