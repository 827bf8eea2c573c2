import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _worst_case

row = new_row(
    id="rs.least_gradient",
    source=Source("rs", "new, on Theorem 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.least_gradient_bound,),
)


def _setting(gamma: float, G: float, r: float, T: int, energy: float, gap: float) -> dict[str, Any]:
    return {
        "objective_gap": gap,
        "learning_rate": gamma,
        "steps": T,
        "smoothness": G,
        "sum_noise_std": math.sqrt(energy / 4),
        "dim": 4,
        "batch_size": 1,
        "drop_rate": r,
        "sampling": "fixed",
    }


def _bound(gamma: float, G: float, r: float, T: int, energy: float = 0.0, gap: float = 1.0) -> float:
    return convergence.least_gradient_bound(**_setting(gamma, G, r, T, energy, gap))


def _mean(gamma: float, G: float, r: float, T: int, energy: float = 0.0, gap: float = 1.0) -> float:
    return convergence.noisy_sgd_bound(**_setting(gamma, G, r, T, energy, gap)).value


@row.equal(*((Fraction(g, 10), T) for g in (1, 5, 10) for T in (1, 2, 7, 1000)), tolerance=1e-12)
def _(gamma: Fraction, T: int) -> Sides:
    """attained by a zigzag gradient without mask and noise, in fractions"""

    # gradient -1 at every iterate, slopes -1 and 1 in between, 1 after the last: what a step lowers, triangle by triangle
    def least() -> Fraction:
        gap = (T - 1) * (gamma - 2 * (gamma / 2) ** 2 / 2) + Fraction(1, 2)
        return 1 / gap

    return _bound(float(gamma), 1.0, 0.0, T), least, _mean(float(gamma), 1.0, 0.0, T) * (1.0 if T > 1 else 1.01)


row.certificate(
    (0.5, 1.0, 0.0, 2, 0.0),
    (0.4, 2.0, 0.0, 4, 0.0),
    problem=_worst_case.least_run,
    wrong=_mean,
    name="worst case without mask and noise over smooth functions",
)(_bound)


row.certificate(
    (0.5, 1.0, 0.5, 3, 0.0),
    (0.5, 2.0, 0.5, 3, 0.0),
    (0.5, 1.0, 0.5, 2, 1.0),
    (0.5, 1.0, 0.0, 3, 1.0),
    problem=_worst_case.least_run,
    wrong=lambda *case: 0.9 * _bound(*case),
    looseness=0.07,
    name="at most 7 % above the worst case of two and three steps with mask or noise",
)(_bound)


_USERS: tuple[dict[str, Any], ...] = (
    {
        "learning_rate": 0.3,
        "steps": 5,
        "smoothness": 2.0,
        "deviation_norm": 1.0,
        "sum_noise_std": 2.0,
        "dim": 10,
        "batch_size": 4,
        "drop_rate": 0.5,
    },
    {
        "learning_rate": 0.02,
        "steps": 3000,
        "smoothness": 1.0,
        "deviation_norm": 2.0,
        "sum_noise_std": 0.5,
        "dim": 550_000,
        "batch_size": 1024,
    },
    {
        "learning_rate": 0.9,
        "steps": 20_000,
        "smoothness": 1.0,
        "sum_noise_std": 0.01,
        "dim": 10**6,
        "batch_size": 512,
        "drop_rate": 0.9,
    },
    {"learning_rate": 1e-3, "steps": 10**6, "smoothness": 5.0, "drop_rate": 0.99},
)


@row.equal(*((number, rate) for number in range(len(_USERS)) for rate in (None, 0.02, "fixed")), tolerance=1e-7)
def _(number: int, rate: float | str | None) -> Sides:
    """the least over s, searched, at the sizes of the papers"""
    one = {"objective_gap": 2.3, **_USERS[number]}
    how: dict[str, Any] = {"sampling": "fixed"} if rate == "fixed" else {"sampling_rate": rate}
    found = convergence.least_gradient_bound(**one, **how)

    def searched() -> float:
        share = 1 / one.get("batch_size", 1) * (1 - (rate or 0.0) if rate != "fixed" else 1)  # type: ignore[operator]
        move, x = one["learning_rate"] * one["smoothness"], 1 - one.get("drop_rate", 0.0)
        square = 1.0 if rate == "fixed" else 1 + share
        V = (
            share * one.get("deviation_norm", 0.0) ** 2
            + one.get("dim", 1) * (one.get("sum_noise_std", 0.0) / one.get("batch_size", 1)) ** 2
        )
        n = one["steps"] - 1

        def value(s: float) -> float:
            # the sum of a_t and a_{t+1} times alpha(s) and beta(s), as in step 3
            alpha = x * move / 2 + (1 - s) / 4 + s * x * move / 2 - (1 + s) * x * move**2 * square / 4
            after = (1 - 1 / s) / 4
            noise = (1 + s) * x * move**2 * V / 4
            return float((one["smoothness"] * one["objective_gap"] + n * noise) / (0.5 + n * (alpha + after)))

        longest = 1 / math.sqrt(1 - x * move * (2 - square * move))
        best = scipy.optimize.minimize_scalar(
            value, bounds=(1.0, longest), method="bounded", options={"xatol": 1e-12}
        ).fun
        return float(min(2 * one["smoothness"] * one["objective_gap"], best, value(1.0)))

    return found, searched, 1.01 * found


def _slack(steps: float, gamma: float, rate: float, spread: float, curvature: float, scale: float = 1.0) -> float:
    """Relative slack against the least expected square on a quadratic with curvatures (curvature, 1)."""
    steps = round(steps)
    moments = convergence.fresh_mask_moments(
        [curvature, 1.0], start=np.ones(2), steps=steps, learning_rate=gamma, drop_rate=rate, variance=spread
    )
    bound = convergence.least_gradient_bound(
        objective_gap=(curvature + 1) / 2,
        learning_rate=gamma,
        steps=steps,
        smoothness=1.0,
        sum_noise_std=math.sqrt(spread),
        dim=2,
        batch_size=1,
        drop_rate=rate,
        sampling="fixed",
    )
    return scale * bound / float((moments[:-1] @ [curvature**2, 1.0]).min()) - 1


def _halved(**point: float) -> float:
    return _slack(**point, scale=0.5)


row.inequality(
    {
        "steps": Range(1, 200, log=True),
        "gamma": Range(0.02, 1.9, log=True),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=_halved,
    name="bound above the least square on quadratics",
)(_slack)


@row.equal((0.5,), (1.79,), (20.0,), tolerance=1e-4)
def _(run_length: float) -> Sides:
    """small steps, against the worst case of the mean"""
    gamma = 1e-6
    run: dict[str, Any] = {
        "objective_gap": 1.0,
        "learning_rate": gamma,
        "steps": round(run_length / (gamma * (2 - gamma))),
        "smoothness": 1.0,
        "sampling": "fixed",
    }
    gain = convergence.least_gradient_bound(**run) / convergence.noisy_sgd_bound(**run).value
    return run_length / (-math.expm1(-run_length) * (1 + run_length)), gain, 1.0
