"""`dptheory bound angle` and `bound freeze`."""
