"""GEP: one noisy step and the sum over the steps."""

from fractions import Fraction

from dptheory import embedding
from dptheory.checks import CertificateCheck, ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _noisy_steps as noisy
from dptheory.claims.gep import _risk_at_scale


def printed_summed_risk(smoothness: float, distance: float, steps: int, noise_energy: float) -> float:
    """Right side of equation 12 as printed: the distance is not squared. noise_energy = sigma^2 (k + p rbar) / n^2."""
    return smoothness * distance / (2 * steps) + noise_energy / smoothness


def _run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float, kept: float = 1.0) -> float:
    """(bound - excess) / bound on the rounded absolute value; ``kept`` of the bound is kept."""
    slope = share * smoothness * distance
    excess = float(noisy.mean_excess(smoothness, distance, slope, steps, noise))
    bound = embedding.noisy_descent_risk(smoothness, distance, steps, noise**2).value
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
    calculators=(embedding.noisy_descent_risk,),
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
            bound=lambda smoothness, energy: embedding.noisy_descent_risk(smoothness, 0.0, 1, energy).value,
            wrong=lambda smoothness, energy: energy / smoothness,
        ),
        CertificateCheck(
            name="worst case of one step from the minimiser",
            cases=lambda: [(1.0, 0.0, 1, 1.0), (2.5, 0.0, 1, 0.4)],
            problem=noisy.noisy_run,
            bound=lambda smoothness, distance, steps, energy: (
                embedding.noisy_descent_risk(smoothness, distance, steps, energy).value
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
    r"(the sides have different units otherwise), and half the noise is enough. No bound can be below "
    r"$\frac\beta{2(T+2)}|\theta_0-\theta_*|^2$, whatever the noise.",
    printed=printed_summed_risk,
    calculators=(embedding.noisy_descent_risk, embedding.least_risk),
    checks=(
        *_risk_at_scale.STEPS,
        ExactCheck(
            name="rounded |x| with slope 1, D = 4, one step: does the bound hold?",
            cases=lambda: [(1, Fraction(4), 1, Fraction(noise)) for noise in (0, Fraction(1, 10), Fraction(1, 2))],
            truth=lambda beta, distance, steps, noise: True,
            statement=lambda beta, distance, steps, noise: (
                noisy.mean_excess(beta, distance, 1, steps, noise)
                <= embedding.noisy_descent_risk(float(beta), float(distance), steps, float(noise) ** 2).value
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
            bound=lambda beta, distance, steps, energy: (
                embedding.noisy_descent_risk(beta, distance, steps, energy).value
            ),
            wrong=printed_summed_risk,
            looseness=2.0,  # without noise it is (T + 2) / T - 1, and noise lowers it
        ),
        ExactCheck(
            name="the sum over the steps with equality, on a quadratic, every sign",
            cases=lambda: [
                (beta, Fraction(d), t, noise)
                for beta in (1, Fraction(5, 2))
                for d in (0, 1, 30)
                for t in (1, 2, 7)
                for noise in (Fraction(1, 3), Fraction(0), Fraction(20))
                if d or noise
            ],
            truth=noisy.telescoped_quadratic,
            statement=lambda beta, d, t, noise: (
                embedding.noisy_descent_risk(float(beta), float(d), t, float(noise) ** 2).value
            ),
            wrong=lambda beta, d, t, noise: float(beta) * float(d) ** 2 / (2 * t) + float(noise) ** 2 / float(beta),
            tolerance=1e-12,
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
            statement=lambda beta, d, t: embedding.noisy_descent_risk(float(beta), float(d), t, 0.0).value,
            wrong=lambda beta, d, t: printed_summed_risk(float(beta), float(d), t, 0.0),
            tolerance=1e-12,
        ),
        CertificateCheck(
            name="worst case without noise, one to three steps",
            cases=lambda: [(1.0, 1.0, 1, 0.0), (2.0, 0.5, 2, 0.0), (1.0, 2.0, 3, 0.0)],
            problem=noisy.noisy_run,
            bound=lambda beta, distance, steps, energy: embedding.least_risk(beta, distance, steps),
            wrong=lambda beta, distance, steps, energy: embedding.noisy_descent_risk(beta, distance, steps, 0.0).value,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_EQ11, _EQ12)
