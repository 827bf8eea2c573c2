"""What mechanisms and calculators cost, measured side by side: ``python -m dptheory.training.benchmarks``."""
