"""Many short trainings under attack, and trainings that stop and go on: what they prove about epsilon."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from dptheory import privacy
from dptheory.training import mechanisms as m
from dptheory.training.audits import _board, _epsilons, _findings, _laws
from dptheory.training.audits._board import Array
from dptheory.training.audits._cases import CLIP, SIGMA, SIZES, Case, mask
from dptheory.training.audits._findings import FALSE_ALARM, Finding
from dptheory.training.audits._measure import DELTA, foretold
from dptheory.training.engine import MechanismOptimizer

# --- A training that is stopped three times and goes on from its state each time, in a new optimizer as in a new process


_LIVES = 4
_RELEASE = privacy.Step(noise_multiplier=0.5, sampling_rate=1.0, count=1)
"""Of statistics, before the first step."""


def resumed(plan: _board.Plan) -> list[Finding]:
    """What the account of the last life says of all of them, and whether a life draws the noise of an earlier one again."""
    plan = replace(plan, rows=np.zeros_like(plan.rows), epochs=1)
    saved = b""
    lives: list[_board.Trace] = []
    for life in range(_LIVES):

        def begin(optimizer: MechanismOptimizer, saved: bytes = saved, first: bool = life == 0) -> None:
            if first:
                optimizer.accountant.record_release(_RELEASE)
            else:
                optimizer.load_state_dict(_read(saved))

        trace = _board.train(m.DpSgd(), plan, begin)
        saved = _written(trace.state())
        lives.append(trace)
    name = f"three resumes{', secure' if plan.secure else ''}"
    told, updates = lives[-1].report(DELTA), sum(len(trace.seen) for trace in lives)
    one = _epsilons.gaussian(SIGMA, told.sampling_rate)
    least = one.self_compose(updates).compose(_epsilons.gaussian(_RELEASE.noise_multiplier, 1.0))
    epsilon = float(least.get_epsilon_for_delta(DELTA))
    noise = [trace.seen[0].released / (SIGMA * CLIP) for trace in lives]
    pairs = [(one, other) for place, one in enumerate(noise) for other in noise[place + 1 :]]
    return [
        _findings.at_least(
            f"{name}: steps", "the account has a step for every update of every life", told.steps, updates
        ),
        _findings.equal(
            f"{name}: releases", "what was released before the first step stays released", len(told.releases), 1
        ),
        _findings.at_least(
            f"{name}: epsilon",
            "epsilon is at least that of all steps and releases, by another library",
            told.epsilon,
            epsilon,
            1e-6 * epsilon,
        ),
        _findings.uncorrelated(f"{name}: fresh noise", "no life begins with the noise of another", pairs),
    ]


def gone_back(plan: _board.Plan) -> list[Finding]:
    """A training that goes back to the state of its first pass, in the same optimizer: no step is forgotten, no noise comes again."""
    plan = replace(plan, rows=np.zeros_like(plan.rows))
    model, mechanism = _board.Board(plan.sizes), m.DpSgd()
    with _board.quiet():
        made = _board.private(model, mechanism, plan)
        optimizer = made[1]
        passes = [_board.pass_over(model, mechanism, plan, made)]
        saved = _written(optimizer.state_dict())
        passes.append(_board.pass_over(model, mechanism, plan, made))
        optimizer.load_state_dict(_read(saved))
        passes.append(_board.pass_over(model, mechanism, plan, made))
    name = f"going back{', secure' if plan.secure else ''}"
    updates = sum(len(seen) for seen in passes)
    _, once, again = (np.concatenate([step.released for step in seen]) / (SIGMA * CLIP) for seen in passes)
    return [
        _findings.at_least(f"{name}: steps", "no step is forgotten", optimizer.privacy(DELTA).steps, updates),
        _findings.uncorrelated(f"{name}: fresh noise", "what is made again has noise of its own", [(once, again)]),
    ]


def _written(state: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _read(saved: bytes) -> dict[str, Any]:
    """As what a file holds that runs no code."""
    found: dict[str, Any] = torch.load(io.BytesIO(saved), weights_only=True)
    return found


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
