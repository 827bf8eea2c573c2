"""Audits of one step of the papers' mechanisms: what its releases prove about epsilon, against what is claimed.

Each audit has a batch and an example that is added to it, chosen to be found, as in the worst case of the claim. Scores are
log-likelihood ratios where the law is known, or else what an attacker would look at. Masks, subspaces and bases are public:
both worlds have the same.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory import embedding, privacy
from dptheory.privacy import gaussian_epsilon
from dptheory.privacy.auditing import AuditResult
from dptheory.training import _argument_ranges
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulated
from dptheory.training.mechanisms import AnchorSource, Mechanism, Noise

# --- Two worlds, with and without an example: their batches, what a mechanism releases on them, and log-likelihood ratios


Array = NDArray[np.float64]
Make = Callable[[], Mechanism]
World = Callable[[torch.Tensor, int, Noise], Array]
"""Scores of so many trials on the given per-sample gradients, shape (n, d)."""

CLIP = 1.3
SIGMA = 2.0


def seeded_noise(seed: int) -> Noise:
    rng = np.random.default_rng(seed)

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        return torch.from_numpy(std * rng.standard_normal(tuple(like.shape))).to(like)

    return noise


def batch_of_five(dim: int, seed: int = 0) -> torch.Tensor:
    """Five gradients, some of them clipped."""
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.4, (5, dim))).float()


def both_worlds(batch: torch.Tensor, canary: torch.Tensor, world: World) -> Callable[[int, Noise], tuple[Array, Array]]:
    joined = torch.cat([batch, canary[None]])
    return lambda trials, noise: (world(joined, trials, noise), world(batch, trials, noise))


def one_entry(dim: int, entry: int) -> torch.Tensor:
    canary = torch.zeros(dim)
    canary[entry] = CLIP
    return canary


def _begun(make: Make, samples: torch.Tensor) -> tuple[Mechanism, torch.Tensor]:
    """A fresh mechanism in its first step, and the clipped sum that it is to release with noise."""
    mechanism = simulated(make)
    mechanism.begin_step([torch.zeros(samples.shape[1])])
    return mechanism, mechanism.contribute([samples], CLIP).total[0]


def _released(mechanism: Mechanism, total: torch.Tensor, noise: Noise, noise_multiplier: float = SIGMA) -> Array:
    (found,) = mechanism.release([total], noise_multiplier=noise_multiplier, clip_norm=CLIP, noise=noise)
    return np.asarray(found.double().numpy())


def clipped_total(make: Make, samples: torch.Tensor) -> Array:
    """The clipped sum that a fresh mechanism releases with noise."""
    return np.asarray(_begun(make, samples)[1].double().numpy())


def tiled_releases(make: Make, samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """Releases of a mechanism that acts on every entry apart, all trials at once; shape (trials, d)."""
    mechanism, total = _begun(make, samples)
    return _released(mechanism, total.expand(trials, -1), noise)


def grouped_releases(
    make: Make, samples: torch.Tensor, trials: int, noise: Noise, noise_multiplier: float = SIGMA
) -> Array:
    """Releases of a mechanism that acts on every group apart: each trial is a group."""
    mechanism, total = _begun(make, samples)
    mechanism.begin_step([torch.zeros(trials * len(total))])
    return _released(mechanism, total.repeat(trials), noise, noise_multiplier).reshape(trials, -1)


def log_ratio(released: Array, first: Array, second: Array, noise_multiplier: float = SIGMA) -> Array:
    """log N(first, (sigma C)^2) - log N(second, ...) of the entries released; those pruned are 0."""
    squares = np.square(released - second) - np.square(released - first)
    return np.asarray((squares * (released != 0)).sum(-1) / (2 * (noise_multiplier * CLIP) ** 2))


DELTA = 1e-5
Embedding = m.Gep | m.GepOptimal | m.GepJoint | m.BiasedGep

_DIM = 20
_HALF = 4
_SELECTION_DIM = 2 * _HALF
_MANY, _MORE, _SOME, _FEW = 40_000, 10_000, 3_000, 1_500
_SEED = 3


@dataclass(frozen=True)
class StepAudit:
    """One audit.

    Attributes:
        name: what is audited.
        claimed: epsilon at :data:`DELTA` that is claimed: by the mechanism's own cost, or, of a mechanism that breaks the
            guarantee, by the account of the Gaussian mechanism that it is mistaken for.
        private: the claim should stand.
        method: of :func:`dptheory.privacy.auditing.audit`.
        trials: in each world.
        scores: of the worlds with and without the example, from a number of trials and a noise.

    Example: there are audits of private mechanisms, and of such as are not.
        >>> from dptheory.training.audits import StepAudit, step_audits
        >>> {audit.private for audit in step_audits()}
        {False, True}
    """

    name: str
    claimed: float
    private: bool
    method: str
    trials: int
    scores: Callable[[int, Noise], tuple[Array, Array]]

    def run(self, seed: int = 0) -> AuditResult:
        """The result at confidence 0.99; one seed gives one result on every version of torch."""
        found = self.scores(self.trials, seeded_noise(_argument_ranges.seed("seed", seed)))
        scores_with, scores_without = found
        return privacy.auditing.audit(
            scores_with=scores_with, scores_without=scores_without, delta=DELTA, method=self.method
        )


def step_audits() -> tuple[StepAudit, ...]:
    """All audits: the mechanisms that are private first, then those that are not.

    Returns:
        One for every mechanism of the papers at least; each one's ``run(seed)`` takes up to seconds.

    Example: what an attack on one step of DP-SGD proves is no more than what is claimed.
        >>> from dptheory.training.audits import step_audits
        >>> private = step_audits()[0]
        >>> private.name, private.run(seed=0).epsilon_lower <= private.claimed
        ('DP-SGD', True)
    """
    return (*_noisy_sums(), *_embeddings(), *_selections(), *_broken())


def _claimed(mechanism: Mechanism, dim: int, noise_multiplier: float = SIGMA) -> float:
    """Epsilon of one step on the whole data, by the mechanism's own cost; a known mask does not make it smaller."""
    mechanism.begin_step([torch.zeros(dim)])
    cost = mechanism.cost(noise_multiplier)
    values = gaussian_epsilon(1.0 / cost.noise_multiplier, DELTA)
    if cost.selection is None:
        return values
    groups, model = cost.selection
    return values + groups * model.epsilon(2 * model.max_swaps)


def _naive(steps: int = 1) -> float:
    """Epsilon of Gaussian mechanisms of multiplier SIGMA, by which the broken variants would be accounted."""
    return gaussian_epsilon(math.sqrt(steps) / SIGMA, DELTA)


# --- noisy sums -------------------------------------------------------------------------------------------------------


def _noisy_sums() -> list[StepAudit]:
    drop_rate = m.Constant(0.5)
    held = partial(m.PosteriorFreeze, drop_rate, _SEED, refresh_steps=10)
    shown = simulated(held)
    shown.begin_step([torch.zeros(_DIM)])
    kept = int(shown.mask[0].nonzero()[0])
    ranked = partial(m.RankedSparsification, drop_rate, steps_per_epoch=1, seed=_SEED)
    cases: tuple[tuple[str, Make, torch.Tensor], ...] = (
        ("DP-SGD", m.DpSgd, one_entry(_DIM, 0)),
        ("random sparsification", partial(m.RandomSparsification, drop_rate, _SEED), torch.full((_DIM,), 100.0)),
        ("posterior freeze, mask held", held, one_entry(_DIM, kept)),
        ("ranked sparsification", ranked, torch.full((_DIM,), 100.0)),
    )
    audits = [
        StepAudit(
            name,
            _claimed(make(), _DIM),
            True,
            "gaussian",
            _MANY,
            _ratio_scores(make, batch_of_five(_DIM), canary, tiled_releases),
        )
        for name, make, canary in cases
    ]
    fresh = partial(m.PosteriorFreeze, drop_rate, _SEED)
    scores = both_worlds(batch_of_five(_DIM), one_entry(_DIM, 0), _fresh_mask_scores)
    audits.append(StepAudit("posterior freeze, fresh masks", _claimed(fresh(), _DIM), True, "events", _SOME, scores))
    longer = 2 * one_entry(_DIM, 0)  # votes that the clip is too small, and adds a whole C
    scores = _counted_scores(batch_of_five(_DIM), longer)
    audits.append(
        StepAudit("adaptive clipping, sum and count", _claimed(_adaptive(), _DIM), True, "gaussian", _MORE, scores)
    )
    two = partial(_two_epochs, ranked, _selection_batch(), _flipping_canary())
    scores = both_worlds(_selection_batch(), _flipping_canary(), two)
    audits.append(StepAudit("ranked sparsification, two epochs", _naive(2), True, "gaussian", _FEW, scores))
    return audits


_COUNT_SHARE = 0.2


def _adaptive() -> m.AdaptiveClipping:
    return m.AdaptiveClipping(m.DpSgd(), expected_batch_size=5.0, clip_rate=1.0, count_share=_COUNT_SHARE)


def _counted_scores(batch: torch.Tensor, canary: torch.Tensor) -> Callable[[int, Noise], tuple[Array, Array]]:
    """Log-likelihood ratio of sum and count; the count is what the clip shows of it."""
    stds = privacy.clipping.counted_noise(noise_multiplier=SIGMA, count_share=_COUNT_SHARE)
    totals = []
    for samples in (torch.cat([batch, canary[None]]), batch):
        mechanism = _adaptive()
        mechanism.begin_step([torch.zeros(_DIM)])
        sums, votes = mechanism.contribute([samples], CLIP).total
        totals.append((sums.double().numpy(), float(votes)))
    (first, votes_with), (second, votes_without) = totals

    def scores(samples: torch.Tensor, trials: int, noise: Noise) -> Array:
        mechanism = _adaptive()
        mechanism.begin_step([torch.zeros(_DIM)])
        start, total = mechanism.state_dict(), mechanism.contribute([samples], CLIP).total
        sums, counts = np.empty((trials, _DIM)), np.empty(trials)
        for i in range(trials):
            mechanism.load_state_dict(start)
            (released,) = mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise)
            mechanism.end_step([released], SIGMA * CLIP)
            sums[i], counts[i] = released.numpy(), -5.0 * math.log(mechanism.clip_of(CLIP) / CLIP)
        squares = (counts - votes_without) ** 2 - (counts - votes_with) ** 2
        return log_ratio(sums, first, second, stds.gradient_multiplier) + squares / (2 * stds.count_std**2)

    return both_worlds(batch, canary, scores)


def _ratio_scores(
    make: Make, batch: torch.Tensor, canary: torch.Tensor, releases: Callable[..., Array]
) -> Callable[[int, Noise], tuple[Array, Array]]:
    """Log-likelihood ratios of releases that are all there is to see."""
    first, second = clipped_total(make, torch.cat([batch, canary[None]])), clipped_total(make, batch)
    return both_worlds(
        batch, canary, lambda s, trials, noise: log_ratio(releases(make, s, trials, noise), first, second)
    )


def _fresh_mask_scores(samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """Log-likelihood ratio of the canary's one entry; 0 where the public mask drops it."""
    mechanism = simulated(lambda: m.PosteriorFreeze(m.Constant(0.5), _SEED))
    second = float(clipped_total(m.DpSgd, samples[:5])[0])
    released = np.empty(trials)
    for i in range(trials):
        mechanism.begin_step([torch.zeros(samples.shape[1])])
        released[i] = _released(mechanism, mechanism.contribute([samples], CLIP).total[0], noise)[0]
    return log_ratio(released[:, None], np.array([second + CLIP]), np.array([second]))


def _two_epochs(
    make: Callable[[], m.RankedSparsification],
    batch: torch.Tensor,
    canary: torch.Tensor,
    samples: torch.Tensor,
    trials: int,
    noise: Noise,
) -> Array:
    """Log-likelihood ratio of the noisy sums of two epochs of one step; the second mask is a function of the first sum."""
    joined = torch.cat([batch, canary[None]])
    scores = np.zeros(trials)
    for i in range(trials):
        mechanism = simulated(make)
        for _ in range(2):
            mechanism.begin_step([torch.zeros(batch.shape[1])])
            totals = [mechanism.contribute([s], CLIP).total for s in (joined, batch)]
            released = mechanism.release(
                totals[0 if len(samples) == len(joined) else 1], noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise
            )
            mechanism.end_step(released, SIGMA * CLIP)
            first, second = (t[0].double().numpy() for t in totals)
            scores[i] += log_ratio(released[0].double().numpy(), first, second)
    return scores


# --- gradient embedding perturbation ------------------------------------------------------------------------------------


class _FixedAnchors(AnchorSource):
    """Anchor gradients that stay as they are."""

    def __call__(self) -> list[torch.Tensor]:
        return [batch_of_five(_DIM, seed=9)]


_RESIDUAL_CLIP = 0.8
_SUBSPACE_DIM = 3


def _embeddings() -> list[StepAudit]:
    root = math.sqrt(2) * SIGMA
    optimal = embedding.split_noise(
        dim=_DIM, subspace_dim=_SUBSPACE_DIM, embedding_clip=CLIP, residual_clip=_RESIDUAL_CLIP, mu=1 / SIGMA
    )
    joint = embedding.joint_clip(
        dim=_DIM, subspace_dim=_SUBSPACE_DIM, clip_norm=CLIP, residual_share=_RESIDUAL_CLIP / CLIP, mu=1 / SIGMA
    )
    shares = math.sqrt(CLIP**2 - _RESIDUAL_CLIP**2)
    # the residual noise of the published mechanism has a part in the subspace
    published = math.hypot(root * CLIP, root * _RESIDUAL_CLIP)
    cases: tuple[tuple[str, Callable[..., Embedding], float, tuple[float, float]], ...] = (
        ("GEP as published", m.Gep, CLIP, (published, root * _RESIDUAL_CLIP)),
        ("GEP, optimal split", m.GepOptimal, CLIP, (optimal.embedding_std, optimal.residual_std)),
        ("GEP, joint clipping", m.GepJoint, shares, (joint.embedding_std, joint.residual_std)),
        ("B-GEP", m.BiasedGep, CLIP, (SIGMA * CLIP, math.inf)),
    )
    audits = []
    for name, kind, size, stds in cases:
        make = partial(_embedding, kind)
        shown = simulated(make)
        shown.begin_step([torch.zeros(_DIM)])
        basis = shown.bases[0]
        outside = batch_of_five(_DIM, seed=4)[0]
        outside = outside - (outside @ basis.T) @ basis
        canary = size * basis[0] + _RESIDUAL_CLIP * outside / outside.norm()
        world = partial(_embedding_scores, make, canary, stds)
        claimed = _claimed(make(), _DIM)
        audits.append(
            StepAudit(name, claimed, True, "gaussian", _MORE, both_worlds(batch_of_five(_DIM), canary, world))
        )
    return audits


def _embedding(kind: Callable[..., Embedding]) -> Embedding:
    return kind(_FixedAnchors(), subspace_dim=_SUBSPACE_DIM, residual_clip=_RESIDUAL_CLIP, groups=[[0]], seed=_SEED)


def _embedding_scores(
    make: Callable[[], Embedding],
    canary: torch.Tensor,
    stds: Sequence[float],
    samples: torch.Tensor,
    trials: int,
    noise: Noise,
) -> Array:
    """Inner products with the canary, in the subspace and off it, each over its variance."""
    mechanism = simulated(make)
    mechanism.begin_step([torch.zeros(_DIM)])
    total = mechanism.contribute([samples], CLIP).total
    released = torch.stack(
        [mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise)[0] for _ in range(trials)]
    )
    inside = (canary @ mechanism.bases[0].T) @ mechanism.bases[0]
    direction = inside / stds[0] ** 2 + (canary - inside) / stds[1] ** 2
    return np.asarray((released @ direction).double().numpy())


# --- selections ---------------------------------------------------------------------------------------------------------

_THETA = 0.2
_GAP = 0.3


def _selection_batch() -> torch.Tensor:
    """A sum whose first half is a little larger than its second."""
    total = torch.ones(_SELECTION_DIM)
    total[:_HALF] += _GAP
    return (total / 5).repeat(5, 1)


def _flipping_canary() -> torch.Tensor:
    """An example of norm C that makes the second half the larger one."""
    canary = torch.zeros(_SELECTION_DIM)
    canary[_HALF:] = CLIP / math.sqrt(_HALF)
    return canary


def _index_scores(noise_multiplier: float, samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """Log-likelihood ratio of index set and values of index pruning."""
    make = partial(m.IndexPruning, _THETA, m.Constant(0.5), group_size=_SELECTION_DIM)
    released = grouped_releases(make, samples, trials, noise, noise_multiplier)
    batch = _selection_batch()
    first, second = clipped_total(make, torch.cat([batch, _flipping_canary()[None]])), clipped_total(make, batch)
    kept = released != 0
    moved = kept[:, _HALF:].sum(1) - kept[:, :_HALF].sum(1)
    return np.asarray(2 * _THETA * moved + log_ratio(released, first, second, noise_multiplier))


def _selections() -> list[StepAudit]:
    batch, flip = _selection_batch(), _flipping_canary()
    half = m.Constant(0.5)
    index = partial(m.IndexPruning, _THETA, half, group_size=_SELECTION_DIM)
    largest = one_entry(_SELECTION_DIM, 0)
    # The first entry is far above the rest, with or without the canary: it is always released.
    high = torch.cat([batch, 50 * largest.repeat(60, 1)])
    audits = [
        StepAudit(
            name,
            _claimed(index(), _SELECTION_DIM, noise_multiplier),
            True,
            "events",
            _MANY,
            both_worlds(batch, flip, partial(_index_scores, noise_multiplier)),
        )
        for name, noise_multiplier in (("index pruning", SIGMA), ("index pruning, indices alone", 1e6))
    ]
    makes: tuple[tuple[str, Make], ...] = (
        ("top-k of the released gradient", partial(m.TopKOfReleased, half, _SELECTION_DIM)),
        ("top-k of noisy magnitudes", partial(m.NoisyMagnitudeTopK, 2 * SIGMA, half, group_size=_SELECTION_DIM)),
    )
    for name, make in makes:
        scores = _ratio_scores(make, high, largest, grouped_releases)
        audits.append(StepAudit(name, _claimed(make(), _SELECTION_DIM), True, "gaussian", _MANY, scores))
    return audits


# --- what breaks the guarantee ------------------------------------------------------------------------------------------

_SILENT_DIM = 400


def _broken() -> list[StepAudit]:
    batch, flip = _selection_batch(), _flipping_canary()
    half = m.Constant(0.5)
    velocity = partial(m.UnnoisedVelocity, half, steps_per_epoch=1, seed=_SEED)
    silent = torch.zeros(4, _SILENT_DIM)
    cases: tuple[tuple[str, float, torch.Tensor, torch.Tensor, World], ...] = (
        ("un-noised velocity", _naive(), batch, flip, partial(_exact_scores, clipped_total(velocity, batch), velocity)),
        ("division by the drawn batch size", _naive(), silent, silent[0], _size_scores),
        ("top-k without noise", _naive(), batch, flip, _kept_scores),
        ("ranked by true gradients, two epochs", _naive(2), batch, flip, _ranked_scores),
    )
    return [
        StepAudit(name, claimed, False, "events", _SOME, both_worlds(one, canary, world))
        for name, claimed, one, canary, world in cases
    ]


def _exact_scores(without: Array, make: Make, samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """Infinite evidence: the release is the sum without the example, or it is not."""
    same = (tiled_releases(make, samples, trials, noise) == without).all(1)
    return np.where(same, -np.inf, np.inf)


def _size_scores(samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """How small the noise is. All gradients are zero, the canary's too: it adds nothing but itself to the batch size."""
    released = tiled_releases(
        partial(m.BatchSizeDivisor, expected_batch_size=4.0, drop_rate=0.5, seed=_SEED), samples, trials, noise
    )
    return np.asarray(-np.square(released).sum(1))


def _kept_scores(samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """How many entries of the second half are released."""
    mechanism = m.TopKWithoutNoise(0.5)
    total = mechanism.contribute([samples], CLIP).total
    released = torch.stack(
        [mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise)[0] for _ in range(trials)]
    )
    return np.asarray((released[:, _HALF:] != 0).sum(1).double().numpy())


def _ranked_scores(samples: torch.Tensor, trials: int, noise: Noise) -> Array:
    """How many entries of the second half the second epoch updates."""
    scores = np.empty(trials)
    for i in range(trials):
        mechanism = m.RankedByTrueGradients(m.Constant(0.5), steps_per_epoch=1, seed=_SEED)
        for _ in range(2):
            mechanism.begin_step([torch.zeros(_SELECTION_DIM)])
            released = mechanism.release(
                mechanism.contribute([samples], CLIP).total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise
            )
            mechanism.end_step(released, SIGMA * CLIP)
        scores[i] = float((released[0][_HALF:] != 0).sum())
    return scores
