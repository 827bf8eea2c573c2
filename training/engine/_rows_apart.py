"""Whether a record's gradient stays as it is when another record of its batch is replaced: what is compared, and by which records."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from dptheory.errors import ArgumentError
from dptheory.training.per_example import PerExampleGradients

_MARGIN = 8.0
_FLOOR = 16.0
"""In units in the last place of the largest gradient: what is left of a difference of numbers of that size."""
_MOST, _MOST_IN_HALF = 2.0**-10, 2.0**-5
"""Largest tolerance; in half precision."""


def fingerprint(samples: PerExampleGradients, seed: int) -> torch.Tensor:
    """What is compared of per-sample gradients: of each tensor the norm, and the component along a random direction.

    This is the one place that reads the gradients. Shape (batch, 2 * tensors) on the CPU, in float64: norms, then components.
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
    before: torch.Tensor,
    after: torch.Tensor,
    replaced: Collection[int],
    rounding: Rounding,
    *,
    in_place: bool = False,
    more: float = 0.0,
) -> torch.Tensor | None:
    """Which tensors' gradients moved for a record that was not replaced.

    A difference is held against the norm of the record's whole gradient. Where that is much smaller than the largest one, it
    may be a difference of larger numbers, and their geometric mean takes its place. Rows that changed places together, in all
    tensors alike, have not moved, unless the model got them in their old places (``in_place``). None where no gradient moved by that
    and this share ``more`` of it.
    """
    count = before.shape[1] // 2
    kept = torch.tensor([row not in replaced for row in range(len(before))])
    finite, still = torch.isfinite(before), torch.isfinite(after)
    changed = finite != still
    before, after = before.where(finite, 0.0), after.where(still, 0.0)
    own = before[:, :count].norm(dim=1)
    allowed = (_allowed(own, float(own[kept].max()), rounding) + more * own)[:, None]
    differs = ((before - after).abs() > allowed) | changed
    if not differs[kept].any():
        return None
    if not in_place and _matched(before, after, allowed) >= int(kept.sum()):
        return None
    flags: torch.Tensor = differs[kept].any(0)
    either: torch.Tensor = flags[:count] | flags[count:]
    return either


def _allowed(own: torch.Tensor, largest: float, rounding: Rounding) -> torch.Tensor:
    return (rounding.share * (own * largest).sqrt()).clamp(min=_FLOOR * rounding.unit * largest)


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
        activations: of the layers' outputs, in forward order: name, and for each record norm, sum and number of entries,
            (batch, 3); the first is that of the model's input, under the name "".
        part_sizes: of each record the number of records in its part of the batch, (batch,).
        fixed: nothing is known that may make a record's gradient another one in a batch of another size: random numbers were drawn
            for records one by one at most, and no kernel of a GPU may have rounded its inputs for one size and not for another.
    """

    rows: torch.Tensor
    activations: Sequence[tuple[str, torch.Tensor]]
    part_sizes: torch.Tensor
    fixed: bool = False


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


_RATIO, _OTHERWISE = 1e-3, 2.0**-6
"""Of a record's gradient: how near it must come to a ratio; what casts to bfloat16, which are not seen, may change with the size."""
_OF_COUNT = (
    "the gradient of each record changes with the number of records in the batch, which is private: with loss_reduction='mean' every "
    "term of the loss must be the mean over the records of the batch, with loss_reduction='sum' their sum (and what a generator of "
    "the loop's own draws for a record must not go with their number)"
)


def counted(before: Passed, after: Passed, rounding: Rounding) -> ArgumentError | None:
    """What to say of gradients that go with the number of records, of a batch and its first ones alone; None of others.

    All are as by a sum that was taken for a mean, by a mean that was taken for a sum, or by a sum over one more. Other changes say
    something only where the model is known to have got the same records, and nothing else may have changed their gradients.
    """
    count, (had, have) = len(after.rows), (before.part_sizes[: len(after.rows)], after.part_sizes)
    own, new = (found.rows[:count, : found.rows.shape[1] // 2].norm(dim=1) for found in (before, after))
    allowed = _allowed(own, float(own.max()), rounding) + _RATIO * own
    more = (had + 1) / (have + 1)
    for factor in (have / had, had / have, have / had * more, more):
        moves = ((factor - 1) * own).abs() > allowed
        if bool(moves.any()) and bool(((new - factor * own).abs() <= allowed).all()):
            return ArgumentError.about("loss_reduction", "loss", _OF_COUNT)
    places = _places(before, after) if before.fixed and after.fixed else None
    if places is None or moved(before.rows[places], after.rows, (), rounding, in_place=True, more=_OTHERWISE) is None:
        return None
    return ArgumentError.about("loss_reduction", "loss", _OF_COUNT)


def _places(before: Passed, after: Passed) -> list[int] | None:
    """Where the records of one batch were in another, by what the model got; None where that does not tell."""
    was, now = ([tuple(one) for one in _of_input(passed).tolist()] for passed in (before, after))
    places = {one: place for place, one in enumerate(was)}
    told = now and len(places) == len(was) and len(set(now)) == len(now) and set(now) <= set(was)
    return [places[one] for one in now] if told else None


def _of_input(passed: Passed) -> torch.Tensor:
    """Norm and sum of what the model got for each record; none where that is not known."""
    name, found = passed.activations[0] if passed.activations else ("", torch.zeros(0, 3))
    return found[:, :2] if name == "" and len(found) == len(passed.rows) else torch.zeros(0, 2)


def mixed(
    before: Passed, after: Passed, replaced: Collection[int], names: Sequence[str], rounding: Rounding
) -> ArgumentError | None:
    """What to say of records that were not replaced and whose gradients moved all the same; None where none did."""
    same = in_place(before, after, replaced)
    flags = moved(before.rows, after.rows, replaced, rounding, in_place=same)
    return None if flags is None else explained(before, after, replaced, flags, names, rounding)


def explained(
    before: Passed,
    after: Passed,
    replaced: Collection[int],
    flags: torch.Tensor,
    names: Sequence[str],
    rounding: Rounding,
) -> ArgumentError:
    """Of gradients that moved: the first layer where they do, the input or the loss, and what to write instead."""
    layer = _first_layer(before, after, replaced, rounding)
    if layer == "":
        return ArgumentError.about("records", "input", f"{_BEFORE}; {_OF_INPUT}")
    count = len(names)
    norms = before.rows[:, :count].nan_to_num(0.0, 0.0, 0.0).max(0).values
    quiet = norms[~flags] > norms[flags].min()  # and not only below what would be seen
    if layer is None and bool((quiet & (norms[~flags] > 0)).any()):  # rows in another order than those of the others
        layer = next(name.rpartition(".")[0] or name for name, flag in zip(names, flags.tolist(), strict=True) if flag)
    if layer is None:
        return ArgumentError.about("records", "loss", f"{_BEFORE}; {_OF_LOSS}")
    layer = layer.removeprefix("_module.")
    return ArgumentError.about("records", layer, f"{_BEFORE}, first in {layer}: {_OF_LAYERS}")


def in_place(before: Passed, after: Passed, replaced: Collection[int]) -> bool:
    """Whether the model is known to have got the records that were not replaced in the same places."""
    was, now = _of_input(before), _of_input(after)
    kept = [row for row in range(len(before.rows)) if row not in replaced]
    if not len(was) == len(now) > 0 or len({tuple(one) for one in was[kept].tolist()}) < len(kept):
        return False  # of records that look alike it is not known
    return torch.equal(was[kept], now[kept])


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


CANDIDATES = 128
"""Records of the data that are read to choose from."""
_BLOCK = 4
_ENTRIES = 1024
"""Of a tensor that are compared, evenly spread."""


Parts = list[NDArray[Any]]
"""The numbers, tensors and texts of a record, in order."""


def read(data: Dataset[Any], indices: Sequence[int]) -> list[Parts]:
    """The parts of some records; none where the records cannot be read here."""
    try:
        return [_parts(data[index]) for index in indices]
    except Exception:  # a data set that only its workers can read: then any record will do
        return [[] for _ in indices]


def distances(rows: list[Parts], candidates: list[Parts]) -> NDArray[Any]:
    """How far records are from one another, (rows, candidates): the sum over their parts of label, length and content.

    Of each part their difference as a share of their sizes, in [0, 1], and 1 more where they are whole numbers (labels, lengths); of
    tensors and texts also the difference of their numbers of entries that are no padding, likewise.
    """
    total = np.zeros((len(rows), len(candidates)))
    for column in range(min(map(len, (*rows, *candidates)))):
        total += _difference([record[column] for record in rows], [record[column] for record in candidates])
    return total


def lengths(records: list[Parts]) -> NDArray[Any]:
    """Of each record the number of entries in its tensors and texts that are no padding, zero or -100 in whole numbers."""
    whole = [[v for v in record if v.ndim] for record in records]
    return np.array(
        [sum(np.count_nonzero((v != 0) & (v != -100)) if v.dtype.kind == "i" else v.size for v in one) for one in whole]
    )


def longest(records: list[Parts]) -> NDArray[Any]:
    """Of each record whether one of its tensors or texts is as long as any, where not all are; all of one length are not."""
    found = np.zeros(len(records), dtype=bool)
    for column in range(min(map(len, records))):
        own = lengths([record[column : column + 1] for record in records])
        found |= (own == own.max()) & (own.min() < own.max())
    return found


def labels(records: list[Parts]) -> list[int]:
    """Of each record the first whole number that several records share; 0 where there is none."""
    for column in range(min(map(len, records))):
        values = [record[column] for record in records]
        if all(v.ndim == 0 and v.dtype.kind == "i" for v in values):
            found = [int(v) for v in values]
            if 1 < len(set(found)) <= max(2, len(found) // 2):
                return found
    return [0] * len(records)


def replacements(
    rows: list[Parts], candidates: list[Parts], same: NDArray[Any], rng: np.random.Generator
) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Which candidates take whose places: the farthest of the longest that of one row, those of one label half of them, or the rest.

    Where something divides by a number of labels, that number changes: the label is the one that the batch has least of, and a
    row of every label goes where the batch has several. What all are held against, the largest loss for one, is in a half or in
    the rest, and goes in one of them. ``same`` says where row and candidate are one record.
    """
    far = distances(rows, candidates) + 1e-6 * rng.random(same.shape)
    far[same] = -1.0
    long = lengths(candidates)
    row, candidate = np.unravel_index(np.where(long == long.max(), far, -2.0).argmax(), far.shape)
    found = labels([*rows, *candidates])
    own, other = np.array(found[: len(rows)]), np.array(found[len(rows) :])
    known, counts = np.unique(other, return_counts=True)
    held = np.array([np.count_nonzero(own == label) for label in known])
    rarest = known[np.lexsort((rng.random(len(known)), counts, held))[0]]
    rest = _kept(own, rng)
    score = rng.random(same.shape) * (far + 1.0) - np.where(other == rarest, 0.0, far.max() + 2.0) - 1e9 * same
    half, others = (
        {place: int(score[place].argmax()) for place in sorted(places) if not same[place].all()}
        for places in (set(range(len(rows))) - rest, rest)
    )
    return {int(row): int(candidate)}, half, others


def _kept(own: NDArray[Any], rng: np.random.Generator) -> set[int]:
    """Rows that stay: two of each four in a row, so that every part of a batch has some; never all of a label, and of two labels."""
    kept: set[int] = set()
    for block in range(0, max(1, len(own) - len(own) % _BLOCK), _BLOCK):
        rows = rng.permutation(np.arange(block, min(block + _BLOCK, len(own)))).tolist()
        here: list[int] = []
        for _ in range(max(1, len(rows) // 2)):
            taken = [own[row] for row in (*kept, *here)]

            def rank(row: int, taken: list[int] = taken, here: list[int] = here) -> tuple[bool, bool]:
                last = int(np.count_nonzero(own == own[row])) - taken.count(own[row]) <= 1
                return last, any(own[row] == own[other] for other in here)

            here.append(min((row for row in rows if row not in here), key=rank))
        kept |= set(here)
    return kept


def _difference(rows: list[NDArray[Any]], candidates: list[NDArray[Any]]) -> NDArray[Any]:
    own, other = (np.array([np.count_nonzero(v != -100) for v in side], float) for side in (rows, candidates))
    nonzero = [np.array([np.count_nonzero(v) for v in side], float) for side in (rows, candidates)]
    found: NDArray[Any] = _share(own[:, None], other[None]) + _share(nonzero[0][:, None], nonzero[1][None])
    if len({v.shape for v in (*rows, *candidates)}) > 1:
        return found
    first, second = np.stack(rows)[:, None], np.stack(candidates)[None]
    if first.shape[2:] == () and np.issubdtype(first.dtype, np.integer):
        gap = np.abs(first.astype(float) - second)
        unlike: NDArray[Any] = (gap > 0.0) + gap / np.maximum(1.0, np.abs(first.astype(float)) + np.abs(second))
        return unlike
    first, second = first.reshape(len(rows), 1, -1).astype(float), second.reshape(1, len(candidates), -1).astype(float)
    gap = np.sqrt(((first - second) ** 2).sum(2))
    sizes = np.sqrt((first**2).sum(2)) + np.sqrt((second**2).sum(2))
    found = np.nan_to_num(found + gap / np.maximum(sizes, 1e-300), posinf=1.0, neginf=1.0)
    return found


def _share(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.abs(a - b) / np.maximum(np.maximum(a, b), 1.0)
    return found


def _parts(record: Any) -> Parts:
    """The numbers, tensors and texts of a record, in order, as arrays."""
    if isinstance(record, str | bytes):
        return [np.ones(len(record), dtype=np.int64)]
    if isinstance(record, Mapping):
        return [part for key in record for part in _parts(record[key])]
    if isinstance(record, list | tuple):
        if record and all(isinstance(one, int | float) for one in record):
            return [_thinned(np.asarray(record))]
        return [part for one in record for part in _parts(one)]
    if isinstance(record, torch.Tensor):
        there = record.detach().cpu()
        return _parts((there.float() if there.is_floating_point() else there).numpy())
    found = np.asarray(record)
    return [_thinned(found)] if found.dtype.kind in "biuf" else []


def _thinned(values: NDArray[Any]) -> NDArray[Any]:
    values = values.astype(np.int64) if values.dtype.kind in "bu" else values
    if values.ndim == 0 or values.size <= _ENTRIES:
        return values
    return values.reshape(-1)[:: -(-values.size // _ENTRIES)]
