"""Every number of an audit, against a direct computation on small made-up trainings."""

import itertools
import json
import logging
import math
import os
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats
from torch import nn

from dptheory import embedding as embedding
from dptheory.pruning import SubsetMallows
from dptheory.training import audits
from dptheory.training import mechanisms as m
from dptheory.training._randomness import subset
from dptheory.training.audits import (
    Finding,
    _board,
    _cases,
    _epsilons,
    _findings,
    _laws,
    _measure,
    _runs,
    _suite,
)
from dptheory.training.engine import PoissonBatches
from dptheory.training.mechanisms import shared_dimensions
from tests.refused import refused

RNG = np.random.default_rng(7)
CASES = {case.name: case for case in _cases.cases()}
EMBEDDINGS = ("GEP as published", "GEP, optimal split", "GEP, joint clipping", "B-GEP")


def near(found: Finding, name: str, measured: float, claimed: float, chance: float | None = None) -> None:
    assert found.name == name
    np.testing.assert_allclose([found.measured, found.claimed], [measured, claimed], rtol=1e-9, atol=1e-12)
    if chance is None:
        assert found.chance is None
    else:
        assert found.chance == pytest.approx(chance, rel=1e-9, abs=1e-300)
        assert found.passed == (chance >= 1e-6)


def two_sided(below: float, above: float) -> float:
    return min(1.0, 2 * min(below, above))


def spread_chance(scores: np.ndarray) -> float:
    total = np.sum(scores**2)
    return two_sided(stats.chi2.cdf(total, scores.size), stats.chi2.sf(total, scores.size))


def rms(scores: np.ndarray) -> float:
    return float(np.sqrt(np.mean(scores**2)))


def clipped(rows: np.ndarray, clip: float) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.where(norms > clip, clip / np.where(norms > 0, norms, 1.0), 1.0)


# --- findings -----------------------------------------------------------------------------------------------------------


def test_comparisons() -> None:
    for measured, claimed, slack, equal, most, least in (
        (2.0, 2.0, 0.0, True, True, True),
        (2.5, 2.0, 0.5, True, True, True),
        (1.5, 2.0, 0.5, True, True, True),
        (2.75, 2.0, 0.5, False, False, True),
        (1.25, 2.0, 0.5, False, True, False),
    ):
        for kind, passed in ((_findings.equal, equal), (_findings.at_most, most), (_findings.at_least, least)):
            assert kind("n", "s", measured, claimed, slack) == Finding("n", "s", measured, claimed, passed, None)
    for kind in (_findings.equal, _findings.at_most, _findings.at_least):  # no slack where none is given
        assert kind("n", "s", 1.0, 1.0).passed
    assert not _findings.equal("n", "s", 1.0, 1.0 + 1e-12).passed
    assert not _findings.at_most("n", "s", 1.0 + 1e-12, 1.0).passed
    assert not _findings.at_least("n", "s", 1.0, 1.0 + 1e-12).passed


def test_tests_of_laws() -> None:
    scores, others = RNG.standard_normal((2, 40)) * 1.2
    near(_findings.standardised("n", "s", 3.0, 4.0, -2.5), "n", 3.0, 4.0, 2 * stats.norm.cdf(-2.5))
    near(_findings.standardised("n", "s", 3.0, 4.0, 0.0), "n", 3.0, 4.0, 1.0)
    for hits in (0, 3, 6, 20):
        below, above = stats.binom.cdf(hits, 20, 0.3), stats.binom.sf(hits - 1, 20, 0.3)
        near(_findings.binomial("n", "s", hits, 20, 0.3), "n", hits / 20, 0.3, two_sided(below, above))
    near(_findings.spread("n", "s", scores), "n", rms(scores), 1.0, spread_chance(scores))
    near(_findings.spread("n", "s", scores * 3), "n", 3 * rms(scores), 1.0, spread_chance(3 * scores))
    groups = [scores[:10], 2.5 * scores[10:30], scores[30:]]
    worst = min(spread_chance(group) for group in groups)
    near(_findings.spread_of_each("n", "s", groups), "n", rms(groups[1]), 1.0, min(1.0, 3 * worst))
    quiet = [np.array([0.7]), np.array([-0.8])]
    assert _findings.spread_of_each("n", "s", quiet).chance == 1.0
    distance = stats.kstest(scores, stats.norm.cdf)
    near(_findings.normal("n", "s", scores), "n", distance.statistic, 0.0, distance.pvalue)
    correlated = np.sum(scores * (scores + others))
    pairs = [(scores[:20], others[:20]), (scores, scores + others)]
    chance = min(1.0, 2 * 2 * stats.norm.sf(correlated / math.sqrt(40)))
    near(_findings.uncorrelated("n", "s", pairs), "n", correlated / 40, 0.0, chance)
    near(_findings.uncorrelated("n", "s", [(scores, -scores)]), "n", -np.mean(scores**2), 0.0,
         2 * stats.norm.sf(np.sum(scores**2) / math.sqrt(40)))  # fmt: skip
    assert _findings.uncorrelated("n", "s", [(scores[:2], np.array([scores[1], -scores[0]]))] * 2).chance == 1.0


def test_a_statement_is_refused_below_one_in_a_million() -> None:
    for chance, passed in ((1e-6, True), (0.999e-6, False)):
        assert _findings._by_chance("n", "s", 1.0, 2.0, chance) == Finding("n", "s", 1.0, 2.0, passed, chance)


def test_a_finding_in_one_line() -> None:
    held = Finding("DP-SGD: noise", "noise is noise", 1.2345678, 1.0, True, 0.034567)
    assert _suite.line(held) == "held     DP-SGD: noise: measured 1.23457, claimed 1, chance 0.035"
    refused = replace(held, passed=False, chance=None)
    assert _suite.line(refused) == "REFUSED  DP-SGD: noise: measured 1.23457, claimed 1; noise is noise"


@pytest.mark.parametrize("long", [False, True])
def test_a_report_counts_its_findings(long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [Finding("a", "s", 1.0, 1.0, True), Finding("b", "s", 1.0, 1.0, True), Finding("c", "s", 1.0, 1.0, False)]
    asked: list[Any] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(_suite, "quick", lambda seed, launch, folder: asked.append((seed, launch)) or every)
    monkeypatch.setattr(_suite, "thorough", lambda seed, folder: asked.append((seed, folder.is_dir())) or every[:2])
    said: list[str] = []
    assert audits.report(5, long, said.append) == long
    assert asked == [1, (5, True) if long else (5, _runs.by_process)]
    assert said[-1] == ("2 statements held, 0 refused" if long else "2 statements held, 1 refused")
    assert said[:-1] == [_suite.line(one) for one in (every[:2] if long else every)]


@pytest.mark.parametrize(("long", "seeds"), [(False, [5]), (True, list(range(5, 15)))])
def test_a_report_of_one_mechanism(long: bool, seeds: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    asked: list[Any] = []
    monkeypatch.setattr(_suite, "with_both_generators", lambda case, seed: asked.append((case.name, seed)) or [])
    assert audits.report(5, long, lambda line: None, "B-GEP")
    assert asked == [("B-GEP", seed) for seed in seeds]
    with refused("mechanism", "no name"):
        audits.report(5, long, lambda line: None, "no name")


# --- laws ---------------------------------------------------------------------------------------------------------------


def step(
    released: np.ndarray, drawn: Sequence[int] = (), trained: np.ndarray | None = None, bases: np.ndarray | None = None
) -> _board.Step:
    whole = np.ones(len(released)) if trained is None else trained
    return _board.Step(np.array(drawn, np.int64), released, whole, np.zeros(0) if bases is None else bases)


def test_gaussian_laws() -> None:
    released = np.array([1.0, 2.0, 0.25, -4.0])
    law = _laws.Gaussian(np.array([0.5, 0.0, 0.0, 0.0]), np.array([0.5, 4.0, 0.0, 0.0]))
    np.testing.assert_array_equal(law.scores(released), [1.0, 0.5, np.nan, np.nan])
    np.testing.assert_array_equal(law.in_noise(released), [2.0, 0.5, np.nan, np.nan])
    assert law.silent(released) == 4.0
    assert _laws.Gaussian(np.zeros(4), np.ones(4)).silent(released) == 0.0
    axes = np.array([[0.6, 0.8], [-0.8, 0.6]])
    turned = _laws.Gaussian(np.array([1.0, 1.0]), np.array([2.0, 0.0]), axes)
    np.testing.assert_allclose(turned.scores(np.array([2.0, 3.0])), [(0.6 + 1.6) / 2, np.nan])
    assert turned.silent(np.array([2.0, 3.0])) == pytest.approx(0.2)


def test_the_largest_of_a_group() -> None:
    mean = np.array([0.5, -1.0, 0.0, 2.0, 0.1, 0.2])
    law = _laws.LargestOfGroups(mean, 1.5, 3, 2)
    released = np.array([0.0, -2.0, 1.0, 3.0, 0.0, 0.5])
    scores = law.scores(released)
    assert np.isnan(scores[[1, 2, 4, 5]]).all()
    for place, top in ((0, 2.0), (3, 3.0)):
        own = mean[place : place + 3]
        below = np.prod(stats.norm.cdf((top - own) / 1.5) - stats.norm.cdf((-top - own) / 1.5))
        assert scores[place] == pytest.approx(stats.norm.ppf(below))
    below = np.prod(stats.norm.cdf((1.8 - mean[3:]) / 0.5) - stats.norm.cdf((-1.8 - mean[3:]) / 0.5))
    for top, chance in ((-1.8, below), (-1.9, np.finfo(float).tiny)):  # 2 x m / s^2 is 28.8, and 30.4
        turned = _laws.LargestOfGroups(mean, 0.5, 3, 2).scores(np.array([0.0, -2.0, 1.0, top, 0.0, 0.5]))
        assert turned[3] == pytest.approx(stats.norm.ppf(chance))
    assert law.silent(released) == 0.0
    assert law.silent(np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0])) == 1.0 and law.silent(np.ones(6)) == 1.0
    assert law.silent(np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])) == 0.0


def test_laws_of_the_mechanisms() -> None:
    rows = RNG.standard_normal((5, 6)) * np.array([0.1, 0.5, 1.0, 2.0, 0.0])[:, None]
    trained, released = np.array([1.0, 1, 1, 0, 1, 1]), np.array([1.0, 0, 2, 3, 0, 1])
    kept, clip, sigma = (released != 0).astype(float), 1.3, 0.7
    one = step(released, range(5), trained)
    np.testing.assert_allclose(_laws.clipped(rows, clip), clipped(rows, clip))
    for law, mean, stds in (
        (_laws.whole, clipped(rows * trained, clip).sum(0), trained),
        (_laws.masked_then_clipped, clipped(rows * kept, clip).sum(0), kept),
        (_laws.clipped_then_masked, kept * clipped(rows, clip).sum(0), kept),
    ):
        found = law(one, rows, clip, sigma)
        np.testing.assert_allclose(found.mean, mean)
        np.testing.assert_allclose(found.stds, sigma * clip * stds)
        assert found.axes is None
    found = _laws.largest_released(3, 2)(one, rows, clip, sigma)
    np.testing.assert_allclose(found.mean, clipped(rows, clip).sum(0))
    assert (found.std, found.size, found.keep) == (sigma * clip, 3, 2)


def bases_of(sizes: Sequence[int], dims: Sequence[int]) -> list[np.ndarray]:
    """Orthonormal rows for every tensor."""
    return [np.linalg.qr(RNG.standard_normal((size, dim)))[0].T for size, dim in zip(sizes, dims, strict=True)]


def embedded_means(
    case: _cases.Case, rows: np.ndarray, blocks: list[np.ndarray], sizes: Sequence[int], clip: float
) -> np.ndarray:
    projector = np.zeros((sum(sizes), sum(sizes)))
    start = 0
    for size, block in zip(sizes, blocks, strict=True):
        projector[start : start + size, start : start + size] = block.T @ block
        start += size
    inside, outside = rows @ projector, rows - rows @ projector
    if case.name == "B-GEP":
        return clipped(inside, clip).sum(0)
    if case.name == "GEP, joint clipping":
        shrunk = clipped(rows, clip)
        inside, outside = shrunk @ projector, shrunk - shrunk @ projector
        return inside.sum(0) + clipped(outside, 0.8).sum(0)
    return clipped(inside, clip).sum(0) + clipped(outside, 0.8).sum(0)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_laws_of_embeddings(name: str) -> None:
    case, sizes, clip, sigma = CASES[name], (200, 480, 320), 1.1, 0.9
    dims = shared_dimensions(sizes, 24)
    assert sizes == _cases.SIZES
    blocks = bases_of(sizes, dims)
    rows = RNG.standard_normal((4, 1000)) * np.array([0.01, 0.04, 0.1, 1.0])[:, None]
    given = step(np.zeros(1000), range(4), bases=np.concatenate([block.ravel() for block in blocks]))
    law = case.law(given, rows, clip, sigma)
    np.testing.assert_allclose(law.mean, embedded_means(case, rows, blocks, sizes, clip), atol=1e-12)
    np.testing.assert_allclose(law.axes @ law.axes.T, np.eye(1000), atol=1e-12)
    optimal = embedding.split_noise(
        dim=1000, subspace_dim=sum(dims), embedding_clip=clip, residual_clip=0.8, mu=1 / sigma
    )
    joint = embedding.joint_clip(
        dim=1000, subspace_dim=sum(dims), clip_norm=clip, residual_share=0.8 / clip, mu=1 / sigma
    )
    std, rest = {
        "GEP as published": (math.sqrt(2) * sigma * math.hypot(clip, 0.8), math.sqrt(2) * sigma * 0.8),
        "GEP, optimal split": (optimal.embedding_std, optimal.residual_std),
        "GEP, joint clipping": (joint.embedding_std, joint.residual_std),
        "B-GEP": (sigma * clip, 0.0),
    }[name]  # fmt: skip
    start = 0
    for size, dim, block in zip(sizes, dims, blocks, strict=True):
        own = law.axes[start : start + size]
        assert not np.delete(own, slice(start, start + size), axis=1).any()  # of its own tensor
        np.testing.assert_allclose(np.abs(own[:dim, start : start + size] @ block.T), np.eye(dim), atol=1e-12)
        np.testing.assert_allclose(law.stds[start : start + dim], std)
        np.testing.assert_allclose(law.stds[start + dim : start + size], rest)
        start += size


# --- cases --------------------------------------------------------------------------------------------------------------


def test_the_mask_of_all_tensors() -> None:
    held = SimpleNamespace(mask=[torch.tensor([True, False]), torch.tensor([[True]])])
    np.testing.assert_array_equal(_cases.mask(held), [1.0, 0.0, 1.0])


def test_swaps() -> None:
    """Of two groups of 8: two of the four largest stayed behind in the first, none in the second."""
    total = np.array([8.0, -7, 6, 5, 4, -3, 2, 1] * 2)
    released = np.array([1.0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0])
    pmf = SubsetMallows(8, 4, theta=0.2).swap_pmf()
    mean = sum(p * s for s, p in enumerate(pmf))
    variance = sum(p * (s - mean) ** 2 for s, p in enumerate(pmf))
    np.testing.assert_allclose(_cases._swaps(total, released), [2.0, 2 * mean, 2 * variance])


def test_the_larger_of_two() -> None:
    total = np.array([1.0, -4.0, 3.0, 0.5, 0.2, 0.1])
    released = np.array([0.0, 2.0, 1.0, 0.0, 0.0, 5.0])
    chances = stats.norm.cdf(np.array([3.0, 2.5, 0.1]) / (math.sqrt(2) * 0.1 * 1.3))
    np.testing.assert_allclose(
        _cases._larger_of_two(total, released), [2.0, chances.sum(), (chances * (1 - chances)).sum()]
    )


# --- one training -------------------------------------------------------------------------------------------------------

SIZES = (4, 6, 2)
SIGMA, CLIP = 0.7, 1.3


def planned(examples: int = 9, **changes: Any) -> _board.Plan:
    rows = np.random.default_rng(1).standard_normal((examples, 12)) * np.linspace(0.1, 1.0, examples)[:, None]
    return replace(_board.Plan(rows, SIZES, 3, 2, 2, SIGMA, CLIP, 4), **changes)


def told(rate: float = 0.25, **changes: Any) -> Any:
    """A report: what is asked of it depends on delta alone."""
    facts = {"sampling_rate": rate, "steps": 3, "epsilon": 5.0} | changes
    return lambda delta: SimpleNamespace(**facts) if delta == 1e-5 else None


def traced(kept: np.ndarray | None = None, rate: float = 0.25, **changes: Any) -> _board.Trace:
    rng = np.random.default_rng(3)
    steps = []
    for drawn in ([0, 3, 4], [1, 2, 3, 8, 8], [5]):
        released = rng.standard_normal(12) * SIGMA * CLIP
        steps.append(step(released if kept is None else released * kept, drawn))
    return _board.Trace(planned(**changes), tuple(steps), told(rate))


def test_release() -> None:
    trace = traced()
    case = replace(CASES["DP-SGD"], choice=lambda total, released: (float(released[0] > 0), total[0], 2.0 + total[1]))
    found = {one.name: one for one in _measure.release(case, trace)}
    totals = [clipped(trace.plan.rows[one.drawn], CLIP).sum(0) for one in trace.seen]
    scores = np.array([(one.released - total) / (SIGMA * CLIP) for one, total in zip(trace.seen, totals, strict=True)])
    near(found["silence"], "silence", 0.0, 1e-3 * CLIP)
    near(found["noise"], "noise", rms(scores), 1.0, spread_chance(scores.ravel()))
    distance = stats.kstest(scores.ravel(), "norm")
    near(found["law of the noise"], "law of the noise", distance.statistic, 0.0, distance.pvalue)
    each = [spread_chance(own) for own in scores]
    worst = int(np.argmin(each))
    near(found["noise of each step"], "noise of each step", rms(scores[worst]), 1.0, min(1.0, 3 * each[worst]))
    for place, part in enumerate((scores[:, :4], scores[:, 4:10], scores[:, 10:])):
        near(found[f"noise on tensor {place}"], f"noise on tensor {place}", rms(part), 1.0, spread_chance(part.ravel()))
    fresh = _findings.uncorrelated("fresh noise", "", _measure._pairs([scores[:, :4], scores[:, 4:10], scores[:, 10:]]))
    near(found["fresh noise"], "fresh noise", fresh.measured, 0.0, fresh.chance)
    hits = sum(float(one.released[0] > 0) for one in trace.seen)
    mean, variance = sum(total[0] for total in totals), sum(2.0 + total[1] for total in totals)
    chance = 2 * stats.norm.sf(abs(hits - mean) / math.sqrt(variance))
    near(found["choice of entries"], "choice of entries", hits, mean, chance)
    assert len(found) == 9


def test_a_release_where_nothing_should_be() -> None:
    kept = np.ones(12)
    kept[5] = 0.0
    trace = traced(kept)
    spoilt = replace(CASES["DP-SGD"], law=lambda one, rows, clip, sigma: _laws.Gaussian(np.zeros(12), kept))
    for leak, passed in ((0.99e-3 * CLIP, True), (1.01e-3 * CLIP, False)):
        last = replace(trace.seen[-1], released=trace.seen[-1].released + leak * (1 - kept))
        found = _measure.release(spoilt, replace(trace, seen=(*trace.seen[:-1], last)))[0]
        near(found, "silence", leak, 1e-3 * CLIP)
        assert found.passed == passed
    names = {one.name: one for one in _measure.release(spoilt, trace)}  # NaN counts for none of them
    seen = np.array([one.released[kept > 0] for one in trace.seen])
    near(names["noise"], "noise", rms(seen), 1.0, spread_chance(seen.ravel()))
    part = np.array([one.released[[4, 6, 7, 8, 9]] for one in trace.seen])
    near(names["noise on tensor 1"], "noise on tensor 1", rms(part), 1.0, spread_chance(part.ravel()))


def test_pairs_that_must_not_go_together() -> None:
    first, second = np.arange(6.0).reshape(2, 3), np.array([[10.0, np.nan], [12.0, 13.0]])
    pairs = _measure._pairs([first, second])
    wanted = [
        ([0, 1, 2], [3, 4, 5]),  # steps
        ([10], [12]),
        ([0, 1, 3, 4], [1, 2, 4, 5]),  # entries
        ([12], [13]),
        ([0, 3, 4], [10, 12, 13]),  # tensors
    ]
    assert len(pairs) == len(wanted)
    for (one, other), (left, right) in zip(pairs, wanted, strict=True):
        np.testing.assert_array_equal(one, left)
        np.testing.assert_array_equal(other, right)
    assert len(_measure._pairs([first, np.full((2, 2), np.nan)])) == 2
    assert len(_measure._pairs([first, first, first])) == 9


def test_fresh_masks() -> None:
    rng = np.random.default_rng(5)
    steps = []
    for drawn, keep in (([0, 1], 5), ([2, 3, 4], 6), ([5], 4)):
        released = np.zeros(13)
        released[rng.permutation(13)[:keep]] = rng.standard_normal(keep)
        steps.append(step(released, drawn))
    trace = _board.Trace(planned(rows=rng.standard_normal((9, 13))), tuple(steps), told())
    large, overlap = [], []
    masks = [one.released != 0 for one in steps]
    for one, kept in zip(steps, masks, strict=True):
        total = np.abs(clipped(trace.plan.rows[one.drawn], CLIP).sum(0))
        hot = total > np.median(total)
        law = stats.hypergeom(13, hot.sum(), kept.sum())
        large.append(((hot & kept).sum(), law.mean(), law.var()))
    for kept, then in itertools.pairwise(masks):
        law = stats.hypergeom(13, then.sum(), kept.sum())
        overlap.append(((kept & then).sum(), law.mean(), law.var()))
    for found, name, counts in zip(
        _measure.fresh_masks(trace), ("mask and data", "fresh masks"), (large, overlap), strict=True
    ):
        hits, mean, variance = np.sum(counts, axis=0)
        near(found, name, hits, mean, 2 * stats.norm.sf(abs(hits - mean) / math.sqrt(variance)))


def test_the_share_that_leaves_at_each_step() -> None:
    """An entry or two may round to nothing; one too many, or three too few, are seen."""
    for entries, differ in (
        ([6, 9, 12], 0.0),
        ([6, 9, 10], 0.0),
        ([4, 7, 10], 0.0),
        ([7, 9, 12], 1.0),
        ([3, 6, 12], 2.0),
    ):
        steps = [step(np.r_[np.ones(count), np.zeros(12 - count)]) for count in entries]
        trace = _board.Trace(planned(), tuple(steps), told())
        case = replace(CASES["DP-SGD"], share=lambda place: (0.5, 0.75, 1.0)[place])
        (found,) = _measure.schedule(case, trace)
        near(found, "entries of each step", differ, 0.0)
    assert _measure.schedule(CASES["noisy SGD"], trace) == []


def test_entries_that_come_back() -> None:
    case = replace(CASES["ranked sparsification"], share=None)
    for kept, count in (([[1, 1, 1], [1, 0, 1], [1, 0, 1]], 0.0), ([[1, 1, 1], [0, 0, 1], [1, 0, 1], [1, 1, 1]], 2.0)):
        trace = _board.Trace(planned(), tuple(step(np.array(one, dtype=float)) for one in kept), told())
        (found,) = _measure.schedule(case, trace)
        near(found, "entries that come back", count, 1.0)
        assert found.passed == (count > 0)


def test_counts_without_chance() -> None:
    with np.errstate(all="raise"):
        for total, chance in ((3.0, 1.0), (4.0, 0.0), (2.0, 0.0)):
            near(_measure._counted("n", "s", [(total, 3.0, 0.0)]), "n", total, 3.0, chance)
    assert _measure._counted("n", "s", [(1.0, 1.0, 0.0), (2.0, 2.0, 4.0)]).chance == 1.0
    near(_measure._counted("n", "s", [(1.0, 2.0, 0.25)]), "n", 1.0, 2.0, 2 * stats.norm.sf(2.0))


def test_masks_and_bases_follow_from_seed_and_releases() -> None:
    case = CASES["random sparsification"]
    generator = torch.Generator().manual_seed(6)
    masks = []
    for _ in range(3):
        masks.append(subset(12, 6, generator).double().numpy())
    trace = _board.Trace(planned(), tuple(step(mask) for mask in masks), told())
    near(_measure.replayed(case, trace, 6), "what is public", 0.0, 0.0)
    for found, mask in zip(_measure.foretold(case, trace.plan, 6, masks), masks, strict=True):
        np.testing.assert_array_equal(found, mask)
    assert _measure.replayed(case, trace, 7).measured == 3.0
    spoilt = masks[1].copy()
    spoilt[0] = 1.0 - spoilt[0]
    wrong = replace(trace, seen=(step(masks[0]), step(spoilt), step(masks[2])))
    near(_measure.replayed(case, wrong, 6), "what is public", 1.0, 0.0)
    with refused("case"):
        _measure.foretold(CASES["DP-SGD"], trace.plan, 6, masks)


def test_near_ties_of_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry in a hundred may turn out otherwise, and every entry be off by rounding."""
    case, trace = CASES["random sparsification"], traced()
    for wrong, off, differ in ((20, 0.5, 0.0), (21, 0.5, 1.0), (2000, 1e-3, 0.0), (2000, 1.05e-3, 1.0)):
        seen = np.zeros(2000)
        seen[:wrong] = off
        monkeypatch.setattr(_measure, "foretold", lambda *a, seen=seen: [seen])
        shown = replace(trace, seen=(replace(trace.seen[0], bases=np.zeros(2000)),))
        near(_measure.replayed(case, shown, 0), "what is public", differ, 0.0)


def test_ranked_masks_are_foretold_from_the_releases() -> None:
    """The ranking takes the releases, with noise on what was masked; the foreteller must be handed the same."""
    case = replace(
        CASES["ranked sparsification"],
        make=lambda seed: m.RankedSparsification(m.Constant(0.5), steps_per_epoch=1, seed=seed),
    )
    plan = planned()
    mechanism = case.built(2)
    params = [torch.zeros(1, size) for size in SIZES]
    rng, releases, masks = np.random.default_rng(0), [], []
    for _ in range(20):
        mechanism.begin_step(params)
        masks.append(_cases.mask(mechanism))
        released = rng.standard_normal(12) * masks[-1]
        releases.append(released)
        pieces = np.split(released, np.cumsum(SIZES)[:-1])
        mechanism.end_step(
            [torch.from_numpy(p).float().view(1, -1) for p in pieces], plan.noise_multiplier * plan.clip_norm
        )
    for found, wanted in zip(_measure.foretold(case, plan, 2, releases), masks, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not np.array_equal(masks[1], masks[2])


def test_account() -> None:
    trace = traced()
    steps, epsilon = _measure.account(CASES["DP-SGD"], trace)
    near(steps, "steps", 3.0, 3.0)
    least = _epsilons.epsilon(SIGMA, 0.25, 3, 1e-5)
    near(epsilon, "epsilon", 5.0, least)
    assert steps.passed
    for share, passed in ((1 - 0.9e-6, True), (1 - 1.1e-6, False)):
        found = replace(trace, report=told(epsilon=least * share, steps=2))
        one, other = _measure.account(CASES["DP-SGD"], found)
        assert not one.passed and other.passed == passed


def test_a_secure_mask_amplifies() -> None:
    kept = np.array([1.0, 0, 0] * 4)
    for name, secure, share in (
        ("posterior freeze", True, 1 / 3),
        ("posterior freeze", False, 1.0),
        ("DP-SGD", True, 1.0),
    ):
        trace = traced(kept, secure=secure)
        trace = replace(trace, seen=(trace.seen[0], replace(trace.seen[1], released=np.ones(12)), trace.seen[2]))
        shares = (share, 1.0, share)
        near(_measure.account(CASES[name], trace)[1], "epsilon", 5.0, _epsilons.epsilon(SIGMA, 0.25, 3, 1e-5, shares))


def test_epsilon_of_the_loss_distribution() -> None:
    """One step by bisection on the hockey-stick divergence; hits of a mask by the mean over their binomial number."""

    def delta_of(epsilon: float, sigma: float, rate: float) -> float:
        # removal: the mixture against the Gaussian without the example
        x = np.linspace(-12 * sigma, 1 + 12 * sigma, 20_001)
        without = stats.norm.pdf(x, 0, sigma)
        mixture = (1 - rate) * without + rate * stats.norm.pdf(x, 1, sigma)
        pairs = ((mixture, without), (without, mixture))
        return float(max(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x) for p, q in pairs))

    low, high = 0.0, 20.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, 0.9, 0.3) > 1e-3 else (low, middle)
    assert low - 2e-3 <= _epsilons.epsilon(0.9, 0.3, 1, 1e-3) <= low + 1e-5
    one = pld.from_gaussian_mechanism(
        0.9, sampling_prob=0.3, pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=1e-3
    )
    assert _epsilons.epsilon(0.9, 0.3, 3, 1e-3) == one.self_compose(3).get_epsilon_for_delta(1e-3)
    found = _epsilons.epsilon(0.9, 0.3, 3, 1e-3, (0.2, 0.4, 0.9))
    hits = {
        1: 0.2 * 0.6 * 0.1 + 0.8 * 0.4 * 0.1 + 0.8 * 0.6 * 0.9,
        2: 0.2 * 0.4 * 0.1 + 0.2 * 0.6 * 0.9 + 0.8 * 0.4 * 0.9,
    }
    hits[3] = 0.2 * 0.4 * 0.9
    excess = [chance * one.self_compose(k).get_delta_for_epsilon(found) for k, chance in hits.items()]
    assert sum(excess) == pytest.approx(1e-3, rel=1e-6)
    assert _epsilons.epsilon(50.0, 0.01, 1, 0.5, (0.5,)) == 0.0
    small = _epsilons.epsilon(2.0, 0.3, 3, 1e-3, (0.4,) * 3)
    other = pld.from_gaussian_mechanism(
        2.0, sampling_prob=0.3, pessimistic_estimate=False, use_connect_dots=False, value_discretization_interval=1e-3
    )
    excess = [stats.binom.pmf(k, 3, 0.4) * other.self_compose(k).get_delta_for_epsilon(small) for k in (1, 2, 3)]
    assert 0 < small < 1 and sum(excess) == pytest.approx(1e-3, rel=1e-6)


# --- the board ----------------------------------------------------------------------------------------------------------


def test_the_board_is_linear() -> None:
    model = _board.Board(SIZES)
    assert not model.weights().any() and model.trained().all() and len(model.weights()) == 12
    weights = [torch.arange(1.0, size + 1) for size in SIZES]
    for parameter, weight in zip(model.parameters(), weights, strict=True):
        parameter.data.copy_(weight[None])
    rows = torch.from_numpy(RNG.standard_normal((3, 12))).float()
    np.testing.assert_allclose(model.weights(), torch.cat(weights).numpy())
    torch.testing.assert_close(model(rows), (rows @ torch.cat(weights))[:, None])
    list(model.parameters())[1].requires_grad_(False)
    np.testing.assert_array_equal(model.trained(), [1.0] * 4 + [0.0] * 6 + [1.0] * 2)


def test_a_training_without_noise_releases_the_clipped_sums() -> None:
    """Every update is the clipped sum of the examples that the loader gave; the canary's gradient moves with the steps."""
    plan = planned(noise_multiplier=0.0, epochs=3)
    trace = _board.train(m.DpSgd(), plan)
    assert 6 <= len(trace.seen) <= 9 and trace.plan is plan
    for one in trace.seen:
        np.testing.assert_allclose(one.released, clipped(plan.rows[one.drawn], CLIP).sum(0), atol=1e-5)
        assert one.bases.shape == (0,) and one.trained.all()
        np.testing.assert_array_equal(one.kept, one.released != 0)
    assert len({tuple(one.drawn) for one in trace.seen}) > 1
    shown = replace(plan, canary=lambda step: np.full(12, 0.01 * (step + 1)), sampling_rate=1.0)
    found = _board.train(m.DpSgd(), shown)
    for number, one in enumerate(found.seen):
        rows = plan.rows.copy()
        rows[0] = 0.01 * (number + 1)
        np.testing.assert_allclose(one.released, clipped(rows, CLIP).sum(0), atol=1e-5)
        assert sorted(one.drawn) == list(range(9))
    assert len(found.seen) == 3  # one step per pass at rate 1


def test_an_update_of_some_entries_is_an_update() -> None:
    trace = _board.train(m.PosteriorFreeze(m.Constant(0.5), 3), planned(noise_multiplier=0.0, sampling_rate=1.0))
    assert [int(one.kept.sum()) for one in trace.seen] == [6, 6]
    assert not planned().secure


def test_bases_side_by_side() -> None:
    shown = SimpleNamespace(bases=[torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])])
    np.testing.assert_array_equal(_board.bases(shown), [1.0, 2.0, 3.0, 4.0])


def test_what_is_expected_is_not_said() -> None:
    logger = logging.getLogger("opacus")
    before = logger.level
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with _board.quiet():
            assert logger.level == logging.ERROR
            warnings.warn("Full backward hook is firing", stacklevel=1)
            warnings.warn("something else", stacklevel=1)
    assert logger.level == before and [str(one.message) for one in said] == ["something else"]
    with pytest.raises(KeyError), _board.quiet():
        raise KeyError
    assert logger.level == before


# --- the command line from outside ------------------------------------------------------------------------------------------


def left_behind(steps: int = 5, rate: float = 0.25, examples: int = 30, noise: float = 1.0) -> _runs.Outcome:
    rng = np.random.default_rng(2)
    slopes = rng.standard_normal((10, examples)) / 10
    inputs = np.hstack([0.001 * rng.standard_normal((examples, 4)), np.ones((examples, 1))])
    moved = steps * rate * slopes @ inputs + noise * rng.standard_normal((10, 5))
    batches = PoissonBatches(train_size=examples, sampling_rate=rate, seed=1)
    return _runs.Outcome(moved, slopes, inputs, steps, 3.5, rate, batches)


def test_an_outcome_is_read_from_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pixels = torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [0.1, 1, 2, 3, 4, 0]
    ).view(6, 1, 1, 1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 10))
    labels = torch.tensor([3, 1, 4, 1, 5, 9])
    images = type("Images", (), {"__len__": lambda self: 6, "pixels": pixels, "labels": labels})()
    prepared = SimpleNamespace(model=model, train=images, batches="those of the run")
    monkeypatch.setattr(_runs, "prepare", lambda config, device: prepared if device.type == "cpu" else config.seed)
    asked: list[list[str]] = []
    after = {key: value + 0.25 for key, value in model.state_dict().items()}

    def launch(arguments: Sequence[str]) -> None:
        asked.append(list(arguments))
        out = tmp_path / "new" / "deep" / "out"
        out.mkdir(exist_ok=True)
        torch.save({"model": after}, out / "checkpoint.pt")
        rows = [
            {"step": 1, "epsilon": 1.0},
            {"step": 2, "epsilon": 1.0},
            {"step": 7, "epsilon": None if len(asked) > 1 else 2.5},
        ]
        (out / "metrics.json").write_text(json.dumps({"epochs": rows}))

    folder = tmp_path / "new" / "deep"
    found = _runs.outcome(launch, folder, 'name = "dp-sgd"', False, 3, 0.5)
    assert asked == [["run", str(folder / "audit.toml"), "--out", str(folder / "out"), "--device", "cpu"]]
    table = tomllib.loads((folder / "audit.toml").read_text())
    assert table == {
        "data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 3, "physical_batch_size": 256,
        "max_grad_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5, "seed": 3, "secure": False, "inputs": "unit",
        "optimizer": {"learning_rate": 0.5}, "mechanism": {"name": "dp-sgd"},
    }  # fmt: skip
    np.testing.assert_allclose(found.moved, np.full((10, 5), -0.25 / 0.5 * 3), rtol=1e-5)
    assert (found.steps, found.epsilon, found.sampling_rate, found.batches) == (7, 2.5, 0.5, "those of the run")
    gradients = []
    for image, label in zip(pixels, labels, strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(image[None]), label[None]).backward()
        layer = model[1]
        gradients.append(np.hstack([layer.weight.grad.numpy(), layer.bias.grad.numpy()[:, None]]).ravel())
    norms = np.linalg.norm(gradients, axis=1)
    assert norms.min() < 1 < norms.max()
    np.testing.assert_allclose(
        found.total, clipped(np.array(gradients), 1.0).sum(0).reshape(10, 5), rtol=1e-5, atol=1e-6
    )
    again = _runs.outcome(launch, folder, 'name = "dp-sgd"', True, 3, 0.5)  # the folder is there already
    assert again.epsilon == math.inf and tomllib.loads((folder / "audit.toml").read_text())["secure"] is True


def test_directions_in_which_the_noise_is_alone() -> None:
    """Sampling adds less than a hundredth to the variance."""
    for share, count in ((0.0095, 2), (0.0105, 1)):
        slope = math.sqrt(share / 0.25)
        found = _runs.Outcome(np.zeros((1, 2)), np.array([[slope]]), np.array([[1.0, 0.0]]), 4, 1.0, 0.5, None)
        assert len(_runs._quiet(found)) == count


def test_slopes_of_large_scores_are_finite() -> None:
    weights, inputs = np.array([[900.0], [0.0], [-900.0]]), np.array([[1.0], [-1.0]])
    found = _runs._slopes(weights, inputs, np.array([0, 1]))
    np.testing.assert_allclose(found, [[0.0, 0.0], [0.0, -1.0], [0.0, 1.0]], atol=1e-300)


def test_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answers = [0, 0, 3]

    def start(command: list[str], **given: Any) -> SimpleNamespace:
        asked.append((command, given))
        return SimpleNamespace(returncode=answers[len(asked) - 1], stderr="x" * 3000 + "the end\n")

    monkeypatch.setattr(subprocess, "run", start)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    _runs.by_process(["run", "a"])
    _runs.by_two_processes(["run", "b"])
    assert asked[0][0] == [sys.executable, "-m", "dptheory", "run", "a"]
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "dptheory", "run", "b"]
    assert asked[1][0] == two
    given = asked[0][1]
    assert (given["capture_output"], given["text"], given["check"], given["timeout"]) == (True, True, False, 600)
    paths = given["env"]["PYTHONPATH"].split(os.pathsep)
    assert paths[1:] == ["elsewhere"] and Path(paths[0], "training", "__init__.py").is_file()
    assert given["env"]["OMP_NUM_THREADS"] == "1" and given["env"]["PATH"] == os.environ["PATH"]
    with pytest.raises(ValueError, match=r"-m dptheory run c ended with 3: x{1993}the end$"):
        _runs.by_process(["run", "c"])
