"""`dptheory bound embedding` and `preset embedding`."""
