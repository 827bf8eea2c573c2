"""One prediction beside its measurement, and what counts as agreement."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Relation = Literal["equal", "at least", "at most"]

NONE = "none"
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
        standard_error: of measured minus predicted, from the random draws; 0 where nothing is drawn.
        assumption: what real gradients must satisfy for the prediction to be exact, with the claim that assumes it;
            "none" where it holds for any gradients.
        relation: what the measured number should be to the predicted one.
        error: \|predicted - what the theory says\| is at most this, where the calculator gives a bracket and no number; it
            covers
            what the calculator itself draws, which ``standard_error`` then does not.

    Example: four standard errors off, of the five that are allowed.
        >>> from dptheory.training.validate import Row
        >>> row = Row(group="noise", quantity="|Z|^2", setting="", claims="gip.norm", predicted=4.0, measured=4.4,
        ...     standard_error=0.1)
        >>> row.within, round(row.ratio, 3)
        (True, 1.1)
    """

    group: str
    quantity: str
    setting: str
    claims: str
    predicted: float
    measured: float
    standard_error: float
    assumption: str = NONE
    relation: Relation = "equal"
    error: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Measured over predicted; None where the prediction is 0."""
        return self.measured / self.predicted if self.predicted else None

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
    ) -> Row:
        """A row whose measurement is the mean of independent draws.

        Args:
            predicted: one number, or one for each draw (given its mask): then only the differences vary by chance.
            error: of the prediction, see :class:`Row`.
        """
        drawn, expected = np.asarray(draws, np.float64), np.asarray(predicted, np.float64)
        spread = float((drawn - expected).std(ddof=1) / np.sqrt(drawn.size))
        return Row(
            group=self.group,
            quantity=quantity,
            setting=setting,
            claims=self.claims,
            predicted=float(expected.mean()),
            measured=float(drawn.mean()),
            standard_error=spread,
            assumption=assumption,
            relation=relation,
            error=error,
        )
