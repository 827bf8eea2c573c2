"""A training that is stopped three times and goes on from its state each time, in a new optimizer as in a new process."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dptheory import privacy
from dptheory.training import mechanisms as m
from dptheory.training.audits import _board, _epsilons, _findings
from dptheory.training.audits._cases import CLIP, SIGMA
from dptheory.training.audits._findings import Finding
from dptheory.training.audits._measure import DELTA
from dptheory.training.engine import MechanismOptimizer

_LIVES = 4
_RELEASE = privacy.Step(noise_multiplier=0.5, sampling_rate=1.0, count=1)
"""Of statistics, before the first step."""


def resumed(plan: _board.Plan) -> list[Finding]:
    """What the account of the last life says of all of them, and whether a life draws the noise of an earlier one again.

    Args:
        plan: of one life; its gradients are not needed. Each begins with generators of its seed, and takes over the state.
    """
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
    """A training that goes back to the state of its first pass, in the same optimizer: no step is forgotten, no noise comes again.

    Args:
        plan: of the passes; its gradients are not needed.
    """
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
