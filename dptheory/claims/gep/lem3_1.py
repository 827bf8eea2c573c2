from fractions import Fraction

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds


def _projected(part: str, dim: int) -> float:
    """Gradient (5, 10, 7, 1, 1, ...) and its double on the rows (3 e1 + 4 e2) / 5 and e3, by the calculator."""
    gradient = np.ones(dim)
    gradient[:3] = 5.0, 10.0, 7.0
    basis = np.zeros((2, dim))
    basis[0, :2], basis[1, 2] = (0.6, 0.8), 1.0
    gradients = np.array([gradient, 2 * gradient])
    if part == "energy":
        return embedding.residual_energy(gradients, basis=basis)
    found = embedding.project(gradients, basis=basis)
    return float(
        (found.embeddings if part == "embeddings" else found.residuals) @ np.arange(1, _width(part, dim) + 1.0) @ [1, 1]
    )


def _recovery(rank: int, anchors: int, zero: Fraction) -> float:
    """P(anchors span the space): zero with probability ``zero``, else a fresh vector in general position; exact ranks."""
    vectors = _subspace_bounds.moment_curve(anchors, rank)
    total = Fraction(0)
    for picked, chance in _subspace_bounds.samples((zero, 1 - zero), anchors):
        rows = [vectors[i] for i, alive in enumerate(picked) if alive]
        total += chance if _subspace_bounds.rank(rows) == rank else 0
    return float(total)


def _missed_energy(rank: int, dim: int, anchors: int) -> float:
    """Share of energy of private gradients that one power iteration misses, low-rank law on the moment curve."""
    rng = np.random.default_rng([rank, dim, anchors])
    mixing = rng.standard_normal((rank, dim))
    coordinates = rng.standard_normal((anchors + 5, rank))
    public, private = coordinates[:anchors] @ mixing, coordinates[anchors:] @ mixing
    basis = embedding.anchor_subspace(public, subspace_dim=min(rank, anchors), iterations=1, rng=rng)
    return embedding.residual_energy(private, basis=basis) / float(np.square(private).sum(axis=1).mean())


def _width(part: str, dim: int) -> int:
    return 2 if part == "embeddings" else dim


def _projected_by_hand(part: str, dim: int) -> Fraction:
    """The same in fractions: the embedding is (11, 7), the residual (-8/5, 6/5, 0, 1, ..., 1)."""
    rest = dim - 3
    if part == "energy":
        return Fraction(5, 2) * (Fraction(64 + 36, 25) + rest)
    if part == "embeddings":
        return Fraction(3 * (11 + 2 * 7))
    return 3 * (Fraction(-8, 5) + 2 * Fraction(6, 5) + sum(range(4, dim + 1)))


def _plane_failure(weights: tuple[Fraction, ...], anchors: int) -> Fraction:
    """P(anchors do not span), atoms e_1, ..., e_k with these weights."""
    rows = [tuple(int(i == j) for j in range(len(weights))) for i in range(len(weights))]
    total = Fraction(0)
    for picked, chance in _subspace_bounds.samples(weights, anchors):
        total += chance if _subspace_bounds.rank([rows[i] for i in picked]) < len(weights) else 0
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


row = new_row(
    id="gep.lem3.1",
    source=Source("gep", "Lemma 3.1", (2,)),
    verdict=Verdict.HOLDS,
    calculators=(
        embedding.recovery_probability,
        embedding.anchor_subspace,
        embedding.project,
        embedding.residual_energy,
    ),
)


@row.equal(
    lambda: [(part, dim) for part in ("embeddings", "residuals", "energy") for dim in (5, 20_000)], tolerance=1e-12
)
def _(part: str, dim: int) -> Sides:
    """embeddings, residuals and their energy, in fractions"""
    return _projected(part, dim), lambda: _projected_by_hand(part, dim), 0.0


@row.equal(
    lambda: [(k, m, z) for k in (1, 2, 3) for m in (1, 3, 6) for z in (Fraction(0), Fraction(1, 5))], tolerance=1e-12
)
def _(k: int, m: int, z: Fraction) -> Sides:
    """P(anchors span) with gradients that vanish, exact ranks"""
    return (
        embedding.recovery_probability(rank=k, anchors=m, zero_probability=float(z)),
        lambda: _recovery(k, m, z),
        float(m >= k),
    )


@row.equal(lambda: [(k, p, m) for k in (1, 2, 4) for p in (4, 9) for m in (1, 2, 3, 4, 6)])
def _(k: int, p: int, m: int) -> Sides:
    """residual is 0 after one power iteration if and only if m >= k"""
    return _missed_energy(k, p, m) < 1e-20, m >= k, m > k


@row.equal(lambda: _ATOM_CASES, kind=Kind.COUNTEREXAMPLE)
def _(weights: tuple[Fraction, ...], m: int) -> Sides:
    """with atoms recovery can fail, m >= k"""
    return _inclusion_exclusion(weights, m), lambda: _plane_failure(weights, m), Fraction(0)
