"""Which physical batches make up one batch, and what a loop leaves in ``p.grad``: the sum of its per-sample gradients, unchanged."""

import math
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training.engine._dry_steps import Trial
from dptheory.training.per_example import (
    OF_HALF_ROWS,
    PerExampleGradients,
    Representation,
    Tensors,
    off_the_sum,
    size_of,
)


@dataclass(frozen=True)
class _Drawn:
    """A batch that was drawn, and of which no step has been made yet; with its trial where its step releases nothing."""

    size: int
    trial: Trial | None = None


class LogicalBatch:
    """The batch under way, of which parts may still be to come.

    A batch begins where it is drawn. Each part needs a signal whether more follow, and each signal is good for one part: so no
    part is added twice. What a batch has left when the next one begins is dropped: so no total holds parts of two batches. Its
    parts together have as many rows of gradients as it has examples, and one step is made of it: so no example is clipped in
    several rows.

    Attributes:
        under_way: parts have been added, and more are to come.
        from_loader: the loader of ``make_private`` draws the batches, so that signals come as a part is handed out.
        trials_lost: dry batches have been left out of which no step was made.
        without_step: number of batches of the run of which no step was made, though later ones were drawn or stepped.
    """

    def __init__(self, *, views: int = 1) -> None:
        self._views = views
        self.under_way = False
        self.rows = 0
        self.from_loader = False
        self.trials_lost = False
        self.without_step = 0
        self._more_follow: bool | None = None
        self._drawn: deque[_Drawn] = deque()
        self._drawn_ahead = False
        self._left_out: list[int] = []

    def begin(self, size: int | None) -> None:
        """A batch was drawn, and its first part comes next."""
        if self.from_loader:
            # No batch but the loader's: a second step on one, which epsilon does not count, would look like a first.
            self._check_waits(size)
            self.drop()
        else:
            self._drawn.clear()
            self.drawn(_validate.integer("size", size, 0))  # type: ignore[arg-type]

    def _check_waits(self, size: int | None) -> None:
        if not self._drawn:
            raise ArgumentError.about(
                "batch",
                size,
                "begin_batch() makes no batch where the loader of make_private draws them: each is for one step, and none was drawn "
                "since the last one; leave begin_batch() out (who draws batches apart from the loader uses attach)",
            )
        sizes = sorted({one.size for one in self._drawn})
        if size is not None and size not in sizes:
            raise ArgumentError(
                "size", "be that of a batch that the loader drew, " + " or ".join(map(str, sizes)), size
            )

    def begin_pass(self, drawn_ahead: bool) -> None:
        """A loader begins anew: what it drew before is not to come any more."""
        self.from_loader = True
        self.without_step += sum(one.trial is None for one in self._drawn)
        self._drawn.clear()
        self._left_out, self._drawn_ahead = [], drawn_ahead

    def drawn(self, size: int, trial: Trial | None = None) -> None:
        """The loader drew a batch, perhaps a dry one; earlier ones may still be waiting for their step."""
        self.drop()
        self._drawn.append(_Drawn(size, trial))

    @property
    def waits(self) -> bool:
        """Whether a batch waits for its step."""
        return bool(self._drawn)

    @property
    def dry_is_next(self) -> Trial | None:
        """The trial of the earliest batch that waits for its step; None where that is one of the run."""
        return self._drawn[0].trial if self._drawn else None

    @property
    def whole(self) -> list[int]:
        """Sizes of the batches that wait for their step, the likeliest first, where the next pass is of one and not of a part."""
        in_parts = self.under_way or self._more_follow is not None
        waiting = self._drawn if self._drawn_ahead else reversed(self._drawn)  # the loop has left out earlier ones
        return [] if in_parts else list(dict.fromkeys(one.size for one in waiting))

    def is_dry(self, rows: int) -> bool:
        """Whether a part of so many rows is of a batch whose step releases nothing.

        The loop may have left dry batches out, and hand them over later: as many steps of their size release nothing, too.
        """
        found = next((one for one in self._drawn if self._may_be_of(rows, one.size)), None)
        return (found is not None and found.trial is not None) or rows in self._left_out

    def _may_be_of(self, rows: int, size: int) -> bool:
        rows += self.rows if self.under_way else 0
        return rows <= max(size, 1) if self._more_follow else _is_of(rows, size)

    def announce(self, more_follow: bool) -> None:
        """Say of the part that comes next whether more parts follow it."""
        if self._drawn_ahead:
            raise ArgumentError.about(
                "num_workers",
                None,
                "BatchMemoryManager needs a loader with num_workers=0: workers draw parts ahead, and a part that the loop "
                "leaves out would go unnoticed",
            )
        if more_follow and not self._drawn:
            raise ArgumentError.about(
                "do_skip",
                True,
                "signal_skip_step(do_skip=True) needs a batch: none was drawn since the last step; hand BatchMemoryManager the "
                "loader that make_private returned"
                if self.from_loader
                else "signal_skip_step(do_skip=True) needs begin_batch() before the first part of every batch",
            )
        while len(self._drawn) > 1:  # a batch in parts comes alone: the loop has left out the earlier ones
            dry = self._drawn.popleft().trial is not None
            self.trials_lost, self.without_step = self.trials_lost or dry, self.without_step + (not dry)
        self._more_follow = more_follow

    def check(self, rows: int) -> None:
        """Refuse a part of so many rows without a signal of its own or a batch, or with which the rows are not one an example."""
        if self.under_way and self._more_follow is None:
            raise ArgumentError.about(
                "do_skip",
                None,
                "step() was called again on a batch in parts: every part needs its own signal_skip_step(), which the loader "
                "gives with the next part; to leave the batch out, go on with the next one"
                + ("" if self.from_loader else " (begin_batch())"),
            )
        if not self._drawn:
            raise ArgumentError.about(
                "batch",
                None,
                "step() needs a batch of its own: none was drawn since the last step; "
                + (
                    "go over the loader that make_private returned, not over the one it was given (who draws batches apart from it "
                    "uses attach)"
                    if self.from_loader
                    else "call begin_batch() with the number of its examples before the first part of every batch"
                ),
            )
        sizes = {one.size for one in self._drawn}
        matched = any(self._may_be_of(rows, size) for size in sizes)
        rows += self.rows if self.under_way else 0
        if not matched:
            drawn = " or ".join(map(str, sorted(sizes)))
            if self._views > 1:
                raise ArgumentError.about(
                    "batch",
                    rows * self._views,
                    f"a batch must have views={self._views} rows for each of its examples, got {rows * self._views} rows where {drawn} "
                    "examples were drawn: hand the model all rows of every example once, those of one example behind one another",
                )
            raise ArgumentError(
                "per-sample gradients",
                "be one row for each example of the batch",
                rows,
                got=f"{rows} rows where {drawn} were drawn",
                then=": hand every example once to one forward pass, of a batch in parts every part; an example in several rows is "
                "clipped in each (make_private(views=) takes the mean over its rows and clips once), and several in one row are "
                "clipped together",
            )

    def add(self, rows: int) -> tuple[bool, Trial | None]:
        """Note a part that was added: whether more follow it, or else the batch is done with; and its trial, if it was a dry one."""
        self.rows = rows + (self.rows if self.under_way else 0)
        self.under_way, self._more_follow = bool(self._more_follow), None
        if self.under_way:
            return True, None
        if self.rows in self._left_out:
            self._left_out.remove(self.rows)
            if self.dry_is_next is None:
                return False, None
        while self._drawn:
            one = self._drawn.popleft()
            if _is_of(self.rows, one.size):
                return False, one.trial
            if one.trial is None:  # the loop has left that batch out
                self.without_step += 1
            else:
                self.trials_lost = True
                self._left_out.append(one.size)
        return False, None

    def drop(self) -> None:
        """Leave out what has not been released."""
        self.under_way, self._more_follow = False, None


def _is_of(rows: int, size: int) -> bool:
    """Whether a batch of that size gives so many rows; of no example Opacus makes one row of zeros, or none."""
    return rows == size or (size == 0 and rows == 1)


# --- Whether a loop has changed p.grad between backward() and step(), which would have no effect


class GradientEdits:
    """Counts the writes to a gradient since the backward pass that left it.

    ``clip_grad_norm_`` writes where it does not clip, too, and a scaler where its factor is 1: what would be without effect in
    every step is refused in the first one. A parameter that is trained later is followed from then on.
    """

    def __init__(self, names: Mapping[torch.Tensor, str]) -> None:
        self._names = names
        self._followed: set[int] = set()
        self._left: dict[int, tuple[int, int]] = {}
        """By parameter: the place in memory of its gradient, and the writes to it so far."""

    def follow(self, params: Iterable[torch.Tensor]) -> None:
        """Note what backward passes leave at these parameters from now on."""
        for p in params:
            if id(p) not in self._followed and p.is_leaf:
                self._followed.add(id(p))
                p.register_post_accumulate_grad_hook(partial(_note, self._left))  # type: ignore[no-untyped-call]

    def check(self, params: Iterable[torch.Tensor]) -> Tensors:
        """See that the gradients are as the last backward pass left them, where it left any: at these parameters."""
        arrived = [p for p in params if id(p) in self._left]
        for p in arrived:
            if p.grad is not None and self._left[id(p)] != (p.grad.data_ptr(), p.grad._version):
                raise ArgumentError(
                    f"p.grad of {self._names.get(p, 'a parameter')}",
                    "stay as backward() left it until step()",
                    None,
                    got="one that was written to",
                    then=": step() releases per-sample gradients, each clipped to max_grad_norm, in its place; leave out "
                    "clip_grad_norm_, GradScaler and own edits (change max_grad_norm, the loss or the learning rate)",
                )
        return arrived

    def forget(self) -> None:
        """What was left is cleared."""
        self._left.clear()


def _note(left: dict[int, tuple[int, int]], p: torch.Tensor) -> None:
    if p.grad is not None and p.grad.layout == torch.strided and not p.grad.is_inference():
        left[id(p)] = p.grad.data_ptr(), p.grad._version


_OF_GRADIENT, _OF_ROWS = 1e-2, 1e-3
"""Largest difference: as a share of the gradient's norm, and of the norms of the rows, which round."""


class GradientSums:
    """Compares the two, of weights in the 1st, 4th, 16th, ... step or part of one, of biases and others of one axis in each.

    What a loss takes past the layers later shows at weights that are kept as factors, which are out of the graph within their layers.
    Opacus works per-sample gradients out by itself. They are others where a parameter is used outside its layer, or where
    something changes ``p.grad`` and means the step by it, as a gradient scaler does.
    """

    def __init__(self, names: Mapping[torch.Tensor, str], *, mean: bool, views: int = 1) -> None:
        self._names = names
        self._views = views
        self._mean = mean
        self._steps = 0
        self._next: dict[int, int] = {}
        """By parameter: the step in which it is compared next; all in the first in which they have a gradient."""
        self._bare: set[int] = set()
        # of convolutions, in steps in which weights are compared; says of itself that it is no error
        warnings.filterwarnings("ignore", "grad and param do not obey the gradient layout contract")

    def start_again(self) -> None:
        """Compare every parameter once more: others are trained now."""
        self._steps = 0
        self._next.clear()

    def wants(self, p: torch.Tensor) -> bool:
        """Whether the gradient of a parameter is to be compared in this step, so that a backward pass must leave it."""
        return self._next.get(id(p), 0) <= self._steps + 1

    def before_forward(self, params: Tensors) -> None:
        """Note where there is no gradient yet, so that what a backward pass leaves is its own."""
        looked_at = [p for p in params if self.wants(p) or p.dim() <= 1]
        left = [(p, p.grad.any()) for p in looked_at if p.grad is not None]
        filled = torch.stack([one.to(left[0][1].device) for _, one in left]).tolist() if left else []
        self._bare = {id(p) for p in looked_at} - {id(p) for (p, _), one in zip(left, filled, strict=True) if one}

    def check(self, params: Tensors, samples: PerExampleGradients, strays: Tensors) -> None:
        """Compare, where that has not been done; refuse what differs clearly for a parameter, and ``strays``: gradients past layers."""
        fits = self._add_up(
            [(p, rows) for p, rows in zip(params, samples.parts, strict=True) if self._left(p, rows)], samples
        )
        for p, fit in (fits | dict.fromkeys(strays, False)).items():
            if fit is False:
                raise ArgumentError(
                    self._names.get(p, "a parameter"),
                    "have per-sample gradients that add up to its p.grad",
                    None,
                    got="others",
                    then=": it is used outside of its layer (weights tied in a function call, a penalty in the loss: tie layers, take "
                    "weight_decay, or grad_sample_mode='whole network'), p.grad was changed before step() (no GradScaler, no "
                    "clip_grad_norm_), or Opacus misreads the layer",
                )
            if fit:
                self._next[id(p)] = 4 * (self._steps + 1)
        self._steps += 1
        self._bare = set()

    def _left(self, p: torch.Tensor, rows: Representation) -> bool:
        """Whether there is a gradient of this backward pass and no other, and rows that are still those of it."""
        if id(p) not in self._bare or p.grad is None or p.grad.layout != torch.strided or not len(rows):
            return False
        return id(p) not in self._next or not _written_to(p)

    def _divisor(self, rows: Representation) -> float:
        return len(rows) if self._mean else 1 / self._views

    def _size(self, rows: Representation) -> float:
        return size_of(rows, self._divisor(rows))

    def _add_up(
        self, found: Sequence[tuple[Any, Representation]], samples: PerExampleGradients
    ) -> dict[Any, bool | None]:
        """Whether the rows add up to the gradient, where there is one; None, or nothing, where it cannot be said."""
        if not found:
            return {}
        off = [off_the_sum(rows, p.grad, self._divisor(rows)) for p, rows in found]
        norms = [(difference, p.grad.norm()) for (p, _), (difference, _) in zip(found, off, strict=True)]
        device = norms[0][0].device  # one wait for it, and not one for each parameter
        known = torch.stack([one.to(device, torch.float64) for pair in norms for one in pair]).view(-1, 2).tolist()
        # A gradient that is zero otherwise rounds with the largest rows of any parameter; those of all cost the most to size up.
        nearby = cache(lambda: max(self._size(rows) for _, rows in found) / 3)
        largest = cache(lambda: max(self._size(rows) for rows in samples.parts) / 3)
        fits: dict[Any, bool | None] = {}
        for (p, rows), (difference, norm), (_, half) in zip(found, known, off, strict=True):
            if norm == 0.0 or not math.isfinite(difference):  # zeros may be a loop's own, where nothing else is left
                continue
            for size in (float, partial(self._size, rows), nearby, largest):
                allowed = _OF_GRADIENT * norm + (OF_HALF_ROWS if half else _OF_ROWS) * size()
                fits[p] = difference <= allowed if math.isfinite(allowed) else None
                if fits[p]:
                    break
        return fits


def _written_to(p: Any) -> bool:
    """Whether a loop may have changed per-sample gradients: weights of examples, for instance."""
    found = p.grad_sample
    if isinstance(found, Representation):
        return found.looked_at is not None
    return bool(found.is_inference() or found._version)
