"""How instrumented runs decide about the papers' figures: bounds on measured numbers, declared before the runs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate, claims
from dptheory.claims import Answer, Measured
from dptheory.errors import ArgumentError
from dptheory.training._toml import listed, only, said
from dptheory.training.studies import _results
from dptheory.training.studies._instruments import Instrument
from dptheory.training.studies._results import Result

FindMeasured = Callable[[str, int], Result | None]
"""The result of an instrument, by its name and a seed; None where there is none that counts."""

FILE = "instruments"


@dataclass(frozen=True)
class Bound:
    """What a measured number has to be, in every seed.

    Attributes:
        quantity: of the instrument.
        words: what it is.
        above, below: the open interval.
    """

    quantity: str
    words: str
    above: float = -math.inf
    below: float = math.inf

    def __str__(self) -> str:
        if math.isinf(self.below):
            return f"above {self.above:g}"
        return f"below {self.below:g}" if math.isinf(self.above) else f"between {self.above:g} and {self.below:g}"

    def finding(self, values: tuple[float | None, ...]) -> Measured:
        """What the seeds say: it holds in all of them, in none, or in some. A value that could not be had holds nothing."""
        held = [value is not None and self.above < value < self.below for value in values]
        outcome = "holds" if all(held) else "open" if any(held) else "fails"
        return Measured(quantity=self.words, values=values, relation=str(self), outcome=outcome)


@dataclass(frozen=True)
class AskedOfInstrument:
    """What a claim comes to in instrumented runs; all bounds must hold.

    Attributes:
        instrument: whose runs they are.
        question: in words.
        corrected: why it, or a bound, was changed when results were known; "" where it was not.
        differs: in what its runs differ from the paper's.
        beside: what else its results say, asked after them; it decides nothing.
        reported: names of the paper's numbers to stand beside it.
        bounds: that decide.
    """

    instrument: Instrument
    question: str
    differs: str
    reported: tuple[str, ...]
    bounds: tuple[Bound, ...]
    beside: str = ""
    corrected: str = ""


def path_of(folder: Path) -> Path:
    """Where the results of the instruments lie."""
    return _results.path_of(folder, FILE)


def run_name(instrument: str, seed: int) -> str:
    """Of the runs of an instrument and a seed."""
    return f"{instrument}_seed={seed}"


def read(path: Path) -> dict[str, Result]:
    """The measurements in a file, by the names of their runs; none where there is no file.

    Raises:
        ValueError: the file holds something else.
    """
    return _results.read(path, "an instrument", ("quantities", "code", "arms"))


def write_measured(folder: Path, result: Result) -> Path:
    """Add the measurements of an instrument and a seed to the results; they stand for earlier ones.

    Args:
        folder: of all results.
        result: with the keys "instrument" and "seed", and what was measured.

    Returns:
        Path of the file.

    Raises:
        ValueError: a number that JSON does not have.
        OSError: the file cannot be written.

    Example: all instruments share a file.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.training.studies import write_measured
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_measured(Path(folder), {"instrument": "masks", "seed": 0}).name
        'instruments.jsonl'
    """
    path = path_of(folder)
    _results.write(path, run_name(result["instrument"], result["seed"]), result)
    return path


def committed(folder: Path) -> FindMeasured:
    """The results that count: a result of code that differs from its commit does not."""
    kept = read(path_of(folder))

    def found(name: str, seed: int) -> Result | None:
        result = kept.get(run_name(name, seed))
        return None if result is None or result["code"].get("dirty") else result

    return found


def nothing_measured(name: str, seed: int) -> None:
    """No instrument has a result."""


def read_asked(table: Mapping[str, Any], instruments: Mapping[str, Instrument]) -> AskedOfInstrument:
    """The rule of a claim.

    Raises:
        ValueError: it names something unknown, or has no words.
    """
    only(table, ("instrument", "question", "corrected", "differs", "beside", "reported", "bounds"))
    instrument = instruments[_validate.choice("instrument", table.get("instrument", ""), tuple(instruments))]
    return AskedOfInstrument(
        instrument,
        question=said(table, "question"),
        differs=said(table, "differs"),
        beside=said(table, "beside") if "beside" in table else "",
        corrected=said(table, "corrected") if "corrected" in table else "",
        reported=listed(table, "reported"),
        bounds=tuple(_bound(one, instrument) for one in listed(table, "bounds")),
    )


def _bound(table: Mapping[str, Any], instrument: Instrument) -> Bound:
    only(table, ("quantity", "words", "above", "below"))
    _validate.choice("quantity", table.get("quantity", ""), instrument.quantities)
    if not table.get("words") or not {"above", "below"} & table.keys():
        raise ArgumentError("bounds", "have words, and above or below", dict(table))
    return Bound(**table)


def answer(claim: str, asked: AskedOfInstrument, find: FindMeasured, folder: Path) -> Answer:
    """What the runs say of a claim.

    Args:
        claim: its id.
        asked: its rule.
        find: gives the results.
        folder: of the results, as the answer names them.
    """
    instrument = asked.instrument
    results = [find(instrument.name, seed) for seed in instrument.seeds]
    known = [result for result in results if result is not None]
    done = len(known) == len(results)
    measured = tuple(
        bound.finding(tuple(result["quantities"][bound.quantity] for result in known)) for bound in asked.bounds
    )
    state = "confirmed" if all(one.outcome == "holds" for one in measured) else "not confirmed"
    numbers = dict(claims.get(claim).reported)
    return Answer(
        state=state if done else "not run",
        instrument=instrument.name,
        question=asked.question,
        corrected=asked.corrected,
        differs=asked.differs,
        beside=asked.beside if done else "",
        measured=measured if done else (),
        reported=tuple((name, numbers[name]) for name in asked.reported),
        files=tuple(f"{path_of(folder).as_posix()}: {run_name(instrument.name, seed)}" for seed in instrument.seeds)
        if done
        else (),
        command=command(instrument),
        cost=instrument.cost,
        reason="" if done else f"instrument {instrument.name} has seeds to go",
    )


def command(instrument: Instrument) -> str:
    """What makes the runs of an instrument."""
    return f"dptheory instrument {instrument.name}"
