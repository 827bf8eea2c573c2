r"""What is measured, as records: a prediction beside its measurement, what was compared at one step, and a whole result."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training.runs import DpSgdSettings

# --- What a validation measures


@dataclass(frozen=True)
class MeasureSettings:
    """What to measure on each gradient.

    Args:
        keep_shares: the shares k in (0, 1] of entries to keep; K = round(k d).
        draws: number of noise vectors, random masks and Gaussian reference vectors, 2 to 1e9.
        noise_multiplier: sigma, 0 or in [1e-6, 1e6].
        max_grad_norm: the clip C, in [1e-12, 1e12]; the noise has standard deviation sigma C.

    Raises:
        ValueError: a value outside its range, or no keep ratio.

    Example: noise multiplier 2 on gradients clipped to 1.5.
        >>> from dptheory.training.measure import MeasureSettings
        >>> MeasureSettings((0.1, 0.5), draws=100, noise_multiplier=2.0, max_grad_norm=1.5).sum_noise_std
        3.0
    """

    keep_shares: tuple[float, ...]
    _: KW_ONLY
    draws: int
    noise_multiplier: float
    max_grad_norm: float

    @property
    def sum_noise_std(self) -> float:
        """Standard deviation of one entry of Z, the noise on the clipped sum: sigma C."""
        return self.noise_multiplier * self.max_grad_norm

    def __post_init__(self) -> None:
        _validate.store(
            self,
            keep_shares=_argument_ranges.shares("keep_shares", self.keep_shares, ends="(]"),
            draws=_validate.integer("draws", self.draws, 2, 10**9),
            noise_multiplier=_argument_ranges.noise_multiplier("noise_multiplier", self.noise_multiplier),
            max_grad_norm=_argument_ranges.clip("max_grad_norm", self.max_grad_norm),
        )


@dataclass(frozen=True)
class ValidateSettings:
    """How to train, and what to measure at the start, in the middle and at the end.

    Args:
        training: how to train; ``steps`` must be at least ``window`` + 3.
        drop_rate: share of entries that random freeze drops, in (0, 1); rounded to a whole number of entries.
        keep_shares: shares of entries that pruning and ranking keep, each in (0, 1).
        subspace_dims: dimensions k of GEP's subspace, each at least 1 and at most ``anchors``.
        pool: training examples whose gradients are the population that batches are drawn from, >= 2.
        anchors: auxiliary images (test images with random labels) for GEP's subspace, >= 1.
        window: steps that are summed before entries are ranked, >= 1.
        draws: batches, masks and noise vectors per row, 20 to 1e9.

    Example: moments of a run of 101 steps.
        >>> from dptheory.training.runs import DpSgdSettings
        >>> from dptheory.training.measure import ValidateSettings
        >>> ValidateSettings(DpSgdSettings(
        ...     steps=101, batch_size=50, noise_multiplier=2.0, max_grad_norm=1.5, learning_rate=0.1, seed=0)).moments
        {'start': 0, 'middle': 45, 'end': 90}
    """

    training: DpSgdSettings
    _: KW_ONLY
    drop_rate: float = 0.5
    keep_shares: tuple[float, ...] = (0.01, 0.1, 0.5)
    subspace_dims: tuple[int, ...] = (10, 50, 100)
    pool: int = 300
    anchors: int = 256
    window: int = 10
    draws: int = 50

    def __post_init__(self) -> None:
        _validate.instance("training", self.training, DpSgdSettings)
        _validate.real("training.noise_multiplier", self.training.noise_multiplier, 0.0, ends="()")
        _validate.store(
            self,
            window=_argument_ranges.count("window", self.window),
            drop_rate=_validate.real("drop_rate", self.drop_rate, 0.0, 1.0, ends="()"),
            pool=_validate.integer("pool", self.pool, 2, 10**9),
            anchors=_argument_ranges.count("anchors", self.anchors),
            draws=_validate.integer("draws", self.draws, 20, 10**9),
            keep_shares=_argument_ranges.shares("keep_shares", self.keep_shares, ends="()"),
        )
        dims = _validate.integers("subspace_dims", self.subspace_dims, 1, self.anchors)
        _validate.store(self, subspace_dims=tuple(dims))
        if self.training.steps < self.window + 3:
            raise ArgumentError(
                "training.steps",
                f"be at least window + 3 = {self.window + 3}",
                self.training.steps,
            )

    @property
    def clip_norm(self) -> float:
        """C."""
        return self.training.max_grad_norm

    @property
    def sum_noise_std(self) -> float:
        """sigma C, the standard deviation of the noise on an entry of the sum."""
        return self.training.noise_multiplier * self.training.max_grad_norm

    @property
    def moments(self) -> dict[str, int]:
        """Steps at whose weights is measured; the last leaves room for the steps that are ranked, and one after them."""
        last = self.training.steps - self.window - 1
        return {"start": 0, "middle": last // 2, "end": last}

    def stream(self, moment: int) -> int:
        """Independent seed for the measuring at a moment (0, 1, 2), beside the streams of the training."""
        return self.training.stream(10 + moment)


Relation = Literal["equal", "at least", "at most"]

NONE = "none"
GAUSSIAN = "gip.assumption1: Gaussian entries"
LIMIT = 5.0  # standard errors
ROUNDING = 2e-5  # relative; gradients are in float32


@dataclass(frozen=True, kw_only=True)
class Row:
    r"""A number that the theory gives, and the same number as measured on real gradients.

    Attributes:
        group: what it is about.
        quantity: its name.
        setting: rate, share of entries kept, part of the network, ...; "" where there is none.
        claims: ids of the ledger's claims that it rests on.
        predicted, measured: in the same units.
        standard_error: of measured minus predicted, from the random draws; 0 where nothing is drawn. For a statistic of one
            gradient, its standard deviation over Gaussian vectors of the same norm.
        assumption: what real gradients must satisfy for the prediction to be exact, with the claim that assumes it;
            "none" where it holds for any gradients.
        relation: what the measured number should be to the predicted one.
        error: \|predicted - what the theory says\| is at most this, where the calculator gives a bracket and no number; it
            covers what the calculator itself draws, which ``standard_error`` then does not.
        keep: number of the gradient's entries that are kept; None where the row is not about the entries of one gradient.

    Example: four standard errors off, of the five that are allowed.
        >>> from dptheory.training.measure import Row
        >>> row = Row(group="noise", quantity="|Z|^2", claims="gip.norm", predicted=4.0, measured=4.4, standard_error=0.1)
        >>> row.within, round(row.ratio, 3), round(row.standard_errors_off, 1)
        (True, 1.1, 4.0)
    """

    group: str
    quantity: str
    setting: str = ""
    claims: str
    predicted: float
    measured: float
    standard_error: float
    assumption: str = NONE
    relation: Relation = "equal"
    error: float = 0.0
    keep: int | None = None

    @property
    def ratio(self) -> float | None:
        """Measured over predicted; None where the prediction is 0, or within a standard error of it."""
        return self.measured / self.predicted if abs(self.predicted) > self.standard_error else None

    @property
    def standard_errors_off(self) -> float | None:
        """(measured - predicted) / standard_error; None where nothing is left to chance but rounding."""
        if self.standard_error <= 1e-12 * abs(self.measured):
            return None
        return (self.measured - self.predicted) / self.standard_error

    @property
    def reach(self) -> float:
        """Five standard errors, and the error of the prediction itself."""
        return LIMIT * self.standard_error + self.error

    @property
    def within(self) -> bool:
        """Agreement within ``reach`` and rounding."""
        slack = self.reach + ROUNDING * max(abs(self.predicted), abs(self.measured))
        above = self.measured - self.predicted
        if self.relation == "at least":
            return above >= -slack
        if self.relation == "at most":
            return above <= slack
        return abs(above) <= slack

    @property
    def broken(self) -> bool:
        """Needs no assumption, and yet does not agree: a fault of theory or program."""
        return self.assumption == NONE and not self.within


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What the rows of one group have in common."""

    group: str
    claims: str

    def fixed(
        self,
        quantity: str,
        setting: str,
        predicted: float,
        measured: float,
        assumption: str = NONE,
        relation: Relation = "equal",
        *,
        keep: int | None = None,
    ) -> Row:
        """A row in which nothing is left to chance."""
        return Row(
            group=self.group,
            quantity=quantity,
            setting=setting,
            claims=self.claims,
            predicted=float(predicted),
            measured=float(measured),
            standard_error=0.0,
            assumption=assumption,
            relation=relation,
            keep=keep,
        )

    def mean(
        self,
        quantity: str,
        setting: str,
        predicted: ArrayLike,
        draws: ArrayLike,
        assumption: str = NONE,
        relation: Relation = "equal",
        *,
        error: float = 0.0,
        keep: int | None = None,
    ) -> Row:
        """A row whose measurement is the mean of independent draws.

        Args:
            predicted: one number, or one for each draw (given its mask): then only the differences vary by chance.
        """
        drawn, expected = np.asarray(draws, np.float64), np.asarray(predicted, np.float64)
        spread = float((drawn - expected).std(ddof=1) / np.sqrt(drawn.size))
        said = self.fixed(quantity, setting, expected.mean(), drawn.mean(), assumption, relation, keep=keep)
        return replace(said, standard_error=spread, error=error)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What was compared at the weights of one step.

    Attributes:
        name: "start", "middle" or "end".
        step: updates made before.
        batch_size: examples in the step's Poisson batch.
        rows: predictions beside measurements.
        notes: what could not be compared, and why.
    """

    name: str
    step: int
    batch_size: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a validation found.

    Attributes:
        data: the image set.
        train_images, test_images: how many there were.
        settings: how it was trained, and what was measured.
        moments: in the order of their steps.
        accuracy: of the trained network on the test images, in [0, 1].

    Example: one row that agrees, as a summary, a table and a file.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.measure import Moment, Result, Row, ValidateSettings, row_table, summary, to_dict, write_json
        >>> from dptheory.training.runs import DpSgdSettings
        >>> row = Row(group="noise", quantity="|Z|^2", claims="gip.norm", predicted=4.0, measured=4.4, standard_error=0.1)
        >>> settings = ValidateSettings(DpSgdSettings(
        ...     steps=20, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0))
        >>> moment = Moment(name="start", step=0, batch_size=50, rows=(row,))
        >>> result = Result(data="excerpt", train_images=2000, test_images=500, settings=settings, moments=(moment,), accuracy=0.1)
        >>> print(summary(result))
        1 of 1 rows that need no assumption agree within 5 SE; 0 of 0 that rest on one; test accuracy 10.0% on 500 images
        >>> result.broken, row_table(moment).row_count, to_dict(result, torch.device("cpu"))["rows"][0]["within"]
        ([], 2, True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(result, torch.device("cpu"), Path(folder) / "validation.json")
    """

    data: str
    train_images: int
    test_images: int
    settings: ValidateSettings
    moments: tuple[Moment, ...]
    accuracy: float

    @property
    def rows(self) -> list[Row]:
        """Of all moments."""
        return [row for moment in self.moments for row in moment.rows]

    @property
    def broken(self) -> list[tuple[Moment, Row]]:
        """Rows that need no assumption, and yet do not agree."""
        return [(moment, row) for moment in self.moments for row in moment.rows if row.broken]
