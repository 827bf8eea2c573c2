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
        """In plain words, one sentence per line; all figures are rounded to the attacker's side."""
        found, right = _percent(self.true_positive_rate_upper), _percent((1.0 + self.advantage_upper) / 2)
        rate = f"{100 * self.false_positive_rate:.3g} %"
        if self.replaced:
            lines = (
                f"Of the runs on the one record, {rate} are taken for runs on the other.",
                f"The best attacker then finds at most {found} of the runs on the other.",
                f"No test of which of two records was used is right more often than {right} of the time, both being as likely.",
            )
        else:
            lines = (
                f"Of the records that were not in the data, {rate} are accused.",
                f"The best attacker then finds at most {found} of those that were.",
                f"No test of one record is right more often than {right} of the time, both answers being as likely.",
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
