"""GEP: excess risk."""

import math
from fractions import Fraction

from scipy.optimize import minimize_scalar

from dptheory import embedding
from dptheory.checks import ExactCheck, Kind
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _descent, _residual_scale, _risk_at_scale
from dptheory.claims.gep import _noisy_steps as noisy


def printed_rate(
    dim: int, subspace_dim: int, samples: int, epsilon: float, delta: float, mean_square_residual: float
) -> float:
    """What stands inside the O() of Theorem 3.3, mean_square_residual = rbar."""
    log = math.log(1 / delta)
    first, second = math.sqrt(subspace_dim * log), mean_square_residual * math.sqrt(dim * log)
    return (first + second) / (samples * epsilon)


def _excess_at_printed_steps(root_dim: int, steps: int) -> Fraction:
    """Least excess at the printed T in exact arithmetic: beta = D = epsilon = log(1/delta) = 1, k = 1, no residual.

    p = root_dim^2 and n = T root_dim, so that T = n beta epsilon / sqrt p. Every sample has the loss of ``least_risk`` along e_1.
    The mean iterate is at least D - (T + 1) g / (2 beta) whatever the noise, and Jensen's inequality gives the risk there.
    """
    assert Fraction(steps * root_dim, root_dim) == steps  # n beta epsilon / sqrt p
    slope = Fraction(1, steps + 2)
    return Fraction(noisy.value_at(1 - (steps + 1) * slope / 2, 1, slope))


def _exceeds(factor: int, steps: int) -> bool:
    """Whether the excess exceeds ``factor`` times the printed rate k / (n eps) for p large enough: here p = (7 factor)^2."""
    root_dim = 7 * factor
    return _excess_at_printed_steps(root_dim, steps) > Fraction(factor, steps * root_dim)


_FACTORS = [(factor, steps) for factor in (1, 100, 10**6) for steps in (1, 4, 50)]

_SMALL_SETTINGS = [
    (50, 5, 40, 1.0, 2.0, 0.5, 0.3),
    (1000, 10, 300, 2.0, 1.0, 1.0, 0.2),
    (200, 20, 2000, 0.7, 1.5, 0.3, 1.0),
    (100, 100, 500, 1.0, 1.0, 2.0, 0.7),
    (30, 3, 10, 1.0, 1.0, 0.1, 0.0),
]
"""dim, subspace_dim, samples, smoothness, distance, mu, residual_clip."""


def _brute_force_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, mu: float, clip: float
) -> float:
    """Smallest risk over T and over how the budget of a step, 1/s1^2 + clip^2/s2^2 = mu^2/T, is shared, both by search."""
    rest = dim - subspace_dim

    def step_energy(steps: int) -> float:
        if clip == 0 or rest == 0:
            return subspace_dim * steps / mu**2
        found = minimize_scalar(
            lambda share: steps / mu**2 * (subspace_dim / share + rest * clip**2 / (1 - share)),
            bounds=(1e-9, 1 - 1e-9),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return float(found.fun)

    return min(
        beta * distance**2 / (2 * steps) + step_energy(steps) / samples**2 / (2 * beta) for steps in range(1, 400)
    )


def _papers_proof(setting: tuple[float, ...]) -> float:
    """The optimum with the paper's own constant of the noise: larger by sqrt 2."""
    return math.sqrt(2) * embedding.excess_risk(*setting).value  # type: ignore[arg-type]


_PUBLISHED_SETTINGS = [
    (p, k, n, 1.0, 1.0, eps, delta, clip)
    for p, k, n in ((1000, 10, 3000), (400, 100, 20_000))
    for eps, delta in ((1.0, 1e-5), (0.3, 1e-3))
    for clip in (0.0, 0.1, 1.0)
]


def _published_risk(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, eps: float, delta: float, clip: float
) -> float:
    """Smallest risk over T with sigma = 2 sqrt(2 T log(1/delta)) / eps on each part, per entry, added up."""

    def at(steps: int) -> float:
        sigma = 2 * math.sqrt(2 * steps * math.log(1 / delta)) / eps
        energy = (subspace_dim * sigma**2 + dim * (sigma * clip) ** 2) / samples**2
        return beta * distance**2 / (2 * steps) + energy / (2 * beta)

    return min(map(at, range(1, 4000)))


def _rounding_cost(optimal: Fraction) -> Fraction:
    """(best integer risk) / (best real risk): the risk is proportional to T*/T + T/T*."""
    return min((optimal / steps + steps / optimal) / 2 for steps in range(1, 60))


def _rounded(optimal: Fraction) -> float:
    """The same of the calculator: dim = subspace_dim = samples = 1 and mu = 1 give an optimal T of beta D."""
    found = embedding.excess_risk(1, 1, 1, 1.0, float(optimal), 1.0, 0.0)
    return found.value / float(optimal)


def _least_capped_risk(beta: float, distance: float, steps: int, lipschitz: float) -> float:
    """Largest excess of the rounded |x| over the slopes up to G, by search."""
    found = minimize_scalar(
        lambda slope: -float(noisy.mean_excess(beta, distance, slope, steps, 0)),
        bounds=(0.0, lipschitz),
        method="bounded",
        options={"xatol": 1e-12 * lipschitz},
    )
    at_end = float(noisy.mean_excess(beta, distance, lipschitz, steps, 0))
    return max(-float(found.fun), at_end)


_THM33 = Claim(
    id="gep.thm3.3",
    title="excess risk",
    source=Source("gep", "Theorem 3.3"),
    statement=r"At $\eta = 1/\beta$, $T = n\beta\epsilon/\sqrt p$: $E L(\bar\theta)-L_*\le O\Big(\frac{\sqrt{k\log(1/\delta)}}{n\epsilon}+"
    r"\bar r\frac{\sqrt{p\log(1/\delta)}}{n\epsilon}\Big)$, $\bar r = \frac1T\sum r_t^2$, $r_t = \max_i|(R_t)_i|$.",
    verdict=Verdict.FALSE,
    conditions=(
        "every sample's loss is G-Lipschitz, not only the mean",
        "the residuals have a public clip rho that none of them exceeds; r_t of the private data is not a private noise scale",
        "epsilon < 2 log(1/delta) for the printed noise",
        "add-remove neighbours, public n, T >= 1 an integer",
    ),
    correction=r"At the stated $T$ the first term keeps $\sqrt p$: the risk can be $\frac{\beta D^2}{2(T+2)}\approx\frac{\sqrt pD^2}{2n\epsilon}$ with $k = 1$ and "
    r"no residual. Right: $\frac{2\sqrt2D}{n\epsilon}\sqrt{\log(1/\delta)(k+p\rho^2)}$ at $T = \beta Dn\epsilon/\sqrt{8\log(1/\delta)(k+p\rho^2)}$ "
    r"($\rho\ge r_t$ public, in the place of $\sqrt{\bar r}$, not of $\bar r$); with the best split of the noise at $\mu$-GDP $D(\sqrt k+\sqrt{p-k}\rho)/(\mu n)$ at "
    r"$T = \beta Dn\mu/(\sqrt k+\sqrt{p-k}\rho)$. Rounding $T\ge1$ costs at most a factor 1.061.",
    printed=printed_rate,
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
    checks=(
        *_risk_at_scale.RISK,
        ExactCheck(
            name="at the printed T the risk exceeds every multiple of the printed rate",
            cases=lambda: _FACTORS,
            truth=lambda factor, steps: not _exceeds(factor, steps),
            statement=lambda factor, steps: False,
            wrong=lambda factor, steps: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="least risk, enumerated without noise",
            cases=lambda: [(beta, d, t) for beta in (1, Fraction(3, 2)) for d in (1, 4) for t in (1, 2, 5)],
            truth=lambda beta, d, t: noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0),
            statement=lambda beta, d, t: embedding.least_risk(float(beta), float(d), t),
            wrong=lambda beta, d, t: float(beta) * d**2 / (2 * t),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="least risk where every loss is G-Lipschitz, by search over the slopes",
            cases=lambda: [
                (beta, d, t, share * beta * d / (t + 2))
                for beta, d in ((1.0, 1.0), (2.5, 3.0))
                for t in (1, 4, 9)
                for share in (0.01, 0.5, 0.99, 1.5)
            ],
            truth=_least_capped_risk,
            statement=lambda beta, d, t, g: embedding.least_risk(beta, d, t, g),
            wrong=lambda beta, d, t, g: embedding.least_risk(beta, d, t),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="least risk holds with noise, every sign",
            cases=lambda: [(t, noise) for t in (1, 3, 6) for noise in (Fraction(1, 7), Fraction(3, 2))],
            truth=lambda t, noise: (
                noisy.mean_excess(1, Fraction(1), Fraction(1, t + 2), t, noise) >= Fraction(1, 2 * (t + 2))
            ),
            statement=lambda t, noise: True,
            wrong=lambda t, noise: False,
        ),
        ExactCheck(
            name="best T and best split by search",
            cases=lambda: _SMALL_SETTINGS,
            truth=_brute_force_risk,
            statement=lambda *setting: embedding.excess_risk(*setting).value,
            wrong=lambda *setting: _papers_proof(setting),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="the paper's noise, best T by search",
            cases=lambda: _PUBLISHED_SETTINGS,
            truth=_published_risk,
            statement=lambda *setting: embedding.excess_risk_as_published(*setting).value,
            wrong=lambda p, k, n, beta, d, eps, delta, clip: printed_rate(p, k, n, eps, delta, clip**2),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="cost of an integer T",
            cases=lambda: [(Fraction(t),) for t in (1, "3/2", 2, "7/5", "10/3", 20, "41/2")],
            truth=lambda optimal: _rounding_cost(optimal),
            statement=_rounded,
            wrong=lambda optimal: Fraction(1),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

_INDEPENDENT = Claim(
    id="gep.independent_p",
    title="rate independent of p",
    source=Source("gep", "section 3.3, after Theorem 3.3"),
    statement=r"If the gradients stay in a $k$-dimensional subspace, $\bar r = 0$ and the excess error is $O(\sqrt{k\log(1/\delta)}/(n\epsilon))$, "
    r"independent of $p$.",
    verdict=Verdict.FALSE,
    conditions=("the anchors span the subspace at every step", "the residual's clip is 0, fixed in advance"),
    part_of="gep.thm3.3",
    correction=r"False at the stated $T = n\beta\epsilon/\sqrt p$, which stops the earlier the larger $p$ is. True at "
    r"$T = \beta Dn\epsilon/\sqrt{8k\log(1/\delta)}$: $2\sqrt2D\sqrt{k\log(1/\delta)}/(n\epsilon)$, and $D\sqrt k/(\mu n)$ at $\mu$-GDP.",
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
    checks=(
        ExactCheck(
            name="n and the root of p large at the printed T: does the risk fall like 1/n?",
            cases=lambda: [(q, t) for q in (100, 10**4, 10**8) for t in (1, 3)],
            truth=lambda q, t: _excess_at_printed_steps(q, t),
            statement=lambda q, t: Fraction(1, 2 * (t + 2)),
            wrong=lambda q, t: Fraction(1, t * q),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="at the best T the risk does not see p",
            cases=lambda: [(p, 1.0, 1e-5) for p in (10, 10**4, 10**9)],
            truth=lambda p, eps, delta: _published_risk(10, 10, 50_000, 1.0, 1.0, eps, delta, 0.0),
            statement=lambda p, eps, delta: (
                embedding.excess_risk_as_published(p, 10, 50_000, 1.0, 1.0, eps, delta, 0.0).value
            ),
            wrong=lambda p, eps, delta: embedding.least_risk(1.0, 1.0, max(1, round(50_000 * eps / math.sqrt(p)))),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the same at mu-GDP",
            cases=lambda: [(p, 0.5) for p in (10, 10**4, 10**9)],
            truth=lambda p, mu: _brute_force_risk(10, 10, 300, 1.0, 1.0, mu, 0.0),
            statement=lambda p, mu: embedding.excess_risk(p, 10, 300, 1.0, 1.0, mu, 0.0).value,
            wrong=lambda p, mu: math.sqrt(p) / (mu * 300),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)


CLAIMS: tuple[Claim, ...] = (*_descent.CLAIMS, _THM33, _INDEPENDENT, *_residual_scale.CLAIMS)
