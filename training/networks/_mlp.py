"""A network with one hidden layer, which a step of training takes a millisecond or two for."""

from torch import nn

from dptheory.training._randomness import seeded


def mlp(seed: int) -> nn.Sequential:
    """A perceptron with 256 hidden units for 1 x 28 x 28 images: 203,530 parameters, ten classes.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Example: two images of MNIST give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import mlp
        >>> model = mlp(0)
        >>> model(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 203530)
    """
    return seeded(seed, lambda: nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 256), nn.ReLU(), nn.Linear(256, 10)))
