"""RF: raising the noise that a mask has saved, to run longer."""

import math
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs._kappa_cases import calculated, exact_kappa_of
from dptheory.claims.rs._learning_rate import least_over_rates


def _raised_ratio(x: float, kappa: float, noise: float) -> float:
    """Tuned bound with the mask, T / x steps and noise D / x, over that without; A = 1."""
    raised = sparsification.tuned_bound(1 - x, kappa, 1.0, 100.0 / x, 1.0, noise / x).bound
    return raised / sparsification.tuned_bound(0.0, 1.0, 1.0, 100.0, 1.0, noise).bound


def _pays_by_search(x: float, kappa: float, noise: float) -> bool:
    """The two bounds, each minimised over the learning rate by a search; x D / x = D."""
    raised = least_over_rates(1.0 + noise, 1.0, 100.0 / x) / kappa
    return raised < least_over_rates(1.0 + noise, 1.0, 100.0) * (1 - 1e-9)


def _same_probability_slack(second: float, third: float, keep: int, scale: float, noise: float) -> float:
    """No deviation, so P' = P: raising the noise never pays."""
    w = np.array([1.0, second, third, second])
    found = sparsification.kappa(0.25 * scale * w / np.linalg.norm(w), 1.0, 1 - keep / 4)
    return _raised_ratio(keep / 4, found.value, noise) - 1


def _free_mask_slack(second: float, third: float, keep: int, scale: float, noise: float) -> float:
    """Wrong statement: the same if the mask cost no descent (kappa = 1)."""
    return _raised_ratio(keep / 4, 1.0, noise) - 1


def _more_steps_slack(rate: float, noise_multiplier: float) -> float:
    """By the central limit theorem of subsampled composition T grows by (e^a - 1) / (e^(x a) - 1) >= 1 / x, a = 1 / sigma^2."""
    a = noise_multiplier**-2
    return math.expm1(a) / math.expm1((1 - rate) * a) * (1 - rate) - 1


def _fewer_steps_slack(rate: float, noise_multiplier: float) -> float:
    """Wrong statement: it grows by 1 / x^2."""
    return (_more_steps_slack(rate, noise_multiplier) + 1) * (1 - rate) - 1


_RAISE = Claim(
    id="rf.raise_noise",
    title="raising the noise to run longer",
    source=Source("rf", "section 2.2, after Fig. 1"),
    statement=r"Raise the noise until $E\|m\odot\xi^+\|$ equals $E\|\xi\|$ and run more steps on the same privacy budget: this implies better "
    r"convergence by Theorem 2.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "kappa > sqrt(1 - r), at the tuned learning rate with zero bias",
        "sigma^+ = sigma / sqrt(1 - r) (equal mean squares) and T^+ = T / (1 - r) (zero-concentrated DP, no subsampling)",
        "with subsampling: the central limit theorem of Bu, Dong, Long and Su, cited, not proved here, an approximation for many steps",
        "the conditions of Theorem 2: a fresh mask, no momentum",
    ),
    correction=r"With $x = 1-r$: the tuned bound becomes $\sqrt x/\kappa$ times that without a mask, whatever the noise. It improves iff "
    r"$\kappa > \sqrt x$; never where $P' = P$. With subsampling iff $\kappa > \sqrt{T/T^+}$; by the cited limit theorem "
    r"$T^+ \ge T/x$, and then $P' = P$ does not exclude a gain.",
    calculators=(sparsification.tuned_bound,),
    checks=(
        ExactCheck(
            name="better or not, by search over the learning rate",
            cases=lambda: [
                (x, f * math.sqrt(x), n) for x in (0.1, 0.5) for f in (0.5, 0.99, 1.01, 1.4) for n in (0.0, 3.0, 1e4)
            ],
            truth=_pays_by_search,
            statement=lambda x, kappa, n: _raised_ratio(x, kappa, n) < 1 and kappa > math.sqrt(x),
            wrong=lambda x, kappa, n: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="ratio of the bounds where kappa is x, 1/2, 1, 2",
            cases=lambda: [
                (name, n)
                for name in (
                    "one entry, no deviation",
                    "equal entries, no deviation",
                    "equal entries, P = 1/2",
                    "equal entries, P = 1/4",
                )
                for n in (0, 10)
            ],
            truth=lambda name, n: Fraction(1, 2) / exact_kappa_of(name),
            statement=lambda name, n: _raised_ratio(0.25, calculated(name).value, n),
            wrong=lambda name, n: Fraction(1, 2),
            tolerance=1e-12,
        ),
        SearchCheck(
            name="never better where P' = P",
            box={
                "second": Range(0, 1),
                "third": Range(0, 1),
                "keep": Range(1, 4, integer=True),
                "scale": Range(0.01, 100, log=True),
                "noise": Range(1e-3, 1e9, log=True),
            },
            slack=_same_probability_slack,
            wrong=_free_mask_slack,
        ),
        SearchCheck(
            name="by the limit theorem subsampling buys at least 1 / (1 - r) times the steps",
            box={"rate": Range(0, 0.999), "noise_multiplier": Range(0.3, 100, log=True)},
            slack=_more_steps_slack,
            wrong=_fewer_steps_slack,
        ),
    ),
    proved=True,
)

CLAIMS = (_RAISE,)
