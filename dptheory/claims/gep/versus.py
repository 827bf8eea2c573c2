import math
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import embedding
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep import _mechanism
from dptheory.claims.gep._mechanism import WAYS, Way, entry_sum, spread, squared_error, traced_energy


def _functional(part: str, bias: embedding.ClippingBias) -> float:
    """The square, or the sum of the entries of a part."""
    return bias.square if part == "square" else float(getattr(bias, part).sum())


_REMARK_CLIP, _REMARK_RESIDUAL_CLIP = 3.0, 0.8
_FREE = 100.0
"""No row is that long."""
_ROW_BYTES = 8 * 4 * _mechanism.DIM


def _true_sum() -> float:
    return float(_mechanism.gradients().sum())


def _mean_sum(clip: float, residual_clip: float) -> float:
    """Sum of the entries of the mean released sum: the truth plus the bias, back in the coordinates of the gradients."""
    bias = embedding.clipping_bias(
        _mechanism.embeddings(), residuals=_mechanism.residuals(), embedding_clip=clip, residual_clip=residual_clip
    )
    vector = bias.embedding @ _mechanism.basis() + bias.residual @ _mechanism.complement()
    return _true_sum() + float(vector.sum())


_WHOLE = (
    ((3, 4), (0, 5), Fraction(1), Fraction(2)),
    ((8, 6), (5, 12), Fraction(2), Fraction(1)),
    ((-3, 4), (8, -15), Fraction(7), Fraction(17)),
    ((4, -3), (0, 0), Fraction(1), Fraction(3)),
)
"""Embedding and residual of one example, both of whole norm, and the clips."""


def _exact_square(first: tuple[int, int], second: tuple[int, int], s1: Fraction, s2: Fraction, copies: int) -> Fraction:
    """|bias|^2 of ``copies`` copies of the example and one zero example."""
    shrink = [
        max(Fraction(0), 1 - bound / math.isqrt(x * x + y * y)) if (x, y) != (0, 0) else Fraction(0)
        for (x, y), bound in ((first, s1), (second, s2))
    ]
    return copies**2 * sum(
        (s**2 * (x * x + y * y) for s, (x, y) in zip(shrink, (first, second), strict=True)), Fraction(0)
    )


rem1 = new_row(
    id="gep.rem1",
    source=Source("gep", "Remark 1", (4,)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.clipping_bias,),
)


@rem1.equal(
    lambda: [
        (part, rows, k, q)
        for part in ("embedding", "residual", "square")
        for rows, k, q in ((1, 2, 4), (3, 2, 20_000), (3, 20_000, 4))
    ],
    tolerance=1e-12,
)
def _(part: str, rows: int, k: int, q: int) -> Sides:
    """bias of clipping apart, part by part"""
    return (
        _functional(
            part,
            embedding.clipping_bias(
                spread(5, rows, k), residuals=spread(12, rows, q), embedding_clip=4.0, residual_clip=2.0
            ),
        ),
        {"embedding": -math.sqrt(k) * rows, "residual": -10 * math.sqrt(q) * rows, "square": rows**2 * (1 + 100.0)}[
            part
        ],
        {"embedding": 1.0, "residual": -12 * math.sqrt(q) * rows, "square": 0.0}[part],
    )


@rem1.mean(
    partial(entry_sum, way="published", clip=_FREE, residual_clip=_FREE, mu=200.0),
    # wrong: without the residuals
    wrong=lambda: _true_sum() - float((_mechanism.residuals() @ _mechanism.complement()).sum()),
    row_bytes=_ROW_BYTES,
)
def _() -> float:
    """gep.rem1: GEP without clipping"""
    return _mean_sum(_FREE, _FREE)


@rem1.mean(
    partial(entry_sum, way="embedding_only", clip=_FREE, residual_clip=_REMARK_RESIDUAL_CLIP, mu=200.0),
    wrong=_true_sum,
    row_bytes=_ROW_BYTES,
)
def _() -> float:
    """gep.rem1: B-GEP without clipping"""
    return _mean_sum(_FREE, 0.0)


@rem1.mean(
    partial(entry_sum, way="published", clip=_REMARK_CLIP, residual_clip=_REMARK_RESIDUAL_CLIP, mu=4.0),
    wrong=_true_sum,
    row_bytes=_ROW_BYTES,
)
def _() -> float:
    """gep.rem1: GEP with clipping"""
    return _mean_sum(_REMARK_CLIP, _REMARK_RESIDUAL_CLIP)


@rem1.equal(lambda: [(*case, copies) for case in _WHOLE for copies in (1, 3)], tolerance=1e-13)
def _(w: tuple[int, int], r: tuple[int, int], s1: Fraction, s2: Fraction, copies: int) -> Sides:
    """squared bias in fractions"""
    return (
        embedding.clipping_bias(
            [w] * copies + [(0, 0)],
            residuals=[r] * copies + [(0, 0)],
            embedding_clip=float(s1),
            residual_clip=float(s2),
        ).square,
        lambda: _exact_square(w, r, s1, s2, copies),
        0.0,
    )


# Bias of clipping a gradient first and its residual afterwards: in fractions, and by the calculator.


Pair = tuple[int, int]
CASES = (
    ((3, 4), (12, 0), Fraction(13, 2), Fraction(1, 2)),  # both clips bind
    ((3, 4), (0, 12), Fraction(20), Fraction(1, 2)),  # the residual's alone
    ((-12, 0), (3, 4), Fraction(5), Fraction(1)),  # the gradient's alone
    ((8, 0), (0, 6), Fraction(4), Fraction(1, 10)),
    ((0, 3), (4, 0), Fraction(6), Fraction(1)),  # none
)
"""Embedding and residual with whole norms, apart and together; the clip S and the share r."""


def in_fractions(part: str, first: Pair, second: Pair, clip: Fraction, share: Fraction, copies: int) -> Fraction:
    """Bias of ``copies`` copies of one example: the gradient scaled to S, then its residual to r S, in fractions."""
    size = math.isqrt(sum(x * x for x in (*first, *second)))
    scale = min(Fraction(1), clip / size)
    length = math.isqrt(sum(x * x for x in second)) * scale
    again = min(Fraction(1), share * clip / length) if length else Fraction(1)
    bias = [copies * (scale - 1) * x for x in first] + [copies * (scale * again - 1) * x for x in second]
    if part == "square":
        return sum((x * x for x in bias), Fraction(0))
    first_entry, second_entry = bias[:2] if part == "embedding" else bias[2:]
    return Fraction(first_entry + 7 * second_entry)


def _read(part: str, bias: embedding.ClippingBias) -> float:
    """The square, or the first entry of a part and seven times the second."""
    return bias.square if part == "square" else float(getattr(bias, part) @ np.array([1.0, 7.0]))


_TINY = 1e-10
_ENERGIES = tuple(
    (dim, k, clip, second, mu, lost, first)
    for dim, k in ((12, 3), (270_000, 1000), (20_000_000, 5000))
    for clip, second, mu, lost, first in (
        (10.0, 2.0, 0.5, 0.0, None),
        (3.0, 2.9, 4.0, 7.0, None),
        (1.0, 0.3, 1.0, 0.0, 0.6),
    )
)
"""p, k, S, S2, mu, |r| and S1."""


_CLIP, _RESIDUAL_CLIP, _MU = 3.0, 0.8, 2.0


_TRIPLES = ((9, 16, 3, 4, 5), (16, 9, 4, 3, 5), (25, 144, 5, 12, 13), (225, 64, 15, 8, 17))
"""k, q and the whole roots of k, q and p = k + q."""


_RATIOS = tuple(Fraction(n, d) for d in (5, 13, 7, 2) for n in range(1, d + 3))


def _stated(way: Way) -> float:
    found = embedding.clipped_gep_mse(
        _mechanism.embeddings(), residuals=_mechanism.residuals(), clip_norm=_CLIP, residual_clip=_RESIDUAL_CLIP, mu=_MU
    )
    return float(getattr(found, way))


def _noise_only(way: Way) -> float:
    found = embedding.gep_mse(
        dim=_mechanism.DIM, subspace_dim=_mechanism.SUBSPACE, clip_norm=_CLIP, residual_clip=_RESIDUAL_CLIP, mu=_MU
    )
    return float(getattr(found, way))


def _threshold_cases() -> list[tuple[int, int, int, int, int, Fraction]]:
    return [(*triple, ratio) for triple in _TRIPLES for ratio in _RATIOS]


def _share_of_most_noise(dim: int, k: int) -> float:
    """The r at which sqrt(k (1 - r^2)) + sqrt(q) r is largest, by search: beyond it equal noise in all directions is less."""

    def minus_root(r: float) -> float:
        return -math.sqrt(k * (1 - r * r)) - math.sqrt(dim - k) * r

    return float(
        scipy.optimize.minimize_scalar(minus_root, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}).x
    )


def _saves_by_sum(k: int, q: int, ratio: Fraction) -> bool:
    """Whether GEP as published has less noise than plain perturbation, S = S1 = 1 and its noise chosen for the sum."""
    share = 1 / (1 + ratio**2)
    return (1 + share) * (k + (k + q) * ratio**2) < k + q


def _difference(k: int, q: int, root_k: int, root_q: int, root_p: int, field: str) -> Fraction:
    """GEP minus B-GEP without the lost residual, S = mu = 1, S2 = sqrt(k/p), at which every root is whole."""
    p, r, cosine = k + q, Fraction(root_k, root_p), Fraction(root_q, root_p)  # r^2 + cosine^2 = 1
    energies = {
        "plain": Fraction(p),
        "published": 2 * (k + p * r**2),
        "published_sum": (1 + 1 / (1 + r**2)) * (k + p * r**2),
        "optimal": (root_k + root_q * r) ** 2,
        "joint": (root_k * cosine + root_q * r) ** 2 if r**2 <= Fraction(q, p) else Fraction(p),
    }
    return energies[field] - k


def _biased_energy(way: str, rows: int, k: int, q: int) -> float:
    """Noise and squared clipping bias of ``rows`` equal gradients, of norm 5 in the subspace and 12 off it."""
    noise = traced_energy(way, q + k, k, 6.5, 2.0, 2.0, 12.0 * rows if way == "embedding_only" else 0.0, 5.5)
    scale = 0.5  # of the gradient, whose norm is 13
    bias = {
        "plain": (1 - scale) ** 2 * 169,
        "embedding_only": 0.0,  # the embedding's norm is 5, below its clip
        "joint": ((1 - scale) * 5) ** 2 + (12 - 2) ** 2,  # the residual of norm 6 is clipped again, to 2
    }.get(way, (12.0 - 2.0) ** 2)
    return noise + rows**2 * bias


def _least_energy(k: int, q: int, root_k: int, root_q: int, root_p: int, field: str) -> float:
    found = embedding.least_residual_energy(
        dim=k + q, subspace_dim=k, clip_norm=3.0, residual_clip=3.0 * root_k / root_p, mu=1.5
    )
    return float(getattr(found, field)) / 4


def _calculated_biased(way: str, rows: int, k: int, q: int) -> float:
    found = embedding.clipped_gep_mse(
        spread(5, rows, k), residuals=spread(12, rows, q), clip_norm=6.5, residual_clip=2.0, mu=2.0, embedding_clip=5.5
    )
    return float(getattr(found, way))


def _biased_error(k: int, q: int, root_k: int, root_q: int, root_p: int, field: str) -> float:
    """B-GEP's error where the lost residual is just what the other way's noise costs more."""
    lost = 2 * math.sqrt(_difference(k, q, root_k, root_q, root_p, field))
    return (
        embedding.gep_mse(
            dim=k + q, subspace_dim=k, clip_norm=3.0, residual_clip=3.0 * root_k / root_p, mu=1.5, residual_norm=lost
        ).embedding_only
        / 4
    )


def _saves(way: str, dim: int, k: int, ratio: float) -> bool:
    """Less noise than plain perturbation, for "joint" by more than rounding."""
    return traced_energy(way, dim, k, 1.0, ratio, 1.0, 0.0, None) < dim * (1 - 1e-13)


versus = new_row(
    id="gep.versus",
    source=Source("gep", "new, on section 3"),
    verdict=Verdict.HOLDS,
    calculators=(
        embedding.gep_mse,
        embedding.clipped_gep_mse,
        embedding.largest_residual_ratio,
        embedding.least_residual_energy,
        embedding.joint_clipping_bias,
    ),
    figure="embedding_mse",
)


@versus.equal(lambda: [(way, *case) for way in WAYS for case in _ENERGIES], tolerance=_TINY)
def _(way: str, dim: int, k: int, clip: float, second: float, mu: float, lost: float, first: float | None) -> Sides:
    """every way: trace of the noise"""
    case = dim, k, clip, second, mu, lost, first
    traced = traced_energy(way, *case)
    stated = embedding.gep_mse(
        dim=dim,
        subspace_dim=k,
        clip_norm=clip,
        residual_clip=second,
        mu=mu,
        residual_norm=lost,
        embedding_clip=first,
    )
    return getattr(stated, way), traced, 1.001 * traced


@versus.equal(
    lambda: [(way, *case) for way in WAYS for case in ((1, 2, 9), (3, 2, 20_000), (2, 20_000, 5))], tolerance=1e-9
)
def _(way: str, rows: int, k: int, q: int) -> Sides:
    """every way: noise and clipping bias of gradients that are all alike"""
    energy = _biased_energy(way, rows, k, q)
    return _calculated_biased(way, rows, k, q), energy, 1.001 * energy


@versus.equal(
    lambda: [(way, *case[:5]) for way in WAYS if way != "embedding_only" for case in _ENERGIES if case[6] is None],
    tolerance=1e-8,
)
def _(way: str, dim: int, k: int, clip: float, second: float, mu: float) -> Sides:
    """residual that pays for its release, from the traces"""
    traced = traced_energy(way, dim, k, clip, second, mu, 0.0, None)
    return (
        getattr(
            embedding.least_residual_energy(dim=dim, subspace_dim=k, clip_norm=clip, residual_clip=second, mu=mu), way
        ),
        traced - k * (clip / mu) ** 2,
        traced,
    )


@versus.equal(
    lambda: [
        (way, dim, k, side)
        for way in ("published", "published_sum", "optimal", "joint")
        for dim, k in ((270_000, 1000), (100_000, 30_000), (20_000_000, 100))
        for side in (0.9999, 1.0001)
    ]
)
def _(way: str, dim: int, k: int, side: float) -> Sides:
    """the ratios at users' sizes: noise is less just below and not just above"""
    ratio = side * getattr(embedding.largest_residual_ratio(dim=dim, subspace_dim=k), way)
    return _saves(way, dim, k, ratio), side < 1, _saves(way, dim, k, ratio / 1.01)


@versus.equal(lambda: [(dim, k) for dim, k in ((25, 9), (270_000, 1000), (10**7, 10**6))], tolerance=1e-14)
def _(dim: int, k: int) -> Sides:
    """joint ratio: its square is q / p, in integers"""
    return embedding.largest_residual_ratio(dim=dim, subspace_dim=k).joint ** 2, Fraction(dim - k, dim), 1.0


@versus.equal(
    lambda: [
        (part, k, q) for part in ("embedding", "residual", "square") for k, q in ((2, 4), (2, 20_000), (20_000, 4))
    ],
    tolerance=1e-12,
)
def _(part: str, k: int, q: int) -> Sides:
    """bias of clipping the gradient first, a residual with many entries"""
    return (
        _functional(
            part,
            embedding.joint_clipping_bias(
                spread(5, 1, k), residuals=spread(12, 1, q), clip_norm=6.5, residual_share=2 / 6.5
            ),
        ),
        {"embedding": -2.5 * math.sqrt(k), "residual": -10 * math.sqrt(q), "square": 0.25 * 25 + 100.0}[part],
        {"embedding": -5.0, "residual": -12 * math.sqrt(q), "square": 144.0}[part],
    )


for simulated in WAYS:  # the wrong statement forgets the biases of clipping and of the lost residual
    versus.mean(
        partial(squared_error, way=simulated, clip=_CLIP, residual_clip=_RESIDUAL_CLIP, mu=_MU),
        wrong=partial(_noise_only, simulated),
        row_bytes=8 * 4 * _mechanism.DIM,
        name=f"gep.versus: squared error of the simulated release, {simulated}",
    )(partial(_stated, simulated))


@versus.equal(_threshold_cases)
def _(k: int, q: int, a: int, b: int, c: int, r: Fraction) -> Sides:
    """who has less noise, as published, in fractions"""
    return (
        float(r) < embedding.largest_residual_ratio(dim=k + q, subspace_dim=k).published * (1 - 1e-12),
        2 * (k + (k + q) * r**2) < k + q,
        r**2 < Fraction(1, 2),
    )


@versus.equal(lambda: [(k, q, ratio) for k, q, *_, ratio in _threshold_cases()])
def _(k: int, q: int, r: Fraction) -> Sides:
    """who has less noise, as published and accounted for by the sum, in fractions"""
    return (
        float(r) < embedding.largest_residual_ratio(dim=k + q, subspace_dim=k).published_sum * (1 - 1e-12),
        _saves_by_sum(k, q, r),
        2 * (k + (k + q) * r**2) < k + q,  # accounted for by the pair
    )


@versus.equal(_threshold_cases)
def _(k: int, q: int, a: int, b: int, c: int, r: Fraction) -> Sides:
    """who has less noise, best split, in fractions"""
    return (
        float(r) < embedding.largest_residual_ratio(dim=k + q, subspace_dim=k).optimal * (1 - 1e-12),
        (a + b * r) ** 2 < k + q,
        a + c * r < c,  # p in place of q
    )


@versus.equal(
    lambda: [
        (dim, k, way)
        for dim, k in ((25, 9), (10**6, 10), (10, 4))
        for way in ("published", "published_sum", "optimal", "joint")
    ],
    tolerance=1e-12,
)
def _(dim: int, k: int, way: str) -> Sides:
    """the ratios are where the energies meet"""
    ratio = getattr(embedding.largest_residual_ratio(dim=dim, subspace_dim=k), way)
    return (
        getattr(embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=1.0, residual_clip=ratio, mu=1.0), way),
        dim,
        embedding.gep_mse(dim=dim, subspace_dim=k, clip_norm=1.0, residual_clip=1.0, mu=1.0).published,
    )


@versus.equal((25, 9), (1000, 10), (10, 4), (3, 2), tolerance=1e-6)
def _(dim: int, k: int) -> Sides:
    """joint clipping saves noise up to where its energy is largest"""
    return embedding.largest_residual_ratio(dim=dim, subspace_dim=k).joint, lambda: _share_of_most_noise(dim, k), 1.0


@versus.equal(
    lambda: [
        (part, *case, copies) for part in ("embedding", "residual", "square") for case in CASES for copies in (1, 1000)
    ],
    tolerance=1e-12,
)
def _(part: str, first: Pair, second: Pair, clip: Fraction, share: Fraction, copies: int) -> Sides:
    """bias of clipping the gradient and then the residual, in fractions"""
    rows, residuals = [first] * copies + [(0, 0)], [second] * copies + [(0, 0)]
    found = embedding.joint_clipping_bias(rows, residuals=residuals, clip_norm=float(clip), residual_share=float(share))
    # wrong: the residual is clipped before the gradient is, so that both are clipped apart
    wrong = embedding.clipping_bias(
        rows, residuals=residuals, embedding_clip=float(clip), residual_clip=float(share * clip)
    )
    return _read(part, found), lambda: in_fractions(part, first, second, clip, share, copies), _read(part, wrong)


@versus.equal(
    lambda: [(*t, field) for t in _TRIPLES for field in WAYS if field != "embedding_only"],
    tolerance=1e-12,
)
def _(k: int, q: int, a: int, b: int, c: int, field: str) -> Sides:
    """residual that pays for its release, in fractions"""
    return (
        _least_energy(k, q, a, b, c, field),
        _difference(k, q, a, b, c, field),
        float(_difference(k, q, a, b, c, field) + k),
    )


@versus.equal(
    lambda: [(*t, field) for t in _TRIPLES for field in WAYS if field != "embedding_only"],
    tolerance=1e-12,
)
def _(k: int, q: int, a: int, b: int, c: int, field: str) -> Sides:
    """error of B-GEP with the residual that pays, in fractions"""
    return _biased_error(k, q, a, b, c, field), _difference(k, q, a, b, c, field) + k, k  # the noise alone
