"""Attacks on many short trainings with and without a canary: what they prove about epsilon, against what the optimizer says."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dptheory import privacy
from dptheory.training import mechanisms as m
from dptheory.training.audits import _board, _findings, _laws
from dptheory.training.audits._cases import SIZES, Case, mask
from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._measure import foretold

Array = NDArray[np.float64]

_EXAMPLES, _BATCH, _PHYSICAL = 4, 2, 2
_SIGMA, _CLIP, _DELTA = 2.0, 1.3, 1e-2
_HUGE = 1e5


def canary(case: Case, trials: int, seed: int, secure: bool = False) -> Finding:
    """So many trainings in each world; the attacker sees the last weights, and looks at each tensor and at all of them."""
    rng = np.random.default_rng(seed)
    without = np.zeros((_EXAMPLES, sum(SIZES)))  # nothing else moves the weights: the canary shows best
    rows = without.copy()
    rows[0] = _HUGE
    plan = _board.Plan(rows, SIZES, _BATCH, _PHYSICAL, 1, _SIGMA, _CLIP, 0, secure)
    worlds, claimed = [], math.inf
    for given in (rows, without):
        scores = []
        for own in rng.integers(2**31, size=trials):
            trace = _board.train(case.built(None if secure else int(own)), replace(plan, rows=given, seed=int(own)))
            scores.append(_by_tensor(np.sum([step.released for step in trace.seen], axis=0)))
            claimed = min(claimed, trace.report(_DELTA).epsilon)
        worlds.append(np.array(scores))
    level = FALSE_ALARM / worlds[0].shape[1]  # a union over the scores
    bound = max(
        privacy.auditing.audit(scores_with=one, scores_without=other, delta=_DELTA, confidence=1 - level).epsilon_lower
        for one, other in zip(worlds[0].T, worlds[1].T, strict=True)
    )
    statement = "epsilon is at least what an attack proves; the optimizer must not say less"
    return _findings.at_most(f"{case.name}: canary among the examples", statement, bound, claimed)


def _by_tensor(moved: Array) -> Array:
    """How far the weights moved the canary's way: each tensor, and all."""
    return np.array([*(part.sum() for part in np.split(moved, np.cumsum(SIZES)[:-1])), moved.sum()])


def foreseen(
    make: Callable[[int | None], m.PosteriorFreeze],
    dim: int,
    noise_multiplier: float,
    steps: int,
    delta: float,
    trials: int,
    seed: int,
    secure: bool = False,
) -> Finding:
    """A canary that puts its whole gradient where the mask of the step will be, as far as anybody can know beforehand.

    Without it, the sum of what leaves there, over the noise's standard deviation, is N(0, 1): the false positive rate of a
    threshold is known, and smaller still where the mask turns out otherwise.
    """
    case = Case("posterior freeze", make, _laws.clipped_then_masked, shown=mask)
    sizes = (dim // 2, dim - dim // 2)
    threshold = 0.5 + 0.8 * math.sqrt(steps) / noise_multiplier
    plan = _board.Plan(np.zeros((1, dim)), sizes, 1, 1, steps, noise_multiplier, _CLIP, 0, secure)
    hits, claimed = 0, math.inf
    for own in np.random.default_rng(seed).integers(2**31, size=trials):
        masks = foretold(case, plan, None if secure else int(own), [np.zeros(dim)] * steps)

        def gradient(step: int, masks: list[Array] = masks) -> Array:
            return _HUGE * masks[step]

        trace = _board.train(case.built(None if secure else int(own)), replace(plan, seed=int(own), canary=gradient))
        units = [step.released @ hot / np.linalg.norm(hot) for step, hot in zip(trace.seen, masks, strict=True)]
        hits += int(np.sum(units) / (noise_multiplier * _CLIP * math.sqrt(steps)) > threshold)
        claimed = min(claimed, trace.report(delta).epsilon)
    false_rate = float(norm.sf(threshold))
    bound = privacy.auditing.bound_at_known_rate(
        hits=hits, trials=trials, false_rate=false_rate, delta=delta, confidence=1 - FALSE_ALARM
    )
    statement = "epsilon is at least what a canary proves that knows the masks which its seed foretells"
    return _findings.at_most("posterior freeze: masks foreseen", statement, bound, claimed)
