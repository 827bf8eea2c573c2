"""GEP: the anchor subspace and the residual."""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import embedding
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _atoms, _labels, _random_basis, _row_space, _subspace_at_scale
from dptheory.claims.gep import _subspace_bounds as bounds

# --- gep.lem3.1, gep.thmD.1, gep.power --------------------------------------------------------------------------------


def _recovery(rank: int, anchors: int, zero: Fraction) -> float:
    """P(anchors span the space): zero with probability ``zero``, else a fresh vector in general position; exact ranks."""
    vectors = _atoms.moment_curve(anchors, rank)
    total = Fraction(0)
    for picked, chance in _atoms.samples((zero, 1 - zero), anchors):
        rows = [vectors[i] for i, alive in enumerate(picked) if alive]
        total += chance if _atoms.rank(rows) == rank else 0
    return float(total)


def _missed_energy(rank: int, dim: int, anchors: int) -> float:
    """Share of energy of private gradients that one power iteration misses, low-rank law on the moment curve."""
    rng = np.random.default_rng([rank, dim, anchors])
    mixing = rng.standard_normal((rank, dim))
    coordinates = rng.standard_normal((anchors + 5, rank))
    public, private = coordinates[:anchors] @ mixing, coordinates[anchors:] @ mixing
    basis = embedding.anchor_subspace(public, min(rank, anchors), 1, rng)
    return embedding.residual_energy(private, basis) / float(np.square(private).sum(axis=1).mean())


def _plane_failure(weights: tuple[Fraction, ...], anchors: int) -> Fraction:
    """P(anchors do not span), atoms e_1, ..., e_k with these weights."""
    rows = [tuple(int(i == j) for j in range(len(weights))) for i in range(len(weights))]
    total = Fraction(0)
    for picked, chance in _atoms.samples(weights, anchors):
        total += chance if _atoms.rank([rows[i] for i in picked]) < len(weights) else 0
    return total


def _inclusion_exclusion(weights: tuple[Fraction, ...], anchors: int) -> Fraction:
    """P(some atom is missing): sum over the sets missed of (-1)^{size + 1} (1 - weight)^m."""
    total = Fraction(0)
    for subset in range(1, 2 ** len(weights)):
        missed = [w for i, w in enumerate(weights) if subset >> i & 1]
        total -= (-1) ** len(missed) * (1 - sum(missed, Fraction(0))) ** anchors
    return total


_THIRDS = (Fraction(1, 3),) * 3
_ATOM_CASES = [(weights, m) for weights in (_THIRDS, (Fraction(1, 2), Fraction(1, 2))) for m in (1, 2, 3, 5)]

_RECOVERY_CHECK = ExactCheck(
    name="P(anchors span) with gradients that vanish, exact ranks",
    cases=lambda: [(k, m, z) for k in (1, 2, 3) for m in (1, 3, 6) for z in (Fraction(0), Fraction(1, 5))],
    truth=_recovery,
    statement=lambda k, m, z: embedding.recovery_probability(k, m, float(z)),
    wrong=lambda k, m, z: float(m >= k),
    tolerance=1e-12,
)

_LEM31 = Claim(
    id="gep.lem3.1",
    title="anchors recover a low-rank range",
    source=Source("gep", "Lemma 3.1", (2,)),
    statement=r"If $\Sigma = E\xi\xi^T$ has rank $k$ and $P(\xi\in F) = 0$ for all flats $F$ of dimension below $k$, then $m\ge k$ anchors "
    r"span the range of $\Sigma$ with probability 1: $k' = k$ and the residuals are 0.",
    verdict=Verdict.HOLDS,
    conditions=(
        "anchors are independent draws of the law of the private gradients",
        "the subspace has at least k = rank Sigma dimensions",
        "no linear subspace of range Sigma other than range Sigma has positive probability",
    ),
    correction=r"$m\ge k$ (the text says $m>k$). Linear subspaces $M$ of $\mathrm{range}\,\Sigma$ suffice, and for every $m\ge k$ the condition is "
    r"also necessary: $P(\text{not recovered})\ge\max_MP(\xi\in M)^m$. Gradients that vanish with probability $z$ break it: then "
    r"recovery has probability $P(\mathrm{Bin}(m,1-z)\ge k)$.",
    calculators=(
        embedding.recovery_probability,
        embedding.anchor_subspace,
        embedding.project,
        embedding.residual_energy,
    ),
    checks=(
        *_subspace_at_scale.PROJECTION,
        _RECOVERY_CHECK,
        ExactCheck(
            name="residual is 0 after one power iteration if and only if m >= k",
            cases=lambda: [(k, p, m) for k in (1, 2, 4) for p in (4, 9) for m in (1, 2, 3, 4, 6)],
            truth=lambda k, p, m: m >= k,
            statement=lambda k, p, m: _missed_energy(k, p, m) < 1e-20,
            wrong=lambda k, p, m: m > k,
        ),
        ExactCheck(
            name="with atoms recovery can fail, m >= k",
            cases=lambda: _ATOM_CASES,
            truth=_plane_failure,
            statement=_inclusion_exclusion,
            wrong=lambda weights, m: Fraction(0),
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)


def _affine_line_rank(anchors: int) -> bool:
    """Points (t, 1): on a flat with probability 1, on no line through 0 twice."""
    return _atoms.rank([(t, 1) for t in range(1, anchors + 1)]) == 2


_THMD1 = Claim(
    id="gep.thmD.1",
    title="independent columns",
    source=Source("gep", "Theorem D.1"),
    statement=r"If $n\ge p$ independent vectors in $R^p$ have one law that puts no mass on proper manifolds, they span $R^p$ with probability 1.",
    verdict=Verdict.HOLDS,
    conditions=("'manifold' read as flat, as in the source", "'non-singular' for n > p: rank p"),
    correction=r"Linear subspaces suffice; for equal laws the condition is then necessary too. Independent vectors need not have equal laws.",
    calculators=(embedding.recovery_probability,),
    checks=(
        ExactCheck(
            name="general position spans, exact ranks",
            cases=lambda: [(p, n) for p in (1, 2, 3, 4) for n in (1, 2, 3, 4, 6)],
            truth=lambda p, n: Fraction(int(_atoms.rank(_atoms.moment_curve(n, p)) == p)),
            statement=lambda p, n: embedding.recovery_probability(p, n),
            wrong=lambda p, n: Fraction(int(n > p)),
        ),
        ExactCheck(
            name="a law on a line that misses 0: flats have mass, subspaces have none",
            cases=lambda: [(n,) for n in (2, 3, 5)],
            truth=_affine_line_rank,
            statement=lambda n: n >= 2,
            wrong=lambda n: False,
        ),
    ),
    proved=True,
)


def _tangent(gap: float, iterations: int) -> float:
    """tan of the angle between the leading axis and the line found, from the start that the generator draws."""
    gradients = np.diag([1.0, gap])
    (x, y) = embedding.anchor_subspace(gradients, 1, iterations, np.random.default_rng(5))[0]
    return abs(float(y / x))


def _start_tangent() -> float:
    x, y = np.random.default_rng(5).standard_normal((1, 2))[0]
    return abs(float(y / x))


_POWER = Claim(
    id="gep.power",
    title="power iteration",
    source=Source("gep", "Algorithm 1, lines 3 to 7, and section 3.1"),
    statement=r"The power method finds (approximately) the $k$ principal components of the anchor gradients $G$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "singular values s_k > s_{k+1} of G",
        "the start is Gaussian, or any law with a density",
        "unstated: as many iterations as the spectrum asks for; the paper takes one",
    ),
    correction=r"$\tan\theta_t\le(s_{k+1}/s_k)^{2t}\tan\theta_0$, $\theta$ the largest angle to the leading right singular space; exact after one "
    r"iteration if and only if $\mathrm{rank}\,G\le k$. The paper's $t = 1$ gives no accuracy where the spectrum is flat, and Lemma 3.2 "
    r"is about the exact space.",
    calculators=(embedding.anchor_subspace,),
    checks=(
        ExactCheck(
            name="tan of the angle in the plane",
            cases=lambda: [(gap, t) for gap in (0.3, 0.9, 0.99) for t in (1, 2, 5)],
            truth=lambda gap, t: gap ** (2 * t) * _start_tangent(),
            statement=_tangent,
            wrong=lambda gap, t: gap**t * _start_tangent(),
            tolerance=1e-10,
        ),
        ExactCheck(
            name="s_2 = .99 s_1: does one iteration halve the angle's tangent?",
            cases=lambda: [(Fraction(99, 100),)],
            truth=lambda gap: gap**2 < Fraction(1, 2),
            statement=lambda gap: _tangent(float(gap), 1) < _start_tangent() / 2,
            wrong=lambda gap: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="rank k: row space after one iteration, to 1e-5",
            cases=lambda: [
                (condition, rank, dim) for condition in (1.0, 1e4, 1e8) for rank, dim in ((5, 60), (20, 20_000))
            ],
            truth=lambda condition, rank, dim: True,
            statement=lambda condition, rank, dim: _row_space.missed(condition, rank, dim) < 1e-5,
            wrong=lambda condition, rank, dim: _row_space.missed_by_products(condition, rank, dim) < 1e-5,
        ),
        ExactCheck(
            name="basis stays orthonormal",
            cases=lambda: [(seed,) for seed in range(5)],
            truth=lambda seed: 1.0,
            statement=lambda seed: _least_norm(seed),
            wrong=lambda seed: 1.02,
            tolerance=1e-12,
        ),
    ),
    proved=True,
)


def _least_norm(seed: int) -> float:
    rng = np.random.default_rng(seed)
    return float(np.linalg.norm(embedding.anchor_subspace(rng.standard_normal((8, 6)), 3, 2, rng), axis=1).min())


# --- gep.lem3.2 -------------------------------------------------------------------------------------------------------

_LAWS = [(law, k, m) for law, k in ((bounds.SKEW, 1), (bounds.PLANE, 1), (bounds.FLAT, 1)) for m in (5, 12)]
_BOX = {
    "share": Range(0.05, 0.95),
    "ratio": Range(0.1, 1.0),
    "angle": Range(0.1, math.pi / 2),
    "anchors": Range(1, 30, integer=True),
}

_LEM32 = Claim(
    id="gep.lem3.2",
    title="residual bound",
    source=Source("gep", "Lemma 3.2", (3,)),
    statement=r"If $|\xi|^2<T$: with probability $1-2e^{-\delta}$, $E|\xi-\Pi_{\hat V_k}\xi|^2\le\sum_{i>k}\lambda_i+\sqrt{kC/m}+T\sqrt{2\delta/m}$, "
    r"$C = [E|\xi|^4-\sum\lambda_i^2]+[\frac1m\sum|\hat\xi_j|^4-\sum\hat\lambda_i^2]$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "the anchors are independent draws of the law of xi given the model, which they did not help to choose",
        "T bounds the squared norm",
        "the subspace is the exact principal one of the anchors",
    ),
    correction=r"With probability $1-e^{-\delta}$ and without the second bracket: $E|\xi-\Pi\xi|^2\le\min_{j\le k}\big\{\sum_{i>j}\lambda_i+"
    r"\sqrt{j(1-j/p)(E|\xi|^4-\sum\lambda_i^2)/m}+T\sqrt{2\delta/m}\big\}$, no deviation term for $j\in\{0,p\}$.",
    printed=bounds.printed_residual_bound,
    calculators=(embedding.residual_bound, embedding.residual_energy),
    checks=(
        ExactCheck(
            name="estimation term: E|S - Sigma|^2 over all samples",
            cases=lambda: _LAWS,
            truth=bounds.enumerated_estimation,
            statement=lambda law, k, m: bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).estimation,
            wrong=bounds.printed_mean_estimation,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="tail: the trace without the leading eigenvalues",
            cases=lambda: _LAWS,
            truth=lambda law, k, m: float(
                np.trace(_atoms.second_moments(law.matrix, law.weights)) - np.sum(law.eigenvalues[::-1][:k])
            ),
            statement=lambda law, k, m: bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).tail,
            wrong=lambda law, k, m: float(law.eigenvalues.sum()),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="deviation term: the largest change by one anchor",
            cases=lambda: [(bounds.PLANE, 1, 20, 0.9), (bounds.PLANE, 1, 30, 0.8)],
            truth=bounds.exchanged_deviation,
            statement=lambda law, k, m, failure: bounds.bound(law, k, m, failure).deviation,
            wrong=lambda law, k, m, failure: bounds.exchanged_deviation(law, k, m, failure / 2),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="residual energy is the trace off the subspace",
            cases=lambda: [(bounds.SKEW, 1), (bounds.SKEW, 2), (bounds.FLAT, 1)],
            truth=lambda law, k: _trace_off(law, k),
            statement=lambda law, k: embedding.residual_energy(law.matrix, np.eye(3)[:k]),
            wrong=lambda law, k: float(np.square(law.matrix).sum() / 3),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="every term and the best j, by a loop over j",
            cases=lambda: [
                (part, *case, fourth)
                for part in ("tail", "estimation", "deviation", "subspace_dim", "value")
                for case in ((3, 3, 2), (5, 2, 1), (5, 4, 400), (300, 20, 50), (20_000, 5, 50), (20_000, 40, 10**7))
                for fourth in (None, 3.9)
            ],
            truth=bounds.looped_bound,
            statement=bounds.power_law_bound,
            wrong=lambda part, p, k, m, fourth: bounds.looped_bound(part, p, max(1, k - 1), m, fourth, every=False),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="mean residual over all samples",
            box=_BOX,
            slack=bounds.mean_slack,
            wrong=partial(bounds.mean_slack, kept=0.2),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="probability of a residual above the bound",
            box={**_BOX, "failure": Range(0.01, 0.9)},
            slack=bounds.tail_slack,
            wrong=partial(bounds.tail_slack, kept=0.1),
        ),
    ),
    proved=True,
)


def _trace_off(law: bounds.Law, k: int) -> float:
    return float(np.square(law.matrix[:, k:]).sum() / len(law.atoms))


# --- gep.lem3.2.text --------------------------------------------------------------------------------------------------


def _bound_rises(weights: tuple[Fraction, ...], anchors: int, low: int, high: int) -> bool:
    """Whether the printed bound is larger at k = high than at k = low, when the anchors hit each axis as often as expected.

    xi = e_j with probability w_j and anchors with the same frequencies: both brackets are 1 - sum w_j^2. The difference is
    (sqrt(high) - sqrt(low)) sqrt(C/m) - (sum of the eigenvalues between); for squares low and high its sign is rational.
    """
    roots = math.isqrt(high) - math.isqrt(low)
    constant = 2 * (1 - sum((w * w for w in weights), Fraction(0)))
    between = sum(sorted(weights, reverse=True)[low:high], Fraction(0))
    return roots**2 * constant / anchors > between**2


def _mean_line_residual(anchors: int) -> Fraction:
    """Mean residual of the leading line of the anchors: e_1 with probability .9, sqrt(8) e_2 with probability .1."""
    energies = (Fraction(9, 10), Fraction(8, 10))
    total = Fraction(0)
    for picked, chance in _atoms.samples((Fraction(9, 10), Fraction(1, 10)), anchors):
        second = 8 * sum(picked) > anchors - sum(picked)
        total += chance * energies[0 if second else 1]
    return total


_TEN = (Fraction(6, 10),) + (Fraction(1, 10),) * 4

_LEM32TEXT = Claim(
    id="gep.lem3.2.text",
    title="larger subspace, smaller residual",
    source=Source("gep", "section 3.2, after Lemma 3.2"),
    statement=r"From Lemma 3.2: the larger $m$ and $k$, the smaller the residual gradients.",
    verdict=Verdict.FALSE,
    correction=r"The bound falls in $k$ only while $\lambda_{k+1}\ge(\sqrt{k+1}-\sqrt k)\sqrt{C/m}$. The residual itself does not grow with $k$ because "
    r"the subspaces are nested, so the smallest bound over $j\le k$ holds for $k$: the one given under gep.lem3.2. That one does not grow with "
    r"$m$ either, while the mean residual can grow with $m$.",
    calculators=(embedding.residual_bound,),
    checks=(
        ExactCheck(
            name="axes with weights .6, .1, .1, .1, .1, ten anchors: the printed bound from k = 1 to k = 4",
            cases=lambda: [(_TEN, 10, 1, 4)],
            truth=lambda weights, m, low, high: not _bound_rises(weights, m, low, high),
            statement=lambda weights, m, low, high: False,
            wrong=lambda weights, m, low, high: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="lengths 1 and sqrt 8, weights .9 and .1, k = 1: is the mean residual smaller with more anchors?",
            cases=lambda: [(1, 2), (2, 5), (5, 8)],
            truth=lambda few, many: _mean_line_residual(many) < _mean_line_residual(few),
            statement=lambda few, many: False,
            wrong=lambda few, many: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="smallest bound over j <= k does not grow with k",
            box={
                "decay": Range(0.05, 1.0),
                "anchors": Range(1, 10**4, integer=True, log=True),
                "subspace_dim": Range(1, 5, integer=True),
                "failure": Range(0.01, 0.99),
            },
            slack=bounds.growth_slack,
            wrong=bounds.printed_growth_slack,
        ),
        ExactCheck(
            name="estimation term, unit atoms, over all samples",
            cases=lambda: [(_TEN, 6, 4)],
            truth=lambda weights, m, k: bounds.enumerated_estimation(
                bounds.Law(tuple(map(tuple, np.eye(len(weights)).tolist())), tuple(map(float, weights))), k, m
            ),
            statement=lambda weights, m, k: (
                embedding.residual_bound(
                    [float(w) for w in weights], k, m, 1.0, bounds.ALMOST_SURE_FAILURE, 1.0
                ).estimation
            ),
            wrong=lambda weights, m, k: math.sqrt(k * 2 * (1 - float(sum(w * w for w in weights))) / m),
            tolerance=1e-9,
        ),
    ),
    proved=True,
)


CLAIMS: tuple[Claim, ...] = (_LEM31, _THMD1, _POWER, _LEM32, _LEM32TEXT, *_random_basis.CLAIMS, *_labels.CLAIMS)
