"""How well a known linear map can be inverted from a masked, noisy gradient (the attack of RS, section 5).

The attacker knows the vector k (or the matrix K), the mask m and m * (k x + xi) with xi ~ N(0, sigma^2 I), and wants x. The
mask is uniform among those that keep exactly dim * (1 - drop_rate) entries (rows of K). X = |m * k|^2.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.gradients import kept_entries, mean_reciprocal

_MAX_DIM = 10**7
_MAX_ROWS = 10**12
_MAX_MASKS = 200_000


@dataclass(frozen=True, kw_only=True)
class AttackError:
    """Mean squared error of the least-squares attack over mask and noise.

    Attributes:
        value: the mean, a mask under which the attack fails counting as an infinite error.
        given_recoverable: the mean over the masks under which it does not fail.
        lost_probability: probability of a mask under which it fails.
        reason: why ``value`` is infinite; None where it is finite.
    """

    value: float
    given_recoverable: float
    lost_probability: float
    reason: str | None = None


def expected_error(vector: ArrayLike, *, drop_rate: float, noise_std: float) -> AttackError:
    r"""Error of least squares for one unknown: sigma^2 E[1/X], X = |m * k|^2; infinite unless #{k_j = 0} < dim * (1 - drop_rate).

    .. math:: E[X^{-1}; X > 0] = \int_0^\infty E[e^{-tX}; X > 0]\,dt

    Relative error under 1e-9. Of more than 2,000 different values of k_j^2 near ones are joined, to a lower and to an upper bound
    that differ by less than that; where a few entries are kept that fails, and 1e5 values take some ten seconds.

    Args:
        vector: the constraint vector, shape (dim,), 1 <= dim <= 1e7, not all zero; the non-zero entries within a factor of 1e140.
        drop_rate: sparsification rate r in [0, 1); dim * (1 - drop_rate) must be an integer >= 1.
        noise_std: standard deviation of the noise on one entry of the gradient, >= 0.

    Returns:
        The error in units of x squared. With sigma = 0 a mask that misses every non-zero entry still counts as infinite.

    Source: RS, Theorem 5.1, equation 110 of its proof (rs.thm5.1).

    Example: equal entries attain the bound; with one large entry half of the masks miss most of the signal.
        >>> from dptheory.sparsification import expected_error
        >>> round(expected_error([1.0, 1.0, 1.0, 1.0], drop_rate=0.5, noise_std=0.1).value, 6)
        0.005
        >>> round(expected_error([0.1, 0.1, 0.1, 2.0], drop_rate=0.5, noise_std=0.1).value, 3)
        0.251
    """
    scale, squares, keep = _scaled_squares(vector, drop_rate)
    variance = _noise_variance(noise_std, scale)
    log_lost = _log_lost_probability(squares, keep)
    given = variance * mean_reciprocal(values=squares, keep=keep) / -math.expm1(log_lost)
    zeros = int(np.count_nonzero(squares == 0))
    if zeros < keep:
        return AttackError(
            value=given,
            given_recoverable=given,
            lost_probability=0.0,
            reason=None if given < math.inf else "it exceeds the largest floating-point number",
        )
    reason = f"{zeros} of {squares.size} entries of vector are zero and a mask keeps {keep}: it can miss the others"
    return AttackError(value=math.inf, given_recoverable=given, lost_probability=math.exp(log_lost), reason=reason)


def error_lower_bound(vector: ArrayLike, *, drop_rate: float, noise_std: float) -> float:
    """Jensen's bound sigma^2 P(m * k != 0) / ((1 - drop_rate) |k|^2) for the error given m * k != 0, and so for the mean.

    P = 1 where #{k_j = 0} < dim * (1 - drop_rate). Attained where all masks with m * k != 0 give the same X.

    Args:
        vector, drop_rate, noise_std: as for :func:`expected_error`.

    Returns:
        The bound, in units of x squared.

    Source: RS, Theorem 5.1, equation 17, corrected (rs.thm5.1).

    Example: by hand: 0.1^2 / (0.5 * 4).
        >>> from dptheory.sparsification import error_lower_bound
        >>> round(error_lower_bound([1.0, 1.0, 1.0, 1.0], drop_rate=0.5, noise_std=0.1), 6)
        0.005
    """
    scale, squares, keep = _scaled_squares(vector, drop_rate)
    recoverable = -math.expm1(_log_lost_probability(squares, keep))
    return _noise_variance(noise_std, scale) * recoverable / (keep / squares.size * float(squares.sum()))


def bayes_error(vector: ArrayLike, *, drop_rate: float, noise_std: float, prior_std: float) -> float:
    """Error of the attacker who knows the prior variance of x: E[1 / (X / sigma^2 + 1 / prior_std^2)], finite for every k.

    The least error of any attacker if x is Gaussian, and of any affine attacker for every law of x with that variance.

    Args:
        vector, drop_rate: as :func:`expected_error`, but k may be all zero.
        noise_std: standard deviation of the noise on one entry of the gradient, > 0.
        prior_std: standard deviation of x, > 0.

    Returns:
        The error in units of x squared; inf where it exceeds the largest floating-point number.

    Raises:
        ValueError: an argument outside its range, or sigma / prior_std not within a factor of 1e140 of the entries of k.

    Source: RS, Theorem 5.1, where its expectation is infinite (rs.thm5.1).

    Example: no entry of k is dropped: by hand 1 / (4 / 0.1^2 + 1 / 1^2), a little less than least squares.
        >>> from dptheory.sparsification import bayes_error
        >>> round(bayes_error([1.0, 1.0, 1.0, 1.0], drop_rate=0.0, noise_std=0.1, prior_std=1.0), 7)
        0.0024938
    """
    noise_std = _validate.real("noise_std", noise_std, 0.0, ends="()")
    prior_std = _validate.real("prior_std", prior_std, 0.0, ends="()")
    vector, keep = _vector_keep(vector, drop_rate)
    if not vector.any():
        return prior_std * prior_std
    scale, squares, _ = _scaled_squares(vector, drop_rate)
    noise_to_prior = noise_std / prior_std / scale
    if not 1e-140 < noise_to_prior < 1e140:
        raise ArgumentError(
            "prior_std", f"make noise_std / prior_std lie within 1e140 of max |k_j| = {scale:g}", prior_std
        )
    if noise_to_prior > 1e70:
        return prior_std * prior_std  # X is nothing beside the noise
    share = noise_to_prior**2 * mean_reciprocal(values=squares, keep=keep, shift=noise_to_prior**2)
    return prior_std * (prior_std * share)


@dataclass(frozen=True, kw_only=True)
class ReconstructionErrors:
    """How well a masked, noisy gradient protects one unknown x, in units of x squared.

    Attributes:
        attack: the error of least squares, by :func:`expected_error`.
        lower_bound: Jensen's bound for it where the attack works, by :func:`error_lower_bound`.
        bayes: the error of the attacker who knows the prior, by :func:`bayes_error`.
    """

    attack: AttackError
    lower_bound: float
    bayes: float


def reconstruction_errors(
    vector: ArrayLike, *, drop_rate: float, noise_std: float, prior_std: float
) -> ReconstructionErrors:
    r"""Errors of the attacks on one masked, noisy gradient m * (k x + xi), and the bound for them.

    .. math:: \sigma^2 E[X^{-1}], \qquad \frac{\sigma^2 P(X > 0)}{(1-r)|k|^2}, \qquad
        E[(X/\sigma^2 + 1/\sigma_x^2)^{-1}], \qquad X = |m * k|^2

    Args:
        vector: k, shape (dim,), 1 <= dim <= 1e7, not all zero; the non-zero entries within a factor of 1e140.
        drop_rate: r in [0, 1); dim * (1 - r) must be an integer >= 1.
        noise_std: standard deviation sigma of the noise on one entry, > 0.
        prior_std: standard deviation of x that the Bayes attacker knows, > 0.

    Returns:
        Errors of the plain and of the Bayes attacker, and the lower bound.

    Source: RS, Theorem 5.1 (rs.thm5.1).

    Example: four entries, two of them kept.
        >>> from dptheory.sparsification import reconstruction_errors
        >>> found = reconstruction_errors([1.0, 2.0, 3.0, 4.0], drop_rate=0.5, noise_std=0.1, prior_std=1.0)
        >>> round(found.attack.value, 6), round(found.lower_bound, 6), round(found.bayes, 6)
        (0.000876, 0.000667, 0.000875)
    """
    return ReconstructionErrors(
        attack=expected_error(vector, drop_rate=drop_rate, noise_std=noise_std),
        lower_bound=error_lower_bound(vector, drop_rate=drop_rate, noise_std=noise_std),
        bayes=bayes_error(vector, drop_rate=drop_rate, noise_std=noise_std, prior_std=prior_std),
    )


def matrix_expected_error(matrix: ArrayLike, *, drop_rate: float, noise_std: float) -> AttackError:
    r"""Total error of least squares for n unknowns, sigma^2 E tr (K_m' K_m)^-1, over every mask of rows.

    K_m holds the kept rows of K. The attack fails where they have not rank n.

    Args:
        matrix: the constraint matrix, shape (dim, n), of full column rank; entries 0 or of size in [1e-70, 1e70].
        drop_rate: sparsification rate r in [0, 1); keep = dim * (1 - drop_rate) must be an integer, and binomial(dim, keep) at
            most
            200,000, as all masks are looked at. A row set counts as rank-deficient at NumPy's default tolerance.
        noise_std: standard deviation of the noise on one entry of the gradient, 0 or in [1e-70, 1e70].

    Returns:
        The error, where the attack works, and how often it fails.

    Raises:
        ValueError: an argument outside its range, or keep < n, for which no mask leaves the attack possible.

    Source: RS, equation 16 with the mask of Theorem 5.1 (rs.thm5.1.matrix).

    Example: by hand: of six masks of two rows two keep the same row twice, and leave one unknown open.
        >>> from dptheory.sparsification import matrix_expected_error
        >>> found = matrix_expected_error([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], drop_rate=0.5, noise_std=0.1)
        >>> round(found.given_recoverable, 6), round(found.lost_probability, 4)
        (0.02, 0.3333)
    """
    matrix, keep = _matrix_keep(matrix, drop_rate)
    noise_std = _validate.size("noise_std", noise_std, zero=True)
    dim, unknowns = matrix.shape
    masks = math.comb(dim, keep)
    if masks > _MAX_MASKS:
        raise ArgumentError(
            "matrix", f"allow at most {_MAX_MASKS} masks", matrix, got=f"shape {matrix.shape}, {keep} rows kept"
        )
    traces = _inverse_traces(matrix, keep)
    if not traces.size:
        raise ArgumentError("matrix", f"have {unknowns} independent rows among some {keep} kept ones", matrix)
    given = noise_std * noise_std * float(traces.mean())
    if traces.size == masks:
        return AttackError(value=given, given_recoverable=given, lost_probability=0.0)
    reason = f"{masks - traces.size} of {masks} masks leave rows of rank below {unknowns}"
    return AttackError(
        value=math.inf, given_recoverable=given, lost_probability=1.0 - traces.size / masks, reason=reason
    )


def matrix_error_lower_bound(matrix: ArrayLike, *, drop_rate: float, noise_std: float) -> Array:
    """sigma^2 (K'K)^-1 / (1 - drop_rate) <= sigma^2 E (K_m' K_m)^-1 in Loewner order, singular K_m'K_m counting as infinite.

    Its trace bounds the total error. Given that K_m'K_m is not singular the bound is this times 1 - lost_probability.

    Args:
        matrix: the constraint matrix, shape (dim, n), of full column rank; entries 0 or of size in [1e-70, 1e70].
        drop_rate: sparsification rate r in [0, 1); dim * (1 - drop_rate) must be an integer >= n.
        noise_std: standard deviation of the noise on one entry of the gradient, 0 or in [1e-70, 1e70].

    Returns:
        Array of shape (n, n).

    Source: RS, Theorem 5.1 for a matrix (rs.thm5.1.matrix).

    Example: by hand: K'K = 2 I, so that each unknown has an error of 0.1^2 / 2 over the share kept, 1/2.
        >>> from dptheory.sparsification import matrix_error_lower_bound
        >>> matrix_error_lower_bound([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], drop_rate=0.5, noise_std=0.1).round(6)
        array([[0.01, 0.  ],
               [0.  , 0.01]])
    """
    matrix, keep = _matrix_keep(matrix, drop_rate)
    noise_std = _validate.size("noise_std", noise_std, zero=True)
    triangle = np.linalg.inv(np.linalg.qr(matrix, mode="r"))
    return np.asarray(noise_std * noise_std * len(matrix) / keep * (triangle @ triangle.T))


def gaussian_matrix_error(*, keep: int, unknowns: int, noise_std: float) -> AttackError:
    """Total error for K with independent N(0, 1) entries, over K, mask and noise: sigma^2 n / (keep - n - 1).

    Args:
        keep: number of kept rows, 1..1e12.
        unknowns: n, 1..1e12.
        noise_std: standard deviation of the noise on one entry of the gradient, in [1e-70, 1e70].

    Returns:
        Infinite for keep <= n + 1. For keep in (n, n + 1) the attack almost never fails, but its mean error is infinite.

    Source: RS, equation 16 for random K (rs.thm5.1.matrix).

    Example: 1000 unknowns and 2000 kept rows: by hand 0.1^2 * 1000 / 999.
        >>> from dptheory.sparsification import gaussian_matrix_error
        >>> round(gaussian_matrix_error(keep=2000, unknowns=1000, noise_std=0.1).value, 6)
        0.01001
    """
    keep = _validate.integer("keep", keep, 1, _MAX_ROWS)
    unknowns = _validate.integer("unknowns", unknowns, 1, _MAX_ROWS)
    noise_std = _validate.size("noise_std", noise_std)
    if keep < unknowns:
        return AttackError(
            value=math.inf,
            given_recoverable=math.inf,
            lost_probability=1.0,
            reason=f"{keep} rows cannot determine {unknowns} unknowns",
        )
    if keep <= unknowns + 1:
        reason = f"the smallest singular value has too much mass near 0: {keep} rows, needs {unknowns + 2}"
        return AttackError(value=math.inf, given_recoverable=math.inf, lost_probability=0.0, reason=reason)
    error = noise_std * noise_std * unknowns / (keep - unknowns - 1)
    return AttackError(value=error, given_recoverable=error, lost_probability=0.0)


def _vector_keep(k: ArrayLike, drop_rate: float) -> tuple[Array, int]:
    vector = _validate.finite("vector", k)
    if vector.ndim != 1 or not 1 <= vector.size <= _MAX_DIM:
        raise ArgumentError("vector", f"be a vector of 1..{_MAX_DIM} entries", vector, got=f"shape {vector.shape}")
    return vector, kept_entries(dim=vector.size, drop_rate=drop_rate)


def _scaled_squares(k: ArrayLike, drop_rate: float) -> tuple[float, Array, int]:
    """max |k_j|, the squares (k_j / max)^2, and the number of kept entries."""
    vector, keep = _vector_keep(k, drop_rate)
    size = np.abs(vector)
    scale = float(size.max())
    if scale == 0.0:
        raise ArgumentError("vector", "have a non-zero entry", k)
    if size[size > 0].min() / scale < 1e-140:
        raise ArgumentError("vector", "have non-zero entries within a factor of 1e140", k)
    return scale, (size / scale) ** 2, keep


def _noise_variance(noise_std: float, scale: float) -> float:
    """(noise_std / scale)^2, the noise after k has been divided by scale."""
    ratio = _validate.real("noise_std", noise_std, 0.0, ends="[)") / scale
    return ratio * ratio


def _log_lost_probability(squares: Array, keep: int) -> float:
    """log P(X = 0) = log of binomial(zeros, keep) / binomial(dim, keep), without cancellation; -inf where it is 0."""
    dim = squares.size
    others = int(np.count_nonzero(squares))
    if dim - others < keep:
        return -math.inf
    few, many = sorted((keep, others))
    return float(np.log1p(-many / (dim - np.arange(few))).sum())


def _matrix_keep(K: ArrayLike, drop_rate: float) -> tuple[Array, int]:
    matrix = _validate.signed_scale("matrix", K)
    if matrix.ndim != 2 or matrix.size == 0 or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise ArgumentError("matrix", "be a matrix of full column rank", matrix, got=f"shape {matrix.shape}")
    keep = kept_entries(dim=len(matrix), drop_rate=drop_rate)
    if keep < matrix.shape[1]:
        raise ArgumentError("drop_rate", f"leave at least {matrix.shape[1]} of {len(matrix)} rows", drop_rate)
    return matrix, keep


def _inverse_traces(matrix: Array, keep: int) -> Array:
    """tr (K_m' K_m)^-1 of every row set of full column rank: the sum of the inverse squared singular values."""
    traces = []
    masks = itertools.combinations(range(len(matrix)), keep)
    while rows := list(itertools.islice(masks, 4096)):
        values = np.linalg.svd(matrix[np.array(rows)], compute_uv=False)
        full = values[:, -1] > values[:, 0] * keep * np.finfo(np.float64).eps
        traces.append(np.square(1 / values[full]).sum(axis=1))
    return np.concatenate(traces)
