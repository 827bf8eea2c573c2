"""Statements of the ledger that Coq's kernel has checked: one file for each claim, and ``python -m proofs.kernel`` to check them again."""
