"""Excess risk of gradient descent with perturbed embeddings, with explicit constants.

L is the mean of n losses, each G-Lipschitz; L is convex and beta-smooth with minimiser theta*, D = |theta_0 - theta*|. The
steps are theta_{t+1} = theta_t - (1/beta)(grad L(theta_t) + noise), noise of mean 0 given theta_t, and the output is the mean
of theta_1, ..., theta_T.
"""

import math
from dataclasses import dataclass

import scipy

from dptheory import _validate
from dptheory.errors import ConditionError

# --- Exact worst case of T noisy steps of gradient descent on convex smooth losses; steps and symbols as in _risk


_MOST_EXACT_STEPS = 10**15


@dataclass(frozen=True, kw_only=True)
class WorstDescentRisk:
    """Worst excess risk over convex beta-smooth losses and noises of mean 0.

    Attributes:
        mean_value: of the mean of L(theta_1), ..., L(theta_T), and of L(mean iterate) where only the mean energy of the noise is
            known: exact. inf where it is too large for a float.
        mean_iterate_least: for noise of the same energy in all steps, what L(mean iterate) costs on some loss; its worst case
            lies between this and ``mean_value``.
    """

    mean_value: float
    mean_iterate_least: float


def worst_descent_risk(
    *, smoothness: float, initial_distance: float, steps: int, noise_energy: float
) -> WorstDescentRisk:
    r"""Largest mean excess risk that T steps of size 1/beta with unbiased noise can leave.

    .. math:: \frac1T\sum_{t=1}^TE L(\theta_t)-L_\ast\le\frac{\beta D^2}{2(T+2)}+\frac N{2\beta},\qquad
              c_T\ge\frac1{2T}\sum_{k=1}^T\frac{k^2}{k(k-1)+T},

    the first with equality for some loss, whatever D, N and T; c_T is the factor of N / beta for L at the mean iterate, in place
    of 1/2, if the noise has the same energy in all steps. The lower bound is 1/2, 3/8 and .3556 for T = 1, 2, 3, and back to 1/2
    as T grows.

    Args:
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size; not squared.
        steps: T in 1..1e15.
        noise_energy: N >= 0, mean over the steps of E|noise|^2, noise of the averaged gradient. For ``mean_iterate_least`` it
            is the same in all steps.

    Returns:
        The worst case of the mean of the values, and a lower bound of that at the mean iterate for noise of one energy.

    Source: GEP, new, on equation 12 (gep.noisy_steps).

    Example: two steps: 2^2 / (2 * 4) + 0.8 / 2, and 2^2 / (2 * 4) + 0.8 * 3/8.
        >>> from dptheory.embedding import worst_descent_risk
        >>> worst = worst_descent_risk(smoothness=1.0, initial_distance=2.0, steps=2, noise_energy=0.8)
        >>> round(worst.mean_value, 12), round(worst.mean_iterate_least, 12)
        (0.9, 0.8)
    """
    smoothness = _validate.size("smoothness", smoothness, *RANGE)
    steps = _validate.integer("steps", steps, 1, _MOST_EXACT_STEPS)
    noise_energy = _validate.real("noise_energy", noise_energy, 0.0, ends="[)")
    start = least_risk(smoothness=smoothness, initial_distance=initial_distance, steps=steps)
    return WorstDescentRisk(
        mean_value=start + noise_energy / (2 * smoothness),
        mean_iterate_least=start + _mean_iterate_factor(steps) * noise_energy / smoothness,
    )


def _mean_iterate_factor(steps: int) -> float:
    """sum of k^2 / (k (k - 1) + T) over k = 1..T, over 2 T, by partial fractions: the roots of k (k - 1) + T are 1/2 +- i w."""
    root = complex(0.5, math.sqrt(steps - 0.25))
    residue = (root - steps) / (2j * root.imag)
    rest = 2 * (residue * (scipy.special.digamma(steps + 1 - root) - scipy.special.digamma(1 - root))).real
    return 0.5 + float(rest) / (2 * steps)


RANGE = (1e-60, 1e60)  # squares and quotients of such numbers neither over- nor underflow
_MOST_STEPS, _MOST_COUNT = 10**260, 10**15  # the best T of arguments in range is below 1e256


@dataclass(frozen=True, kw_only=True)
class ExcessRisk:
    """Upper bound on E L(mean iterate) - L(theta*), term by term.

    Attributes:
        optimization: beta D^2 / (2 T), the distance still to go.
        noise: E|noise|^2 / (2 beta), of the noise of a step.
        steps: T of the bound, an integer >= 1.
        optimal_steps: the real T at which optimization and noise are equal, 0 for D = 0; inf where none was sought.
    """

    optimization: float
    noise: float
    steps: int
    optimal_steps: float

    @property
    def value(self) -> float:
        """The bound: the sum of its terms; inf where it is too large for a float."""
        return self.optimization + self.noise


def noisy_descent_risk(*, smoothness: float, initial_distance: float, steps: int, noise_energy: float) -> ExcessRisk:
    r"""Bound after T steps of size 1/beta with any unbiased noise: beta D^2 / (2 T) + N / (2 beta).

    Half the noise of the paper's proof, which bounds L(theta_{t+1}) where L(theta_t) does better. The factor of N is the best for
    every T. Equation 12 with its square has T, and so has this; the exact worst case has T + 2: :func:`worst_descent_risk`, which
    is what to take unless the terms are to be compared with the paper's.

    Args:
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size; not squared.
        steps: T >= 1.
        noise_energy: N >= 0, mean over the steps of E|noise|^2, noise of the averaged gradient.

    Returns:
        The bound's terms; ``.value`` is the bound.

    Source: GEP, equations 7 to 12, with the square that equation 12 lacks (gep.eq11, gep.eq12, gep.thm3.3).

    Example: by hand: 2^2 / (2 * 10) and 0.5 / 2.
        >>> from dptheory.embedding import noisy_descent_risk
        >>> risk = noisy_descent_risk(smoothness=1.0, initial_distance=2.0, steps=10, noise_energy=0.5)
        >>> risk.optimization, risk.noise
        (0.2, 0.25)
    """
    smoothness = _validate.size("smoothness", smoothness, *RANGE)
    initial_distance = _distance(initial_distance)
    steps = _validate.integer("steps", steps, 1, _MOST_STEPS)
    noise_energy = _validate.real("noise_energy", noise_energy, 0.0, ends="[)")
    return ExcessRisk(
        optimization=smoothness * initial_distance**2 / (2 * steps),
        noise=noise_energy / (2 * smoothness),
        steps=steps,
        optimal_steps=math.inf,
    )


def least_risk(*, smoothness: float, initial_distance: float, steps: int, lipschitz: float = math.inf) -> float:
    r"""Excess risk that T steps of size 1/beta leave on some loss, whatever the noise: beta D^2 / (2 (T + 2)).

    The loss is g|x| - g^2/(2 beta), rounded off to beta x^2 / 2 for |x| <= g/beta, in one coordinate x of theta, with
    g = min(G, beta D / (T + 2)). Where G is the smaller the value is g D - g^2 (T + 2) / (2 beta).

    Args:
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size.
        steps: T >= 1.
        lipschitz: G > 0, of every loss.

    Returns:
        The risk, >= 0.

    Source: GEP, Theorem 3.3: why T = n beta eps / sqrt p leaves sqrt p in the risk (gep.thm3.3, gep.independent_p).

    Example: by hand: 2^2 / (2 * 12).
        >>> from dptheory.embedding import least_risk
        >>> round(least_risk(smoothness=1.0, initial_distance=2.0, steps=10), 4)
        0.1667
    """
    smoothness = _validate.size("smoothness", smoothness, *RANGE)
    initial_distance = _distance(initial_distance)
    steps = _validate.integer("steps", steps, 1, _MOST_STEPS)
    lipschitz = _validate.real("lipschitz", lipschitz, RANGE[0])
    slope = min(lipschitz, smoothness * initial_distance / (steps + 2))
    return slope * (initial_distance - slope * (steps + 2) / (2 * smoothness))


def excess_risk(
    *,
    dim: int,
    subspace_dim: int,
    train_size: int,
    smoothness: float,
    initial_distance: float,
    mu: float,
    residual_clip: float,
    lipschitz: float = 1.0,
    steps: int | None = None,
) -> ExcessRisk:
    r"""Bound at mu-Gaussian DP for all T steps, with the noise split in the best way and the residual's noise kept off span B.

    .. math:: \frac{\beta D^2}{2T} + \frac{Ts^2}{2\beta\mu^2n^2},\qquad s = \sqrt k\,G + \sqrt{p-k}\,\rho,

    which is D s / (\mu n) at T = \beta D n \mu / s. Rounding this T to the better of its neighbours costs at
    most a factor 3/(2 sqrt 2) = 1.061 if it is at least 1; below 1, T = 1 is best, and the bound is beta D^2 / 2 and more. With
    T + 2 in place of T the first term is a bound too (gep.noisy_steps): smaller by a share 2/(T + 2), without the simple best T.

    Needs, and cannot check: neighbours differ by one sample added or removed, n is public; each sample's loss is G-Lipschitz, not
    only the mean; no residual is longer than its clip at any iterate (else clipping biases the step); rho and the anchors do
    not depend on the private data. Turn (epsilon, delta) into mu by the exact Gaussian trade-off.

    Args:
        dim: p >= 1.
        subspace_dim: k in 1..p.
        train_size: n >= 1.
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size.
        mu: > 0, for all steps together.
        residual_clip: rho in [0, G], the public clip of the residuals; for a schedule, the root of its mean square.
        lipschitz: G > 0, clip of the embeddings.
        steps: T >= 1; None takes the best integer.

    Returns:
        The bound's terms, the steps taken, and the best real number of them; ``.value`` is the bound.

    Source: GEP, Theorem 3.3, corrected (gep.thm3.3, gep.independent_p).

    Example: ResNet20 on 50,000 records, smoothness, distance and mu 1: more than 370 steps cost more in noise than they gain.
        >>> from dptheory.embedding import excess_risk
        >>> risk = excess_risk(dim=269_722, subspace_dim=1000, train_size=50_000, smoothness=1.0, initial_distance=1.0, mu=1.0,
        ...                    residual_clip=0.2)
        >>> risk.steps, round(risk.value, 5)
        (370, 0.00271)
    """
    dim, rest = _dimensions(dim, subspace_dim)
    mu = _validate.size("mu", mu, *RANGE)
    lipschitz, clip = _clips(lipschitz, residual_clip)
    root = math.sqrt(dim - rest) * lipschitz + math.sqrt(rest) * clip
    return _at_steps(train_size, smoothness, initial_distance, (root / mu) ** 2, steps)


def excess_risk_as_published(
    *,
    dim: int,
    subspace_dim: int,
    train_size: int,
    smoothness: float,
    initial_distance: float,
    epsilon: float,
    delta: float,
    residual_clip: float,
    lipschitz: float = 1.0,
    steps: int | None = None,
) -> ExcessRisk:
    r"""Bound with the noise that the paper prescribes, sigma = 2 sqrt(2 T log(1/delta)) / epsilon times each clip.

    .. math:: \frac{\beta D^2}{2T} + \frac{4Ts}{\beta\epsilon^2n^2},\qquad s = \log(1/\delta)(k G^2 + p\rho^2),

    which is 2 \sqrt{2s} D / (n \epsilon) at T = \beta D n \epsilon / \sqrt{8s}. Needs what :func:`excess_risk` needs.

    Args:
        epsilon: in (0, 2 log(1/delta)).
        delta: in (0, 1).
        dim, subspace_dim, train_size, smoothness, initial_distance, residual_clip, lipschitz, steps: as in :func:`excess_risk`.

    Returns:
        The bound's terms, the steps taken, and the best real number of them; ``.value`` is the bound.

    Raises:
        ConditionError: epsilon >= 2 log(1/delta).

    Source: GEP, Theorems 3.2 and 3.3, corrected (gep.thm3.3).

    Example: the same with the published noise, at the epsilon 4.38 of mu = 1: 1.8 times the risk.
        >>> from dptheory.embedding import excess_risk_as_published
        >>> risk = excess_risk_as_published(dim=269_722, subspace_dim=1000, train_size=50_000, smoothness=1.0,
        ...                                 initial_distance=1.0, epsilon=4.38, delta=1e-5, residual_clip=0.2)
        >>> risk.steps, round(risk.value, 5)
        (210, 0.00476)
    """
    dim, rest = _dimensions(dim, subspace_dim)
    epsilon = _validate.size("epsilon", epsilon, *RANGE)
    log = -math.log(_validate.real("delta", delta, 0.0, 1.0, ends="()"))
    if epsilon >= 2 * log:
        raise ConditionError("gep.thm3.3", "epsilon", f"be below 2 log(1/delta) = {2 * log:.6g}", epsilon)
    lipschitz, clip = _clips(lipschitz, residual_clip)
    per_step = 8 * log * ((dim - rest) * lipschitz**2 + dim * clip**2) / epsilon**2
    return _at_steps(train_size, smoothness, initial_distance, per_step, steps)


def _at_steps(samples: int, smoothness: float, distance: float, per_step: float, steps: int | None) -> ExcessRisk:
    """The bound where T steps bring noise of energy T * per_step to the sum of n gradients."""
    samples = _validate.integer("train_size", samples, 1, _MOST_COUNT)
    smoothness = _validate.size("smoothness", smoothness, *RANGE)
    distance = _distance(distance)
    energy = per_step / samples**2
    if steps is not None:
        steps = _validate.integer("steps", steps, 1, _MOST_STEPS)
    best = smoothness * distance / math.sqrt(energy)
    if steps is None:
        steps = better_whole(best)
    found = noisy_descent_risk(
        smoothness=smoothness, initial_distance=distance, steps=steps, noise_energy=energy * steps
    )
    return ExcessRisk(optimization=found.optimization, noise=found.noise, steps=found.steps, optimal_steps=best)


def better_whole(best: float) -> int:
    """The better whole number beside a real T >= 1 at which c / T + c' T is least; 1 below that."""
    below = max(1, math.floor(best))
    return below if best <= math.sqrt(below) * math.sqrt(below + 1) else below + 1


def _dimensions(dim: int, subspace_dim: int) -> tuple[int, int]:
    """p and p - k."""
    dim = _validate.integer("dim", dim, 1, _MOST_COUNT)
    return dim, dim - _validate.integer("subspace_dim", subspace_dim, 1, dim)


def _clips(lipschitz: float, residual_clip: float) -> tuple[float, float]:
    """G and rho."""
    lipschitz = _validate.size("lipschitz", lipschitz, *RANGE)
    return lipschitz, _validate.real("residual_clip", residual_clip, 0.0, lipschitz)


def _distance(distance: float) -> float:
    return _validate.size("initial_distance", distance, *RANGE, zero=True)
