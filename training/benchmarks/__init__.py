"""What mechanisms and calculators cost, measured side by side: ``python -m training.benchmarks``."""
