"""How instrumented runs decide about the papers' figures: bounds on measured numbers, declared before the runs."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from dptheory import _validate, claims
from dptheory.claims import Answer, Baseline, Compared, Measured
from dptheory.errors import ArgumentError
from dptheory.training._files import listed, only, said
from dptheory.training.studies import _plan as plans
from dptheory.training.studies import _results
from dptheory.training.studies._instruments import Instrument
from dptheory.training.studies._plan import Find
from dptheory.training.studies._results import Result
from dptheory.training.studies._study import Study

# --- How far the setting of runs is from the paper's: declared in words, its baseline taken from the results


_PARTS = ("data", "network", "epochs")


@dataclass(frozen=True)
class BaselineRule:
    """Which runs are those of the paper's baseline.

    Attributes:
        phase: of the study; None where the arm is an instrument's.
        gain: of the paper's method over it, in points; None where the claim is none of a gain.
    """

    what: str
    there: float
    arm: str
    phase: str | None = None
    gain: float | None = None

    def made(self, accuracies: Sequence[float]) -> Baseline | None:
        """With the accuracies here, percent; None without any."""
        if not accuracies:
            return None
        here = float(f"{statistics.fmean(accuracies):.6g}")
        return Baseline(what=self.what, here=here, there=self.there, gain=self.gain)


@dataclass(frozen=True)
class Setting:
    """What of the setting is the paper's.

    Attributes:
        compared: data, network and epochs, here and there.
        baseline: None where the paper has none with the same data.
    """

    compared: tuple[Compared, ...] = ()
    baseline: BaselineRule | None = None

    def of_study(self, study: Study, find: Find) -> Baseline | None:
        """The baseline by the results of a study; None while a run is missing."""
        if self.baseline is None or self.baseline.phase is None:
            return None
        runs = plans.runs_of(study, study.phase(self.baseline.phase), self.baseline.arm, find) or ()
        rows = [find(run) for run in runs]
        known = [row for row in rows if row is not None]
        return self.baseline.made(
            [100 * _results.last_accuracy(row) for row in known] if len(known) == len(rows) else []
        )

    def of_instrument(self, results: Sequence[Result]) -> Baseline | None:
        """The baseline by the runs of an instrument."""
        if self.baseline is None:
            return None
        arm = self.baseline.arm
        return self.baseline.made([100 * result["arms"][arm]["test_accuracy"] for result in results])


NO_SETTING = Setting()
"""Of a rule that says nothing of it."""


def read_setting(table: Mapping[str, Any], *, arms: Sequence[str], phases: Sequence[str] = ()) -> Setting:
    """A setting from TOML: ``data``, ``network`` and ``epochs`` as [here, there]; ``baseline``."""
    only(table, (*_PARTS, "baseline"))
    for part in _PARTS:
        pair = table.get(part)
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(one, str) and one for one in pair):
            raise ArgumentError(part, "say what it is here and in the paper", pair)
    compared = tuple(Compared(what=part, here=table[part][0], there=table[part][1]) for part in _PARTS)
    return Setting(compared, _baseline(table["baseline"], arms, phases) if "baseline" in table else None)


def _baseline(table: Mapping[str, Any], arms: Sequence[str], phases: Sequence[str]) -> BaselineRule:
    only(table, ("what", "there", "arm", "phase", "gain"))
    _validate.choice("arm", table.get("arm", ""), tuple(arms))
    if phases:
        _validate.choice("phase", table.get("phase", ""), tuple(phases))
    if not table.get("what") or not 0 < table.get("there", 0) <= 100 or (not phases and "phase" in table):
        raise ArgumentError(
            "baseline", "have what it is, its accuracy there, and a phase if it is a study's", dict(table)
        )
    return BaselineRule(**table)


FindMeasured = Callable[[str, int], Result | None]
"""The result of an instrument, by its name and a seed; None where there is none that counts."""

FILE = "instruments"


@dataclass(frozen=True)
class Bound:
    """What a measured number has to be, in every seed.

    Attributes:
        quantity: of the instrument; or a trend, computed from what its results keep.
        above, below: the open interval.
        size: whether it asks how large the effect is, not only which way it goes.
        cannot: why this setting cannot decide about it; "" where it can.
    """

    quantity: str
    words: str
    above: float = -math.inf
    below: float = math.inf
    size: bool = False
    cannot: str = ""

    def of(self, result: Result) -> float | None:
        """The number of one seed."""
        if self.quantity not in TRENDS:
            return result["quantities"][self.quantity]  # type: ignore[no-any-return]
        return float(f"{TRENDS[self.quantity](result['arms']):.6g}")

    def __str__(self) -> str:
        if math.isinf(self.below):
            return f"above {self.above:g}"
        return f"below {self.below:g}" if math.isinf(self.above) else f"between {self.above:g} and {self.below:g}"

    def finding(self, values: tuple[float | None, ...]) -> Measured:
        """What the seeds say: it holds in all of them, in none, or in some. A value that could not be had holds nothing."""
        held = [value is not None and self.above < value < self.below for value in values]
        outcome = "holds" if all(held) else "open" if any(held) else "fails"
        return Measured(
            quantity=self.words, values=values, relation=str(self), outcome=outcome, size=self.size, cannot=self.cannot
        )


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a claim comes to in our runs.

    Attributes:
        corrected: why it, or what decides, was changed when results were known; "" where it was not.
        beside: what else their results say, asked after them; it decides nothing.
        unasked: what of the claim is not asked; "" where all of it is.
        setting: data, network, epochs and baseline, here and in the paper.
        reported: names of the paper's numbers to stand beside it.
    """

    question: str
    differs: str
    reported: tuple[str, ...]
    beside: str = ""
    corrected: str = ""
    unasked: str = ""
    setting: Setting = NO_SETTING

    def answer(self, claim: str, *, done: bool, **found: Any) -> Answer:
        """The answer with these words; what stands beside it only where all results are there."""
        numbers = dict(claims.get(claim).reported)
        return Answer(
            question=self.question,
            corrected=self.corrected,
            unasked=self.unasked,
            differs=self.differs,
            compared=self.setting.compared,
            beside=self.beside if done else "",
            reported=tuple((name, numbers[name]) for name in self.reported),
            **found,
        )


def read_question(
    table: Mapping[str, Any], *, others: Sequence[str], arms: Sequence[str], phases: Sequence[str] = ()
) -> dict[str, Any]:
    """The words of a rule, as arguments of :class:`Question`; ``others`` are the keys that are no words."""
    only(table, (*others, "question", "corrected", "differs", "beside", "unasked", "setting", "reported"))
    return {
        **{key: said(table, key) for key in ("question", "differs")},
        **{key: said(table, key) for key in ("beside", "corrected", "unasked") if key in table},
        "setting": read_setting(table.get("setting", {}), arms=arms, phases=phases),
        "reported": listed(table, "reported"),
    }


@dataclass(frozen=True, kw_only=True)
class AskedOfInstrument(Question):
    """What a claim comes to in instrumented runs; all bounds must hold."""

    instrument: Instrument
    bounds: tuple[Bound, ...]


def path_of(folder: Path) -> Path:
    """Where the results of the instruments lie."""
    return _results.path_of(folder, FILE)


def run_name(instrument: str, seed: int) -> str:
    """Of the runs of an instrument and a seed."""
    return f"{instrument}_seed={seed}"


def read(path: Path) -> dict[str, Result]:
    """The measurements in a file, by the names of their runs; none where there is no file."""
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
    """The rule of a claim."""
    instrument = instruments[_validate.choice("instrument", table.get("instrument", ""), tuple(instruments))]
    return AskedOfInstrument(
        instrument=instrument,
        bounds=tuple(_bound(one, instrument) for one in listed(table, "bounds")),
        **read_question(table, others=("instrument", "bounds"), arms=tuple(instrument.arms)),
    )


def _bound(table: Mapping[str, Any], instrument: Instrument) -> Bound:
    only(table, ("quantity", "words", "above", "below", "size", "cannot"))
    _validate.choice("quantity", table.get("quantity", ""), (*instrument.quantities, *TRENDS))
    if not table.get("words") or not {"above", "below"} & table.keys():
        raise ArgumentError("bounds", "have words, and above or below", dict(table))
    return Bound(**table)


def answer(claim: str, asked: AskedOfInstrument, find: FindMeasured, folder: Path) -> Answer:
    """What the runs say of a claim."""
    instrument = asked.instrument
    results = [find(instrument.name, seed) for seed in instrument.seeds]
    known = [result for result in results if result is not None]
    done = len(known) == len(results)
    measured = tuple(bound.finding(tuple(bound.of(result) for result in known)) for bound in asked.bounds)
    files = tuple(f"{path_of(folder).as_posix()}: {run_name(instrument.name, seed)}" for seed in instrument.seeds)
    return asked.answer(
        claim,
        done=done,
        instrument=instrument.name,
        baseline=asked.setting.of_instrument(known) if done else None,
        measured=measured if done else (),
        files=files if done else (),
        command=command(instrument),
        cost=instrument.cost,
        reason="" if done else f"instrument {instrument.name} has seeds to go",
    )


def command(instrument: Instrument) -> str:
    """What makes the runs of an instrument."""
    return f"dptheory instrument {instrument.name}"


# --- Trends of instrumented runs, asked after the results and computed from what these keep


Arms = Mapping[str, Mapping[str, Any]]


def _rows(arms: Arms, arm: str, kind: str) -> list[Mapping[str, Any]]:
    return list(arms[arm]["measured"][kind])


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Kendall's: pairs in the same order less pairs in the other one, as a share of all pairs."""
    pairs = list(combinations(zip(x, y, strict=True), 2))
    signs = [(a - c) * (b - d) for (a, b), (c, d) in pairs]
    return sum((one > 0) - (one < 0) for one in signs) / len(pairs)


# --- random freeze and sparsification ---------------------------------------------------------------------------------


def _rates(arms: Arms) -> list[float]:
    return list(_rows(arms, "dp-sgd", "errors")[0]["drop_rates"])[1:]


def _differences(arms: Arms, key: str) -> Iterator[list[float]]:
    """Dense minus frozen, over the rates, relative to the dense value, at every step."""
    for row in _rows(arms, "dp-sgd", "errors"):
        dense, *others = row[key]
        yield [(dense - other) / dense for other in others]


def signal_loss_order(arms: Arms) -> float:
    """Rank correlation of the rate with dense minus frozen signal loss, the mean over the steps: -1 where it falls all along."""
    return statistics.fmean(rank_correlation(_rates(arms), one) for one in _differences(arms, "signal_loss"))


def mean_mse_gain(arms: Arms) -> float:
    """Mean (dense minus frozen) / dense MSE over rates and steps."""
    return statistics.fmean(value for values in _differences(arms, "mse") for value in values)


def norm_spread(arms: Arms) -> float:
    """Mean change of the standard deviation of log10 of the norm by random freeze, after the first epoch."""
    frozen, dense = (_rows(arms, arm, "norms")[1:] for arm in ("freeze", "dp-sgd"))
    return statistics.fmean(a["log10_std"] - b["log10_std"] for a, b in zip(frozen, dense, strict=True))


def inversion_order(arms: Arms) -> float:
    """Rank correlation of the rate with the error of the reconstruction, the noisy gradient without a mask first."""
    row = _rows(arms, "untrained", "inversion")[0]
    return rank_correlation(row["drop_rates"], row["mse"][1:])


# --- layer freezing ---------------------------------------------------------------------------------------------------


def _of_the_same_gradients(arms: Arms, key: str) -> list[float]:
    """Of each layer that stays, log of the value if the others were frozen over that as it is: the mean over the steps."""
    rows = _rows(arms, "dp-sgd", "signals")
    stays = [number for number, value in enumerate(rows[0]["if_frozen"][key]) if value is not None]
    return [
        statistics.fmean(math.log(row["if_frozen"][key][number] / row["as_it_is"][key][number]) for row in rows)
        for number in stays
    ]


def frozen_signal(arms: Arms) -> float:
    """Least change of log |s^B| over the layers that stay, of the same gradients."""
    return min(_of_the_same_gradients(arms, "signal"))


def frozen_clipping_angle(arms: Arms) -> float:
    """Greatest change of log gamma^UB over the layers that stay, of the same gradients."""
    return max(_of_the_same_gradients(arms, "clipping_angle"))


def frozen_noise_angle(arms: Arms) -> float:
    """Greatest change of log gamma^BP over the layers that stay, of the same gradients."""
    return max(_of_the_same_gradients(arms, "noise_angle"))


# --- gradient embedding -----------------------------------------------------------------------------------------------


def noise_slope(arms: Arms) -> float:
    """Slope of log(noise / gradient) over log d, by least squares over the three networks of growing size."""
    rows = [_rows(arms, arm, "noise")[0] for arm in ("small-cnn", "resnet20", "wrn-16-4")]
    sizes = [math.log(row["dim"]) for row in rows]
    ratios = [math.log(row["noise_norm"] / row["gradient_norm"]) for row in rows]
    return statistics.linear_regression(sizes, ratios).slope


TRENDS: dict[str, Callable[[Arms], float]] = {
    one.__name__: one
    for one in (
        signal_loss_order,
        mean_mse_gain,
        norm_spread,
        inversion_order,
        frozen_signal,
        frozen_clipping_angle,
        frozen_noise_angle,
        noise_slope,
    )
}
"""The trends by name."""
