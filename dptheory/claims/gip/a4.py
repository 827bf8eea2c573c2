"""gip.a4: Mallows against randomised response."""

from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite
from dptheory.claims.gip._response import CHANCES, response


def _conditioned_swap_law(dim: int, keep: int, chance: Fraction, swaps: int) -> float:
    """P(i swapped pairs | K ones) under randomised response, by enumeration."""
    reference = tuple(j < keep for j in range(dim))
    law = {out: p for out, p in response(reference, chance).items() if sum(out) == keep}
    at = sum(p for out, p in law.items() if _finite.hamming(out, reference) == 2 * swaps)
    return float(at / sum(law.values()))


def _conditioned_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for chance in CHANCES[2:]:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, chance, swaps


def _expected_ones(dim: int, keep: int, chance: Fraction) -> Fraction:
    law = response(tuple(j < keep for j in range(dim)), chance)
    return sum((p * sum(out) for out, p in law.items()), Fraction(0))


row = Row(
    Claim(
        id="gip.a4",
        title="Mallows against randomised response",
        source=Source("gip", "Appendix A.4"),
        statement=r"""The text after Proposition 3: because the index sensitivity $C_1$ is large, randomised response that meets the budget
$\epsilon_2$ has $p \approx \frac12$, its output is "basically a random flipping" and "loses the meaning of pruning". Meant,
in a comparison of the two: the Mallows mechanism is better.""",
        verdict=Verdict.CONDITIONAL,
        kernel="gip/a4.v",
        kernel_theorems=("reading_is_false", "correction_holds"),
        summary=(
            "right of the number of ones, which randomised response loses; no reason to prefer the Mallows mechanism "
            r"otherwise: at the same budget and sensitivity both have the same $\theta$."
        ),
        key_points=(
            (
                "Claimed: at the paper's budget randomised response is a random flipping, and the Mallows mechanism "
                "is better."
            ),
            (
                r"True of the number of ones. But both have the same $\theta = \epsilon_2/C_1$, and given $K$ ones randomised response *is* the "
                "Mallows mechanism."
            ),
            (
                r"Which of them says more of the index depends on $d$, $K$, $\theta$ and the measure: at small or "
                r"large $k$ and small $\theta$ Mallows has the smaller contrast."
            ),
            r"Use `mallows_theta` and `randomized_response_epsilon` to compare at the same $\theta$.",
        ),
        conditions=(
            (
                r"The comparison is about privacy and information at equal sensitivity $C_1$. References have $K$ ones, $1 \le K "
                r"\le d-1$."
            ),
            r"$\frac12 \le p < 1$, so $0 \le \theta < \infty$. ($p = 1$ is $\theta = \infty$: both put out the reference.)",
            "True part of the claim: a mask with about $d/2$ ones does not prune to $kd$ entries.",
        ),
        correction=r"""With $\theta = \log\frac p{1-p}$, $\frac12 \le p < 1$:

1. Randomised response is the Mallows law on *all* index sets, with dispersion $\theta$.
2. Its exact loss at distance $h$ is $\theta h$, the same as that of Mallows with dispersion $\theta$. At the same
$\epsilon_2$ and $C_1$ both have $\theta = \epsilon_2/C_1$.
3. Given that the output has $K$ ones, it is the Mallows law of Definition 4.
4. Its output has $pK + (1-p)(d-K)$ ones on average, which is $K$ for $p = 1$ or $d = 2K$ only.
5. Contrast (probability to keep a one of the reference, less the probability to keep a zero): $2p - 1 = \tanh\frac\theta2$
for randomised response, $\rho$ for Mallows. As $\theta \to 0$ their ratio $\rho/\tanh\frac\theta2$ tends to
$4k(1-k)\frac d{d-1}$. Where this is below 1 (small or large $k$) and $\theta$ is small, Mallows has the smaller contrast.""",
        calculators=(pruning.mallows_theta, pruning.randomized_response_epsilon, pruning.SubsetMallows.epsilon),
        proved=True,
    )
)


@row.equal(_conditioned_cases, tolerance=1e-12)
def _(dim: int, keep: int, chance: Fraction, swaps: int) -> Sides:
    """given K ones it is Mallows"""
    return (
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance))).swap_pmf()[swaps],
        lambda: _conditioned_swap_law(dim, keep, chance, swaps),
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance)) / 2).swap_pmf()[swaps],
    )


@row.equal(lambda: [(float(p), m) for p in CHANCES[2:] for m in (2, 4, 8)], tolerance=1e-12)
def _(probability: float, distance: int) -> Sides:
    """the same epsilon at every distance"""
    return (
        pruning.SubsetMallows(8, 4, theta=pruning.mallows_theta(probability)).epsilon(distance),
        lambda: pruning.randomized_response_epsilon(probability=probability, distance=distance),
        # the appendix's reading: for the same epsilon Mallows may follow the top-k set twice as closely
        pruning.SubsetMallows(8, 4, theta=2 * pruning.mallows_theta(probability)).epsilon(distance),
    )


@row.equal(lambda: [(6, keep, p) for keep in range(1, 6) for p in CHANCES])
def _(dim: int, keep: int, chance: Fraction) -> Sides:
    """number of ones is lost"""
    return chance * keep + (1 - chance) * (dim - keep), lambda: _expected_ones(dim, keep, chance), Fraction(keep)
