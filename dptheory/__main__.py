"""``python -m dptheory``: the same as ``dptheory``."""

from dptheory.cli import app

app(prog_name="dptheory")
