"""Wrong calculators, one module a topic; test_mutations.py runs them all."""
