"""What the best attacker can do, in numbers and in plain words."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """What an attacker can do who knows all but whether one record was in the data (or which of two it was).

    Attributes:
        false_positive_rate: share of the records outside the data that the attacker accuses.
        true_positive_rate_lower: some attack finds at least this share of those in the data, in the worst case.
        true_positive_rate_upper: no attack finds more than this share.
        advantage_lower: some attack's true positive rate exceeds its false positive rate by at least this.
        advantage_upper: no attack's does by more than this.
        replaced: the record is one of two, not in or out.
    """

    false_positive_rate: float
    true_positive_rate_lower: float
    true_positive_rate_upper: float
    advantage_lower: float
    advantage_upper: float
    replaced: bool = False

    def __str__(self) -> str:
        """In plain words, one line of each half; all figures are rounded to the attacker's side."""
        found, right = _percent(self.true_positive_rate_upper), _percent((1.0 + self.advantage_upper) / 2)
        rate = f"{100 * self.false_positive_rate:.3g} %"
        if self.replaced:
            lines = (
                f"An attacker who takes {rate} of the runs on the one record for runs on the other",
                f"finds at most {found} of the runs on the other.",
                f"At even odds, nobody tells which of two records was used in more than {right} of cases.",
            )
        else:
            lines = (
                f"An attacker who accuses {rate} of the records that were not in the data",
                f"finds at most {found} of those that were.",
                f"At even odds, nobody tells whether a record was in the data in more than {right} of cases.",
            )
        return "\n".join(lines)


def _percent(share: float) -> str:
    """A share, rounded up to a tenth of a percent (of small ones to two digits)."""
    percent = 100 * share
    digits = 1 if percent >= 1 else 3
    rounded = round(percent, digits)
    if rounded < percent:
        rounded += 10.0**-digits
    return f"{min(rounded, 100.0):.{digits}f} %"
