"""GEP: excess risk."""

import math
from fractions import Fraction

from scipy.optimize import minimize_scalar

from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _noisy_steps as noisy
from dptheory.embedding import risk
from dptheory.montecarlo import CertificateCheck, ExactCheck, Kind, Range, SearchCheck

# --- gep.eq11, gep.eq12 -----------------------------------------------------------------------------------------------


def printed_summed_risk(smoothness: float, distance: float, steps: int, noise_energy: float) -> float:
    """Right side of equation 12 as printed: the distance is not squared. noise_energy = sigma^2 (k + p rbar) / n^2."""
    return smoothness * distance / (2 * steps) + noise_energy / smoothness


def _run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float, kept: float = 1.0) -> float:
    """(bound - excess) / bound on the rounded absolute value; ``kept`` of the bound is kept."""
    slope = share * smoothness * distance
    excess = float(noisy.mean_excess(smoothness, distance, slope, steps, noise))
    bound = risk.noisy_descent_risk(smoothness, distance, steps, noise**2).value
    return kept - excess / bound


def _strong_run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float) -> float:
    """Wrong statement: half the bound."""
    return _run_slack(smoothness, distance, share, steps, noise, 0.5)


_EQ11 = Claim(
    id="gep.eq11",
    title="one step with noise",
    source=Source("gep", "proof of Theorem 3.3", (7, 8, 9, 10, 11)),
    statement=r"$E L(\theta_{t+1})-L_*\le\frac\beta2\big(E|\theta_t-\theta_*|^2-E|\theta_{t+1}-\theta_*|^2\big)+\frac N\beta$, "
    r"$N = \frac{\sigma^2}{n^2}(k+pr_t^2)$, $\eta = 1/\beta$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "L is convex and beta-smooth; no Lipschitz constant is needed here",
        "the noise has mean 0 given the iterate; r_t depends on the iterate, so its mean is meant",
        "no embedding and no residual is clipped",
    ),
    correction=r"The constant 1 of $N/\beta$ is the best of this inequality: equality for $L = \frac\beta2|\theta|^2$ at $\theta_t = \theta_*$. But "
    r"$E L(\theta_t)-L_*\le\frac\beta2(\ldots)+\frac N{2\beta}$ with the same bracket, and the sum over $t$ then costs half the noise.",
    calculators=(risk.noisy_descent_risk,),
    checks=(
        CertificateCheck(
            name="worst case of the inequality over smooth convex functions",
            cases=lambda: [(1.0, 1.0), (2.5, 0.4), (0.3, 7.0)],
            problem=noisy.noisy_step,
            bound=lambda smoothness, energy: energy / smoothness,
            wrong=lambda smoothness, energy: energy / (2 * smoothness),
        ),
        CertificateCheck(
            name="worst case of the inequality at theta_t",
            cases=lambda: [(1.0, 1.0), (2.5, 0.4), (0.3, 7.0)],
            problem=noisy.noisy_step_at_start,
            bound=lambda smoothness, energy: risk.noisy_descent_risk(smoothness, 0.0, 1, energy).value,
            wrong=lambda smoothness, energy: energy / smoothness,
        ),
        CertificateCheck(
            name="worst case of one step from the minimiser",
            cases=lambda: [(1.0, 0.0, 1, 1.0), (2.5, 0.0, 1, 0.4)],
            problem=noisy.noisy_run,
            bound=lambda smoothness, distance, steps, energy: (
                risk.noisy_descent_risk(smoothness, distance, steps, energy).value
            ),
            wrong=lambda smoothness, distance, steps, energy: energy / smoothness,
        ),
    ),
    proved=True,
)

_EQ12 = Claim(
    id="gep.eq12",
    title="risk after T steps",
    source=Source("gep", "proof of Theorem 3.3", (12,)),
    statement=r"$E L(\bar\theta)-L_*\le\frac\beta{2T}|\theta_0-\theta_*|+\frac{\sigma^2}{\beta n^2}\big(k+\frac pT\sum r_t^2\big)$.",
    verdict=Verdict.FALSE,
    conditions=("L is convex and beta-smooth", "the noise has mean 0 given the iterate"),
    correction=r"$\frac\beta{2T}|\theta_0-\theta_*|^2+\frac N{2\beta}$, $N = \frac{\sigma^2}{n^2}(k+\frac pT\sum E r_t^2)$: the distance is squared "
    r"(the sides have different units otherwise), and half the noise is enough. Without noise the worst case is "
    r"$\frac\beta{2(T+2)}|\theta_0-\theta_*|^2$.",
    printed=printed_summed_risk,
    calculators=(risk.noisy_descent_risk, risk.least_risk),
    checks=(
        ExactCheck(
            name="rounded |x| with slope 1, D = 4, one step: does the bound hold?",
            cases=lambda: [(1, Fraction(4), 1, Fraction(noise)) for noise in (0, Fraction(1, 10), Fraction(1, 2))],
            truth=lambda beta, distance, steps, noise: True,
            statement=lambda beta, distance, steps, noise: (
                noisy.mean_excess(beta, distance, 1, steps, noise)
                <= risk.noisy_descent_risk(float(beta), float(distance), steps, float(noise) ** 2).value
            ),
            wrong=lambda beta, distance, steps, noise: (
                noisy.mean_excess(beta, distance, 1, steps, noise)
                <= Fraction(beta) * distance / (2 * steps) + noise**2 / beta
            ),
            kind=Kind.COUNTEREXAMPLE,
        ),
        CertificateCheck(
            name="worst case of one and two noisy steps",
            cases=lambda: [(1.0, 1.0, 1, 1.0), (2.0, 0.5, 1, 0.1), (1.0, 3.0, 2, 0.5), (1.0, 0.1, 2, 1.0)],
            problem=noisy.noisy_run,
            bound=lambda beta, distance, steps, energy: risk.noisy_descent_risk(beta, distance, steps, energy).value,
            wrong=printed_summed_risk,
            looseness=math.inf,
        ),
        SearchCheck(
            name="rounded |x| with noise, every sign",
            box={
                "smoothness": Range(0.1, 10.0, log=True),
                "distance": Range(0.1, 10.0, log=True),
                "share": Range(0.01, 1.0),
                "steps": Range(1, 6, integer=True),
                "noise": Range(1e-3, 10.0, log=True),
            },
            slack=_run_slack,
            wrong=_strong_run_slack,
        ),
        ExactCheck(
            name="without noise (T + 2)/T times the risk of the rounded |x|",
            cases=lambda: [(beta, d, t) for beta in (1, Fraction(5, 2)) for d in (1, 3) for t in (1, 2, 7)],
            truth=lambda beta, d, t: (
                noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0) * Fraction(t + 2, t)
            ),
            statement=lambda beta, d, t: risk.noisy_descent_risk(float(beta), float(d), t, 0.0).value,
            wrong=lambda beta, d, t: printed_summed_risk(float(beta), float(d), t, 0.0),
            tolerance=1e-12,
        ),
        CertificateCheck(
            name="worst case without noise, one to three steps",
            cases=lambda: [(1.0, 1.0, 1, 0.0), (2.0, 0.5, 2, 0.0), (1.0, 2.0, 3, 0.0)],
            problem=noisy.noisy_run,
            bound=lambda beta, distance, steps, energy: risk.least_risk(beta, distance, steps),
            wrong=lambda beta, distance, steps, energy: risk.noisy_descent_risk(beta, distance, steps, 0.0).value,
        ),
    ),
    proved=True,
)

# --- gep.thm3.3, gep.independent_p ------------------------------------------------------------------------------------


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
    return math.sqrt(2) * risk.excess_risk(*setting).value  # type: ignore[arg-type]


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
    found = risk.excess_risk(1, 1, 1, 1.0, float(optimal), 1.0, 0.0)
    return found.value / float(optimal)


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
        "add-or-remove neighbours, public n, T >= 1 an integer",
    ),
    correction=r"At the stated $T$ the first term keeps $\sqrt p$: the risk can be $\frac{\beta D^2}{2(T+2)}\approx\frac{\sqrt pD^2}{2n\epsilon}$ with $k = 1$ and "
    r"no residual. Right: $\frac{2\sqrt2D}{n\epsilon}\sqrt{\log(1/\delta)(k+p\rho^2)}$ at $T = \beta Dn\epsilon/\sqrt{8\log(1/\delta)(k+p\rho^2)}$ "
    r"($\rho$, the root of $\bar r$, and not $\bar r$); with the best split of the noise at $\mu$-GDP $D(\sqrt k+\sqrt{p-k}\rho)/(\mu n)$ at "
    r"$T = \beta Dn\mu/(\sqrt k+\sqrt{p-k}\rho)$. Rounding $T\ge1$ costs at most a factor 1.061.",
    printed=printed_rate,
    calculators=(risk.excess_risk, risk.excess_risk_as_published, risk.least_risk),
    checks=(
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
            statement=lambda beta, d, t: risk.least_risk(float(beta), float(d), t),
            wrong=lambda beta, d, t: float(beta) * d**2 / (2 * t),
            tolerance=1e-12,
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
            statement=lambda *setting: risk.excess_risk(*setting).value,
            wrong=lambda *setting: _papers_proof(setting),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="the paper's noise, best T by search",
            cases=lambda: _PUBLISHED_SETTINGS,
            truth=_published_risk,
            statement=lambda *setting: risk.excess_risk_as_published(*setting).value,
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
    correction=r"False at the stated $T = n\beta\epsilon/\sqrt p$, which stops the earlier the larger $p$ is. True at "
    r"$T = \beta Dn\epsilon/\sqrt{8k\log(1/\delta)}$: $2\sqrt2D\sqrt{k\log(1/\delta)}/(n\epsilon)$, and $D\sqrt k/(\mu n)$ at $\mu$-GDP.",
    calculators=(risk.excess_risk, risk.excess_risk_as_published, risk.least_risk),
    checks=(
        ExactCheck(
            name="n = p large at the printed T: does the risk fall like 1/n?",
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
                risk.excess_risk_as_published(p, 10, 50_000, 1.0, 1.0, eps, delta, 0.0).value
            ),
            wrong=lambda p, eps, delta: risk.least_risk(1.0, 1.0, max(1, round(50_000 * eps / math.sqrt(p)))),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the same at mu-GDP",
            cases=lambda: [(p, 0.5) for p in (10, 10**4, 10**9)],
            truth=lambda p, mu: _brute_force_risk(10, 10, 300, 1.0, 1.0, mu, 0.0),
            statement=lambda p, mu: risk.excess_risk(p, 10, 300, 1.0, 1.0, mu, 0.0).value,
            wrong=lambda p, mu: math.sqrt(p) / (mu * 300),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

# --- gep.residual_scale -----------------------------------------------------------------------------------------------


def _least_delta(residual: Fraction, added: Fraction, epsilon: int) -> float:
    """delta that any (epsilon, delta) guarantee needs: sup_S P_D(S) - e^epsilon P_D'(S), one step, residual noise N(0, r^2).

    D has a residual of length ``residual`` along an axis orthogonal to the one of the sample added, in D' the noise has scale
    ``added``; seen along a third axis the release is N(0, residual^2) against N(0, added^2).
    """
    if residual == 0:
        return 1.0  # the event {0}: probability 1 against 0
    narrow, wide = float(residual), float(added)
    # densities cross where x^2 (1/narrow^2 - 1/wide^2) / 2 = log(wide / narrow) - epsilon
    level = 2 * (math.log(wide / narrow) - epsilon)
    if level <= 0:
        return 0.0
    edge = math.sqrt(level / (1 / narrow**2 - 1 / wide**2))
    inside = [math.erf(edge / scale / math.sqrt(2)) for scale in (narrow, wide)]
    return inside[0] - math.exp(epsilon) * inside[1]


def _claimed_delta(epsilon: int) -> float:
    """delta for which sigma = 2 sqrt(2 log(1/delta)) / epsilon is the noise multiplier 1."""
    return math.exp(-(epsilon**2) / 8)


_SCALE = Claim(
    id="gep.residual_scale",
    title="the largest residual as sensitivity",
    source=Source("gep", "Theorem 3.3 and its proof", (8,)),
    statement=r"$r_t = \max_i|(R_t)_i|$, computed from the private gradients, is the sensitivity of the residual at step $t$; noise of standard deviation "
    r"$\sigma r_t$ keeps the privacy of Theorem 3.2.",
    verdict=Verdict.FALSE,
    correction=r"Sensitivity is a maximum over neighbouring data sets, not over the samples of one. If no residual is there, $r_t = 0$, and one sample with "
    r"a residual is seen with certainty: $\delta = 1$ for every $\epsilon$. Clip at a public $\rho$ and add $N(0,\sigma^2\rho^2I)$; $\rho = G$ is safe "
    r"without clipping if every sample's loss is $G$-Lipschitz.",
    checks=(
        ExactCheck(
            name="no residual against one: least delta",
            cases=lambda: [(Fraction(0), Fraction(1), epsilon) for epsilon in (1, 5, 50)],
            truth=_least_delta,
            statement=lambda residual, added, epsilon: 1.0,
            wrong=lambda residual, added, epsilon: _claimed_delta(epsilon),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="largest residual 10^-6 against 1: is the claimed delta enough?",
            cases=lambda: [(Fraction(1, 10**6), Fraction(1), 4)],
            truth=lambda residual, added, epsilon: _least_delta(residual, added, epsilon) <= _claimed_delta(epsilon),
            statement=lambda residual, added, epsilon: False,
            wrong=lambda residual, added, epsilon: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_EQ11, _EQ12, _THM33, _INDEPENDENT, _SCALE)
