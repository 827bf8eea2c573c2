"""Executable companion to five papers on DP-SGD with masked, frozen, pruned and projected gradients.

The calculators live in flat modules (``dptheory.pruning``, ``dptheory.mallows``, ``dptheory.angles``), the verdict on every
claim of the papers in ``dptheory.claims``, and the engine that checks them in ``dptheory.montecarlo``.
"""
