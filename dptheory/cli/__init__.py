"""The command line: one module per command group."""

from dptheory.cli._app import app

__all__ = ["app"]
