"""The small network of the probe, and where its parameters lie in a flat gradient."""

from collections import OrderedDict

import torch
from torch import nn

from dptheory import _validate
from training import _argument_ranges

IMAGE_SHAPE = (1, 28, 28)
_FLAT = {IMAGE_SHAPE: 512, (3, 32, 32): 800}
"""Images that the network takes, and the entries that its convolutions leave of one."""


def small_tanh_cnn(seed: int, *, image_shape: tuple[int, int, int] = IMAGE_SHAPE) -> nn.Sequential:
    """The tanh CNN usual in DP-SGD studies of MNIST and FashionMNIST: 26,010 parameters, ten classes, 1 x 28 x 28 images.

    For images of CIFAR-10 its first convolution takes three channels and its first linear layer more entries: 37,274 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.
        image_shape: (1, 28, 28) or (3, 32, 32).

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range, or another shape.

    Example: two images of FashionMNIST give ten outputs each.
        >>> import torch
        >>> from training.networks import small_tanh_cnn
        >>> model = small_tanh_cnn(0)
        >>> model(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 26010)
    """
    seed = _argument_ranges.stream("seed", seed)
    if image_shape not in _FLAT:
        raise ValueError(f"image_shape must be one of {', '.join(map(str, _FLAT))}, got {_validate.shown(image_shape)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(image_shape[0], 16, kernel_size=8, stride=2, padding=2),
                tanh1=nn.Tanh(),
                pool1=nn.MaxPool2d(kernel_size=2, stride=1),
                conv2=nn.Conv2d(16, 32, kernel_size=4, stride=2),
                tanh2=nn.Tanh(),
                pool2=nn.MaxPool2d(kernel_size=2, stride=1),
                flatten=nn.Flatten(),
                fc1=nn.Linear(_FLAT[image_shape], 32),
                tanh3=nn.Tanh(),
                fc2=nn.Linear(32, 10),
            )
        )


def layer_slices(model: nn.Module) -> dict[str, slice]:
    """Where each parameter tensor of ``model`` lies in the flattened gradient.

    Args:
        model: any module; parameters that are not trained count, too.

    Returns:
        Slices by name, in the order of ``parameters()``.

    Example: the first six of eight entries are the weight's.
        >>> import torch
        >>> from training.networks import layer_slices
        >>> layer_slices(torch.nn.Linear(3, 2))
        {'weight': slice(0, 6, None), 'bias': slice(6, 8, None)}
    """
    slices, start = {}, 0
    for name, parameter in model.named_parameters():
        slices[name] = slice(start, start + parameter.numel())
        start += parameter.numel()
    return slices
