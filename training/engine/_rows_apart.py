"""Whether a record's gradient stays as it is when another record of its batch is replaced: what is compared, and how exactly."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from dptheory.training.per_example import PerExampleGradients

_MARGIN = 8.0
_FLOOR = 16.0
"""In units in the last place of the largest gradient: what is left of a difference of numbers of that size."""
_MOST, _MOST_IN_HALF = 2.0**-10, 2.0**-5
"""Largest tolerance; in half precision."""


def fingerprint(samples: PerExampleGradients, seed: int) -> torch.Tensor:
    """What is compared of per-sample gradients: of each tensor the norm, and the component along a random direction.

    This is the one place that reads the gradients.

    Args:
        samples: per-sample gradients, formed or not.
        seed: of the directions.

    Returns:
        (batch, 2 * tensors) on the CPU, in double precision: the norms, then the components.
    """
    norms, components = [], []
    for place, one in enumerate(samples.parts):
        squares = one.square_norms()
        generator = torch.Generator(squares.device).manual_seed((seed + place) % 2**63)
        shape = (1, *one.shape[1:])
        direction = torch.randn(shape, generator=generator, device=squares.device, dtype=one.dtype)
        norms.append(squares.sqrt())
        components.append(one.project(direction)[:, 0].double())
    return torch.stack(norms + components, 1).cpu()


@dataclass(frozen=True)
class Rounding:
    """How far gradients may differ that are the same but for rounding.

    Batches of other shapes are summed up in another order. An error of one unit in the last place for each term, of random
    sign, grows as the root of the number of terms: those of one entry of the largest layer, forward and backward, times the
    number of layers.

    Attributes:
        unit: one unit in the last place of 1, in the coarsest precision that takes part.
        share: of a record's gradient.
    """

    unit: float
    share: float

    @classmethod
    def of(cls, samples: PerExampleGradients, *others: torch.dtype) -> "Rounding":
        """For these gradients; ``others`` are precisions of autocast."""
        kinds = {one.computed_in for one in samples.parts} | set(others)
        unit = max(torch.finfo(kind).eps for kind in kinds if kind.is_floating_point)
        shapes = samples.shapes
        largest = max(shape[1:].numel() if len(shape) > 1 else shape.numel() for shape in shapes)
        terms = 2.0 * len(shapes) * max(largest, 1)
        return cls(unit, min(_MARGIN * math.sqrt(terms) * unit, _MOST if unit < 1e-5 else _MOST_IN_HALF))


def moved(
    before: torch.Tensor, after: torch.Tensor, replaced: Collection[int], rounding: Rounding, *, in_place: bool = False
) -> torch.Tensor | None:
    """Which tensors' gradients moved for a record that was not replaced.

    A difference is held against the norm of the record's whole gradient. Where that is much smaller than the largest one, it
    may be a difference of larger numbers, and their geometric mean takes its place. Rows that changed places together, in all
    tensors alike, have not moved, unless the model got them in their old places.

    Args:
        before, after: fingerprints of one shape.
        replaced: places of the records that were replaced.
        in_place: the model got the other records in the same places both times.

    Returns:
        A flag for each tensor; None where no gradient moved.
    """
    count = before.shape[1] // 2
    kept = torch.tensor([row not in replaced for row in range(len(before))])
    finite, still = torch.isfinite(before), torch.isfinite(after)
    changed = finite != still
    before, after = before.where(finite, 0.0), after.where(still, 0.0)
    own = before[:, :count].norm(dim=1)
    largest = float(own[kept].max())
    allowed = (rounding.share * (own * largest).sqrt()).clamp(min=_FLOOR * rounding.unit * largest)[:, None]
    differs = ((before - after).abs() > allowed) | changed
    if not differs[kept].any():
        return None
    if not in_place and _matched(before, after, allowed) >= int(kept.sum()):
        return None
    flags: torch.Tensor = differs[kept].any(0)
    either: torch.Tensor = flags[:count] | flags[count:]
    return either


def still(before: torch.Tensor, after: torch.Tensor, rounding: Rounding) -> bool:
    """Whether nothing moved at all."""
    return moved(before, after, (), rounding) is None


def _matched(before: torch.Tensor, after: torch.Tensor, allowed: torch.Tensor) -> int:
    """Rows that stand somewhere, whole, among the others."""
    free, found = torch.ones(len(after), dtype=torch.bool), 0
    for row, margin in zip(before, allowed, strict=True):
        places = (((after - row).abs() <= margin).all(1) & free).nonzero().flatten().tolist()
        if places:
            free[places[0]] = False
            found += 1
    return found


@dataclass(frozen=True)
class Passed:
    """What one dry step has left.

    Attributes:
        rows: fingerprints of the gradients.
        activations: of the layers' outputs, in forward order: name, and for each record norm, sum and number of entries,
            (batch, 3); the first is that of the model's input, under the name "".
    """

    rows: torch.Tensor
    activations: Sequence[tuple[str, torch.Tensor]]


def by_example(found: torch.Tensor, views: int) -> torch.Tensor:
    """The fingerprints of examples from those of their rows, which lie together: norm, sum and number of entries, (rows, 3).

    A sum counts each row by its place in the example, so that rows that change places are seen.
    """
    if views == 1 or len(found) % views:
        return found
    rows = found.view(-1, views, 3)
    places = torch.arange(1, views + 1, dtype=found.dtype)[:, None] / views
    sums = (rows[..., 1:2] * places).sum(1)
    return torch.cat([rows[..., :1].square().sum(1).sqrt(), sums, rows[..., 2:].sum(1)], 1)


_BEFORE = "records must stay apart, so that epsilon holds: the gradients of others move when one record of a batch is replaced"
_OF_INPUT = (
    "already the model's input does: the loop mixes records before the model (mixup, cutmix, statistics of the batch); mix "
    "augmentations of one record only, and normalise by constants"
)
_OF_LAYERS = (
    "take a normalisation over features in place of one over the batch (LayerNorm, GroupNorm), batch_first=True for layers that "
    "are fed [batch, time, features], a mask where a mean takes in padding up to the longest record, and for packed or sorted "
    "sequences sort and restore inside one layer, so that all layers have their rows in one order"
)
_OF_LOSS = (
    "the layers keep records apart, the loss does not: what it divides by or compares with depends on the other records (a mean "
    "over all tokens or over padding up to the longest record, class weights in cross_entropy(weight=), ignored labels, centred "
    "rewards, a contrastive loss); take reduction='none', for each record the mean over its own tokens, times its weight, and "
    "divide by the batch size: .mean()"
)


def explained(
    before: Passed,
    after: Passed,
    replaced: Collection[int],
    flags: torch.Tensor,
    names: Sequence[str],
    rounding: Rounding,
) -> str:
    """What to say of gradients that moved: the first layer where they do, or the loss, and what to write instead.

    Args:
        before, after: of the two steps.
        replaced: places of the records that were replaced.
        flags: of the tensors that moved.
        names: of the tensors, in forward order.
        rounding: of the gradients.
    """
    layer = _first_layer(before, after, replaced, rounding)
    if layer == "":
        return f"{_BEFORE}; {_OF_INPUT}"
    count = len(names)
    norms = before.rows[:, :count].nan_to_num(0.0, 0.0, 0.0).max(0).values
    quiet = norms[~flags] > norms[flags].min()  # and not only below what would be seen
    if layer is None and bool((quiet & (norms[~flags] > 0)).any()):  # rows in another order than those of the others
        layer = next(name.rpartition(".")[0] or name for name, flag in zip(names, flags.tolist(), strict=True) if flag)
    if layer is None:
        return f"{_BEFORE}; {_OF_LOSS}"
    return f"{_BEFORE}, first in {layer.removeprefix('_module.')}: {_OF_LAYERS}"


def in_place(before: Passed, after: Passed, replaced: Collection[int]) -> bool:
    """Whether the model is known to have got the records that were not replaced in the same places."""
    inputs = [passed.activations[0] for passed in (before, after) if passed.activations]
    if len(inputs) < 2 or any(name or len(found) != len(before.rows) for name, found in inputs):
        return False
    kept = [row for row in range(len(before.rows)) if row not in replaced]
    return torch.equal(inputs[0][1][kept, :2], inputs[1][1][kept, :2])


def _first_layer(before: Passed, after: Passed, replaced: Collection[int], rounding: Rounding) -> str | None:
    """The first layer whose outputs for a record moved that was not replaced; "" for the model's input."""
    kept = [row for row in range(len(before.rows)) if row not in replaced]
    for (name, own), (other, new) in zip(before.activations, after.activations, strict=False):
        if (
            name != other
            or own.shape != new.shape
            or len(own) != len(before.rows)
            or bool((own[:, 2] != new[:, 2]).any())
        ):
            continue  # padded to another length, for instance, so that there is more of the same
        scale = own[kept, 0].max()  # of a sum, too: times the root of the number of entries
        if bool(
            (
                (own - new)[kept, :2].abs() > rounding.share * scale * torch.stack([own[0, 2] ** 0, own[0, 2] ** 0.5])
            ).any()
        ):
            return name
    return None
