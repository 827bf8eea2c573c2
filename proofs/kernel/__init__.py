"""Statements of the ledger that Coq's kernel has checked: one file each, and ``python -m proofs.kernel`` to check them again."""
