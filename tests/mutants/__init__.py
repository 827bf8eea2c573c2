"""Wrong calculators, generated from what the library returns, and whether a check of the ledger refuses each of them."""
