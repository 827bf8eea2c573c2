"""GEP: bias and squared error beside plain perturbation; groups of parameters."""

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from dptheory import embedding
from dptheory.checks import ExactCheck, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _energies_at_scale, _joint_bias, _mechanism
from dptheory.claims.gep._mechanism import EntrySum, SquaredError, Way

# --- gep.versus -------------------------------------------------------------------------------------------------------

_CLIP, _RESIDUAL_CLIP, _MU = 3.0, 0.8, 2.0
_TRIPLES = ((9, 16, 3, 4, 5), (16, 9, 4, 3, 5), (25, 144, 5, 12, 13), (225, 64, 15, 8, 17))
"""k, q and the whole roots of k, q and p = k + q."""
_RATIOS = tuple(Fraction(n, d) for d in (5, 13, 7, 2) for n in range(1, d + 3))


def _stated(way: Way) -> float:
    found = embedding.clipped_gep_mse(_mechanism.embeddings(), _mechanism.residuals(), _CLIP, _RESIDUAL_CLIP, _MU)
    return float(getattr(found, way))


def _noise_only(way: Way) -> float:
    return float(getattr(embedding.gep_mse(_mechanism.DIM, _mechanism.SUBSPACE, _CLIP, _RESIDUAL_CLIP, _MU), way))


def _simulated(way: Way) -> MeanCheck:
    """The wrong statement forgets the biases of clipping and of the lost residual."""
    return MeanCheck(
        name=f"gep.versus: squared error of the simulated release, {way}",
        sampler=SquaredError(way, _CLIP, _RESIDUAL_CLIP, _MU),
        claimed=functools.partial(_stated, way),
        wrong=functools.partial(_noise_only, way),
        row_bytes=8 * 4 * _mechanism.DIM,
    )


def _threshold_cases() -> list[tuple[int, int, int, int, int, Fraction]]:
    return [(*triple, ratio) for triple in _TRIPLES for ratio in _RATIOS]


def _share_of_most_noise(dim: int, k: int) -> float:
    """The r at which sqrt(k (1 - r^2)) + sqrt(q) r is largest, by search: beyond it equal noise in all directions is less."""

    def minus_root(r: float) -> float:
        return -math.sqrt(k * (1 - r * r)) - math.sqrt(dim - k) * r

    return float(minimize_scalar(minus_root, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}).x)


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


def _least_energy(k: int, q: int, root_k: int, root_q: int, root_p: int, field: str) -> float:
    found = embedding.least_residual_energy(k + q, k, 3.0, 3.0 * root_k / root_p, 1.5)
    return float(getattr(found, field)) / 4


def _biased_error(k: int, q: int, root_k: int, root_q: int, root_p: int, field: str) -> float:
    """B-GEP's error where the lost residual is just what the other way's noise costs more."""
    lost = 2 * math.sqrt(_difference(k, q, root_k, root_q, root_p, field))
    return embedding.gep_mse(k + q, k, 3.0, 3.0 * root_k / root_p, 1.5, residual_norm=lost).embedding_only / 4


_VERSUS = Claim(
    id="gep.versus",
    title="GEP against plain perturbation",
    source=Source("gep", "new, on section 3"),
    ours=True,
    statement=r"At one $\mu$ (add/remove) and without clipping bias, $n^2$ times the squared error is: GP $pS^2/\mu^2$; B-GEP "
    r"$kS_1^2/\mu^2 + |r|^2$; GEP as published $2(kS_1^2 + pS_2^2)/\mu^2$; GEP with the best split $(\sqrt kS_1 + \sqrt qS_2)^2/\mu^2$. "
    r"With $S_1 = S$, GEP as published beats GP iff $(S_2/S)^2 < \frac12 - \frac kp$, with the best split iff "
    r"$S_2/S < \sqrt{(\sqrt p - \sqrt k)/(\sqrt p + \sqrt k)}$, with joint clipping iff $(S_2/S)^2 < q/p$. Where only the sum of GEP's two "
    r"releases is published, its noise as published is $(1+a)(kS_1^2 + pS_2^2)/\mu^2$, $a = S_1^2/(S_1^2+S_2^2)$, and beats GP iff "
    r"$(S_2/S)^2 < \frac12(\sqrt{(1-c)(5-c)} - 1 - c)$, $c = k/p$; the other ways cost the same. Clipping adds the squared norm of its bias.",
    verdict=Verdict.HOLDS,
    conditions=(
        "the same mu of one step for every method, add/remove: of the pair of releases, or of their sum where it says so",
        "B has orthonormal rows and does not depend on the private data",
        "thresholds compare noise: biases of clipping have to be added",
    ),
    calculators=(
        embedding.gep_mse,
        embedding.clipped_gep_mse,
        embedding.largest_residual_ratio,
        embedding.least_residual_energy,
        embedding.joint_clipping_bias,
    ),
    checks=(
        *_energies_at_scale.VERSUS,
        *(_simulated(way) for way in ("plain", "embedding_only", "published", "published_sum", "optimal", "joint")),
        ExactCheck(
            name="who has less noise, as published, in fractions",
            cases=_threshold_cases,
            truth=lambda k, q, a, b, c, r: 2 * (k + (k + q) * r**2) < k + q,
            statement=lambda k, q, a, b, c, r: float(r) < embedding.largest_residual_ratio(k + q, k).published * (1 - 1e-12),
            wrong=lambda k, q, a, b, c, r: r**2 < Fraction(1, 2),
        ),
        ExactCheck(
            name="who has less noise, as published and accounted for by the sum, in fractions",
            cases=lambda: [(k, q, ratio) for k, q, *_, ratio in _threshold_cases()],
            truth=_saves_by_sum,
            statement=lambda k, q, r: float(r) < embedding.largest_residual_ratio(k + q, k).published_sum * (1 - 1e-12),
            wrong=lambda k, q, r: 2 * (k + (k + q) * r**2) < k + q,  # accounted for by the pair
        ),
        ExactCheck(
            name="who has less noise, best split, in fractions",
            cases=_threshold_cases,
            truth=lambda k, q, a, b, c, r: (a + b * r) ** 2 < k + q,
            statement=lambda k, q, a, b, c, r: float(r) < embedding.largest_residual_ratio(k + q, k).optimal * (1 - 1e-12),
            wrong=lambda k, q, a, b, c, r: a + c * r < c,  # p in place of q
        ),
        ExactCheck(
            name="the ratios are where the energies meet",
            cases=lambda: [(dim, k, way) for dim, k in ((25, 9), (10**6, 10), (10, 4))
                           for way in ("published", "published_sum", "optimal", "joint")],
            truth=lambda dim, k, way: float(dim),
            statement=lambda dim, k, way: float(
                getattr(embedding.gep_mse(dim, k, 1.0, getattr(embedding.largest_residual_ratio(dim, k), way), 1.0), way)
            ),
            wrong=lambda dim, k, way: float(embedding.gep_mse(dim, k, 1.0, 1.0, 1.0).published),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="joint clipping saves noise up to where its energy is largest",
            cases=lambda: [(25, 9), (1000, 10), (10, 4), (3, 2)],
            truth=_share_of_most_noise,
            statement=lambda dim, k: embedding.largest_residual_ratio(dim, k).joint,
            wrong=lambda dim, k: 1.0,
            tolerance=1e-6,
        ),
        ExactCheck(
            name="bias of clipping the gradient and then the residual, in fractions",
            cases=lambda: [
                (part, *case, copies)
                for part in ("embedding", "residual", "square") for case in _joint_bias.CASES for copies in (1, 1000)
            ],
            truth=_joint_bias.in_fractions,
            statement=_joint_bias.calculated,
            wrong=_joint_bias.apart,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="residual that pays for its release, in fractions",
            cases=lambda: [(*t, field) for t in _TRIPLES for field in ("plain", "published", "published_sum", "optimal", "joint")],
            truth=_difference,
            statement=_least_energy,
            wrong=lambda k, q, a, b, c, field: float(_difference(k, q, a, b, c, field) + k),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="error of B-GEP with the residual that pays, in fractions",
            cases=lambda: [(*t, field) for t in _TRIPLES for field in ("plain", "published", "published_sum", "optimal", "joint")],
            truth=lambda k, q, a, b, c, field: _difference(k, q, a, b, c, field) + k,
            statement=_biased_error,
            wrong=lambda k, q, a, b, c, field: float(k),  # the noise alone
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="embedding_mse",
)  # fmt: skip

# --- gep.rem1 ---------------------------------------------------------------------------------------------------------

_FREE = 100.0  # no row is that long


def _true_sum() -> float:
    return float(_mechanism.gradients().sum())


def _mean_sum(clip: float, residual_clip: float) -> float:
    """Sum of the entries of the mean released sum: the truth plus the bias, back in the coordinates of the gradients."""
    bias = embedding.clipping_bias(_mechanism.embeddings(), _mechanism.residuals(), clip, residual_clip)
    vector = bias.embedding @ _mechanism.basis() + bias.residual @ _mechanism.complement()
    return _true_sum() + float(vector.sum())


def _without_residual() -> float:
    return _true_sum() - float((_mechanism.residuals() @ _mechanism.complement()).sum())


def _mean_check(
    name: str, way: Way, clips: tuple[float, float], claimed: tuple[float, float], wrong: Callable[[], float]
) -> MeanCheck:
    return MeanCheck(
        name=f"gep.rem1: {name}",
        sampler=EntrySum(way, *clips, mu=200.0 if clips[0] == _FREE else 4.0),
        claimed=functools.partial(_mean_sum, *claimed),
        wrong=wrong,
        row_bytes=8 * 4 * _mechanism.DIM,
    )


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
    return copies**2 * sum(s**2 * (x * x + y * y) for s, (x, y) in zip(shrink, (first, second), strict=True))  # type: ignore[return-value]


_REM1 = Claim(
    id="gep.rem1",
    title="bias of the release",
    source=Source("gep", "Remark 1", (4,)),
    statement=r"Without clipping the mean of GEP's release over the noise is the private gradient $g$; that of B-GEP is $g - r/n$, "
    r"$r = \sum_iR_i$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "no row is clipped",
        "noise of mean 0, drawn independently of B and of the data",
    ),
    correction=r"With clipping the bias of $n\tilde v$ is $\sum_i(\min(1, S_1/|w_i|) - 1)B^Tw_i + \sum_i(\min(1, S_2/|r_i|) - 1)r_i$, two orthogonal "
    r"parts; that of $n\tilde u$ is the first part minus $\sum_ir_i$.",
    calculators=(embedding.clipping_bias,),
    checks=(
        *_energies_at_scale.REM1,
        _mean_check("GEP without clipping", "published", (_FREE, _FREE), (_FREE, _FREE), _without_residual),
        _mean_check("B-GEP without clipping", "embedding_only", (_FREE, 0.8), (_FREE, 0.0), _true_sum),
        _mean_check("GEP with clipping", "published", (_CLIP, 0.8), (_CLIP, 0.8), _true_sum),
        ExactCheck(
            name="squared bias in fractions",
            cases=lambda: [(*case, copies) for case in _WHOLE for copies in (1, 3)],
            truth=_exact_square,
            statement=lambda w, r, s1, s2, copies: (
                embedding.clipping_bias([w] * copies + [(0, 0)], [r] * copies + [(0, 0)], float(s1), float(s2)).square
            ),
            wrong=lambda w, r, s1, s2, copies: 0.0,
            tolerance=1e-13,
        ),
    ),
    proved=True,
)

# --- gep.groups -------------------------------------------------------------------------------------------------------

_GROUPS = (((2000, 9000), (1, 2)), ((2, 5), (1, 2)), ((3, 3, 3), (1, 1, 1)), ((4, 1, 7), (2, 1, 3)), ((6, 2), (1, 2)))


def _counted(sizes: tuple[int, ...], basis: tuple[int, ...], examples: int = 2) -> int:
    """Multiplications of A = G B^T and of A^T G, one by one, for a basis a group."""
    count = 0
    for p, k in zip(sizes, basis, strict=True):
        for _ in range(examples * k * p):  # an entry of A is a sum of p products
            count += 1
        for _ in range(k * p * examples):  # an entry of A^T G is a sum of m products
            count += 1
    return count


def _counted_ratio(sizes: tuple[int, ...], basis: tuple[int, ...]) -> Fraction:
    return Fraction(_counted(sizes, basis), _counted((sum(sizes),), (sum(basis),)))


def _least_tail(sizes: tuple[int, ...], k: int) -> float:
    """min of sum p_g / k_g over k_g > 0 of sum k, numerically (softmax coordinates)."""
    p = np.asarray(sizes, dtype=np.float64)

    def tail(x: np.ndarray) -> float:
        weights = np.exp(x - x.max())
        return float((p * weights.sum() / (k * weights)).sum())

    return float(minimize(tail, np.zeros(p.size), method="BFGS", options={"gtol": 1e-9}).fun)


def _square_root_slack(first: float, second: float, third: float) -> float:
    return 3 * _square_root_ratio(first, second, third) - 1


def _square_root_wrong_slack(first: float, second: float, third: float) -> float:
    """Wrong statement: the even split's 1/g is the most."""
    return 1 - 3 * _square_root_ratio(first, second, third)


def _square_root_ratio(first: float, second: float, third: float) -> float:
    sizes = [first, second, third]
    return embedding.grouping_cost_ratio(sizes, embedding.square_root_allocation(sizes, 1))


_GROUPING = Claim(
    id="gep.groups",
    title="parameter groups lower the cost",
    source=Source("gep", "Section 3.1"),
    statement=r"A power iteration with one basis a group takes $2m(k_1p_1 + k_2p_2) < 2m(k_1 + k_2)(p_1 + p_2)$ multiplications. "
    r"$k$ is allocated by $k_g \propto \sqrt{p_g}$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "the cost of the two matrix products, without orthogonalisation",
        "the cost, not the quality: the best basis for all parameters keeps at least as much anchor energy as any grouped one of as many vectors",
    ),
    correction=r"By $\sum_gk_gp_g/(kp)$ exactly. With $k_g \propto \sqrt{p_g}$ this is at least $1/g$, with equality for equal groups only "
    r"(Appendix B assumes them): 0.46, not 1/5, for the five groups of ResNet20. The square root minimises $\sum_gp_g/k_g$, not the cost.",
    calculators=(embedding.grouping_cost_ratio, embedding.square_root_allocation),
    checks=(
        ExactCheck(
            name="multiplications counted",
            cases=lambda: _GROUPS,
            truth=_counted_ratio,
            statement=lambda sizes, basis: embedding.grouping_cost_ratio(sizes, basis),
            wrong=lambda sizes, basis: 1 / len(sizes),
            tolerance=1e-15,
        ),
        ExactCheck(
            name="what the square root is best for, by minimisation",
            cases=lambda: [((464, 14_016, 51_072, 203_520, 650), 1000), ((100, 400), 30), ((50, 50, 7), 20)],
            truth=_least_tail,
            statement=lambda sizes, k: float((np.asarray(sizes) / embedding.square_root_allocation(sizes, k)).sum()),
            wrong=lambda sizes, k: len(sizes) * sum(sizes) / k,  # in proportion to p_g
            tolerance=1e-9,
        ),
        SearchCheck(
            name="square-root shares cost at least 1/g",
            box={name: Range(1, 1e6, log=True) for name in ("first", "second", "third")},
            slack=_square_root_slack,
            wrong=_square_root_wrong_slack,
        ),
    ),
    proved=True,
)

ERROR_CLAIMS: tuple[Claim, ...] = (_VERSUS, _REM1, _GROUPING)
