"""RF: convergence of DP-SGD with random freeze."""

import dataclasses

from dptheory import convergence
from dptheory.checks import ExactCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _clipped_bounds as clipped
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _runs
from dptheory.claims.rs._enumeration import Settings, two_point

_SAMPLING = "the batch has B examples; for Poisson batches divided by their expected size B = qN it fails unless C^2 is C^2 (1 + (1 - q)/B)"

_FRESH = (
    "a fresh mask at every step, independent of the iterate: with one mask held for many steps the bound fails",
    "no momentum",
    "the left side in expectation over the iterates",
    "the auxiliary law is symmetric given the iterate",
    "kappa is the mean of kappa_t weighted by the terms of the left side",
    "L is G-smooth and bounded below",
    _SAMPLING,
)

_Z = 0.25  # P(|xi| < C/4) and min(|w|, 3C/4)


def _slack(**point: float) -> float:
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))


def _maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))


def _without_freeze(s: Settings) -> float:
    found = enumeration.run(s)
    return _runs.theorem_bound(s, found, found.gap, None, 0.0).value


_THM2 = Claim(
    id="rf.thm2",
    title="convergence of random freeze",
    source=Source("rf", "Theorem 2", (4, 5, *range(40, 70))),
    statement=r"For some $\kappa\ge1-r$, $\frac1T\sum_tP_{\tilde p_t}(|\xi_t|<\frac C4)h(\nabla w_t)|\nabla w_t|\le\frac1\kappa"
    r"(\frac{\Delta_L}{\gamma T}+\gamma\Delta_C+(1-r)\gamma\Delta_{DP}-\frac1T\sum_tE_m[b_t])$, $h(v) = \min(|v|,\frac{3C}4)$; "
    r"freezing scales the noise term by $(1-r)/\kappa<1$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(*_FRESH, "fresh noise, independent of iterate, batch and mask"),
    correction=r"Holds with a fresh mask and $\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\ge1-r$, $Q_t$ the terms of the left side; $(1-r)/\kappa\le1$, with "
    r"equality e.g. where $|\nabla w_t|\le\frac{3C}4$ and there is no deviation. With one mask held for all steps it fails.",
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
    checks=(
        clipped.held_mask_check(),
        clipped.poisson_check(),
        clipped.closed_range_check(_Z),
        clipped.terms_check(_runs.NOISY[:3]),
        clipped.largest_moment_check(),
        clipped.equality_check(
            (
                Settings((0.2, -0.1), two_point(0.3, 0.2), clip=9.0, steps=3, noise_std=0.05, z=_Z),
                Settings((2.0, 1.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, noise_std=0.1, z=_Z),
            )
        ),
        ExactCheck(
            name="no freeze: the bound of DP-SGD",
            cases=lambda: [(s,) for s in _runs.PLAIN],
            truth=lambda s: (
                enumeration.run(s).gap / (s.learning_rate * s.steps)
                + s.learning_rate * s.smoothness / 2 * enumeration.run(s).second_moment
            ),
            statement=_without_freeze,
            wrong=lambda s: _without_freeze(s) + s.learning_rate * s.smoothness / 2 * s.clip**2,
            tolerance=1e-12,
        ),
        SearchCheck(
            name="inequality, any two-point deviation",
            box={**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)},
            slack=_slack,
            wrong=_maskless_slack,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_THM2,)
