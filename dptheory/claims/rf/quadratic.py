"""RF: Theorem 1, the maximum of a quadratic form, and what its appendix makes of it."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad, simpson
from scipy.special import gammainc, gammaincc
from scipy.stats import chi2, gamma

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict

Array = NDArray[np.float64]

# --- second methods for E max -----------------------------------------------------------------------------------------


def _paired_max(eigenvalues: Sequence[Fraction], n: int) -> Fraction:
    """E max of n draws of sum l_j E_j, E_j exponential of mean 2: each eigenvalue, all distinct, comes twice in Sigma.

    P(Q > x) = sum_j A_j exp(-x / (2 l_j)), A_j = prod_{i != j} l_j / (l_j - l_i); the n-th power of its complement is expanded.
    """
    terms = [
        (math.prod((x / (x - y) for y in eigenvalues if y != x), start=Fraction(1)), 1 / (2 * x)) for x in eigenvalues
    ]
    total = Fraction(0)
    for size in range(1, n + 1):
        for chosen in itertools.combinations_with_replacement(range(len(terms)), size):
            ways = math.factorial(size)
            for j in set(chosen):
                ways //= math.factorial(chosen.count(j))
            weight = math.prod((terms[j][0] for j in chosen), start=Fraction(1))
            rate = sum((terms[j][1] for j in chosen), Fraction(0))
            total += (-1) ** (size + 1) * math.comb(n, size) * ways * weight / rate
    return total


def _ruben_max(eigenvalues: Sequence[float], n: int) -> float:
    """E max with F from Ruben's series: a mixture of central chi-square laws of scale min l_j, weights >= 0."""
    scale = min(eigenvalues)
    excess = [1.0 - scale / x for x in eigenvalues]
    powers = [sum(e**k for e in excess) for k in range(400)]
    weights = [math.prod(math.sqrt(scale / x) for x in eigenvalues)]
    for k in range(1, 400):
        weights.append(sum(powers[k - i] * weights[i] for i in range(k)) / (2 * k))
    shapes = 0.5 * len(eigenvalues) + np.arange(400)
    # the weights left out belong to shapes too large for any x that counts
    mixture = np.array(weights)

    def missed(x: float) -> float:
        below = float(mixture @ gammainc(shapes, x / (2.0 * scale)))
        return -math.expm1(n * math.log(below)) if 0.0 < below < 1.0 else float(below <= 0.0)

    top = max(eigenvalues) * (len(eigenvalues) + 2 * math.log(n) + 70)
    return float(quad(missed, 0.0, top, limit=400, epsabs=0.0, epsrel=1e-10, points=[sum(eigenvalues)])[0])


def _gamma_max(shape: float, n: int) -> float:
    """E max of n draws of Gamma(shape, shape), by quadrature of its own law."""

    def missed(x: float) -> float:
        above = float(gammaincc(shape, shape * x))
        return -math.expm1(n * math.log1p(-above)) if above < 1.0 else 1.0

    top = 1.0 + (60.0 + 3.0 * math.sqrt(60.0 * shape)) / shape
    return float(quad(missed, 0.0, top, limit=400, epsabs=0.0, epsrel=1e-11, points=[1.0])[0])


def _two_level_max(half: int, ratio: float, n: int) -> float:
    """E max for 2 half eigenvalues 1 and as many of ``ratio``: Gamma laws of SciPy, the sum's tail and the integral on a grid."""
    mean, spread = 2 * half * (1 + ratio), 2 * math.sqrt(half * (1 + ratio**2))
    x = np.linspace(max(0.0, mean - 8 * spread), mean + (12 + 0.01 * n**0.25) * spread + 80 * ratio, 600)
    points, weights = np.polynomial.legendre.leggauss(600)
    y = mean / (1 + ratio) * ratio + spread * 12 * points
    law = gamma.pdf(y, half, scale=2 * ratio) * 12 * spread * weights
    above = gamma.sf(x[:, None] - y, half, scale=2.0) @ law
    missed = -np.expm1(n * np.log1p(-np.minimum(above, 1 - 1e-16)))
    return float(x[0] + simpson(missed, x=x))


def _flat_max(dim: int, n: int) -> float:
    """E max for ``dim`` eigenvalues 1, by SciPy's chi-square law."""
    return 2 * (dim / 2) * _gamma_max(dim / 2, n)


def _large_max(dim: int, n: int, ratio: float) -> float:
    return _flat_max(dim, n) if ratio == 1 else _two_level_max(dim // 4, ratio, n)


def _exact(eigenvalues: Sequence[float | Fraction], n: int) -> float:
    return gradients.expected_max_quadratic_form([float(x) for x in eigenvalues], n)


def _approximate(eigenvalues: Sequence[float | Fraction], n: int) -> float:
    return gradients.expected_max_quadratic_form([float(x) for x in eigenvalues], n, "welch-satterthwaite")


def _spectrum(dim: int, decay: float) -> Array:
    """Eigenvalues j^-decay, j = 1..dim."""
    return np.arange(1.0, dim + 1.0) ** -decay


_PAIRED = ((3, 1), (5, 4), (10, 1), (7, 3, 2))


def _paired_cases() -> Iterator[tuple[tuple[int, ...], int]]:
    yield from itertools.product(_PAIRED, (1, 2, 3, 6))


# --- rf.thm1 ----------------------------------------------------------------------------------------------------------


def _released_errors(
    rng: np.random.Generator, n: int, eigenvalues: tuple[float, ...], draws: int, sigma: float
) -> Array:
    """|g + noise - 0|^2 of one example's gradient, noise scaled by the largest norm among all draws."""
    gradients = rng.standard_normal((n, draws, len(eigenvalues))) * np.sqrt(eigenvalues)
    norms = np.square(gradients).sum(axis=2)
    noise = rng.standard_normal((n, len(eigenvalues))) * sigma * np.sqrt(norms.max(axis=1))[:, None]
    return np.asarray(np.square(gradients[:, 0] + noise).sum(axis=1))


def _bound_slack(dim: int, decay: float, draws: int, sigma: float) -> float:
    eigenvalues = _spectrum(dim, decay)
    bound = gradients.mse_lower_bound(float(eigenvalues.sum()), dim, sigma)
    return gradients.stationary_mse(eigenvalues, draws, sigma) / bound - 1.0


def _raised_bound_slack(dim: int, decay: float, draws: int, sigma: float) -> float:
    """Wrong statement: the bound raised by 1e-3, which a single draw refutes."""
    return _bound_slack(dim, decay, 1, sigma) - 1e-3


def _chi_square_case(dim: int, n: int, what: str) -> float:
    """Eigenvalues of 2: E max of n draws of 2 chi^2_d by integrating 1 - F^n; the error of noise sigma = 0.01; its bound."""
    if what == "bound":
        return 2.0 * dim * (1 + dim * 1e-4)
    middle, spread = float(dim), math.sqrt(2.0 * dim)
    low, high = max(0.0, middle - 12 * spread), middle + 60 * spread + 200
    x = np.linspace(low, high, 200_001)
    gap = -np.expm1(n * chi2.logcdf(np.maximum(x, 1e-9), dim))
    largest = 2.0 * (low + float(simpson(gap, x=x)))
    return largest if what == "largest" else 2.0 * dim + dim * 1e-4 * largest


def _equal_case(dim: int, n: int, what: str) -> float:
    if what == "bound":
        return gradients.mse_lower_bound(2.0 * dim, dim, 0.01)
    if what == "error":
        return gradients.stationary_mse([2.0] * dim, n, 0.01)
    return gradients.expected_max_quadratic_form([2.0] * dim, n)


_THEOREM_1 = Claim(
    id="rf.thm1",
    title="error of the unclipped gradient",
    source=Source("rf", "Theorem 1", (2, 25)),
    statement=r"For $g\sim N(w,\Sigma)$ and noise $N(0,\sigma^2\max\|g\|^2I_d)$: $\mathrm{MSE} \ge \mathrm{Tr}\Sigma(1+d\sigma^2)$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "the maximum is over n examples drawn from N(w, Sigma)",
        "the trace need not grow linearly in d, and no Gamma approximation is needed",
        "the noise scale depends on the data: this mechanism alone is not differentially private",
    ),
    correction=r"At $w=0$ it equals $\mathrm{Tr}\Sigma(1+d\sigma^2E_n)$ with $E_n = E\max_{i\le n}\sum_jp_jz_{ij}^2 \ge 1$, $p_j$ the eigenvalues over the trace; $w=0$ is the least favourable point. For $w\ne0$ also $\mathrm{MSE}\ge\mathrm{Tr}\Sigma+d\sigma^2(\mathrm{Tr}\Sigma+\|w\|^2)$.",
    printed=gradients.mse_lower_bound,
    calculators=(
        gradients.stationary_mse,
        gradients.mse_lower_bound,
        gradients.expected_max_quadratic_form,
    ),
    checks=(
        ExactCheck(
            name="eigenvalues in pairs: exponential sums in fractions",
            cases=_paired_cases,
            truth=lambda half, n: (
                2 * sum(half) + 2 * len(half) * Fraction(9, 4) * _paired_max([Fraction(x) for x in half], n)
            ),
            statement=lambda half, n: gradients.stationary_mse(2 * half, n, 1.5),
            wrong=lambda half, n: gradients.mse_lower_bound(2 * sum(half), 2 * len(half), 1.5),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="second method: Ruben's series",
            cases=lambda: [
                (e, n) for e in ((1.0,), (3.0, 2.0, 2.0, 1.5, 1.0), (4.0, 1.0, 1.0)) for n in (2, 10, 10**6)
            ],
            truth=_ruben_max,
            statement=_exact,
            wrong=lambda e, n: sum(e),
            tolerance=1e-6,
        ),
        ExactCheck(
            name="E max of up to 1e9 draws and 1e6 eigenvalues, one and two levels, by SciPy's Gamma law",
            cases=lambda: [
                (10, 10**9, 1.0),
                (1000, 10**7, 1.0),
                (10**6, 60_000, 1.0),
                (10**5, 10**8, 1.0),
                (400, 10**7, 3.0),
                (10**4, 10**9, 2.0),
            ],
            truth=_large_max,
            statement=lambda dim, n, ratio: _exact(np.where(np.arange(dim) % 2, ratio, 1.0).tolist(), n),
            wrong=lambda dim, n, ratio: dim * (1 + ratio) / 2 * (1 + math.sqrt(2 / dim)),
            tolerance=1e-6,
        ),
        ExactCheck(
            name="one draw: the bound is attained at w = 0",
            cases=lambda: [((2, 1, 0),), ((3,),), ((1, 1, 2),)],
            truth=lambda roots: _sign_error(roots, Fraction(3, 2)),
            statement=lambda roots: gradients.stationary_mse([r * r for r in roots], 1, 1.5),
            wrong=lambda roots: gradients.stationary_mse([r * r for r in roots], 2, 1.5),
        ),
        MeanCheck(
            name="Gaussian gradients, d = 8, maximum of 10",
            sampler=partial(
                _released_errors, eigenvalues=(4.0, 2.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0), draws=10, sigma=0.5
            ),
            claimed=lambda: gradients.stationary_mse((4.0, 2.0, 1.0, 1.0, 0.5, 0.25, 0.0, 0.0), 10, 0.5),
            wrong=lambda: gradients.mse_lower_bound(8.75, 8, 0.5),
            row_bytes=1500,
        ),
        SearchCheck(
            name="exact >= bound",
            box={
                "dim": Range(1, 40, integer=True),
                "decay": Range(0.0, 3.0),
                "draws": Range(1, 1000, integer=True, log=True),
                "sigma": Range(0.01, 10.0, log=True),
            },
            slack=_bound_slack,
            wrong=_raised_bound_slack,
        ),
        ExactCheck(
            name="equal eigenvalues, users' sizes and numbers of draws: chi-square quadrature",
            cases=lambda: itertools.product((20_000, 300), (10, 10**7), ("largest", "error", "bound")),
            truth=_chi_square_case,
            statement=_equal_case,
            wrong=lambda dim, n, what: 1.01 * _equal_case(dim, n, what),
            tolerance=1e-6,
        ),
    ),
    proved=True,
    figure="expected_max",
)

# --- rf.eq24 ----------------------------------------------------------------------------------------------------------


def _order_cases() -> Iterator[tuple[int, float, int]]:
    yield from itertools.product((2, 5, 30), (0.3, 1.0, 3.0), (1, 2, 20, 10**4))


def _gamma_order(dim: int, decay: float, draws: int) -> bool:
    p = _spectrum(dim, decay) / _spectrum(dim, decay).sum()
    first, second = (_gamma_max(shape, draws) for shape in (0.5 / float(p @ p), 0.5 * dim))
    return first >= second - 1e-9 and second >= 1.0 - 1e-9


def _stated_order(dim: int, decay: float, draws: int, sign: float = 1.0) -> bool:
    """E M1 >= E M2 >= 1 by the calculator; sign = -1 turns the first inequality round."""
    eigenvalues = list(_spectrum(dim, decay))
    first = _approximate(eigenvalues, draws) / sum(eigenvalues)
    second = _approximate([1.0] * dim, draws) / dim
    return sign * (first - second) >= -1e-9 and second >= 1.0 - 1e-9


_EQ24 = Claim(
    id="rf.eq24",
    title="order of the Gamma maxima",
    source=Source("rf", "Appendix A", (24,)),
    statement=r"With $k = \mathrm{Tr}^2\Lambda/(2\mathrm{Tr}\Lambda^2) \le d/2$, $M^{(1)}$ and $M^{(2)}$ the maxima of $n$ draws of $\mathrm{Gamma}(k,k)$ and $\mathrm{Gamma}(d/2,d/2)$: $E M^{(1)} \ge E M^{(2)} \ge 1$.",
    verdict=Verdict.HOLDS,
    conditions=("the n draws are independent",),
    calculators=(gradients.expected_max_quadratic_form,),
    checks=(
        ExactCheck(
            name="Gamma maxima by quadrature of their own law",
            cases=lambda: [(_PAIRED[i], n) for i in range(4) for n in (2, 5, 1000)],
            truth=lambda e, n: _gamma_max(sum(e) ** 2 / (2 * sum(x * x for x in e)), n),
            statement=lambda e, n: _approximate(e, n) / sum(e),
            wrong=lambda e, n: _approximate([1.0] * len(e), n) / len(e),
            tolerance=1e-8,
        ),
        ExactCheck(
            name="two equal eigenvalues: harmonic numbers",
            cases=lambda: [(n,) for n in (1, 2, 3, 50)],
            truth=lambda n: sum((Fraction(1, i) for i in range(1, n + 1)), Fraction(0)),
            statement=lambda n: _approximate([1.0, 1.0], n) / 2,
            wrong=lambda n: 1.0,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="E M1 >= E M2 >= 1 over a grid of spectra",
            cases=_order_cases,
            truth=_gamma_order,
            statement=_stated_order,
            wrong=partial(_stated_order, sign=-1.0),
        ),
    ),
    proved=True,
)

# --- rf.eq19 ----------------------------------------------------------------------------------------------------------


def _third_central_moment(eigenvalues: Sequence[int]) -> Fraction:
    """E(Q - E Q)^3, Q = sum p_j z_j^2 with trace one, from E z^2 = 1, E z^4 = 3, E z^6 = 15 by multiplying out."""
    trace = sum(eigenvalues)
    p = [Fraction(x, trace) for x in eigenvalues]
    centred = {1: Fraction(0), 2: Fraction(2), 3: Fraction(8)}  # E(z^2 - 1)^k = 3 - 1, 15 - 9 + 3 - 1
    total = Fraction(0)
    for i, j, k in itertools.product(range(len(p)), repeat=3):
        factor = Fraction(1)
        for index in {i, j, k}:
            factor *= centred[(i, j, k).count(index)]
        total += p[i] * p[j] * p[k] * factor
    return total


def printed_third_moment(eigenvalues: Sequence[int]) -> Fraction:
    """E(Q - E Q)^3 of the Gamma(k, k) variable of equation 19: 2 / k^2 = 8 (sum p^2)^2."""
    trace = sum(eigenvalues)
    return 8 * sum((Fraction(x, trace) ** 2 for x in eigenvalues), Fraction(0)) ** 2


def _skew_slack(dim: int, decay: float) -> float:
    p = _spectrum(dim, decay) / _spectrum(dim, decay).sum()
    return float((p**3).sum() / (p**2).sum() ** 2) - 1.0


def _reversed_skew_slack(dim: int, decay: float) -> float:
    """Wrong statement: the skewness is never too small, not even by 1e-3."""
    return -1e-3 - _skew_slack(dim, decay)


_EQ19 = Claim(
    id="rf.eq19",
    title="Welch-Satterthwaite approximation",
    source=Source("rf", "Appendix A", (19, 20)),
    statement=r"$\sum_jp_jz_j^2 \approx \mathrm{Gamma}(k,k)$, $p_j = \lambda_j/\mathrm{Tr}\Lambda$, $k = 1/(2\sum_jp_j^2)$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "exact if and only if all non-zero eigenvalues are equal",
        "not needed for Theorem 1",
    ),
    correction=r"Mean and variance agree, but the third central moment is $8\sum p_j^3 \ge 8(\sum p_j^2)^2$, and $E\max$ of $n$ draws is too small for all large $n$: the tail decays at rate $1/(2\max p)$, not $k$. Use the exact law.",
    printed=_approximate,
    calculators=(gradients.expected_max_quadratic_form,),
    checks=(
        ExactCheck(
            name="third central moment in fractions",
            cases=lambda: [((1,),), ((1, 1),), ((3, 1),), ((5, 2, 1),)],
            truth=_third_central_moment,
            statement=lambda e: 8 * sum((Fraction(x, sum(e)) ** 3 for x in e), Fraction(0)),
            wrong=printed_third_moment,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="E max of exponential sums in fractions",
            cases=_paired_cases,
            truth=lambda half, n: _paired_max([Fraction(x) for x in half], n),
            statement=lambda half, n: _exact(2 * half, n),
            wrong=lambda half, n: _approximate(2 * half, n),
            tolerance=1e-9,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="the skewness is never too large",
            box={"dim": Range(1, 1000, integer=True, log=True), "decay": Range(0.0, 4.0)},
            slack=_skew_slack,
            wrong=_reversed_skew_slack,
        ),
    ),
    proved=True,
    figure="expected_max",
)

# --- rf.eq26-27 -------------------------------------------------------------------------------------------------------


def printed_degenerate_bound(scale: int, sigma: Fraction, dim: int) -> Fraction:
    """Equation 27, said of a rank-deficient covariance."""
    return scale + scale * sigma**2 * dim


def _sign_error(roots: Sequence[int], sigma: Fraction) -> Fraction:
    """Error at w = 0 for one draw with independent entries +-root and noise +-sigma |g|: only second moments enter."""
    signs = list(itertools.product((-1, 1), repeat=len(roots)))
    total = Fraction(0)
    for one, other in itertools.product(signs, repeat=2):
        g = [s * r for s, r in zip(one, roots, strict=True)]
        # |g| is the same for all signs; cross terms between g and the noise cancel over its signs and are left out
        norm_square = sum(x * x for x in g)
        total += sum(x * x + sigma**2 * norm_square * s * s for x, s in zip(g, other, strict=True))
    return total / len(signs) ** 2


_EQ26_27 = Claim(
    id="rf.eq26-27",
    title="between linear and quadratic in d",
    source=Source("rf", "Appendix A", (26, 27)),
    statement=r"$\Sigma = \lambda I$: $\mathrm{MSE} \ge \lambda d + \lambda\sigma^2d^2$. Rank-deficient $\Sigma$: the trace is constant and $\mathrm{MSE} \ge \lambda + \lambda\sigma^2d$. So the bound lies between linear and quadratic in $d$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the second case needs a trace that is constant in d, such as rank one with a fixed eigenvalue; low rank alone does not give it",
        "a constant trace contradicts the theorem's hypothesis of a trace linear in d",
        "between the two: the largest eigenvalue lies between two positive constants",
    ),
    correction=r"The bound is $\mathrm{Tr}\Sigma(1+d\sigma^2)$ with $\lambda_{\max} \le \mathrm{Tr}\Sigma \le d\lambda_{\max}$; both ends are attained. Rank $d-1$ with equal eigenvalues has trace $(d-1)\lambda$.",
    printed=printed_degenerate_bound,
    calculators=(gradients.mse_lower_bound,),
    checks=(
        ExactCheck(
            name="isotropic and rank one, by enumeration",
            cases=lambda: [((2, 2),), ((3, 3, 3),), ((2, 0),), ((3, 0, 0),), ((1, 1, 1, 1),)],
            truth=lambda roots: _sign_error(roots, Fraction(3, 2)),
            statement=lambda roots: gradients.mse_lower_bound(float(sum(r * r for r in roots)), len(roots), 1.5),
            wrong=lambda roots: gradients.mse_lower_bound(float(sum(r * r for r in roots)), len(roots) + 1, 1.5),
        ),
        ExactCheck(
            name="a rank-deficient covariance with growing trace",
            cases=lambda: [((2, 2, 0),), ((1, 1, 1, 0),)],
            truth=lambda roots: _sign_error(roots, Fraction(1)),
            statement=lambda roots: gradients.mse_lower_bound(float(sum(r * r for r in roots)), len(roots), 1.0),
            wrong=lambda roots: printed_degenerate_bound(max(roots) ** 2, Fraction(1), len(roots)),
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_THEOREM_1, _EQ24, _EQ19, _EQ26_27)
