"""The audits of one step: every claim, and the scores of a few trials, against a direct computation."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dptheory import embedding as embedding
from dptheory import privacy
from dptheory.privacy import gaussian_epsilon
from dptheory.pruning import SubsetMallows
from dptheory.training import audits
from dptheory.training import mechanisms as m
from dptheory.training._randomness import subset
from dptheory.training._streams import simulated
from dptheory.training.audits import _steps
from dptheory.training.mechanisms import Noise, power_iteration
from tests.refused import refused

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


class Anchors:
    def __call__(self) -> list[torch.Tensor]:
        return [torch.from_numpy(batch(9)).float()]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


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
        power_iteration(Anchors()()[0], dim=3, iterations=1, generator=torch.Generator().manual_seed(SEED))
        .double()
        .numpy()
    )
    outside = batch(4)[0]
    outside = outside - outside @ basis.T @ basis
    rest = 0.8 * outside / np.linalg.norm(outside)
    canary = size * basis[0] + rest

    def world(rows: np.ndarray, without: np.ndarray, draws: Draws) -> np.ndarray:
        mechanism = simulated(lambda: kind(Anchors(), subspace_dim=3, residual_clip=0.8, groups=[[0]], seed=SEED))
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
