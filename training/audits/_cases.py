"""Every mechanism as it goes through the audits of whole trainings: how it is built, what is public, what its release must be."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from dptheory import embedding
from dptheory.pruning import SubsetMallows
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulated
from dptheory.training.audits import _laws
from dptheory.training.audits._board import Array, bases
from dptheory.training.mechanisms import AnchorSource, Mechanism, shared_dimensions

SIZES = (200, 480, 320)
CLIP = 1.3
SIGMA = 1.0
GROUP, KEEP, THETA = 8, 4, 0.2
SELECTION_SIGMA = 0.1
"""Of the order of what tells two magnitudes of a sum apart: with much more of it either would be chosen as often as the other."""
RESIDUAL_CLIP = 0.8
LAYER_SHARES = (1.0, 3.0, 2.0)
GAMMA = 0.4
SUBSPACE = 24
RANKING_STEPS = 8
STEPS = 24
"""That a moving share takes from its first value to its last."""

Choice = Callable[[Array, Array], tuple[float, float, float]]
"""From the clipped sum and the release to (count, its mean, its variance) of what tells whether entries are chosen as stated."""


@dataclass(frozen=True)
class Counted:
    """A count of the gradients no longer than the clip, which leaves with noise in every step, and moves the clip.

    Attributes:
        share: of the budget that the count takes.
        rate, quantile, size: of the move of the clip; the last is the batch size that is expected.
        longer: which of some gradients are longer than a clip.
    """

    share: float
    rate: float
    quantile: float
    size: float
    longer: Callable[[Array, float], NDArray[np.bool_]]

    def votes(self, rows: Array, clip_norm: float) -> float:
        """The count without noise."""
        return float(np.sum(np.where(self.longer(rows, clip_norm), -0.5, 0.5)[rows.any(1)]))

    def released(self, clips: tuple[float, float]) -> float:
        """The count as anybody reads it from two clips."""
        return self.size * (math.log(clips[0] / clips[1]) / self.rate + self.quantile - 0.5)

    def std(self, noise_multiplier: float) -> float:
        return noise_multiplier / (2 * math.sqrt(self.share))


@dataclass(frozen=True)
class Case:
    """A mechanism under audit.

    Attributes:
        law: of a release, given the examples of the step and what is public.
        private: the mechanism keeps to all this; otherwise the audits must find that it does not.
        fresh: its mask is drawn anew in every step, apart from all data, uniform among those of its size.
        shown: its mask or its bases, which follow from seed and releases alone; None where it shows neither.
        linear: its release moves by no more than 1 / sigma, in units of its noise, with one example.
        amplified: in a secure run, the mask makes epsilon smaller.
        choice: the law of its private choice of entries; None where it makes none.
        share: of the entries, that leave at step 0, 1, ...; None where it cannot be told beforehand.
        counted: its clip follows a noisy count.
        index: size of its groups and dispersion, where its choice of entries is drawn around the largest ones of each group.
    """

    name: str
    make: Callable[[int | None], Mechanism]
    law: _laws.LawOf
    private: bool = True
    fresh: bool = False
    shown: Callable[[Any], Array] | None = None
    linear: bool = True
    amplified: bool = False
    choice: Choice | None = None
    share: Callable[[int], float] | None = None
    returns: bool = False
    index: tuple[int, float] | None = None
    counted: Counted | None = None

    def built(self, seed: int | None) -> Mechanism:
        """A new one, whose masks follow from the seed alone: anyone with the seed can tell them."""
        return simulated(lambda: self.make(seed))


def cases() -> tuple[Case, ...]:
    """The mechanisms that are private first, then those that are not, taken for what they might be mistaken for."""
    return (*_sums(), *_rules(), *_embeddings(), *_selections(), *_broken())


def _sums() -> list[Case]:
    half = m.Constant(0.5)
    cooling = m.GradualCooling(final_drop_rate=0.8, cooling_epochs=3, steps_per_epoch=RANKING_STEPS)
    return [
        Case("DP-SGD", lambda seed: m.DpSgd(), _laws.whole, share=_whole),
        Case(
            "random sparsification",
            lambda seed: m.RandomSparsification(half, seed),
            _laws.masked_then_clipped,
            fresh=True,
            shown=mask,
            share=_half,
        ),
        Case(
            "random sparsification, cooling",
            lambda seed: m.RandomSparsification(cooling, seed),
            _laws.masked_then_clipped,
            shown=mask,
            share=lambda step: (1.0, 0.6, 0.2)[step // RANKING_STEPS],
        ),
        Case(
            "posterior freeze",
            lambda seed: m.PosteriorFreeze(half, seed),
            _laws.clipped_then_masked,
            fresh=True,
            amplified=True,
            shown=mask,
            share=_half,
        ),
        Case(
            "posterior freeze, share that moves",
            lambda seed: m.PosteriorFreeze(m.Linear(start=0.7, end=0.01, steps=STEPS), seed),
            _laws.clipped_then_masked,
            fresh=True,
            amplified=True,
            shown=mask,
            share=lambda step: 0.3 + 0.03 * step,
        ),
        Case(
            "posterior freeze, mask held",
            lambda seed: m.PosteriorFreeze(m.Constant(0.9), seed, refresh_steps=RANKING_STEPS),
            _laws.clipped_then_masked,
            shown=mask,
            share=lambda step: 0.1,
        ),
        Case(
            "ranked sparsification",
            lambda seed: m.RankedSparsification(half, steps_per_epoch=RANKING_STEPS, seed=seed),
            _laws.masked_then_clipped,
            shown=mask,
            share=lambda step: 1.0 if step < RANKING_STEPS else 0.5,
            returns=True,
        ),
        Case(
            "layer freezing",
            lambda seed: m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=3),
            _laws.whole,
            share=lambda step: 1.0 if step < 3 else sum(SIZES[1:]) / sum(SIZES),
        ),
    ]


def _rules() -> list[Case]:
    """Clipping by other rules, alone and with masks and frozen layers."""
    half = m.Constant(0.5)
    by_layer = _laws.by_layer(SIZES, LAYER_SHARES)
    shares = np.asarray(LAYER_SHARES) / sum(LAYER_SHARES)

    def longer(rows: Array, clip_norm: float) -> NDArray[np.bool_]:
        return np.asarray(np.linalg.norm(rows, axis=1) > clip_norm)

    def longer_somewhere(rows: Array, clip_norm: float) -> NDArray[np.bool_]:
        layers = np.split(rows, np.cumsum(SIZES)[:-1], axis=1)
        found = [longer(x, clip_norm * math.sqrt(w)) for x, w in zip(layers, shares, strict=True)]
        return np.asarray(np.any(found, axis=0))

    adaptive = Counted(share=0.2, rate=0.5, quantile=0.3, size=10.0, longer=longer)

    def moving(inner: Mechanism) -> Mechanism:
        return m.AdaptiveClipping(
            inner,
            expected_batch_size=adaptive.size,
            quantile=adaptive.quantile,
            clip_rate=adaptive.rate,
            count_share=adaptive.share,
        )

    return [
        Case(
            "clipping by layer",
            lambda seed: m.DpSgd(clipping=m.LayerClipping(LAYER_SHARES)),
            by_layer,
            share=_whole,
        ),
        Case(
            "clipping by layer, masked",
            lambda seed: m.RandomSparsification(half, seed, clipping=m.LayerClipping(LAYER_SHARES)),
            _laws.by_layer(SIZES, LAYER_SHARES, masked=True),
            fresh=True,
            shown=mask,
            share=_half,
        ),
        Case(
            "clipping by layer, frozen",
            lambda seed: m.LayerFreezing(m.DpSgd(clipping=m.LayerClipping(LAYER_SHARES)), frozen_layers=1, from_step=3),
            by_layer,
            share=lambda step: 1.0 if step < 3 else sum(SIZES[1:]) / sum(SIZES),
        ),
        Case(
            "automatic clipping",
            lambda seed: m.DpSgd(clipping=m.AutomaticClipping(gamma=GAMMA)),
            _laws.automatic(GAMMA),
            share=_whole,
        ),
        Case(
            "adaptive clipping",
            lambda seed: moving(m.DpSgd()),
            _laws.at_its_clip(_laws.whole, adaptive.share),
            share=_whole,
            counted=adaptive,
        ),
        Case(
            "adaptive clipping by layer",
            lambda seed: moving(m.DpSgd(clipping=m.LayerClipping(LAYER_SHARES))),
            _laws.at_its_clip(by_layer, adaptive.share),
            share=_whole,
            counted=replace(adaptive, longer=longer_somewhere),
        ),
        Case(
            "adaptive clipping, masked",
            lambda seed: moving(m.RandomSparsification(half, seed)),
            _laws.at_its_clip(_laws.masked_then_clipped, adaptive.share),
            share=_half,
            counted=adaptive,
        ),
    ]


def _whole(step: int) -> float:
    return 1.0


def _half(step: int) -> float:
    return 0.5


def _embeddings() -> list[Case]:
    dims = shared_dimensions(SIZES, SUBSPACE)
    total, quota = sum(SIZES), sum(dims)

    def apart(inside: Array, outside: Array, clip_norm: float) -> tuple[Array, Array]:
        return _laws.clipped(inside, clip_norm), _laws.clipped(outside, RESIDUAL_CLIP)

    def together(inside: Array, outside: Array, clip_norm: float) -> tuple[Array, Array]:
        both = _laws.clipped(np.hstack([inside, outside]), clip_norm)
        return both[:, :total], _laws.clipped(both[:, total:], RESIDUAL_CLIP)

    def alone(inside: Array, outside: Array, clip_norm: float) -> tuple[Array, Array]:
        return _laws.clipped(inside, clip_norm), np.zeros_like(outside)

    def published(noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        return math.sqrt(2) * noise_multiplier * math.hypot(clip_norm, RESIDUAL_CLIP), math.sqrt(
            2
        ) * noise_multiplier * RESIDUAL_CLIP

    def optimal(noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        split = embedding.split_noise(
            dim=total,
            subspace_dim=quota,
            embedding_clip=clip_norm,
            residual_clip=RESIDUAL_CLIP,
            mu=1 / noise_multiplier,
        )
        return split.embedding_std, split.residual_std

    def joint(noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        split = embedding.joint_clip(
            dim=total,
            subspace_dim=quota,
            clip_norm=clip_norm,
            residual_share=RESIDUAL_CLIP / clip_norm,
            mu=1 / noise_multiplier,
        )
        return split.embedding_std, split.residual_std

    kinds: tuple[tuple[str, Any, Any, Any], ...] = (
        ("GEP as published", m.Gep, apart, published),
        ("GEP, optimal split", m.GepOptimal, apart, optimal),
        ("GEP, joint clipping", m.GepJoint, together, joint),
        ("B-GEP", m.BiasedGep, alone, lambda noise_multiplier, clip_norm: (noise_multiplier * clip_norm, 0.0)),
    )
    groups = [[place] for place in range(len(SIZES))]
    return [
        Case(
            name,
            partial(_embedding, kind, groups),
            _laws.embedded(SIZES, dims, parts, stds),
            shown=bases,
            share=_whole,
        )
        for name, kind, parts, stds in kinds
    ]


def _embedding(kind: Any, groups: list[list[int]], seed: int | None) -> Mechanism:
    anchors = _FixedAnchors()
    built: Mechanism = kind(anchors, subspace_dim=SUBSPACE, residual_clip=RESIDUAL_CLIP, groups=groups, seed=seed)
    return built


def _selections() -> list[Case]:
    half = m.Constant(0.5)
    return [
        Case(
            "index pruning",
            lambda seed: m.IndexPruning(THETA, half, group_size=GROUP),
            _laws.clipped_then_masked,
            linear=False,
            choice=_swaps,
            share=_half,
            index=(GROUP, THETA),
        ),
        Case(
            "index pruning, share that moves",
            lambda seed: m.IndexPruning(THETA, m.Linear(start=1.0, end=0.25, steps=STEPS), group_size=GROUP),
            _laws.clipped_then_masked,
            linear=False,
            choice=_swaps,
            share=_moving,
            index=(GROUP, THETA),
        ),
        Case(
            "top-k of the released gradient",
            lambda seed: m.TopKOfReleased(half, GROUP),
            _laws.largest_released(GROUP, KEEP),
            linear=False,
            share=_half,
        ),
        Case(
            "top-k of noisy magnitudes",
            lambda seed: m.NoisyMagnitudeTopK(SELECTION_SIGMA, half, group_size=2),
            _laws.clipped_then_masked,
            linear=False,
            choice=_larger_of_two,
            share=_half,
        ),
    ]


def _moving(step: int) -> float:
    """From all but one of a group to a quarter of it, in whole entries."""
    return min(max(round(GROUP * (1.0 - 0.75 * step / (STEPS - 1))), 1), GROUP - 1) / GROUP


def _broken() -> list[Case]:
    half = m.Constant(0.5)
    expected = 10.0
    return [
        Case("noisy SGD", lambda seed: m.NoisySgd(), _laws.whole, private=False),
        Case("clipped SGD", lambda seed: m.ClippedSgd(), _laws.whole, private=False),
        Case(
            "no noise on the first layers", lambda seed: m.QuietLayers(quiet=1, from_step=0), _laws.whole, private=False
        ),
        Case(
            "noisy sparsification",
            partial(m.NoisySparsification, half),
            _laws.masked_then_clipped,
            private=False,
            fresh=True,
            shown=mask,
        ),
        Case(
            "un-noised velocity",
            lambda seed: m.UnnoisedVelocity(half, steps_per_epoch=RANKING_STEPS, seed=seed),
            _laws.masked_then_clipped,
            private=False,
            shown=mask,
        ),
        Case(
            "division by the drawn batch size",
            lambda seed: m.BatchSizeDivisor(expected_batch_size=expected, drop_rate=0.5, seed=cast(int, seed)),
            _laws.masked_then_clipped,
            private=False,
            fresh=True,
            shown=mask,
        ),
        Case(
            "top-k without noise",
            lambda seed: m.TopKWithoutNoise(0.5),
            _laws.clipped_then_masked,
            private=False,
            fresh=True,
        ),
        Case(
            "ranked by true gradients",
            lambda seed: m.RankedByTrueGradients(half, steps_per_epoch=RANKING_STEPS, seed=seed),
            _laws.masked_then_clipped,
            private=False,
            shown=mask,
        ),
    ]


# --- what is public -----------------------------------------------------------------------------------------------------


def mask(mechanism: Any) -> Array:
    return np.concatenate([kept.flatten().double().numpy() for kept in mechanism.mask])


class _FixedAnchors(AnchorSource):
    """Anchor gradients that stay as they are."""

    def __call__(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(9)
        return [torch.randn(SUBSPACE, 1, size, generator=generator) for size in SIZES]


# --- what is chosen -----------------------------------------------------------------------------------------------------


def _swaps(total: Array, released: Array) -> tuple[float, float, float]:
    """Entries that left though others of their group were larger, over all groups, and the Mallows law of that number."""
    groups = np.abs(total).reshape(-1, GROUP)
    left = (released != 0).reshape(-1, GROUP)
    keep = int(np.median(left.sum(1)))  # a release may round to nothing
    reference = np.argsort(np.argsort(-groups, axis=1), axis=1) < keep
    moved = np.sum(left & ~reference)
    pmf = SubsetMallows(GROUP, keep, theta=THETA).swap_pmf()
    numbers = np.arange(len(pmf))
    mean = float(pmf @ numbers)
    return float(moved), len(groups) * mean, len(groups) * float(pmf @ (numbers - mean) ** 2)


def _larger_of_two(total: Array, released: Array) -> tuple[float, float, float]:
    """Pairs of which the larger magnitude left: for a gap g with probability Phi(g / (sqrt(2) sigma C)) each."""
    pairs = np.abs(total).reshape(-1, 2)
    larger = np.argmax(pairs, axis=1)
    hits = np.sum((released != 0).reshape(-1, 2)[np.arange(len(pairs)), larger])
    chance = norm.cdf(np.abs(pairs[:, 0] - pairs[:, 1]) / (math.sqrt(2) * SELECTION_SIGMA * CLIP))
    return float(hits), float(chance.sum()), float((chance * (1 - chance)).sum())
