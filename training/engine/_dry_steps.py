"""Dry steps: the user's loop is handed one batch several times, with other records replaced, and nothing of it is released."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.data import Dataset
from torch.utils.hooks import RemovableHandle

from dptheory.errors import ArgumentError
from dptheory.training._randomness import RandomStates, fresh_generator
from dptheory.training.engine._random_states import Collating, SeededIndices
from dptheory.training.engine._rows_apart import (
    CANDIDATES,
    Passed,
    Rounding,
    by_example,
    counted,
    fingerprint,
    longest,
    mixed,
    moved,
    read,
    replacements,
    still,
)
from dptheory.training.per_example import PerExampleGradients

_log = logging.getLogger("dptheory.training")

MOST_RECORDS, MOST_RECORDS_LATER = 16, 64
"""Of a dry batch before the first step: the fewer records it has, the more one of them moves the others. And of later ones: what
keeps a number of records (the hardest ones, those that an expert has room for) leaves out none of a small batch."""
_AGAIN_AFTER = (10, 100, 1000)
"""Releases of this run after which records are compared again."""
_FEW = 1 << 20
"""Records that a permutation of all costs little."""
_MOST_ATTEMPTS = 8
"""Comparisons that the loop may leave out while it makes steps."""

OFF = "not probed: probe=False"
CALLERS = "not probed: the caller draws the batches"
_YET = "not probed: no step has been made with the loader's batches"
_LEFT_OUT = "not probed: the loop makes no step with the batches that are compared"
_RANDOM = "not probed: the same batch gives other gradients each time (randomness or state of the loop that cannot be restored)"
_SHAPES = "not probed: steps with one number of records have other numbers of gradients"
_ALONE = "not probed: a comparison needs two records"
_ZERO = "not probed: all gradients were zero"
_UNMOVED = "not probed: no gradient moved with its own record, as if the loop did not use the records of the batch"


@dataclass(frozen=True, eq=False)
class Trial:
    """One dry step."""

    indices: tuple[int, ...]
    replaced: tuple[int, ...]
    """Places of the records that are not those of the plan's first batch."""
    short: bool = False
    """Whether the last record of that batch is not in this one."""

    @property
    def plain(self) -> bool:
        """Whether it is that batch."""
        return not (self.replaced or self.short)


class DrySteps:
    """Which batches are dry, what their steps have left, and what that says.

    The loader hands out one batch, the same again, the same with records replaced, and with one less: their number is private, too.
    The optimizer hands on the gradients of each. Random states are those of the first before every one and after the last.

    Args:
        size: records of a dry batch; where it is below 2 there is none.
        keep_torch: noise or batches come from torch's global generators, which then never go back.
        views: rows of an example in the model, which belong together.

    Attributes:
        says: whether records were compared, for the report.
    """

    def __init__(
        self,
        *,
        data: Dataset[Any],
        indices: range,
        size: int,
        model: torch.nn.Module,
        keep_torch: bool = False,
        views: int = 1,
    ) -> None:
        self._data, self._own, self._views = data, indices, views
        self._size, self._size_later = (min(size, len(indices), most) for most in (MOST_RECORDS, MOST_RECORDS_LATER))
        self._of_torch = not keep_torch
        self._rng = np.random.default_rng(fresh_generator().initial_seed())  # apart from the run's own
        self._forward = DryForward(model)
        self._plan: list[Trial] = []
        self._handed = 0
        self._left: dict[int, Passed] = {}
        self._parts: list[torch.Tensor] = []
        self._rounding, self._on_cpu = Rounding(0.0, 0.0), False
        self._states: RandomStates | None = None
        self._seed = 0
        self._releases = self._attempts = 0
        self._due = [0, *_AGAIN_AFTER] if self._size >= 2 else []
        self._passed: list[int] = []
        self._whole, self._differ = True, False
        self._said = False
        self._refused: ArgumentError | None = None
        self.says = _YET if self._due else _ALONE

    # --- the loader's side --------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """A pass begins: what it has handed out and the loop has made no step with comes again."""
        self._handed = next((number for number in range(len(self._plan)) if number not in self._left), len(self._plan))

    def next(self) -> tuple[Trial, list[int]] | None:
        """The next dry batch, and the list of its indices for the loader; None where a batch of the run is due."""
        if not self._plan and self._due and self._releases >= self._due[0]:
            self._draw_plan()
        if self._handed >= len(self._plan):
            return None
        trial = self._plan[self._handed]
        self._handed += 1
        if self._states is None:
            self._states = RandomStates.now(of_torch=self._of_torch)
        self._states.restore()
        Collating.forget()
        if not self._said:
            _log.warning(
                "the first %d steps release nothing: they compare the gradients of one batch, with records replaced, to see that "
                "records stay apart, as two more do after each of %s steps; a learning-rate scheduler that the loop steps "
                "counts them; make_private(probe=False) leaves them out",
                len(self._plan),
                ", ".join(map(str, _AGAIN_AFTER)),
            )
            self._said = True
        return trial, SeededIndices(trial.indices, self._seed) if self._of_torch else list(trial.indices)

    def _draw_plan(self) -> None:
        """One batch, and what replaces some of its records: first the farthest of all one, then others half of them, then the rest."""
        size, count = self._size_later if self._passed else self._size, len(self._own)
        wanted = min(size + CANDIDATES, count)
        few = count <= _FEW  # of many, at the cost of what is drawn
        own = self._rng.permutation(count)[:wanted] if few else self._rng.choice(count, wanted, replace=False)
        records = [self._own[place] for place in own]
        before = RandomStates.now(of_torch=self._of_torch)
        parts = dict(zip(records, read(self._data, records), strict=True))
        before.restore()
        late = np.argsort(longest(list(parts.values())), kind="stable")  # the longest come in later
        records = [records[place] for place in late]
        batch = records[:size]
        pool = records[size:] or batch
        rows, candidates = [parts[record] for record in batch], [parts[record] for record in pool]
        same = np.array(batch)[:, None] == np.array(pool)[None]
        swaps = replacements(rows, candidates, same, self._rng)
        plain = Trial(tuple(batch), ())
        self._differ = any(
            not np.array_equal(old, new)
            for taken in swaps
            for row, found in taken.items()
            for old, new in zip(rows[row], candidates[found], strict=False)
        )
        one, many, rest = (_replaced(batch, {row: pool[found] for row, found in taken.items()}) for taken in swaps)
        larger = size > self._size and len(self._passed) == 1  # the first one of this size: most shows what moves most
        self._plan = [plain, plain, one, many, rest, Trial(tuple(batch[:-1]), (), short=True)]
        if not self._whole:
            self._plan = [plain, many if larger or self._rng.random() < 0.5 else one]
        self._plan = [replace(t) for t in self._plan]  # each is itself
        self._handed, self._left, self._states = 0, {}, None
        self._seed = int(self._rng.integers(1, 2**62))

    # --- the optimizer's side -----------------------------------------------------------------------------------------

    def forward_begins(self, dry: bool, inputs: Any) -> None:
        """A forward pass begins."""
        if dry:
            self._forward.begin(inputs)
        else:
            self._forward.end()

    def part(self, samples: PerExampleGradients) -> None:
        """Gradients of a part of a dry batch, in the order of its records."""
        self._parts.append(fingerprint(samples, self._seed))
        self._on_cpu = all(one.device.type == "cpu" for one in samples.parts)
        self._rounding = Rounding.of(samples, *self._forward.precisions)

    def finish(self, trial: Trial, names: Sequence[str]) -> None:
        """All parts of a dry batch have come: refuse a gradient that moved with another record; names in forward order."""
        alike = len({p.shape[1] for p in self._parts}) == 1
        sizes = torch.tensor([len(p) for p in self._parts])
        passed = Passed(
            torch.cat(self._parts) if alike else torch.zeros(0),
            self._noted(),
            sizes.repeat_interleave(sizes).double(),
            fixed=self._fixed(),
        )
        self.drop()
        if self._states is not None:
            self._states.restore()
        if trial not in self._plan:
            return  # of a comparison that was given up
        if len(passed.rows) != len(trial.indices):
            self.says = _SHAPES  # a step of the loop's own making; the batch comes again in the next pass
            return
        self._left[self._plan.index(trial)] = passed
        if passed.rows.shape[1] != next(iter(self._left.values())).rows.shape[1]:
            self._give_up(_SHAPES)
            return
        self._compare(names)

    def _fixed(self) -> bool:
        """Whether the dry batch drew nothing but for its records one by one, so far as is known, and that on a CPU."""
        drew = Collating.drew is not False or not self._of_torch or self._states is None or not self._states.still()
        return self._on_cpu and not drew

    def drop(self) -> None:
        """Forget the parts of a dry batch that the loop has left out."""
        self._parts = []
        self._forward.end()

    def check(self) -> None:
        """See that no comparison has failed since the last one that passed."""
        if self._refused:
            raise self._refused.retold(str(self._refused))  # a new one: the frames of a raised one would stay

    def released(self, *, lost: bool) -> None:
        """A step of the run has been released, behind which random states do not go back; perhaps a dry batch got no step (lost)."""
        self._releases += 1
        if self._handed and self._plan:  # batches of a comparison may be drawn already, whose steps come next
            self._states = None if lost else RandomStates.now(of_torch=self._of_torch)
        if not lost:
            return
        self._attempts += 1
        self._plan, self.says = [], _LEFT_OUT
        self._due = [] if self._attempts >= _MOST_ATTEMPTS else [self._releases, *_later(self._due, self._releases)]

    def _noted(self) -> list[tuple[str, torch.Tensor]]:
        """Inputs and outputs of the layers, the last of each layer's, of all parts together; of several passes the inputs alone."""
        passes, left = divmod(len(self._forward.parts), max(len(self._parts), 1))
        if left or not passes:
            return []
        parts = [dict(part) for part in self._forward.parts]
        if passes > 1:
            inputs = [[one[""] for one in parts[i : i + passes] if "" in one] for i in range(0, len(parts), passes)]
            known = all(len(part) == passes and len({len(one) for one in part}) == 1 for part in inputs)
            parts = [{"": _together(part)} if known else {} for part in inputs]
        names = [name for name in parts[0] if all(name in part for part in parts)]
        return [(name, by_example(torch.cat([part[name] for part in parts]), self._views)) for name in names]

    def _compare(self, names: Sequence[str]) -> None:
        plain = [self._left[number] for number, trial in enumerate(self._plan) if trial.plain and number in self._left]
        if not plain:
            return
        if len(plain) > 1 and not still(plain[0].rows, plain[1].rows, self._rounding):
            self._give_up(_RANDOM)
            return
        for number, trial in enumerate(self._plan):
            if not trial.plain and number in self._left:
                after = self._left[number]
                if trial.short:
                    fault = counted(plain[-1], after, self._rounding)
                else:
                    fault = mixed(plain[-1], after, trial.replaced, names, self._rounding)
                if fault is None:
                    continue
                if not self._whole:  # perhaps the loop has become random: see with the same batch twice
                    self._whole, self._plan = True, []
                    return
                if len(plain) > 1:
                    self._refused, self._plan = fault, []  # and a new comparison begins with the next batch
                    self.check()
        if len(self._left) == len(self._plan):
            if not any(bool((one.rows != 0).any()) for one in self._left.values()):
                self._give_up(_ZERO)
                return
            if self._whole and self._differ and not self._own_moved(plain[-1]):
                _log.warning("epsilon may not hold: records %s", _UNMOVED)
                self._give_up(_UNMOVED)
                return
            self._passed.append(self._releases)
            most = self._size_later if len(self._passed) > 1 else self._size  # what acts on more of them is not seen
            steps = ", ".join(str(done + 1) for done in self._passed)
            self.says = f"compared before the steps {steps}, with at most {most} records"
            self._plan, self._due = [], _later(self._due, self._releases)
            self._whole, self._refused = False, None

    def _own_moved(self, plain: Passed) -> bool:
        """Whether the gradient of any record did that was replaced."""
        others = {
            number: set(range(len(plain.rows))) - {*trial.replaced}
            for number, trial in enumerate(self._plan)
            if trial.replaced
        }
        return any(
            moved(plain.rows, self._left[number].rows, kept, self._rounding, in_place=True) is not None
            for number, kept in others.items()
        )

    def _give_up(self, why: str) -> None:
        self.says = why
        self._plan, self._due = [], []


def _replaced(batch: Sequence[int], swaps: Mapping[int, int]) -> Trial:
    return Trial(tuple(swaps.get(place, index) for place, index in enumerate(batch)), tuple(sorted(swaps)))


def _later(due: Sequence[int], releases: int) -> list[int]:
    return [one for one in due if one > releases]


# --- What happens in the forward pass of a dry step: dropout rests, and what the layers give is noted


_DROPPING = (_DropoutNd, nn.RNNBase, nn.MultiheadAttention)


class DryForward:
    """Dropout at rate zero, and a fingerprint of every layer's output, from :meth:`begin` to :meth:`end`.

    Attributes:
        parts: of each part of the batch, the fingerprints of its forward pass: name, (rows, 3).
        precisions: of autocast, where it was on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._handles: list[RemovableHandle] = []
        self._rates: list[tuple[nn.Module, str, float]] = []
        self._inside = False
        self.parts: list[list[tuple[str, torch.Tensor]]] = []
        self.precisions: set[torch.dtype] = set()

    def begin(self, inputs: Any) -> None:
        """A forward pass of a dry step begins."""
        if not self._handles:
            self.parts = []
            self._handles = [self._model.register_forward_hook(self._leave, always_call=True)]
            for name, layer in self._model.named_modules():
                if layer is not self._model and not any(True for _ in layer.children()):
                    self._handles.append(layer.register_forward_hook(self._note(name)))
                self._rest(layer)
        self._note_precision()
        self._inside = True
        found = [one for one in map(_fingerprint, _tensors(inputs)) if one is not None]
        alike = [one for one in found if len(one) == len(found[0])]
        self.parts.append([("", _together(alike))] if alike else [])

    def end(self) -> None:
        """The step is over, or was left out: dropout is as it was."""
        for handle in self._handles:
            handle.remove()
        for layer, name, rate in self._rates:
            setattr(layer, name, rate)
        self._handles, self._rates, self._inside = [], [], False

    def _rest(self, layer: nn.Module) -> None:
        if isinstance(layer, _DROPPING):
            name = "p" if isinstance(layer, _DropoutNd) else "dropout"
            self._rates.append((layer, name, getattr(layer, name)))
            setattr(layer, name, 0.0)

    def _leave(self, *_: Any) -> None:
        self._inside = False  # what is worked out anew in the backward pass is not noted again

    def _note_precision(self) -> None:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                self.precisions.add(torch.get_autocast_dtype(device))

    def _note(self, name: str) -> Any:
        def note(_: nn.Module, __: Any, output: Any) -> None:
            if self._inside:
                self._note_precision()
                found = (_fingerprint(tensor) for tensor in _tensors(output))
                self.parts[-1] += [(name, one) for one in found if one is not None][:1]

        return note


def _together(found: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([(number + 1) * one for number, one in enumerate(found)]).sum(0)


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        for one in found.values():
            yield from _tensors(one)
    elif isinstance(found, list | tuple) and not isinstance(found, nn.utils.rnn.PackedSequence):
        for one in found:
            yield from _tensors(one)


@torch.no_grad()
def _fingerprint(tensor: torch.Tensor) -> torch.Tensor | None:
    """Of every row norm, sum and number of entries, (rows, 3) on the CPU; None of what has no rows."""
    if tensor.dim() == 0 or tensor.layout != torch.strided or tensor.is_complex() or not len(tensor):
        return None
    flat = tensor.detach().reshape(len(tensor), tensor[:1].numel()).float()
    weights = torch.linspace(0.5, 1.0, flat.shape[1], device=flat.device)  # so that entries that change places are seen
    return (
        torch.stack([flat.norm(dim=1), (flat * weights).sum(1), flat.new_full((len(flat),), flat.shape[1])], 1)
        .double()
        .cpu()
    )
