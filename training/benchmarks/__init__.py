"""What the mechanisms cost, measured side by side: ``python -m training.benchmarks``."""
