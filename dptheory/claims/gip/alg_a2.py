"""gip.alg_a2: sampler of the Mallows law."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite, _index_at_scale

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))
_LAW_SIZE, _LAW_WEIGHT = (5, 2), Fraction(1, 2)


def _sampled_subset(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Index, in the order of :func:`_finite.subsets`, of n draws around the first subset."""
    dim, keep = _LAW_SIZE
    reference = np.zeros((n, dim), dtype=np.bool_)
    reference[:, :keep] = True
    drawn = pruning.SubsetMallows(dim, keep, -math.log(_LAW_WEIGHT)).sample(reference, rng)
    codes = 1 << np.arange(dim)
    table = np.zeros(2**dim, dtype=np.intp)
    for place, subset in enumerate(_finite.subsets(dim, keep)):
        table[int(codes @ np.asarray(subset))] = place
    return np.asarray(table[drawn @ codes])


def _subset_law() -> NDArray[np.float64]:
    law = _finite.mallows(_finite.subsets(*_LAW_SIZE)[0], _LAW_WEIGHT)
    return np.array([float(p) for p in law.values()])


def _literal_law() -> NDArray[np.float64]:
    """The appendix taken at its word: i is the distance itself, P ~ e^{-theta i}, and i pairs are swapped."""
    reference = _finite.subsets(*_LAW_SIZE)[0]
    weights = [float(_LAW_WEIGHT) ** (_finite.hamming(s, reference) / 2) for s in _finite.subsets(*_LAW_SIZE)]
    return np.asarray(np.array(weights) / sum(weights))


def _swap_probability(dim: int, keep: int, weight: Fraction, swaps: int) -> float:
    return float(_finite.swap_law(dim, keep, weight)[swaps])


def _swap_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, weight, swaps


row = Row(
    Claim(
        id="gip.alg_a2",
        title="sampler of the Mallows law",
        source=Source("gip", "Appendix A.2", (11,)),
        statement=r"""To draw $I$ with $P(I) = e^{-\theta h(I, I_t)}/\psi$ from the index sets with $K = kd$ of $d$ ones, first draw $i$, then turn
$i$ ones of $I_t$ into zeros and $i$ zeros into ones, chosen uniformly.""",
        verdict=Verdict.CONDITIONAL,
        summary=(
            "the two-step sampler is exact if the number drawn first is the number of swapped pairs, as equation 11 has it; "
            "the text below equation 11 calls it the distance, which is twice that, and taken at its word it is not a "
            "sampler of this law."
        ),
        conditions=(
            "$i$ is half the L1 distance.",
            (
                "Given $i$, the ones and the zeros to flip are drawn uniformly and independently of each other, and of $i$ "
                "except for their number."
            ),
            r"$I_t$ has exactly $K$ ones. $\theta$ may have any sign, but the calculator takes $\theta \ge 0$.",
        ),
        correction=r"""$i$ is the number of swapped pairs, half the L1 distance $h$, with

$$P(i) = \frac1\psi \binom Ki \binom{d-K}i e^{-2\theta i}, \qquad i = 0, \dots, \min(K, d-K).$$

This is Fisher's noncentral hypergeometric law with odds $e^{-2\theta}$.""",
        calculators=(
            pruning.SubsetMallows.swap_pmf,
            pruning.SubsetMallows.swap_log_pmf,
            pruning.SubsetMallows.sample,
        ),
        proved=True,
    )
)


@row.equal(_swap_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, swaps: int) -> Sides:
    """law of the number of swaps"""
    return (
        pruning.SubsetMallows(dim, keep, -math.log(weight)).swap_pmf()[swaps],
        lambda: _swap_probability(dim, keep, weight, swaps),
        pruning.SubsetMallows(dim, keep, -math.log(weight) / 2).swap_pmf()[swaps],
    )


@row.law(_sampled_subset, wrong=_literal_law, row_bytes=200)
def _() -> NDArray[np.float64]:
    """sampler against the enumerated law"""
    return _subset_law()


row.add(*_index_at_scale.SWAPS)
