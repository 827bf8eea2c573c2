"""The networks of the papers, with group normalisation; every starting weight depends on the seed alone."""

import math

import torch
from torch import nn

from dptheory import _validate
from dptheory.training import _argument_ranges
from dptheory.training._randomness import seeded

_WIDTHS = (32, 32, 64, 64, 128, 128)
_GROUPS = 16


def dp_cnn(seed: int) -> nn.Module:
    """The tanh CNN for 3 x 32 x 32 images of RF's and RS's end-to-end experiments: 550,570 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: RF, Table 1, "End-to-end CNN" (rf.table1).

    Example: two images of CIFAR-10 give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import dp_cnn
        >>> model = dp_cnn(0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 550570)
    """

    def build() -> nn.Module:
        blocks: list[nn.Module] = []
        channels = 3
        for index, width in enumerate(_WIDTHS):
            blocks += [nn.Conv2d(channels, width, kernel_size=3, padding=1), nn.Tanh()]
            if index % 2:
                blocks.append(nn.MaxPool2d(kernel_size=2, stride=2))
            channels = width
        return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))

    return seeded(seed, build)


class _Shortcut(nn.Module):
    """Every second pixel, and zeros for the new channels: a shortcut without parameters."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self._pad = (0, 0, 0, 0, new_channels // 2, new_channels - new_channels // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x[:, :, ::2, ::2], self._pad)


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with group normalisation without parameters, and a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(_GROUPS, width, affine=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_GROUPS, width, affine=False)
        self.shortcut = _Shortcut(width - channels) if stride == 2 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


def resnet20(seed: int) -> nn.Module:
    """ResNet20 for 3 x 32 x 32 images, group normalisation without parameters: 268,346 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: GEP, section 4 (gep.table1); RF, Table 1, "268K" (rf.table1).

    Example: two images of CIFAR-10 give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import resnet20
        >>> model = resnet20(0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 268346)
    """

    def build() -> nn.Module:
        blocks: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(_GROUPS, 16, affine=False)]
        blocks.append(nn.ReLU())
        channels = 16
        for width in (16, 32, 64):
            stage = []
            for index in range(3):
                stage.append(_BasicBlock(channels, width, 2 if index == 0 and width > 16 else 1))
                channels = width
            blocks.append(nn.Sequential(*stage))
        return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    return seeded(seed, build)


class _WideBlock(nn.Module):
    """Pre-activation block: norm, ReLU, convolution, twice; a 1 x 1 convolution where the width changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_GROUPS, channels)
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_GROUPS, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False) if channels != width else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = torch.relu(self.norm1(x))
        inner: torch.Tensor = self.conv2(torch.relu(self.norm2(self.conv1(active))))
        return inner + (x if self.shortcut is None else self.shortcut(active))


def wrn_16_4(seed: int) -> nn.Module:
    """WideResNet 16-4 for 3 x 32 x 32 images: 2,748,890 parameters, "2.7M".

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: GIP, section 6 (gip.table2).

    Example: two images of CIFAR-10 give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import wrn_16_4
        >>> model = wrn_16_4(0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 2748890)
    """

    def build() -> nn.Module:
        blocks: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False)]
        channels = 16
        for width, stride in ((64, 1), (128, 2), (256, 2)):
            blocks += [_WideBlock(channels, width, stride), _WideBlock(width, width, 1)]
            channels = width
        blocks += [nn.GroupNorm(_GROUPS, channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*blocks, nn.Linear(channels, 10))

    return seeded(seed, build)


SCATTERING_INPUT = (3, 32, 32)
SCATTERED_SHAPE = (243, 8, 8)
"""Scattering coefficients of a 3 x 32 x 32 image, J = 2."""


def scattering_cnn(seed: int) -> nn.Module:
    """The CNN on scattering features (243, 8, 8) of 3 x 32 x 32 images: 187,210 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: RF, Table 1, "Handcrafted CNN", 187K (rf.table1).

    Example: the features of two images of CIFAR-10 give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import scattering_cnn
        >>> model = scattering_cnn(0)
        >>> model(torch.zeros(2, 243, 8, 8)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 187210)
    """
    return seeded(
        seed,
        lambda: nn.Sequential(
            nn.GroupNorm(27, SCATTERED_SHAPE[0], affine=False),
            nn.Conv2d(SCATTERED_SHAPE[0], 64, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.MaxPool2d(kernel_size=2, stride=2),
            nn.Conv2d(64, 64, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(1024, 10),
        ),
    )


def scattering_linear(seed: int) -> nn.Module:
    """A linear model on scattering features (243, 8, 8) of 3 x 32 x 32 images: 155,530 parameters.

    The features are normalised within the same groups of channels as in :func:`scattering_cnn`, by their mean and deviation in
    each image, which costs no privacy.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: a seed outside its range.

    Source: the handcrafted features of RF, Table 1 (rf.table1), without its convolutions.

    Example: ten scores per image, and ten weights per coefficient with a bias each.
        >>> import torch
        >>> from dptheory.training.networks import scattering_linear
        >>> model = scattering_linear(0)
        >>> model(torch.zeros(2, 243, 8, 8)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 155530)
    """
    return seeded(
        seed,
        lambda: nn.Sequential(
            nn.GroupNorm(27, SCATTERED_SHAPE[0], affine=False),
            nn.Flatten(),
            nn.Linear(math.prod(SCATTERED_SHAPE), 10),
        ),
    )


def linear_probe(seed: int, *, features: int = 4096, bias: bool = True) -> nn.Module:
    """A linear classifier with ten classes: 40,970 parameters on 4096 features, RF's 41K; 40,960 without bias, as in GEP.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.
        features: entries of a feature vector, 1..1e9.
        bias: whether the classes have one.

    Returns:
        The network, in training mode, on the CPU.

    Raises:
        ValueError: an argument outside its range.

    Source: RF, Table 1 (rf.table1); GEP, Appendix A (gep.table3).

    Example: two vectors of 64 x 8 x 8 = 4096 features give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import linear_probe
        >>> model = linear_probe(0, bias=False)
        >>> model(torch.zeros(2, 64, 8, 8)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 40960)
    """
    features, bias = _argument_ranges.count("features", features), _validate.flag("bias", bias)
    return seeded(seed, lambda: nn.Sequential(nn.Flatten(), nn.Linear(features, 10, bias=bias)))


def scattering_features(pixels: torch.Tensor, *, chunk: int = 256) -> torch.Tensor:
    """Scattering coefficients (J = 2, eight angles) of images, by the package kymatio.

    Args:
        pixels: shape (n, channels, 32, 32), float32, n >= 1.
        chunk: images at a time, to bound the memory; >= 1.

    Returns:
        Shape (n, 81 channels, 8, 8), on the device of the images.

    Raises:
        RuntimeError: images of another size than 32 x 32.

    Source: RF, Table 1, "Handcrafted CNN" (rf.table1).

    Example: an image of three channels has 243 maps of 8 x 8.
        >>> import torch
        >>> from dptheory.training.networks import scattering_features
        >>> scattering_features(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 243, 8, 8])
    """
    # the 2-D frontend alone: the package's torch module fails on SciPy 1.17 because of its 3-D part
    from kymatio.scattering2d.frontend.torch_frontend import ScatteringTorch2D

    scattering = ScatteringTorch2D(J=2, shape=(32, 32)).to(pixels.device)
    return torch.cat([scattering(part).flatten(1, 2) for part in torch.split(pixels, chunk)])
