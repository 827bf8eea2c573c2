"""What is measured on a traced training, each statement a finding."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from dptheory.errors import ArgumentError
from dptheory.training.audits import _board, _draws, _epsilons, _findings, _laws
from dptheory.training.audits._board import Array
from dptheory.training.audits._cases import Case, Counted
from dptheory.training.audits._findings import Finding

DELTA = 1e-5
_ROUNDING = 1e-3
"""Of a released entry in units of C, generously: sums of float32."""
_UNMOVED = 2
"""Entries of a step whose release may round to nothing beside the weight that it moves: of a thousand, one in 3,000 steps does."""
_NEAR_TIES = 0.01
"""Share of a mask that may turn out otherwise, because releases are seen with rounding errors."""


def measure(case: Case, plan: _board.Plan, seed: int) -> list[Finding]:
    """Train once, and hold sampling, noise, masks and the account against what is stated."""
    trace = _board.train(case.built(None if plan.secure else seed), plan)
    found = [*sampling(trace), *release(case, trace), *account(case, trace), *schedule(case, trace)]
    if case.counted is not None:
        found += counts(case.counted, trace)
    if case.fresh:
        found += fresh_masks(trace)
    if case.shown is not None and not plan.secure:
        found.append(replayed(case, trace, seed))
    return _findings.named(case.name, found)


def sampling(trace: _board.Trace) -> list[Finding]:
    """The loader's batches against the rate that the account rests on."""
    return _draws.law([step.drawn for step in trace.seen], len(trace.plan.rows), trace.report(DELTA).sampling_rate)


def release(case: Case, trace: _board.Trace) -> list[Finding]:
    """Every release against its law: its noise has the stated size on each tensor, is Gaussian and always new."""
    plan = trace.plan
    rows = [plan.rows[step.drawn] for step in trace.seen]
    found = [
        case.law(step, own, plan.clip_norm, plan.noise_multiplier) for step, own in zip(trace.seen, rows, strict=True)
    ]
    scores = np.array([law.scores(step.released) for law, step in zip(found, trace.seen, strict=True)])
    silent = max(law.silent(step.released) for law, step in zip(found, trace.seen, strict=True))
    tensors = np.split(scores, np.cumsum(plan.sizes)[:-1], axis=1)
    result = [
        _findings.at_most(
            "silence", "nothing is released where the mechanism says so", silent, _ROUNDING * plan.clip_norm
        )
    ]
    known = scores[~np.isnan(scores)]
    result.append(_findings.spread("noise", "the release less the clipped sum is the stated noise", known))
    result.append(
        _findings.normal("law of the noise", "the noise is Gaussian with the stated standard deviation", known)
    )
    each = [own[~np.isnan(own)] for own in scores]
    result.append(_findings.spread_of_each("noise of each step", "no step has more or less noise than another", each))
    for place, part in enumerate(tensors):
        own = part[~np.isnan(part)]
        result.append(_findings.spread(f"noise on tensor {place}", "each tensor has the stated noise", own))
    result.append(
        _findings.uncorrelated(
            "fresh noise",
            "noise differs from step to step, from tensor to tensor and from entry to entry",
            _pairs(tensors),
        )
    )
    if case.choice is not None:
        totals = [_laws.clipped(own, plan.clip_norm).sum(0) for own in rows]
        counts = [case.choice(total, step.released) for total, step in zip(totals, trace.seen, strict=True)]
        result.append(_counted("choice of entries", "entries are chosen with the stated probability", counts))
    return result


def _pairs(tensors: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Scores that must have nothing to do with each other: of two steps, of two tensors, of two entries."""
    pairs = [(part[:-1], part[1:]) for part in tensors]
    pairs += [(part[:, :-1], part[:, 1:]) for part in tensors]
    for place, part in enumerate(tensors):
        for other in tensors[place + 1 :]:
            width = min(part.shape[1], other.shape[1])
            pairs.append((part[:, :width], other[:, :width]))
    chosen = []
    for one, other in pairs:
        both = ~np.isnan(one) & ~np.isnan(other)
        if both.any():
            chosen.append((one[both], other[both]))
    return chosen


def fresh_masks(trace: _board.Trace) -> list[Finding]:
    """Masks that are drawn anew apart from all data hit large entries of the private sum, and each other, as chance has it."""
    large, overlaps = [], []
    for step, following in zip(trace.seen, (*trace.seen[1:], None), strict=True):
        kept = step.kept > 0
        total = np.abs(_laws.clipped(trace.plan.rows[step.drawn], trace.plan.clip_norm).sum(0))
        hot = total > np.median(total)
        large.append((float((kept & hot).sum()), *_hypergeometric(kept.size, int(hot.sum()), int(kept.sum()))))
        if following is not None:
            then = following.kept > 0
            overlaps.append((float((kept & then).sum()), *_hypergeometric(kept.size, int(then.sum()), int(kept.sum()))))
    return [
        _counted("mask and data", "the mask keeps large entries of the private sum no more often than others", large),
        _counted("fresh masks", "the mask of a step has nothing to do with that of the step before", overlaps),
    ]


def counts(counted: Counted, trace: _board.Trace) -> list[Finding]:
    """The noisy counts that the moves of the clip show, less the votes of the examples."""
    plan, scores = trace.plan, []
    for step in trace.seen:
        rows, clips = plan.rows[step.drawn] * step.kept, step.moving_clips()
        noise = counted.released(clips) - counted.votes(rows, clips[0])
        scores.append(noise / counted.std(plan.noise_multiplier))
    known = np.array(scores)
    return [
        _findings.spread("noise on the count", "the count that moves the clip has the stated noise", known),
        _findings.normal("law of the noise on the count", "it is Gaussian with the stated standard deviation", known),
    ]


def _hypergeometric(size: int, marked: int, drawn: int) -> tuple[float, float]:
    """Mean and variance of the number of marked entries among those drawn."""
    share = marked / size
    return drawn * share, drawn * share * (1 - share) * (size - drawn) / (size - 1)


def _counted(name: str, statement: str, counts: Sequence[tuple[float, float, float]]) -> Finding:
    """A sum of independent counts against its mean and variance; normal, as there are many."""
    total, mean, variance = np.sum(counts, axis=0)
    score = (total - mean) / math.sqrt(variance) if variance > 0 else math.inf
    return _findings.standardised(name, statement, float(total), float(mean), float(score if total != mean else 0.0))


def replayed(case: Case, trace: _board.Trace, seed: int) -> Finding:
    """Another mechanism of the same seed, which is shown the releases and no data, must have the same masks and bases."""
    shown = foretold(case, trace.plan, seed, [step.released for step in trace.seen])
    seen = [step.bases if step.bases.size else step.kept for step in trace.seen]
    differ = sum(int(np.mean(np.abs(a - b) > _ROUNDING) > _NEAR_TIES) for a, b in zip(shown, seen, strict=True))
    return _findings.equal("what is public", "masks and bases follow from the seed and the releases alone", differ, 0.0)


def foretold(case: Case, plan: _board.Plan, seed: int | None, releases: Sequence[Array]) -> list[Array]:
    """Masks or bases of every step, by a mechanism of this seed that sees the releases of the steps before and no data."""
    if case.shown is None:
        raise ArgumentError("case", "show a mask or bases", case, got=f"{case.name}")
    mechanism, model = case.built(seed), plan.board(plan.sizes)
    params = [p.detach() for p in model.parameters()]
    shown = []
    for released in releases:
        mechanism.begin_step(params)
        shown.append(case.shown(mechanism))
        nothing = mechanism.contribute([torch.zeros(1, *p.shape) for p in params], plan.clip_norm).total
        mechanism.release(
            nothing,
            noise_multiplier=plan.noise_multiplier,
            clip_norm=plan.clip_norm,
            noise=lambda like, std: torch.zeros_like(like),
        )
        pieces = torch.split(torch.from_numpy(released).float(), list(plan.sizes))
        mechanism.end_step(
            [piece.view_as(p) for piece, p in zip(pieces, params, strict=True)], plan.noise_multiplier * plan.clip_norm
        )
    return shown


def account(case: Case, trace: _board.Trace) -> list[Finding]:
    """Steps and epsilon of the account against the updates that were seen and another library's accountant."""
    told, updates = trace.report(DELTA), len(trace.seen)
    shares = tuple(float(step.kept.mean()) for step in trace.seen) if case.amplified and trace.plan.secure else ()
    least = _epsilons.epsilon(trace.plan.noise_multiplier, told.sampling_rate, updates, DELTA, shares)
    statement = "epsilon is at least that of the noisy sums, by the privacy loss distribution of another library"
    found = [
        _findings.at_least("steps", "the account has a step for every update", told.steps, updates),
        _findings.at_least("epsilon", statement, told.epsilon, least, 1e-6 * least),
    ]
    if case.index is None:
        return found
    size, theta = case.index
    groups = trace.plan.rows.shape[1] // size
    least = _epsilons.of_choices(
        size=size,
        theta=theta,
        groups=groups,
        keeps=[round(float(step.kept.sum()) / groups) for step in trace.seen],
        sampling_rate=told.sampling_rate,
        delta=DELTA,
    )
    statement = "epsilon is at least that of the index sets alone, each of as many entries as left in its step"
    return [*found, _findings.at_least("epsilon of the choices", statement, told.epsilon, least, 1e-6 * least)]


def schedule(case: Case, trace: _board.Trace) -> list[Finding]:
    """The share of the entries that leaves at every step, against the one stated for it."""
    found = []
    if case.share is not None:
        lacking = [round(case.share(place) * step.kept.size) - step.kept.sum() for place, step in enumerate(trace.seen)]
        differ = sum(not 0 <= few <= _UNMOVED for few in lacking)
        statement = "every step releases the share of the entries that is stated for it"
        found.append(_findings.equal("entries of each step", statement, differ, 0.0))
    if case.returns:
        kept = np.array([step.kept for step in trace.seen]) > 0
        back = np.any(~kept[:-1] & kept[1:], axis=0)
        statement = "entries that a mask has left out come back: they are ranked by noise"
        found.append(_findings.at_least("entries that come back", statement, float(back.sum()), 1.0))
    return found


def sensitivity(case: Case, plan: _board.Plan, seed: int) -> list[Finding]:
    """Trainings on all examples that differ in one huge gradient: zeroed, or, with a stated rate and divisor, taken out.

    Masks, bases and noise are the same. How far a release moves, in units of its noise.
    """
    whole = replace(plan, batch_size=len(plan.rows))
    stated = replace(whole, sampling_rate=1.0)
    pairs: tuple[tuple[str, _board.Plan, _board.Plan], ...] = (
        ("zeroed", whole, whole.changed(_zeroed)),
        ("taken out", stated, stated.changed(lambda rows: rows[1:])),
    )
    if case.counted is not None:  # later steps differ by the clip, which both worlds are to have alike
        pairs = tuple((how, replace(one, epochs=1), replace(other, epochs=1)) for how, one, other in pairs)
    statement = "one example moves a release by 1 / sigma at most, in units of the noise"
    return [
        _findings.at_most(
            f"{case.name}: sensitivity to an example {how}",
            statement,
            _farthest(case, one, other, seed),
            1 / plan.noise_multiplier,
            _ROUNDING / plan.noise_multiplier,
        )
        for how, one, other in pairs
    ]


def _zeroed(rows: Array) -> Array:
    found = rows.copy()
    found[0] = 0.0
    return found


def _farthest(case: Case, plan: _board.Plan, neighbour: _board.Plan, seed: int) -> float:
    one, other = (_board.train(case.built(seed), own) for own in (plan, neighbour))
    moved = []
    for step, twin in zip(one.seen, other.seen, strict=True):
        law = case.law(step, plan.rows[step.drawn], plan.clip_norm, plan.noise_multiplier)
        if not isinstance(law, _laws.Gaussian):
            raise ArgumentError("case", "have a Gaussian law to be compared under one noise", case, got=f"{case.name}")
        square = float(np.nansum(law.in_noise(step.released - twin.released) ** 2))
        if case.counted is not None:  # what leaves beside the sum
            here, there = (case.counted.released(own.moving_clips()) for own in (step, twin))
            square += ((here - there) / case.counted.std(plan.noise_multiplier)) ** 2
        moved.append(math.sqrt(square))
    return max(moved)
