"""Audits of one step, and their parts."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from dptheory import embedding as embedding
from dptheory import privacy
from dptheory.privacy import gaussian_epsilon
from dptheory.pruning import SubsetMallows
from dptheory.training import audits
from dptheory.training import mechanisms as m
from dptheory.training._randomness import subset
from dptheory.training._streams import simulated
from dptheory.training.audits import Finding, _draws, _epsilons, _findings, _steps, _suite
from dptheory.training.audits._layers import Layers, on_layers
from dptheory.training.engine import PrivacyAccountant
from dptheory.training.mechanisms import Noise, StepCost, power_iteration
from tests.refused import refused
from tests.training.stand_ins import Anchors

# --- The audits of one step: every claim, and the scores of a few trials, against a direct computation ---


CLIP, SIGMA, DELTA, SEED, TRIALS = 1.3, 2.0, 1e-5, 3, 60
STD = SIGMA * CLIP
HALF = m.Constant(0.5)
AUDITS = {audit.name: audit for audit in audits.step_audits()}


def clipped(rows: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.where(norms > CLIP, CLIP / np.where(norms > 0, norms, 1.0), 1.0)


def batch(seed: int = 0, dim: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.4, (5, dim)).astype(np.float32).astype(float)


def axis(dim: int, place: int, size: float = CLIP) -> np.ndarray:
    found = np.zeros(dim)
    found[place] = size
    return found


SELECTION = np.tile(np.r_[np.full(4, 1.3), np.ones(4)] / 5, (5, 1))
FLIP = np.r_[np.zeros(4), np.full(4, CLIP / 2)]


def ratio(released: np.ndarray, first: np.ndarray, second: np.ndarray, std: float = STD) -> np.ndarray:
    """log N(first, std^2) / N(second, std^2) of what was released."""
    kept = released != 0
    both = [-((released - mean) ** 2) / (2 * std**2) for mean in (first, second)]
    return np.sum(np.where(kept, both[0] - both[1], 0.0), axis=-1)


def float32(noise: np.ndarray) -> np.ndarray:
    return noise.astype(np.float32).astype(float)


class Draws:
    """Normal numbers in the order in which an audit asks for them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def __call__(self, *shape: int, std: float = STD) -> np.ndarray:
        return float32(std * self.rng.standard_normal(shape))

    def torch(self) -> Noise:
        return lambda like, std: torch.from_numpy(std * self.rng.standard_normal(tuple(like.shape))).to(like)


World = Callable[[np.ndarray, np.ndarray, Draws], np.ndarray]
"""Scores from the gradients of the world, those without the canary, and noise."""


def check(name: str, claimed: float, private: bool, method: str, trials: int, given: np.ndarray, canary: np.ndarray,
          world: World, tolerance: float = 1e-4) -> None:  # fmt: skip
    audit = AUDITS[name]
    assert (audit.private, audit.method, audit.trials) == (private, method, trials)
    assert audit.claimed == pytest.approx(claimed, rel=1e-9)
    draws = Draws()
    joined = np.vstack([given, canary])
    wanted = world(joined, given, draws), world(given, given, draws)
    found = audit.scores(TRIALS, _steps.seeded_noise(5))
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == (TRIALS,)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def masked(mask: np.ndarray, *, first: bool) -> World:
    """Noisy sums of all trials at once: masked first and clipped then, or the other way round."""

    def total(rows: np.ndarray) -> np.ndarray:
        return clipped(rows * mask).sum(0) if first else clipped(rows).sum(0) * mask

    def world(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        released = (total(rows) + draws(TRIALS, len(mask))) * mask
        whole = np.vstack([without, CANARY[0]])
        return ratio(released, total(whole), total(without))

    return world


CANARY: list[np.ndarray] = []


def of(canary: np.ndarray) -> np.ndarray:
    CANARY[:] = [canary]
    return canary


def seeded_mask(generator: torch.Generator, dim: int = 20) -> np.ndarray:
    return subset(dim, dim // 2, generator).double().numpy()


ONE = gaussian_epsilon(1 / SIGMA, DELTA)
TWO = gaussian_epsilon(math.sqrt(2) / SIGMA, DELTA)


def test_every_audit_is_named_once() -> None:
    assert list(AUDITS) == [
        "DP-SGD", "random sparsification", "posterior freeze, mask held", "ranked sparsification",
        "posterior freeze, fresh masks", "adaptive clipping, sum and count",
        "ranked sparsification, two epochs", "GEP as published", "GEP, optimal split",
        "GEP, joint clipping", "B-GEP", "index pruning", "index pruning, indices alone", "top-k of the released gradient",
        "top-k of noisy magnitudes", "un-noised velocity", "division by the drawn batch size", "top-k without noise",
        "ranked by true gradients, two epochs",
    ]  # fmt: skip
    assert (_steps.DELTA, _steps.CLIP, _steps.SIGMA) == (DELTA, CLIP, SIGMA)
    np.testing.assert_allclose(_steps._selection_batch().numpy(), SELECTION, rtol=1e-6)
    np.testing.assert_allclose(_steps._flipping_canary().numpy(), FLIP, rtol=1e-6)


def test_noisy_sums() -> None:
    ones, mask = np.ones(20), seeded_mask(torch.Generator().manual_seed(SEED))
    plain = (ONE, True, "gaussian", 40_000, batch())
    check("DP-SGD", *plain, of(axis(20, 0)), masked(ones, first=True))
    check("random sparsification", *plain, of(np.full(20, 100.0)), masked(mask, first=True))
    first = int(np.flatnonzero(mask)[0])
    check("posterior freeze, mask held", *plain, of(axis(20, first)), masked(mask, first=False))
    check("ranked sparsification", *plain, of(np.full(20, 100.0)), masked(ones, first=True))


def test_fresh_masks() -> None:
    def world(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        generator = torch.Generator().manual_seed(SEED)
        second = clipped(without).sum(0)[0]
        scores = []
        for _ in range(TRIALS):
            mask = seeded_mask(generator)
            released = (clipped(rows).sum(0) + draws(20)) * mask
            scores.append(ratio(released[:1], np.array([second + CLIP]), np.array([second])))
        assert 0 < np.count_nonzero(scores) < TRIALS
        return np.array(scores)

    check("posterior freeze, fresh masks", ONE, True, "events", 3000, batch(), axis(20, 0), world)


def test_two_epochs_of_a_ranking() -> None:
    """The second mask keeps the half that was largest in the first release."""

    def world(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        scores = np.zeros(TRIALS)
        whole = np.vstack([without, FLIP])
        for trial in range(TRIALS):
            mask = np.ones(8)
            for _ in range(2):
                first, second = clipped(whole * mask).sum(0), clipped(without * mask).sum(0)
                own = first if len(rows) > len(without) else second
                released = (own + draws(8)) * mask
                scores[trial] += ratio(released, first, second)
                mask = (np.abs(released) >= np.sort(np.abs(released))[4]).astype(float)
        return scores

    check("ranked sparsification, two epochs", TWO, True, "gaussian", 1500, SELECTION, FLIP, world)


@pytest.mark.parametrize("name", ["GEP as published", "GEP, optimal split", "GEP, joint clipping", "B-GEP"])
def test_embeddings(name: str) -> None:
    kind = {
        "GEP as published": m.Gep,
        "GEP, optimal split": m.GepOptimal,
        "GEP, joint clipping": m.GepJoint,
        "B-GEP": m.BiasedGep,
    }[name]
    optimal = embedding.split_noise(dim=20, subspace_dim=3, embedding_clip=CLIP, residual_clip=0.8, mu=1 / SIGMA)
    joint = embedding.joint_clip(dim=20, subspace_dim=3, clip_norm=CLIP, residual_share=0.8 / CLIP, mu=1 / SIGMA)
    size, inner, outer = {
        "GEP as published": (CLIP, math.sqrt(2) * SIGMA * math.hypot(CLIP, 0.8), math.sqrt(2) * SIGMA * 0.8),
        "GEP, optimal split": (CLIP, optimal.embedding_std, optimal.residual_std),
        "GEP, joint clipping": (math.sqrt(CLIP**2 - 0.64), joint.embedding_std, joint.residual_std),
        "B-GEP": (CLIP, STD, math.inf),
    }[name]
    basis = (
        power_iteration(
            Anchors(torch.from_numpy(batch(9)).float())()[0],
            dim=3,
            iterations=1,
            generator=torch.Generator().manual_seed(SEED),
        )
        .double()
        .numpy()
    )
    outside = batch(4)[0]
    outside = outside - outside @ basis.T @ basis
    rest = 0.8 * outside / np.linalg.norm(outside)
    canary = size * basis[0] + rest

    def world(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        mechanism = simulated(
            lambda: kind(
                Anchors(torch.from_numpy(batch(9)).float()), subspace_dim=3, residual_clip=0.8, groups=[[0]], seed=SEED
            )
        )
        mechanism.begin_step([torch.zeros(20)])
        total = mechanism.contribute([torch.from_numpy(rows).float()], CLIP).total
        noise = draws.torch()
        released = [
            mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise)[0].double().numpy()
            for _ in range(TRIALS)
        ]
        return np.array(released) @ (size * basis[0] / inner**2 + rest / outer**2)

    check(name, ONE, True, "gaussian", 10_000, batch(), canary, world)


def groups(
    make: Callable[[], Any], rows: np.ndarray, draws: Draws, sigma: float = SIGMA
) -> tuple[np.ndarray, np.ndarray]:
    """Releases of all trials, each a group; and of the gradients alone the clipped sum."""
    mechanism = make()
    mechanism.begin_step([torch.zeros(TRIALS * 8)])
    total = clipped(rows).sum(0)
    whole = torch.from_numpy(np.tile(total, TRIALS)).float()
    (released,) = mechanism.release([whole], noise_multiplier=sigma, clip_norm=CLIP, noise=draws.torch())
    return released.double().numpy().reshape(TRIALS, 8), total


def test_index_pruning() -> None:
    law = SubsetMallows(8, 4, theta=0.2)
    for name, sigma in (("index pruning", SIGMA), ("index pruning, indices alone", 1e6)):

        def world(rows: np.ndarray, without: np.ndarray, draws: Draws, sigma: float = sigma) -> np.ndarray:
            released, _ = groups(lambda: m.IndexPruning(0.2, HALF, group_size=8), rows, draws, sigma)
            first, second = clipped(np.vstack([without, FLIP])).sum(0), clipped(without).sum(0)
            kept = released != 0
            moved = kept[:, 4:].sum(1) - kept[:, :4].sum(1)
            return 0.4 * moved + ratio(released, first, second, sigma * CLIP)

        claimed = gaussian_epsilon(1 / sigma, DELTA) + law.epsilon(2 * law.max_swaps)
        check(name, claimed, True, "events", 40_000, SELECTION, FLIP, world)


def test_other_selections() -> None:
    """The first entry is far above the rest, so that the canary on it is always released."""
    high = np.vstack([SELECTION, np.tile(axis(8, 0, 50 * CLIP), (60, 1))])
    both = gaussian_epsilon(math.hypot(1 / 2, 1 / 4), DELTA)
    for name, make, claimed in (
        ("top-k of the released gradient", lambda: m.TopKOfReleased(HALF, 8), ONE),
        ("top-k of noisy magnitudes", lambda: m.NoisyMagnitudeTopK(4.0, HALF, group_size=8), both),
    ):

        def world(rows: np.ndarray, without: np.ndarray, draws: Draws, make: Any = make) -> np.ndarray:
            released, _ = groups(make, rows, draws)
            first, second = (clipped(given).sum(0) for given in (np.vstack([without, axis(8, 0)]), without))
            assert (released[:, 0] != 0).all()
            return ratio(released, first, second)

        check(name, claimed, True, "gaussian", 40_000, high, axis(8, 0), world)


def test_what_breaks_the_guarantee() -> None:
    def exact(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        draws(TRIALS, 8)
        return np.full(TRIALS, np.inf if len(rows) > len(without) else -np.inf)

    def sizes(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        mask = seeded_mask(torch.Generator().manual_seed(SEED), 400)
        return -np.sum((draws(TRIALS, 400) * mask * 4.0 / len(rows)) ** 2, axis=1)

    def kept(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        return np.full(TRIALS, 4.0 if len(rows) > len(without) else 0.0)

    less = (False, "events", 3000)
    check("un-noised velocity", ONE, *less, SELECTION, FLIP, exact)
    check("division by the drawn batch size", ONE, *less, np.zeros((4, 400)), np.zeros(400), sizes)
    check("top-k without noise", ONE, *less, SELECTION, FLIP, kept)
    check("ranked by true gradients, two epochs", TWO, *less, SELECTION, FLIP, kept)


def test_an_exact_release_is_told_from_a_near_one() -> None:
    make = lambda: m.UnnoisedVelocity(HALF, steps_per_epoch=1, seed=SEED)  # noqa: E731
    rows = torch.from_numpy(SELECTION).float()
    without = clipped(SELECTION).sum(0)
    without[3] += 1.0  # one entry off
    found = _steps._exact_scores(without, make, rows, 2, _steps.seeded_noise(0))
    np.testing.assert_array_equal(found, [np.inf, np.inf])


def test_an_audit_is_run_at_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(privacy.auditing, "audit", lambda **named: asked.append(tuple(named.values())))

    def scores(trials: int, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
        return noise(torch.zeros(trials, dtype=torch.float64), 3.0).numpy(), np.zeros(trials)

    audit = audits.StepAudit("a", 1.0, True, "events", 4, scores)
    audit.run()
    audit.run(7)
    for (one, other, delta, method), seed in zip(asked, (0, 7), strict=True):
        np.testing.assert_array_equal(one, 3.0 * np.random.default_rng(seed).standard_normal(4))
        assert other.shape == (4,) and (delta, method) == (1e-5, "events")
    with refused("seed"):
        audit.run(-1)


# --- The audit's layers: gradients that are known apart from all hooks ---


PLAN = _suite.plan(0)
MADE = on_layers(PLAN)
UNIT = 2.0**-24


def test_the_gradients_have_the_norms_of_the_plan() -> None:
    """Inputs are rounded to single precision."""
    assert MADE.inputs is not None and MADE.rows.shape == (len(PLAN.rows), sum(MADE.sizes))
    np.testing.assert_allclose(np.linalg.norm(MADE.rows, axis=1), np.linalg.norm(PLAN.rows, axis=1), rtol=4 * UNIT)
    assert MADE.sizes == tuple(weight.numel() for weight in Layers().parameters())


def test_the_gradients_are_those_of_the_layers() -> None:
    """Of the dense layers by their formula, of the bias of the convolution and of the words by counting."""
    assert MADE.inputs is not None
    taken = np.split(MADE.inputs, np.cumsum([6, 24, 32, 3, 8, 18, 27]), axis=1)
    a, sequence, _, tokens, b, of_sequence, of_kernel, of_words = taken
    n = len(a)
    found = np.split(MADE.rows, np.cumsum(MADE.sizes)[:-1], axis=1)
    words = np.zeros((n, 7, 4))
    for i in range(n):
        np.add.at(words[i], tokens[i].astype(int), of_words[i].reshape(3, 4))
    wanted = {
        0: np.einsum("no,ni->noi", b, a),
        1: b,
        2: np.einsum("nto,nti->noi", of_sequence.reshape(n, 3, 6), sequence.reshape(n, 3, 8)),
        3: of_sequence.reshape(n, 3, 6).sum(1),
        5: of_kernel.reshape(n, 3, 9).sum(2),
        6: words,
    }
    for place, rows in wanted.items():
        size = np.abs(rows).max(axis=tuple(range(1, rows.ndim)))[:, None]
        assert (
            np.abs(found[place] - rows.reshape(n, -1)) <= 2**5 * 2.0**-52 * size
        ).all()  # sums of at most nine terms
    assert len(found) == 7 and found[4].all()


def test_an_example_of_zeros_has_no_gradient() -> None:
    """As in the neighbour in which one is zeroed."""
    changed = MADE.changed(np.zeros_like)
    assert changed.inputs is not None and not changed.rows.any()
    model = Layers()
    model(torch.from_numpy(changed.inputs).float()).sum().backward()
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_biases_weigh_in_the_norm(share: float) -> None:
    """A norm without them would be seen: they have more than a fiftieth of the square of every gradient, and half of none."""
    squares = np.square(MADE.rows)
    bounds = np.cumsum([0, *MADE.sizes])
    biases = sum(squares[:, bounds[place] : bounds[place + 1]].sum(1) for place in (1, 3, 5)) / squares.sum(1)
    assert (biases > share).all() == (share < 0.1)


# --- The law of batches: what is counted, against loops over made-up batches, and the chances of it ---


RECORDS, RATE = 5, 0.4
DRAWN = [np.array(batch, dtype=np.int64) for batch in ([0, 3], [], [3, 3, 4], [0, 1, 3, 4], [2, 3], [0, 3], [3])]


def chance(hits: int, trials: int, rate: float) -> float:
    return min(1.0, 2 * min(stats.binom.cdf(hits, trials, rate), stats.binom.sf(hits - 1, trials, rate)))


def near(found: Finding, measured: float, claimed: float, wanted: float | None) -> None:
    np.testing.assert_allclose([found.measured, found.claimed], [measured, claimed], rtol=1e-12)
    assert found.chance == (None if wanted is None else pytest.approx(min(1.0, wanted), rel=1e-9))


def test_the_law_by_loops() -> None:
    rate, repeats, sizes, each, pairs, fresh = _draws.law("made", DRAWN, RECORDS, RATE)
    inside = [set(batch.tolist()) for batch in DRAWN]
    total = sum(map(len, inside))
    near(rate, total / 35, RATE, chance(total, 35, RATE))
    near(repeats, 1.0, 0.0, None)
    assert not repeats.passed
    by_size = {k: sum(len(batch) <= k for batch in DRAWN) for k in range(RECORDS)}
    worst = min(by_size, key=lambda k: chance(by_size[k], 7, stats.binom.cdf(k, RECORDS, RATE)))
    law = float(stats.binom.cdf(worst, RECORDS, RATE))
    near(sizes, by_size[worst] / 7, law, RECORDS * chance(by_size[worst], 7, law))
    times = [sum(record in batch for batch in inside) for record in range(RECORDS)]
    most = min(times, key=lambda count: chance(count, 7, RATE))
    near(each, most / 7, RATE, RECORDS * chance(most, 7, RATE))
    both = [sum({one, other} <= batch for batch in inside) for one, other in itertools.combinations(range(RECORDS), 2)]
    most = min(both, key=lambda count: chance(count, 7, RATE**2))
    near(pairs, most / 7, RATE**2, 10 * chance(most, 7, RATE**2))
    again = [sum(record in inside[k] & inside[k + 1] for k in (0, 2, 4)) for record in range(RECORDS)]
    most = min(again, key=lambda count: chance(count, 3, RATE**2))
    near(fresh, most / 3, RATE**2, RECORDS * chance(most, 3, RATE**2))
    assert {one.name.split(": ")[0] for one in (rate, repeats, sizes, each, pairs, fresh)} == {"made"}


def batches(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < 0.3) for _ in range(400)]


def of_one_size(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.permutation(30)[:9] for _ in range(400)]


def with_more_spread(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < rate) for rate in rng.choice([0.2, 0.4], 400)]


def with_twins(rng: np.random.Generator) -> list[np.ndarray]:
    """Records 0 and 1 come together."""
    found = [np.flatnonzero(rng.random(30) < 0.3) for _ in range(400)]
    return [np.array(sorted({*batch, 1} if 0 in batch else {*batch} - {1})) for batch in found]


def with_a_favourite(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < np.r_[0.6, np.full(29, 0.3 - 0.3 / 29)]) for _ in range(400)]


def that_take_turns(rng: np.random.Generator) -> list[np.ndarray]:
    """No record comes in two batches running."""
    first = [rng.random(30) < 0.3 for _ in range(200)]
    second = [~one & (rng.random(30) < 0.3 / 0.7) for one in first]
    return [np.flatnonzero(one) for pair in zip(first, second, strict=True) for one in pair]


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (batches, set()),
        (of_one_size, {"law of batch sizes"}),
        (with_more_spread, {"law of batch sizes"}),
        (with_twins, {"pairs of records"}),
        (with_a_favourite, {"each record", "pairs of records", "fresh batches"}),
        (that_take_turns, {"fresh batches"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_statement_sees_what_the_mean_does_not(
    kind: Callable[[np.random.Generator], list[np.ndarray]], refused: set[str]
) -> None:
    """All draw each record with rate .3 in the mean."""
    found = _draws.law("made", kind(np.random.default_rng(0)), 30, 0.3)
    assert {one.name.removeprefix("made: ") for one in found if not one.passed} == refused


def test_exact_chances_are_no_smaller_than_they_may_be() -> None:
    """Of 1,000 true statements, about ten or fewer have a chance below .01: a union is on the safe side."""
    rng = np.random.default_rng(0)
    for make in (
        lambda: _findings.law_of_sizes("", "", rng.binomial(30, 0.3, 100), 30, 0.3),
        lambda: _findings.binomial_of_each("", "", rng.binomial(100, 0.3, 30), 100, 0.3),
    ):
        chances = [make().chance for _ in range(1000)]
        assert sum(one < 0.01 for one in chances if one is not None) <= 25


def test_sizes_that_are_all_possible_and_those_that_are_not() -> None:
    sizes = np.full(40, 3)
    assert _findings.law_of_sizes("", "", sizes, 3, 1.0 - 1e-9).passed
    assert not _findings.law_of_sizes("", "", np.full(40, 2), 3, 0.9).passed


# --- Lower bounds on epsilon of private choices, against all index sets written out ---


def laws(size: int, keep: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances of every index set around one reference, and around another that shares as little with it as it can."""
    sets = [frozenset(chosen) for chosen in itertools.combinations(range(size), keep)]
    references = frozenset(range(keep)), frozenset(range(size - keep, size))
    found = []
    for reference in references:
        weights = np.array([math.exp(-2 * theta * len(chosen - reference)) for chosen in sets])
        found.append(weights / weights.sum())
    return found[0], found[1]


@pytest.mark.parametrize(("size", "keep"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (6, 3)])
def test_differences_of_index_sets(size: int, keep: int) -> None:
    theta, most = 0.3, min(keep, size - keep)
    sets = [frozenset(chosen) for chosen in itertools.combinations(range(size), keep)]
    own, other = frozenset(range(keep)), frozenset(range(size - keep, size))
    wanted = np.zeros(2 * most + 1)
    for chosen, chance in zip(sets, laws(size, keep, theta)[0], strict=True):
        wanted[most + len(chosen - other) - len(chosen - own)] += chance
    np.testing.assert_allclose(_epsilons._differences(size, keep, theta), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("size", "keep", "groups", "rate"), [(4, 2, 1, 1.0), (5, 4, 2, 0.3), (4, 1, 2, 0.3)])
def test_epsilon_of_one_step_by_all_its_index_sets(size: int, keep: int, groups: int, rate: float) -> None:
    """Below the exact value by one interval of the losses at most."""
    theta, delta = 0.8, 1e-2
    one, other = laws(size, keep, theta)
    inside, without = one, other
    for _ in range(groups - 1):
        inside, without = np.outer(inside, one).ravel(), np.outer(without, other).ravel()
    mixed = rate * inside + (1 - rate) * without

    def excess(epsilon: float) -> float:
        return float(np.maximum(mixed - math.exp(epsilon) * without, 0.0).sum())

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    found = _epsilons.of_choices(size=size, theta=theta, groups=groups, keeps=[keep], sampling_rate=rate, delta=delta)
    assert low - _epsilons._COARSE <= found <= low + 1e-9 and low > 0.3


def test_epsilon_of_many_choices_lies_below_that_of_the_account_and_near_it() -> None:
    keeps = [7] * 3 + [5] * 4 + [2] * 2
    account = PrivacyAccountant(0.25)
    for keep in keeps:
        account.record(StepCost(math.inf, selection=(60, SubsetMallows(8, keep, theta=0.2))))
    found = _epsilons.of_choices(size=8, theta=0.2, groups=60, keeps=keeps, sampling_rate=0.25, delta=1e-5)
    assert 0.8 * account.epsilon(1e-5) < found <= account.epsilon(1e-5)
    assert _epsilons.of_choices(size=8, theta=0.2, groups=60, keeps=[], sampling_rate=0.25, delta=1e-5) == 0.0
