"""PyTorch and Opacus: compares the predictions of :mod:`dptheory` with real gradients, on CPU or CUDA."""
