"""The anchor subspace, the residual that it leaves, and how large the residual can be.

Gradients are the rows of a matrix. xi is one gradient drawn from a law with second moment matrix Sigma = E xi xi^T (not
centred), p the dimension, k the dimension of the subspace, m the number of anchor gradients.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike, run_around
from dptheory.errors import ArgumentError

_ORTHONORMAL = 1e-8
_ROUNDING = 1e-9
_SERIES_FROM = 1000
_LARGEST = 1e75
_LARGEST_ENTRY = 1e140  # squares of such numbers add up without overflow
_MOST_COUNT = 10**18
_MOST_ANCHORS = 10**15  # beyond, the incomplete beta function of SciPy can be NaN
_MOST_ITERATIONS = 10**6


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Gradients split by a subspace: G = embeddings @ basis + residuals, and the two parts are orthogonal.

    Attributes:
        embeddings: W = G B^T, shape (n, k).
        residuals: R = G - W B, shape (n, p).
    """

    embeddings: Array
    residuals: Array


@dataclass(frozen=True, kw_only=True)
class ResidualBound:
    """Upper bound on E|xi - Pi xi|^2, term by term.

    Attributes:
        tail: sum of the eigenvalues of Sigma beyond the first ``subspace_dim``.
        estimation: price of estimating the subspace from m anchors, on average.
        deviation: price of an unlucky draw of the anchors.
        subspace_dim: the j <= k whose bound is the smallest; the residual for k is no larger than for j.
        first_dim, last_dim: the ends of the run of j around it whose bounds rounding cannot tell from the smallest.
    """

    tail: float
    estimation: float
    deviation: float
    subspace_dim: int
    first_dim: int
    last_dim: int

    @property
    def value(self) -> float:
        """The bound: the sum of its terms."""
        return self.tail + self.estimation + self.deviation


def anchor_subspace(
    anchor_gradients: ArrayLike, *, subspace_dim: int, iterations: int, rng: np.random.Generator
) -> Array:
    r"""Orthonormal basis of the anchor subspace by power iteration: B <- orthonormal rows of (G B^T)^T G, from a random B.

    With rank G <= k one iteration gives the row space of G; else the rows tend to the k leading right singular vectors, with
    error (s_{k+1} / s_k)^{2 t}. Rounding adds about 1e-16 s_1 / s_k (s_rank in place of s_k where rank G < k): G B^T is
    orthonormalised too, so that singular values are not squared. Needs O((m + k) p) memory.

    Args:
        anchor_gradients: G, shape (m, p), finite and not all 0.
        subspace_dim: k in 1..min(m, p): m gradients span no more than m dimensions.
        iterations: t in 1..10^6; the paper takes 1.
        rng: draws the starting basis.

    Returns:
        B, shape (k, p), orthonormal rows. Where rank G < k the rows beyond the rank are arbitrary.

    Raises:
        ValueError: an argument outside its range, NaN or infinity among the gradients.

    Source: GEP, Algorithm 1, lines 3 to 7; Lemma 3.1 (gep.lem3.1, gep.power).

    Example: anchors in the plane of the first two axes: its basis is found exactly, and the projection loses nothing.
        >>> import numpy as np
        >>> from dptheory.embedding import anchor_subspace, residual_energy
        >>> anchors = [[3.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 0.0]]
        >>> basis = anchor_subspace(anchors, subspace_dim=2, iterations=1, rng=np.random.default_rng(0))
        >>> basis.shape, round(residual_energy(anchors, basis=basis), 12)
        ((2, 3), 0.0)
    """
    gradients = _matrix("anchor_gradients", anchor_gradients)
    _validate.instance("rng", rng, np.random.Generator)
    most = min(gradients.shape)
    subspace_dim = _validate.integer("subspace_dim", subspace_dim, 1, most)
    iterations = _validate.integer("iterations", iterations, 1, _MOST_ITERATIONS)
    largest = np.abs(gradients).max()
    if largest == 0:
        raise ArgumentError(
            "anchor_gradients", "not be all 0: they span no subspace", anchor_gradients, got=f"shape {gradients.shape}"
        )
    gradients = gradients / largest  # squares neither over- nor underflow
    basis: Array = rng.standard_normal((subspace_dim, gradients.shape[1]))
    for _ in range(iterations):
        left = np.linalg.qr(gradients @ basis.T)[0]
        basis = np.linalg.qr(gradients.T @ left)[0].T
    return basis


def project(gradients: ArrayLike, *, basis: ArrayLike) -> Projection:
    """Embeddings W = G B^T and residuals R = G - W B of gradients.

    Args:
        gradients: G, shape (n, p), entries in [-1e140, 1e140].
        basis: B, shape (k, p), orthonormal rows to within 1e-8.

    Returns:
        Embeddings, shape (n, k), and residuals, shape (n, p).

    Raises:
        ValueError: an argument outside its range, shapes that do not match, rows that are not orthonormal.

    Source: GEP, Algorithm 1, lines 10 and 11, before clipping (gep.lem3.1, gep.random_labels).

    Example: by hand, onto the first two axes.
        >>> from dptheory.embedding import project
        >>> found = project([[3.0, 4.0, 5.0]], basis=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> found.embeddings, found.residuals
        (array([[3., 4.]]), array([[0., 0., 5.]]))
    """
    gradients, basis = _matrix("gradients", gradients), _matrix("basis", basis)
    if gradients.shape[1] != basis.shape[1]:
        raise ArgumentError(
            "gradients and basis", "have rows of equal length", gradients, got=f"{gradients.shape} and {basis.shape}"
        )
    if np.abs(gradients).max() > _LARGEST_ENTRY:
        interval = f"[-{_LARGEST_ENTRY:g}, {_LARGEST_ENTRY:g}]"
        raise ArgumentError("gradients", f"hold numbers in {interval}", gradients)
    # entries first: products of huge ones could be NaN
    if np.abs(basis).max() > 2 or np.abs(basis @ basis.T - np.eye(len(basis))).max() > _ORTHONORMAL:
        raise ArgumentError("basis", "have orthonormal rows", basis)
    embeddings = gradients @ basis.T
    return Projection(embeddings=embeddings, residuals=gradients - embeddings @ basis)


def residual_energy(gradients: ArrayLike, *, basis: ArrayLike) -> float:
    r"""Mean squared norm of the residuals, (1/n) sum_i |g_i - B^T B g_i|^2: the empirical form of E|xi - Pi xi|^2.

    Args:
        gradients, basis: as for :func:`project`.

    Returns:
        The mean, in squared units of the gradients.

    Source: GEP, Lemmas 3.1 and 3.2 (gep.lem3.1, gep.lem3.2, gep.random_labels).

    Example: by hand: what the first two axes leave is 5^2.
        >>> from dptheory.embedding import residual_energy
        >>> residual_energy([[3.0, 4.0, 5.0]], basis=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        25.0
    """
    return float(np.square(project(gradients, basis=basis).residuals).sum(axis=1).mean())


def recovery_probability(*, rank: int, anchors: int, zero_probability: float = 0.0) -> float:
    r"""P(the anchors span the range of Sigma) = P(Bin(m, 1 - z) >= k), for gradients that vanish with probability z.

    Exact if the law given xi != 0 puts no mass on any linear subspace of the range of Sigma other than the range itself. Without
    mass at 0 it is 1 for m >= k and 0 below. For any law it is at most 1 - max P(xi in M)^m over the proper subspaces M.

    Args:
        rank: k in 1..10^15, rank of Sigma.
        anchors: m in 0..10^15.
        zero_probability: z in [0, 1): the share of anchors with gradient 0 (dead units, zero loss).

    Returns:
        The probability.

    Source: GEP, Lemma 3.1 (gep.lem3.1, gep.thmD.1).

    Example: with a tenth of the gradients zero, 1000 anchors never span 1000 dimensions, 2000 always do.
        >>> from dptheory.embedding import recovery_probability
        >>> [round(recovery_probability(rank=1000, anchors=m, zero_probability=0.1), 3) for m in (1000, 1111, 2000)]
        [0.0, 0.521, 1.0]
    """
    rank = _validate.integer("rank", rank, 1, _MOST_ANCHORS)
    anchors = _validate.integer("anchors", anchors, 0, _MOST_ANCHORS)
    zero = _validate.real("zero_probability", zero_probability, 0.0, 1.0, ends="[)")
    return 0.0 if anchors < rank else float(scipy.special.betaincc(anchors - rank + 1, rank, zero))


def residual_bound(
    *,
    eigenvalues: ArrayLike,
    subspace_dim: int,
    anchors: int,
    squared_norm_bound: float,
    failure_probability: float,
    fourth_moment: float | None = None,
) -> ResidualBound:
    r"""Bound on E|xi - Pi xi|^2, Pi onto the k leading eigenvectors of the anchors' second moment matrix.

    With probability at least 1 - e^{-delta} over the anchors, for the best j <= k,

    .. math:: \sum_{i > j} \lambda_i + \sqrt{j(1 - j/p)\,C/m} + T\sqrt{2\delta/m},\qquad C = E|\xi|^4 - \sum_i \lambda_i^2.

    No subspace (j = 0, value tr Sigma) and the whole space (j = p, value 0) need no estimate. The bound does not grow with k
    or m.

    Needs, and cannot check: the anchors are m independent draws of the law of xi, at a model that they did not help to
    choose; the subspace is the exact one, not that of a few power iterations.

    Args:
        eigenvalues: of Sigma, all p of them, zeros included, shape (p,), >= 0, any order.
        subspace_dim: k in 1..p.
        anchors: m in 1..10^18.
        squared_norm_bound: T >= tr Sigma with |xi|^2 <= T (the square of the norm).
        failure_probability: e^{-delta} in (0, 1).
        fourth_moment: E|xi|^4 in [(tr Sigma)^2, T tr Sigma]; None takes T tr Sigma.

    Returns:
        The bound's terms, the j that is best, and those that are as good; ``.value`` is the bound.

    Source: GEP, Lemma 3.2 with the second bracket of C left out (gep.lem3.2, gep.lem3.2.text).

    Example: of three eigenvalues two are kept; a million anchors tell them well enough.
        >>> from dptheory.embedding import residual_bound
        >>> found = residual_bound(eigenvalues=[1.0, 0.5, 0.1], subspace_dim=2, anchors=1_000_000, squared_norm_bound=4.0,
        ...                        failure_probability=0.05)
        >>> found.tail, round(found.value, 3)
        (0.1, 0.112)
    """
    spectrum = np.sort(_vector("eigenvalues", eigenvalues))[::-1]
    trace, dim = float(spectrum.sum()), len(spectrum)
    subspace_dim = _validate.integer("subspace_dim", subspace_dim, 1, dim)
    anchors = _validate.integer("anchors", anchors, 1, _MOST_COUNT)
    bound = _validate.real("squared_norm_bound", squared_norm_bound, trace * (1 - _ROUNDING), _LARGEST)
    failure = _validate.real("failure_probability", failure_probability, 0.0, 1.0, ends="()")
    fourth = bound * trace
    if fourth_moment is not None:
        least, most = trace**2 * (1 - _ROUNDING), fourth * (1 + _ROUNDING)
        fourth = _validate.real("fourth_moment", fourth_moment, least, most)
    squares = float(np.square(spectrum).sum())
    spread = max(fourth - squares, 0.0)
    sizes = np.arange(subspace_dim + 1)
    tails = np.append(np.cumsum(spectrum[::-1])[::-1], 0.0)[: subspace_dim + 1]
    shares = sizes * (1 - sizes / dim) / anchors
    estimation = np.sqrt(shares * spread)
    known = (sizes == 0) | (sizes == dim)
    deviation = np.where(known, 0.0, bound * math.sqrt(-2 * math.log(failure) / anchors))
    values = tails + estimation + deviation
    best = int(np.argmin(values))
    # no term is negative, and each takes at most 2 p + 16 roundings; the difference under the root takes those of both numbers
    rounding = (2 * dim + 16) * np.finfo(float).eps
    off = rounding * (fourth + squares)
    low = (1 - rounding) * (tails + np.sqrt(shares * max(spread - off, 0.0)) + deviation)
    high = (1 + rounding) * (tails + np.sqrt(shares * (spread + off)) + deviation)
    first, last = run_around(low <= high[best], best)
    return ResidualBound(
        tail=float(tails[best]),
        estimation=float(estimation[best]),
        deviation=float(deviation[best]),
        subspace_dim=best,
        first_dim=first,
        last_dim=last,
    )


def random_basis_error(*, dim: int, subspace_dim: int) -> float:
    r"""Root mean square of |g - B^T B g| / |g| for a uniformly random k-dimensional subspace: sqrt(1 - k/p), for every g.

    The squared ratio has the law Beta((p - k)/2, k/2). Its root falls short of this number by little: see
    :func:`mean_random_basis_error`.

    Args:
        dim: p in 1..10^18.
        subspace_dim: k in 0..p.

    Returns:
        The root mean square, in [0, 1].

    Source: GEP, Appendix C and Figure 7 (gep.appC, gep.jl).

    Example: ResNet20, 1000 random directions: the residual is as long as the gradient but for 2 parts in 1000.
        >>> from dptheory.embedding import random_basis_error
        >>> round(random_basis_error(dim=269_722, subspace_dim=1000), 4)
        0.9981
    """
    dim = _validate.integer("dim", dim, 1, _MOST_COUNT)
    return math.sqrt((dim - _validate.integer("subspace_dim", subspace_dim, 0, dim)) / dim)


def mean_random_basis_error(*, dim: int, subspace_dim: int) -> float:
    r"""Mean of |g - B^T B g| / |g| for a uniformly random k-dimensional subspace.

    .. math:: \frac{\Gamma((p-k+1)/2)\,\Gamma(p/2)}{\Gamma((p-k)/2)\,\Gamma((p+1)/2)}

    Args:
        dim: p in 1..10^18.
        subspace_dim: k in 0..p.

    Returns:
        The mean, in [0, 1].

    Source: GEP, Appendix C and Figure 7 (gep.appC).

    Example: ResNet20, 1000 random directions: the residual is as long as the gradient but for 2 parts in 1000.
        >>> from dptheory.embedding import mean_random_basis_error
        >>> round(mean_random_basis_error(dim=269_722, subspace_dim=1000), 4)
        0.9981
    """
    dim = _validate.integer("dim", dim, 1, _MOST_COUNT)
    left = dim - _validate.integer("subspace_dim", subspace_dim, 0, dim)
    return _half_step(left) / _half_step(dim)


def random_embedding_distortion(*, dim: int, subspace_dim: int) -> float:
    r"""Standard deviation of (p/k) |B g|^2 / |g|^2 for a uniformly random k-dimensional subspace; the mean is 1.

    .. math:: \sqrt{\frac{2(p-k)}{k(p+2)}}

    Small errors of lengths are what the Johnson-Lindenstrauss lemma promises; :func:`random_basis_error` is close to 1 all the
    same.

    Args:
        dim: p in 1..10^18.
        subspace_dim: k in 1..p.

    Returns:
        The standard deviation, >= 0.

    Source: GEP, section 3.1 and Appendix C on random projections (gep.jl).

    Example: the same 1000 directions tell lengths to within 4 or 5 %, though they hold 0.4 % of the energy.
        >>> from dptheory.embedding import random_embedding_distortion
        >>> round(random_embedding_distortion(dim=269_722, subspace_dim=1000), 4)
        0.0446
    """
    dim = _validate.integer("dim", dim, 1, _MOST_COUNT)
    subspace_dim = _validate.integer("subspace_dim", subspace_dim, 1, dim)
    return math.sqrt(2 * (dim - subspace_dim) / subspace_dim / (dim + 2))


def _half_step(count: int) -> float:
    """Gamma((n + 1)/2) / Gamma(n/2), 0 for n = 0; the asymptotic series where a difference of logarithms loses digits."""
    if count == 0:
        return 0.0
    if count < _SERIES_FROM:
        return math.exp(float(scipy.special.gammaln((count + 1) / 2) - scipy.special.gammaln(count / 2)))
    x = 1 / count
    return math.sqrt(count / 2) * (1 + x * (-1 / 4 + x * (1 / 32 + x * (5 / 128 - x * 21 / 2048))))


def _matrix(name: str, value: ArrayLike) -> Array:
    array = _validate.finite(name, value)
    if array.ndim != 2 or 0 in array.shape:
        raise ArgumentError(name, "be a matrix with at least one row and one column", value, got=f"shape {array.shape}")
    return array


def _vector(name: str, value: ArrayLike) -> Array:
    array = _validate.scale(name, value)
    if array.ndim != 1 or len(array) == 0 or (array < 0).any() or not array.any():
        raise ArgumentError(name, "be a vector of numbers >= 0, not all 0", value)
    return array


# --- What the subspace leaves of a fresh gradient, from anchors that did not shape it


@dataclass(frozen=True, kw_only=True)
class HeldOutResidual:
    """Size of a fresh residual R clipped at S, and how often clipping changes it.

    Attributes:
        energy: mean of min(|R|, S)^2 over the held-out anchors; its expectation is that of a fresh gradient.
        energy_bound: upper bound on E min(|R|, S)^2.
        clip_probability: (N + 1) / (h + 1), N the number of held-out residuals longer than S: at least P(|R| > S) on average.
        clip_probability_bound: upper bound on P(|R| > S).
    """

    energy: float
    energy_bound: float
    clip_probability: float
    clip_probability_bound: float


def held_out_residual(*, residuals: ArrayLike, residual_clip: float, failure_probability: float) -> HeldOutResidual:
    r"""Bounds on E min(\|R\|, S)^2 and P(\|R\| > S), R the residual of a fresh gradient, from h anchors that were held out.

    With Y the mean of min(\|R_i\|, S)^2 / S^2 and N the number of R_i longer than S, each with probability at least 1 - delta,

    .. math:: E\min(|R|, S)^2 \le S^2 \max\{\mu : Y\log\tfrac Y\mu + (1 - Y)\log\tfrac{1 - Y}{1 - \mu} \le
        \tfrac1h\log\tfrac1\delta\}, \qquad P(|R| > S) \le \max\{b : P(\mathrm{Bin}(h, b) \le N) \ge \delta\}.

    Needs, and cannot check: the held-out anchors are independent draws of the law of the fresh gradient, at a model and a
    subspace that they did not help to choose; S was fixed before they were seen.

    Args:
        residuals: what the subspace leaves of the held-out anchors, shape (h, p), entries in [-1e140, 1e140]; see
            :func:`dptheory.embedding.project`.
        residual_clip: S in [1e-70, 1e70].
        failure_probability: delta in [1e-200, 1), of each of the two bounds.

    Returns:
        The mean and the share with their bounds.

    Source: new, in place of GEP, Lemma 3.2 (gep.held_out).

    Example: 200 held-out residuals of length 0.5, none clipped at 0.6.
        >>> from dptheory.embedding import held_out_residual
        >>> found = held_out_residual(residuals=[[0.3, 0.4]] * 200, residual_clip=0.6, failure_probability=0.05)
        >>> round(found.energy, 6), round(found.energy_bound, 3), round(found.clip_probability_bound, 3)
        (0.25, 0.277, 0.015)
    """
    matrix = _validate.finite("residuals", residuals)
    if matrix.ndim != 2 or not matrix.size or np.abs(matrix).max() > _LARGEST_ENTRY:
        raise ArgumentError(
            "residuals",
            f"be a matrix of numbers in [-{_LARGEST_ENTRY:g}, {_LARGEST_ENTRY:g}] with a row for each held-out anchor",
            residuals,
        )
    clip = _validate.size("residual_clip", residual_clip)
    failure = _validate.real("failure_probability", failure_probability, 1e-200, 1.0, ends="[)")
    norms = np.sqrt(np.square(matrix).sum(axis=1))
    count, clipped = len(norms), int((norms > clip).sum())
    share = float(np.square(np.minimum(norms / clip, 1.0)).mean())
    return HeldOutResidual(
        energy=share * clip**2,
        energy_bound=_largest_mean(share, -math.log(failure) / count) * clip**2,
        clip_probability=(clipped + 1) / (count + 1),
        clip_probability_bound=_largest_chance(clipped, count, failure),
    )


def _largest_chance(clipped: int, count: int, failure: float) -> float:
    """The chance with which so few are clipped with probability ``failure``."""
    found = 1.0 if clipped == count else float(scipy.special.betainccinv(clipped + 1, count - clipped, failure))
    return 1.0 if math.isnan(found) else found  # next to 1, where the inversion finds no number


def _largest_mean(share: float, nats: float) -> float:
    """The largest mu in [share, 1] whose coin has a divergence of at most ``nats`` from one with the chance ``share``."""
    if share >= 1.0:
        return 1.0

    def excess(odds: float) -> float:
        other = share + (1.0 - share) * odds
        return float(scipy.special.rel_entr(share, other)) - (1.0 - share) * math.log1p(-odds) - nats

    most = 1.0 - math.ulp(1.0)
    return (
        1.0
        if excess(most) <= 0
        else share + (1.0 - share) * float(scipy.optimize.brentq(excess, 0.0, most, xtol=1e-300, rtol=1e-14))
    )
