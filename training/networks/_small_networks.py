"""Small networks: a convolutional one and a multilayer perceptron."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded

# --- A network with one hidden layer, which a step of training takes a millisecond or two for


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


IMAGE_SHAPE = (1, 28, 28)


def small_tanh_cnn(seed: int) -> nn.Sequential:
    """The tanh CNN usual in DP-SGD studies of MNIST and FashionMNIST: 26,010 parameters, ten classes, 1 x 28 x 28 images.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Example: two images of FashionMNIST give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import small_tanh_cnn
        >>> model = small_tanh_cnn(0)
        >>> model(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 26010)
    """
    return _cnn(seed, channels=1, flat=512)


class _TemperedSigmoid(nn.Module):
    """1.58 sigmoid(3 x) - 0.71."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.58 * torch.sigmoid(3.0 * x) - 0.71


def small_tempered_cnn(seed: int) -> nn.Sequential:
    """:func:`small_tanh_cnn` with tempered sigmoids, 1.58 sigmoid(3 x) - 0.71, in place of tanh; with the same starting weights.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: LF, Appendix D (lf.table1); Papernot et al. (2021), Tempered Sigmoid Activations.

    Example: two images of MNIST give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import small_tempered_cnn
        >>> model = small_tempered_cnn(0)
        >>> model(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 26010)
    """
    return _cnn(seed, channels=1, flat=512, activation=_TemperedSigmoid)


def small_colour_cnn(seed: int) -> nn.Sequential:
    """:func:`small_tanh_cnn` for 3 x 32 x 32 images: three channels in front, 800 entries for a linear layer; 37,274 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Example: two images of CIFAR-10 give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import small_colour_cnn
        >>> model = small_colour_cnn(0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 37274)
    """
    return _cnn(seed, channels=3, flat=800)


def _cnn(seed: int, *, channels: int, flat: int, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    """``flat``: entries that the convolutions leave of an image."""
    return seeded(
        seed,
        lambda: nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(channels, 16, kernel_size=8, stride=2, padding=2),
                tanh1=activation(),
                pool1=nn.MaxPool2d(kernel_size=2, stride=1),
                conv2=nn.Conv2d(16, 32, kernel_size=4, stride=2),
                tanh2=activation(),
                pool2=nn.MaxPool2d(kernel_size=2, stride=1),
                flatten=nn.Flatten(),
                fc1=nn.Linear(flat, 32),
                tanh3=activation(),
                fc2=nn.Linear(32, 10),
            )
        ),
    )


def layer_slices(model: nn.Module) -> dict[str, slice]:
    """Where each parameter tensor of ``model`` lies in the flattened gradient.

    Args:
        model: any module; parameters that are not trained count, too.

    Returns:
        Slices by name, in the order of ``parameters()``.

    Example: the first six of eight entries are the weight's.
        >>> import torch
        >>> from dptheory.training.networks import layer_slices
        >>> layer_slices(torch.nn.Linear(3, 2))
        {'weight': slice(0, 6, None), 'bias': slice(6, 8, None)}
    """
    slices, start = {}, 0
    for name, parameter in model.named_parameters():
        slices[name] = slice(start, start + parameter.numel())
        start += parameter.numel()
    return slices
