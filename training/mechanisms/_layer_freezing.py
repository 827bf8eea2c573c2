"""Layer freezing: from some step on, some layers, mostly the first, are no longer trained, clipped or noised."""

from collections.abc import Iterator, Sequence
from typing import Any

from opacus import GradSampleModule
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training.mechanisms._base import Around, Mechanism, Tensors


def layers(model: nn.Module) -> list[nn.Module]:
    """The modules of a model that hold parameters of their own, in the order of registration, which is from input to output.

    A parametrized one (weight standardisation, weight norm) is one layer with all that its weights are made of.

    Args:
        model: any module.

    Returns:
        The layers, those without trainable parameters included.

    Source: LF, Algorithm 1, "layers" (lf.privacy).

    Example: what has no parameters is no layer.
        >>> import torch
        >>> from dptheory.training.mechanisms import layers
        >>> layers(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
        [Linear(in_features=3, out_features=4, bias=True), Linear(in_features=4, out_features=2, bias=True)]
    """
    return list(_layers(model, set()))


def _layers(module: nn.Module, seen: set[int]) -> Iterator[nn.Module]:
    if id(module) in seen:
        return
    seen.add(id(module))
    if next(own_parameters(module), None) is not None:
        yield module
    for child in () if is_parametrized(module) else module.children():
        yield from _layers(child, seen)


def own_parameters(layer: nn.Module) -> Iterator[nn.Parameter]:
    """Those that the layer holds itself, and what parametrized ones are made of."""
    return layer.parameters(recurse=is_parametrized(layer))


def first_parameters(model: nn.Module, count: int) -> list[nn.Parameter]:
    """The parameters of the first ``count`` layers; one layer at least must be left to train."""
    _validate.integer("count", count, 1, len(layers(model)) - 1)
    return _parameters(model, range(1, count + 1))


def _count_or_numbers(value: int | list[int] | tuple[int, ...], most: int | None = None) -> int | tuple[int, ...]:
    """The number of first layers to freeze, or the numbers of those to freeze, of ``most`` layers where that is known."""
    if not isinstance(value, list | tuple):
        return _validate.integer("frozen_layers", value, 1, None if most is None else most - 1)
    numbers = tuple(_validate.integer("frozen_layers", one, 1, most) for one in value)
    if not numbers or len(set(numbers)) < len(numbers) or len(numbers) == most:
        raise ArgumentError("frozen_layers", "be the numbers of some layers, but not of all, each once", value)
    return numbers


def _parameters(model: nn.Module, numbers: Sequence[int]) -> list[nn.Parameter]:
    """The parameters of these layers; the first has the number 1."""
    found = layers(model)
    return [p for number in numbers for p in own_parameters(found[number - 1])]


def freeze(parameters: Sequence[nn.Parameter]) -> None:
    """Take parameters out of training, also in the middle of a run and in layers of which others stay.

    They keep no gradient, so that momentum does not move them on. Layers without trained parameters cost no per-sample
    gradients: the optimizer takes Opacus's hooks off before the next pass.
    """
    for p in parameters:
        p.requires_grad_(False)
        p.grad = None
        p.grad_sample = None  # type: ignore[attr-defined]
        p.summed_grad = None  # type: ignore[attr-defined]


class LayerFreezing(Around):
    r"""Another mechanism, until ``from_step`` on all parameters and from then on without those of some layers.

    With DP-SGD inside and a the 0/1 vector of the layers that are trained it releases
    :math:`a\odot(\sum_i\mathrm{clip}_C(a\odot g_i) + \sigma C z)`.
    ``from_step`` must be fixed beforehand: chosen by looking at the data, it tells about them (lf.privacy).

    Args:
        inner: what is done with the gradients of the parameters that are trained.
        frozen_layers: number of layers, from the input, to freeze, 1 to all but one; or the numbers themselves of those to
            freeze, 1 being that at the input.
        from_step: steps made before, >= 0; 0 freezes from the start.

    Raises:
        ValueError: ``inner`` is no mechanism.
        ValueError: an argument outside its range; too many layers where it is attached to a model.

    Source: LF, Algorithm 1 (lf.privacy).

    Example: the first layer is frozen from the first step on.
        >>> import torch
        >>> from dptheory.training import mechanisms
        >>> from dptheory.training.engine import attach
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        >>> private, optimizer = attach(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     mechanism=mechanisms.LayerFreezing(mechanisms.DpSgd(), frozen_layers=1, from_step=0),
        ...     sampling_rate=0.1, expected_batch_size=10, noise_multiplier=1.0, max_grad_norm=1.0)
        >>> [p.requires_grad for p in model.parameters()]
        [False, False, True, True]
    """

    title = "layer freezing"

    def __init__(self, inner: Mechanism, *, frozen_layers: int | list[int] | tuple[int, ...], from_step: int) -> None:
        super().__init__(inner, public="which layers are frozen, and when")
        self._frozen = _count_or_numbers(frozen_layers)
        self._from_step = _validate.integer("from_step", from_step, 0)
        self._step = 0
        self._freezable: list[nn.Parameter] = []

    def attach(self, module: GradSampleModule) -> None:
        """Tell the mechanism whose layers to freeze; ``make_private`` does it."""
        _count_or_numbers(self._frozen, len(layers(module._module)))
        numbers = range(1, self._frozen + 1) if isinstance(self._frozen, int) else self._frozen
        self._freezable = [p for p in _parameters(module._module, numbers) if p.requires_grad]
        self._freeze_if_due()
        super().attach(module)

    def end_step(self, released: Tensors, std: float) -> None:
        super().end_step(released, std)
        self._step += 1
        self._freeze_if_due()

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "inner": self._inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        frozen_before = self._due()
        self._step = state["step"]
        if frozen_before and not self._due():
            for p in self._freezable:
                p.requires_grad_(True)
        self._freeze_if_due()
        self._inner.load_state_dict(state["inner"])

    def _due(self) -> bool:
        return self._step >= self._from_step

    def _freeze_if_due(self) -> None:
        if self._due():
            freeze(self._freezable)
