"""Which physical batches make up one batch: how the optimizer knows that a part belongs to the batch under way."""

from collections import deque
from dataclasses import dataclass

from dptheory import _validate
from dptheory.training.engine._dry_steps import Trial


@dataclass(frozen=True)
class _Drawn:
    """A batch that was drawn, and of which no step has been made yet; with its trial where its step releases nothing."""

    size: int
    trial: Trial | None = None


class LogicalBatch:
    """The batch under way, of which parts may still be to come.

    A batch begins where it is drawn. Each part needs a signal whether more follow, and each signal is good for one part: so no
    part is added twice. What a batch has left when the next one begins is dropped: so no total holds parts of two batches.
    Where the size of a batch is known, its parts together have as many rows of gradients as it has examples, and one step is made
    of it.

    Args:
        views: rows of an example in the model, for errors; rows of gradients are those of whole examples.

    Attributes:
        under_way: parts have been added, and more are to come.
        rows: rows of gradients added so far.
        from_loader: the loader of ``make_private`` draws the batches, so that signals come as a part is handed out.
        trials_lost: dry batches have been left out of which no step was made.
    """

    def __init__(self, *, views: int = 1) -> None:
        self._views = views
        self.under_way = False
        self.rows = 0
        self.from_loader = False
        self.trials_lost = False
        self._begun = False
        self._more_follow: bool | None = None
        self._drawn: deque[_Drawn] = deque()
        self._sizes_known = self._drawn_ahead = False
        self._left_out: list[int] = []

    def begin(self, size: int | None) -> None:
        """A batch was drawn, and its first part comes next."""
        self.drop()
        size = None if size is None else _validate.integer("size", size, 0)
        trial = self.dry_is_next  # what the loader has handed out to release nothing stays so, whoever begins it
        self._begun = True
        self.from_loader = self._drawn_ahead = False
        self._drawn.clear()
        self._sizes_known = size is not None or trial is not None
        if trial is not None or size is not None:
            self._drawn.append(_Drawn(len(trial.indices) if size is None and trial is not None else size or 0, trial))

    def begin_pass(self, drawn_ahead: bool) -> None:
        """A loader begins anew: what it drew before is not to come any more."""
        self._begun = False
        self.from_loader = True
        self._drawn.clear()
        self._left_out = []
        self._sizes_known, self._drawn_ahead = True, drawn_ahead

    def drawn(self, size: int, trial: Trial | None = None) -> None:
        """The loader drew a batch, perhaps a dry one; earlier ones may still be waiting for their step."""
        self.drop()
        self._begun = True
        self._drawn.append(_Drawn(size, trial))

    @property
    def dry_is_next(self) -> Trial | None:
        """The trial of the earliest batch that waits for its step; None where that is one of the run."""
        return self._drawn[0].trial if self._drawn else None

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
        """Say of the part that comes next whether more parts follow it.

        Raises:
            ValueError: no batch was begun, or parts are drawn ahead, so that signal and part would not meet.
        """
        if self._drawn_ahead:
            raise ValueError(
                "BatchMemoryManager needs a loader with num_workers=0: workers draw parts ahead, and a part that the loop "
                "leaves out would go unnoticed"
            )
        if more_follow and not self._begun:
            raise ValueError("signal_skip_step(do_skip=True) needs begin_batch() before the first part of every batch")
        while len(self._drawn) > 1:  # a batch in parts comes alone: the loop has left out the earlier ones
            self.trials_lost |= self._drawn.popleft().trial is not None
        self._more_follow = more_follow

    def check(self, rows: int) -> None:
        """See whether a part of so many rows may be added.

        Raises:
            ValueError: it has no signal of its own, no batch was drawn for it, or the parts together have not one row for each
                example.
        """
        if self.under_way and self._more_follow is None:
            raise ValueError(
                "step() was called again on a batch in parts: every part needs its own signal_skip_step(), which the loader "
                "gives with the next part; to leave the batch out, go on with the next one (begin_batch())"
            )
        if not self._sizes_known:
            return
        if not self._drawn:
            raise ValueError(
                "step() needs a batch of its own: none was drawn since the last step; go over the loader that make_private "
                "returned, not over the one it was given (who draws batches apart from it uses attach)"
            )
        sizes = {one.size for one in self._drawn}
        matched = any(self._may_be_of(rows, size) for size in sizes)
        rows += self.rows if self.under_way else 0
        if not matched:
            drawn = " or ".join(map(str, sorted(sizes)))
            if self._views > 1:
                raise ValueError(
                    f"a batch must have views={self._views} rows for each of its examples, got {rows * self._views} rows where {drawn} "
                    "examples were drawn: hand the model all rows of every example once, those of one example behind one another"
                )
            raise ValueError(
                f"per-sample gradients must be one row for each example of the batch, got {rows} rows where {drawn} were drawn: "
                "hand every example once to one forward pass, of a batch in parts every part; an example in several rows is "
                "clipped in each (make_private(views=) takes the mean over its rows and clips once), and several in one row are "
                "clipped together"
            )

    def add(self, rows: int) -> tuple[bool, Trial | None]:
        """Note a part that was added.

        Returns:
            Whether more parts follow it; otherwise the batch is complete, and done with. The trial that is complete with it, if
            it is of a dry batch.
        """
        self.rows = rows + (self.rows if self.under_way else 0)
        self.under_way, self._more_follow = bool(self._more_follow), None
        if self.under_way:
            return True, None
        self._begun = False
        if self.rows in self._left_out:
            self._left_out.remove(self.rows)
            if self.dry_is_next is None:
                return False, None
        while self._drawn:
            one = self._drawn.popleft()
            if _is_of(self.rows, one.size):
                return False, one.trial
            if one.trial is not None:  # the loop has left that batch out
                self.trials_lost = True
                self._left_out.append(one.size)
        return False, None

    def drop(self) -> None:
        """Leave out what has not been released."""
        self.under_way, self._more_follow = False, None


def _is_of(rows: int, size: int) -> bool:
    """Whether a batch of that size gives so many rows; of no example Opacus makes one row of zeros, or none."""
    return rows == size or (size == 0 and rows == 1)
