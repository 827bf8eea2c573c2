"""One release of gradient embedding perturbation, simulated from the definitions; what neighbours move; energies of its noise."""

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import scipy

from dptheory import embedding
from dptheory._arrays import Array
from dptheory._validate import Adjacency
from dptheory.errors import ConditionError

# --- Two neighbouring runs of GEP, from the definitions: how far a record moves the sums, and how well the outputs tell


Pair = tuple[float, float]

_BASIS = np.array([[0.6, 0.8, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
_EMBEDDING = np.array([0.28, 0.96])
_RESIDUAL = np.array([-0.48, 0.36, 0.0, 0.8, 0.0])
"""An orthonormal basis of k = 2 rows, a unit embedding, and a unit vector orthogonal to the basis."""


def hockey_stick(mu: float, epsilon: float) -> float:
    """delta of N(mu, 1) against N(0, 1): E (1 - e^(epsilon - loss))_+ under the first, by quadrature."""
    start = epsilon / mu - mu / 2
    value, _ = scipy.integrate.quad(
        lambda t: -math.expm1(-mu * t) * math.exp(-((start + t) ** 2) / 2) / math.sqrt(2 * math.pi),
        0.0,
        max(0.0, -start) + 12.0,
        epsabs=0.0,
        epsrel=1e-11,
        limit=200,
    )
    return float(value)


def least_noise_ratio(epsilon: float, delta: float, steps: int = 1) -> float:
    """sigma_i / S_i at which ``steps`` pairs of releases just meet delta, by root finding on :func:`hockey_stick`."""
    guess = math.sqrt(2 * steps * math.log(1 / delta)) / epsilon
    return float(
        scipy.optimize.brentq(
            lambda s: math.log(hockey_stick(math.sqrt(2 * steps) / s, epsilon) / delta), guess / 5, guess * 5
        )
    )


def best_order_ratio(epsilon: float, delta: float) -> float:
    """Least sigma / S over the order a: a / sigma^2 + log(1 / delta) / (a - 1) = epsilon."""
    log_inverse = math.log(1 / delta)

    def ratio(log_extra: float) -> float:
        above = log_inverse / epsilon + math.exp(log_extra)  # a - 1
        return math.sqrt((1 + above) / (epsilon - log_inverse / above))

    found = scipy.optimize.minimize_scalar(ratio, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)


def hockey_stick_of_pair(rng: np.random.Generator, n: int, clips: Pair, sigmas: Pair, epsilon: float) -> Array:
    """(1 - e^(epsilon - loss))_+ at the noisy embedding and residual of a record of both clips, which the neighbour lacks."""
    moved = np.concatenate([clips[0] * _EMBEDDING, clips[1] * _RESIDUAL])
    spread = np.repeat(sigmas, [len(_EMBEDDING), len(_RESIDUAL)])
    released = moved + spread * rng.standard_normal((n, len(moved)))
    loss = (np.square(released / spread) - np.square((released - moved) / spread)).sum(axis=1) / 2
    return np.asarray(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def hockey_stick_of_output(
    rng: np.random.Generator, n: int, clips: Pair, sigmas: Pair, epsilon: float, steps: int
) -> Array:
    """The same at the sum of ``steps`` noisy gradients w B + r: the last iterate where the loss is linear."""
    embedding, residual = clips[0] * _EMBEDDING, clips[1] * _RESIDUAL
    total = np.zeros((n, _BASIS.shape[1]))
    for _ in range(steps):
        noisy = embedding + sigmas[0] * rng.standard_normal((n, len(embedding)))
        total += noisy @ _BASIS + residual + sigmas[1] * rng.standard_normal(total.shape)
    moved = steps * (embedding @ _BASIS + residual)
    covariance = steps * (sigmas[0] ** 2 * _BASIS.T @ _BASIS + sigmas[1] ** 2 * np.eye(len(moved)))
    direction = np.linalg.solve(covariance, moved)
    loss = total @ direction - moved @ direction / 2
    return np.asarray(-np.expm1(np.minimum(epsilon - loss, 0.0)))


def normalised_move(w1: float, w2: float, r1: float, r2: float, clip: float, residual_clip: float) -> float:
    """How far one record with embedding w and residual r, both clipped, moves the concatenated sum."""
    parts = ((math.hypot(w1, w2), clip), (math.hypot(r1, r2), residual_clip))
    return math.hypot(*(min(size, most) / most for size, most in parts))


def most_concatenated(adjacency: str) -> Fraction:
    """Largest squared change of the concatenated, normalised sums over records with rational norms, in fractions."""
    triples = [
        (x, y, Fraction(z)) for x, y, z in ((0, 0, 0), (3, 4, 5), (-3, -4, 5), (8, 15, 17), (-8, -15, 17), (0, 1, 1))
    ]
    clip, residual_clip = Fraction(6), Fraction(2)

    def normalised(vector: tuple[int, int, Fraction], most: Fraction) -> tuple[Fraction, Fraction]:
        x, y, size = vector
        scale = min(Fraction(1), most / size) / most if size else Fraction(0)
        return x * scale, y * scale

    records = [(*normalised(w, clip), *normalised(r, residual_clip)) for w, r in itertools.product(triples, repeat=2)]
    none = (Fraction(0),) * 4
    others = records if adjacency == "replace-one" else [none]
    return max(
        sum(((a - b) ** 2 for a, b in zip(mine, theirs, strict=True)), Fraction(0))
        for mine in records
        for theirs in others
    )


# --- GEP: the stated noise, where it is enough, and the noise of the sum, by quadrature


def printed_noise_ratio(epsilon: float, delta: float, steps: int = 1) -> float:
    """sigma_i / S_i of Theorems 3.1 and 3.2, whatever epsilon."""
    return 2 * math.sqrt(2 * steps * math.log(1 / delta)) / epsilon


def is_given(share: float, delta: float) -> bool:
    """Whether the calculator gives the stated noise for epsilon = share L."""
    try:
        embedding.release_noise_ratio(epsilon=-share * math.log(delta), delta=delta, method="stated")
    except ConditionError:
        return False
    return True


def is_enough(share: float, delta: float) -> bool:
    """Whether the stated noise keeps delta for epsilon = share L, by quadrature."""
    epsilon = -share * math.log(delta)
    return hockey_stick(math.sqrt(2) / printed_noise_ratio(epsilon, delta), epsilon) <= delta


def delta_of_sum(clip: float, residual_clip: float, epsilon: float, delta: float, steps: int, change: float) -> float:
    """delta of ``steps`` sums with the noise that the calculator says for the sums alone."""
    adjacency: Adjacency = "add-remove" if change == 1 else "replace-one"
    ratio = embedding.output_noise_ratio(
        embedding_clip=clip, residual_clip=residual_clip, epsilon=epsilon, delta=delta, steps=steps, adjacency=adjacency
    )
    return _delta_of_noisy_sum(clip, residual_clip, ratio, epsilon, steps, change)


def delta_of_pair_noise(
    clip: float, residual_clip: float, epsilon: float, delta: float, steps: int, change: float
) -> float:
    """The same with the noise that the pair needs."""
    ratio = change * least_noise_ratio(epsilon, delta, steps)
    return _delta_of_noisy_sum(clip, residual_clip, ratio, epsilon, steps, change)


def _delta_of_noisy_sum(
    clip: float, residual_clip: float, ratio: float, epsilon: float, steps: int, change: float
) -> float:
    mu = mu_of_sum(clip, residual_clip, ratio * clip, ratio * residual_clip)
    return hockey_stick(change * math.sqrt(steps) * mu, epsilon)


def replaced_noise(method: str, epsilon: float, steps: int) -> float:
    """2 sigma / S for T steps at delta = 1e-5, from quadratures, the search over orders, and the printed formula."""
    return (
        2
        * {
            "exact": lambda: least_noise_ratio(epsilon, 1e-5, steps),
            "renyi": lambda: math.sqrt(steps) * best_order_ratio(epsilon, 1e-5),
            "stated": lambda: printed_noise_ratio(epsilon, 1e-5, steps),
        }[method]()
    )


Way = Literal["plain", "embedding_only", "published", "published_sum", "optimal", "joint"]

DIM, SUBSPACE = 12, 3
EXAMPLES = 5


@functools.cache
def basis(dim: int = DIM, subspace_dim: int = SUBSPACE) -> Array:
    """B: orthonormal rows that are no coordinate axes."""
    return np.asarray(np.linalg.qr(np.random.default_rng(5).standard_normal((dim, subspace_dim)))[0].T)


@functools.cache
def gradients() -> Array:
    """G, shape (n, p): most of each row in the subspace, rows of different length, all leaning to one side."""
    rng = np.random.default_rng(6)
    inside = (rng.standard_normal((EXAMPLES, SUBSPACE)) + 1.5) @ basis()
    outside = 0.4 * (rng.standard_normal((EXAMPLES, DIM)) + 0.7)
    return np.asarray((inside + outside) * np.array([0.3, 0.7, 1.0, 1.4, 2.0])[:, None])


def embeddings() -> Array:
    """W = G B^T."""
    return np.asarray(gradients() @ basis().T)


def residuals() -> Array:
    """R = G - W B in the coordinates of :func:`complement`, shape (n, q)."""
    return np.asarray(gradients() @ complement().T)


@functools.cache
def complement(dim: int = DIM, subspace_dim: int = SUBSPACE) -> Array:
    """Orthonormal rows that span the space off span(B), shape (q, p)."""
    whole = np.linalg.qr(np.vstack([basis(dim, subspace_dim), np.eye(dim)]).T)[0].T
    return np.asarray(whole[subspace_dim:dim])


def _clip(rows: Array, bound: float) -> Array:
    return np.asarray(rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1, keepdims=True)))


def noise(rng: np.random.Generator, count: int, first: float, second: float, projected: bool) -> Array:
    """z1 B + z2, the latter projected off span(B) or not."""
    b = basis()
    z2 = second * rng.standard_normal((count, DIM))
    if projected:
        z2 -= (z2 @ b.T) @ b
    return np.asarray(first * rng.standard_normal((count, SUBSPACE)) @ b + z2)


def mu_of_sum(first: float, second: float, embedding_std: float, residual_std: float) -> float:
    """mu of z1 B + z2 plus what one example adds, S1 along B and S2 off it: a Mahalanobis norm, from the covariance in R^p."""
    b, off = basis(), complement()
    covariance = embedding_std**2 * b.T @ b + residual_std**2 * np.eye(DIM)
    moved = first * b[0] + second * off[0]
    return float(np.sqrt(moved @ np.linalg.solve(covariance, moved)))


def release_errors(
    rng: np.random.Generator, count: int, way: Way, clip: float, residual_clip: float, mu: float
) -> Array:
    """Draws of the released sum of the gradients above, minus their true sum, shape (count, p)."""
    g, b = gradients(), basis()
    if way == "plain":
        return np.asarray(_clip(g, clip).sum(axis=0) + clip / mu * rng.standard_normal((count, DIM)) - g.sum(axis=0))
    source = _clip(g, clip) if way == "joint" else g
    w = source @ b.T
    kept = _clip(w, clip).sum(axis=0) @ b
    if way == "embedding_only":
        return np.asarray(kept + noise(rng, count, clip / mu, 0.0, True) - g.sum(axis=0))
    kept = kept + _clip(source - w @ b, residual_clip).sum(axis=0)
    if way in ("published", "published_sum"):
        # mu of the sum is inversely proportional to sigma_i / S_i
        ratio = (2**0.5 if way == "published" else mu_of_sum(clip, residual_clip, clip, residual_clip)) / mu
        return np.asarray(kept + noise(rng, count, ratio * clip, ratio * residual_clip, False) - g.sum(axis=0))
    sizes = {"dim": DIM, "subspace_dim": SUBSPACE}
    if way == "optimal":
        stds = embedding.split_noise(**sizes, embedding_clip=clip, residual_clip=residual_clip, mu=mu)
    else:
        stds = embedding.joint_clip(**sizes, clip_norm=clip, residual_share=residual_clip / clip, mu=mu)
    return np.asarray(kept + noise(rng, count, stds.embedding_std, stds.residual_std, True) - g.sum(axis=0))


def squared_error(rng: np.random.Generator, count: int, **release: Any) -> Array:
    """Squared norm of the error."""
    return np.asarray(np.square(release_errors(rng, count, **release)).sum(axis=1))


def entry_sum(rng: np.random.Generator, count: int, **release: Any) -> Array:
    """Sum of the entries of the released sum."""
    return np.asarray(release_errors(rng, count, **release).sum(axis=1) + gradients().sum())


# --- Noise energies of GEP and of what it is compared with, from variances found by search


WAYS: tuple[Way, ...] = ("plain", "embedding_only", "published", "published_sum", "optimal", "joint")


def least(energy: Callable[[float], float]) -> tuple[float, float]:
    """Where over t > 0 a function that falls and then rises in log t is least, and how little it is, by search."""
    found = scipy.optimize.minimize_scalar(
        lambda log_t: energy(math.exp(log_t)), bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9}
    )
    return math.exp(found.x), float(found.fun)


def traced_energy(
    way: str, dim: int, k: int, clip: float, second: float, mu: float, lost: float, embedding_clip: float | None
) -> float:
    """Trace of the noise's covariance, from variances found by a search over their ratio; for B-GEP with what is lost."""
    first, q = clip if embedding_clip is None else embedding_clip, dim - k
    if way == "plain":
        return math.fsum([k * (clip / mu) ** 2, q * (clip / mu) ** 2])
    if way == "embedding_only":
        return math.fsum([k * (first / mu) ** 2, lost * lost])
    if way == "published":
        return math.fsum([2 * k * (first / mu) ** 2, 2 * k * (second / mu) ** 2, 2 * q * (second / mu) ** 2])
    if way == "published_sum":  # mu^2 = S1^2 / (s1^2 + s2^2) + S2^2 / s2^2 at s_i = s S_i, in the span and off it
        scale = (first**2 / (first**2 + second**2) + 1) / mu**2
        return scale * math.fsum([k * (first**2 + second**2), q * second**2])
    share = min(1.0, second / clip)
    corners = [(first**2, second**2)]
    if way == "joint":  # the two corners of what occurs
        corners = [(clip**2, 0.0), ((1 - share**2) * clip**2, (share * clip) ** 2)]

    def energy(t: float) -> float:
        return (k + q * t) * max(a + b / t for a, b in corners) / mu**2

    return least(energy)[1]


def spread(norm: float, rows: int, width: int) -> Array:
    """Equal rows of this norm, spread evenly over the entries."""
    return np.full((rows, width), norm / math.sqrt(width))


# Random subspaces: draws of what they lose of a vector, and the law of what they keep.


def lost_energy(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    """Squared relative errors |g - B^T B g|^2 / |g|^2 for one fixed g and orthonormalised Gaussian rows."""
    vector = np.arange(1.0, dim + 1)
    basis = np.linalg.qr(rng.standard_normal((n, dim, subspace_dim)))[0]
    return np.asarray(1 - np.square(vector @ basis).sum(axis=-1) / float(vector @ vector))


def kept_law(dim: int, k: int) -> Any:
    """Share of energy that a random subspace keeps."""
    return scipy.stats.beta(k / 2, (dim - k) / 2)
