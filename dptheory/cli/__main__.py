"""``python -m dptheory.cli``: the same as ``dptheory``."""

from dptheory.cli import app

app(prog_name="dptheory")
