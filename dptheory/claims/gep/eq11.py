"""gep.eq11: one noisy step of gradient descent."""

from dptheory import embedding
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gep import _noisy_steps as noisy

row = Row(
    Claim(
        id="gep.eq11",
        title="one step with noise",
        source=Source("gep", "proof of Theorem 3.3", (7, 8, 9, 10, 11)),
        statement=r"""For $L$ convex and $\beta$-smooth, $\eta = \frac1\beta$, $\theta_{t+1} = \theta_t-\eta(\nabla L(\theta_t)+\zeta_t)$,
$\zeta_t = \frac1n(z^{(1)}_tB+z^{(2)}_t)$, $N = E|\zeta_t|^2 = \frac{\sigma^2}{n^2}(k+pr_t^2)$:

$$E L(\theta_{t+1})-L_\ast\le\frac\beta2\big(E|\theta_t-\theta_\ast|^2-E|\theta_{t+1}-\theta_\ast|^2\big)+\frac N\beta.\tag{11}$$

(Where equations 9 to 12 print $r_t^2$, which depends on $\theta_t$, its mean is meant.)""",
        verdict=Verdict.HOLDS,
        summary=(
            "equations 7 to 11 are right, signs included, and the constant of the noise is the best for this "
            "inequality; another inequality leads to the same place with half the noise."
        ),
        conditions=(
            r"$\theta_\ast$ is a minimiser of $L$, which is convex and $\beta$-smooth, over $R^p$; "
            r"$E[\zeta_t\mid\theta_t] = 0$ (no embedding and no residual is clipped).",
            "No Lipschitz constant is needed here: it is needed for the privacy.",
        ),
        correction=r"""With the same bracket, and this is ours,

$$E L(\theta_t)-L_\ast\le\frac\beta2\big(E|\theta_t-\theta_\ast|^2-E|\theta_{t+1}-\theta_\ast|^2\big)+\frac N{2\beta}.\tag{11'}$$

The sum over $t$ then costs half the noise. In (11) the constant 1 of $N/\beta$ is the best: there is equality for
$L = \frac\beta2|\theta|^2$ at $\theta_t = \theta_\ast$.""",
        calculators=(embedding.noisy_descent_risk,),
        proved=True,
    )
)


@row.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step,
    wrong=lambda smoothness, energy: energy / (2 * smoothness),
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality over smooth convex functions"""
    return energy / smoothness


@row.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step_at_start,
    wrong=lambda smoothness, energy: energy / smoothness,
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality at theta_t"""
    return embedding.noisy_descent_risk(smoothness=smoothness, initial_distance=0.0, steps=1, noise_energy=energy).value


@row.certificate(
    (1.0, 0.0, 1, 1.0),
    (2.5, 0.0, 1, 0.4),
    problem=noisy.noisy_run,
    wrong=lambda smoothness, distance, steps, energy: energy / smoothness,
)
def _(smoothness: float, distance: float, steps: int, energy: float) -> float:
    """worst case of one step from the minimiser"""
    return embedding.noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy
    ).value
