"""What a paper prints, as records: a setting, a table, and the cells of a table."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeVar

from dptheory.errors import ArgumentError

_T = TypeVar("_T")

_CELL = re.compile(r"(?P<number>[+-]?\d+(\.\d+)?)(?P<rest> ± (?P<beside>\S+)| \((± )?(?P<within>[^)]+)\))?")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An experiment as a paper prints it; None where it does not.

    Attributes:
        id: "rf.end-to-end-cnn.eps3": paper, setting, run.
        source: "RF, Tables 1, 2 and 5".
        model, dataset: as the paper names them.
        dim: number of parameters, as rounded by the paper.
        train_size: training images, as printed; else the published size of the data set, if it has one.
        epsilon, delta: the privacy budget.
        noise_multiplier, learning_rate, momentum, weight_decay, batch_size, epochs, steps: of the run.
        clip_norm: of the gradients (of GEP: and of the embeddings, as it prints no other).
        residual_clip: of GEP's residuals.
        drop_rate: share of entries dropped at the end.
        cooling_epochs: epochs over which that share rises linearly.
        total_density: mean share kept over the run, against the dense run.
        keep_share, first_keep_share: share of entries kept at the end and at the start.
        index_share: share of epsilon for the indices.
        group_size: entries that are permuted together.
        augmentations: views of an image.
        subspace_dims: dimensions of the anchor subspace that were tried.
        anchors: number of anchor gradients.
        releases: vectors released per step.
        frozen_layers, frozen_after_epoch, frozen_after_step: how many of the first layers are frozen, and when.
        others: what else the table prints, as (column, value).
    """

    id: str
    source: str
    model: str | None = None
    dataset: str | None = None
    dim: int | None = None
    train_size: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    batch_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    clip_norm: float | None = None
    residual_clip: float | None = None
    drop_rate: float | None = None
    cooling_epochs: int | None = None
    total_density: float | None = None
    keep_share: float | None = None
    first_keep_share: float | None = None
    index_share: float | None = None
    group_size: int | None = None
    augmentations: int | None = None
    subspace_dims: tuple[int, ...] = ()
    anchors: int | None = None
    releases: int | None = None
    frozen_layers: int | None = None
    frozen_after_epoch: int | None = None
    frozen_after_step: int | None = None
    others: tuple[tuple[str, str], ...] = ()

    def number(self, name: str) -> float:
        """The number in this field, which the paper has to print.

        Args:
            name: of the field.

        Returns:
            The number.

        Raises:
            ValueError: no field of this name holds a number.

        Example: RF's CNN at epsilon 3.
            >>> from dptheory.papers import setting
            >>> setting("rf.end-to-end-cnn.eps3").number("noise_multiplier")
            1.54
        """
        value = getattr(self, name) if isinstance(name, str) and name in _FIELDS else None
        if isinstance(value, int | float):
            return value
        printed = sorted(one for one in _FIELDS if isinstance(getattr(self, one), int | float))
        raise ArgumentError("name", f"be one of {printed}, which {self.id} prints", name)

    def whole(self, name: str) -> int:
        """The whole number in this field, which the paper has to print.

        Args:
            name: of the field.

        Returns:
            The whole number.

        Raises:
            ValueError: no field of this name holds a whole number.

        Example: RF's CNN at epsilon 3.
            >>> from dptheory.papers import setting
            >>> setting("rf.end-to-end-cnn.eps3").whole("batch_size")
            1000
        """
        value = self.number(name)
        if isinstance(value, int):
            return value
        raise ArgumentError("name", f"be that of a whole number of {self.id}", name)


_FIELDS = frozenset(field.name for field in fields(Setting))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One printed number.

    Attributes:
        name: what it is the number of: "CIFAR10, DP-CNN (d = 550K), epsilon 1.0, baseline". Unique in its table.
        keys: the same as (key, value), the column last.
        text: as printed, digit for digit.
        unit: "%", "points", "h", "s" or "radians"; "" where the number has none.
    """

    name: str
    keys: tuple[tuple[str, str], ...]
    text: str
    unit: str

    def number(self) -> Fraction:
        """The number, without the spread printed beside it.

        Returns:
            The number as a fraction, so that no digit is lost.

        Raises:
            ValueError: what is printed is not a number.

        Example: an accuracy in per cent, and the standard error printed beside it.
            >>> from dptheory.papers import table
            >>> cell = table("rf.table1").cell("End-to-end CNN, epsilon 3.0, baseline")
            >>> float(cell.number()), cell.spread()
            (60.4, '0.2')
        """
        return Fraction(self._parts()["number"])

    def spread(self) -> str | None:
        """The spread printed beside the number, which may be "< 0.001"; None where there is none.

        Returns:
            The spread as printed, or None.

        Raises:
            ValueError: what is printed is not a number.

        Example: the standard error beside an accuracy in per cent.
            >>> from dptheory.papers import table
            >>> table("rf.table1").cell("End-to-end CNN, epsilon 3.0, baseline").spread()
            '0.2'
        """
        parts = self._parts()
        return parts["beside"] or parts["within"]

    @property
    def quoted(self) -> str:
        """The text with its unit: "66.9 ± 0.4 %", "88.2 % (± 0.16)"."""
        if not self.unit:
            return self.text
        number, bracket, rest = self.text.partition(" (")
        return f"{number} {self.unit}{bracket}{rest}"

    def key(self, name: str) -> str:
        """The value of a key of the table: ``key("epsilon")`` is "1.0".

        Args:
            name: of the key, "column" for the column.

        Returns:
            The value as printed.

        Raises:
            ValueError: the table has no such key.

        Example: which budget a cell belongs to.
            >>> from dptheory.papers import table
            >>> table("rf.table1").cell("End-to-end CNN, epsilon 3.0, baseline").key("epsilon")
            '3.0'
        """
        return found_in("name", name, "a key of the table", dict(self.keys))

    def _parts(self) -> dict[str, str]:
        found = _CELL.fullmatch(self.text)
        if found is None:
            raise ArgumentError("text", "be a number", self.text, then=f" in {self.name!r}")
        return found.groupdict()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A printed table.

    Attributes:
        id: "rs.table2"; the same as that of the claim about it.
        label: "RS, Table 2".
        caption: as printed, its beginning.
        spread: what stands beside a number: "standard error of 5 runs"; None where nothing does or the paper does not say.
        cells: row by row.
    """

    id: str
    label: str
    caption: str
    spread: str | None
    cells: tuple[Cell, ...]

    def cell(self, name: str) -> Cell:
        """The cell of this name.

        Args:
            name: of the cell, unique in its table.

        Returns:
            The cell.

        Raises:
            ValueError: no such cell; the message names the nearest ones.

        Example: the text is as printed, digit for digit.
            >>> from dptheory.papers import table
            >>> table("rf.table1").cell("End-to-end CNN, epsilon 3.0, baseline").text
            '60.4 ± 0.2'
        """
        return found_in("name", name, f"a cell of {self.id}", {one.name: one for one in self.cells})

    def quoted(self) -> tuple[tuple[str, str], ...]:
        """Every cell as (name, number with its unit).

        Returns:
            One pair for each cell, in the order of the table.

        Example: RF's Table 1 begins with its CNN at epsilon 7.53.
            >>> from dptheory.papers import table
            >>> table("rf.table1").quoted()[0]
            ('End-to-end CNN, epsilon 7.53, baseline', '66.9 ± 0.4 %')
        """
        return tuple((one.name, one.quoted) for one in self.cells)


def found_in(argument: str, name: object, what: str, known: Mapping[str, _T]) -> _T:
    """The record of this name; an error names the nearest ones."""
    if isinstance(name, str) and name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    raise ArgumentError(argument, f"be that of {what}{(f', such as {near}' if near else '')}", name)
