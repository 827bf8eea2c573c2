"""The networks of the papers, with group normalisation; every starting weight depends on the seed alone."""

import math
from collections import OrderedDict

import torch
from torch import nn
from torch.nn.functional import group_norm
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from dptheory import _validate
from dptheory.errors import ArgumentError
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
_MAPS = 9
"""Of scattering coefficients that are normalised together."""


def scattering_cnn(seed: int) -> nn.Module:
    """The CNN on normalised scattering features (243, 8, 8) of 3 x 32 x 32 images: 187,210 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

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
    """A linear model on normalised scattering features (243, 8, 8) of 3 x 32 x 32 images: 155,530 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

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
            nn.Flatten(),
            nn.Linear(math.prod(SCATTERED_SHAPE), 10),
        ),
    )


def scattering_small_cnn(seed: int) -> nn.Module:
    """The CNN on normalised scattering features (81, 8, 8) of 1 x 32 x 32 images: 33,066 parameters.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

    Source: RS, Table 2, "H-CNN/S", 33K (rs.table2); RS prints no layers, these are Tramer and Boneh's, whose maps are 7 x 7.

    Example: the features of two images of FashionMNIST give ten outputs each.
        >>> import torch
        >>> from dptheory.training.networks import scattering_small_cnn
        >>> model = scattering_small_cnn(0)
        >>> model(torch.zeros(2, 81, 8, 8)).shape, sum(p.numel() for p in model.parameters())
        (torch.Size([2, 10]), 33066)
    """
    return seeded(
        seed,
        lambda: nn.Sequential(
            nn.Conv2d(81, 16, kernel_size=3, stride=2, padding=1),
            nn.Tanh(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(512, 32),
            nn.Tanh(),
            nn.Linear(32, 10),
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


def scattering_features(pixels: torch.Tensor, *, normalised: bool = False, chunk: int = 256) -> torch.Tensor:
    """Scattering coefficients (J = 2, eight angles) of images, by the package kymatio.

    Args:
        pixels: shape (n, channels, 32, 32), float32, n >= 1.
        normalised: groups of nine maps are normalised by their mean and deviation in each image, which costs no privacy;
            :func:`scattering_cnn` and :func:`scattering_linear` take such features.
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
    found = (scattering(part).flatten(1, 2) for part in torch.split(pixels, chunk))
    return torch.cat([group_norm(one, one.shape[1] // _MAPS) if normalised else one for one in found])


# --- Small networks: a perceptron, which a step of training takes a millisecond or two for, and convolutional ones


def mlp(seed: int) -> nn.Sequential:
    """A perceptron with 256 hidden units for 1 x 28 x 28 images: 203,530 parameters, ten classes.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

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

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1.58 * torch.sigmoid(3.0 * x) - 0.71


def small_tempered_cnn(seed: int) -> nn.Sequential:
    """:func:`small_tanh_cnn` with tempered sigmoids, 1.58 sigmoid(3 x) - 0.71, in place of tanh; with the same starting weights.

    Args:
        seed: of the starting weights, 0 to 2^64 - 1; torch's global random state is left as it was.

    Returns:
        The network, in training mode, on the CPU.

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


# --- Weight standardisation of convolution layers


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_EPSILON = 1e-4


class StandardisedWeight(nn.Module):
    r"""The weight of each output channel less its mean, over its norm: :math:`\hat w = (w-\bar w)/\sqrt{|w-\bar w|^2+10^{-4}}`.

    Source: De, Berrada, Hayes, Smith and Balle (2022), whose setting LF takes over (lf.table1); Qiao et al. (2019).
    """

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The standardised weight, in the shape of the raw one."""
        rows = weight.flatten(1)
        rows = rows - rows.mean(1, keepdim=True)
        rows = rows * torch.rsqrt(rows.square().sum(1, keepdim=True) + _EPSILON)
        return rows.view_as(weight)


def standardise_weights(model: nn.Module) -> nn.Module:
    """Let every convolution layer work with its standardised weight; what is trained is the raw one, which stays as it is.

    It costs no privacy: the standardised weight is made of the raw one alone, which is released after every step. The gradient of an
    example is that with respect to the raw weight, through the standardisation, and no example enters that of another one.

    Args:
        model: plain, before ``make_private``; it is changed.

    Returns:
        The model itself. Its state names the raw weight ``parametrizations.weight.original``;
        ``torch.nn.utils.parametrize.remove_parametrizations`` puts the standardised one in its place for good.

    Raises:
        ValueError: no convolution layer, or one whose weight is parametrized.

    Source: De et al. (2022), whose setting LF takes over (lf.table1).

    Example: every filter of the layer has mean 0 and a norm next to 1.
        >>> import torch
        >>> from dptheory.training.networks import standardise_weights
        >>> model = standardise_weights(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten()))
        >>> rows = model[0].weight.flatten(1)
        >>> bool((rows.mean(1).abs() < 1e-6).all()), bool((rows.norm(dim=1) > 0.99).all())
        (True, True)
    """
    _validate.instance("model", model, nn.Module)
    found = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, _CONVOLUTIONS)]
    if not found:
        raise ArgumentError("model", "have a convolution layer", model, got="one without")
    for name, layer in found:
        if is_parametrized(layer):
            raise ArgumentError(
                "model", "have plain convolution layers", model, got=f"{name or 'one'} with a parametrized weight"
            )
    for _, layer in found:
        register_parametrization(layer, "weight", StandardisedWeight())
    return model
