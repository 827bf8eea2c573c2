"""How much of the signal a mask keeps that ranks noisy gradients, against the share x that a random mask keeps.

Model: entries of the signal are independent N(0, t^2) (a share of them, where the signal is sparse), the ranked entries
carry independent N(0, 1) noise on top; t = snr is the ratio of the two standard deviations.
"""

import math

import numpy as np
import scipy

from dptheory import _validate, pruning

_MAX_SNR = 1e6
_MIN_DENSITY = 1e-9


def captured_energy(dim: int, keep: int, *, snr: float) -> float:
    r"""Expected share of |signal|^2 on the keep entries of largest |signal + noise|, exact in every dimension.

    .. math:: x + \rho\,(e - x),\quad \rho = \frac{t^2}{1+t^2},\quad x = \frac Kd

    with e the share that the keep largest of d independent normal entries hold; for large d it is x + 2 rho y phi(y),
    y = Phi^-1(1 - x/2). The share is relative to the expected energy d t^2 (for t = 0 its limit, x).

    Args:
        dim, keep: 1 <= keep <= dim <= 1e12.
        snr: t = signal std over noise std in the ranked sum, 0..inf. Ranking T summed steps of a constant signal multiplies
            the t of one step by sqrt(T).

    Returns:
        A number in [x, 1].

    Source: RF, section 3.3 and Appendix C, and RS, Appendix I (rf.ranked).

    Example: keeping a tenth by noisy magnitude captures 44 % without noise, under tenfold noise little more than 10 %.
        >>> import math
        >>> from dptheory.sparsification import captured_energy
        >>> [round(captured_energy(1_000_000, 100_000, snr=snr), 3) for snr in (math.inf, 0.1)]
        [0.439, 0.103]
    """
    rho = _reliability(_validate.real("snr", snr, 0.0))
    dim = _validate.integer("dim", dim, 1, 10**12)
    keep = _validate.integer("keep", keep, 1, dim)
    share = float(pruning.top_k_energy(dim, keep, sigma_g=1.0)) / dim
    return (1 - rho) * (keep / dim) + rho * share


def signed_captured_energy(*, keep_share: float, snr: float) -> float:
    r"""The same for a mask that keeps the largest signed values, in the limit of large d: x + rho y phi(y), y = Phi^-1(1 - x).

    Below x for x > 1/2: there y is negative, and the mask drops large negative entries.

    Args:
        keep_share: x = K/d in (0, 1].
        snr: as :func:`captured_energy`.

    Returns:
        The share, in [0, 1].

    Source: RF, Algorithm 2 as printed, which sorts signed values (rf.ranked).

    Example: sorted by sign, a tenth captures only the large positive entries: 0.32 in place of 0.44.
        >>> import math
        >>> from dptheory.sparsification import signed_captured_energy
        >>> round(signed_captured_energy(keep_share=0.1, snr=math.inf), 3)
        0.325
    """
    keep_share = _checked_share(keep_share)
    rho = _reliability(_validate.real("snr", snr, 0.0))
    if keep_share == 1.0:
        return 1.0
    y = -float(scipy.special.ndtri(keep_share))
    return keep_share + rho * y * math.exp(-(y**2) / 2) / math.sqrt(2 * math.pi)


def sparse_captured_energy(*, keep_share: float, snr: float, nonzero_share: float) -> float:
    r"""As :func:`captured_energy` in the limit of large d, for a signal with a share q of non-zero entries N(0, t^2 / q).

    The threshold y solves q p(y/s) + (1 - q) p(y) = x with p(y) = P(|N(0,1)| > y) and s^2 = 1 + t^2/q; the share is
    p(u) + 2 (1 - 1/s^2) u phi(u) at u = y/s. q = 1 gives x + 2 rho y phi(y).

    Args:
        keep_share: x = K/d in (0, 1].
        snr: t, root mean square of the signal over all entries in units of the noise, 0..1e6.
        nonzero_share: q in [1e-9, 1].

    Returns:
        A number in [x, 1], relative error under 1e-9.

    Source: RF, section 3.3, the low-rank intuition that the experiment dismisses (rf.ranked).

    Example: the same energy on a hundredth of the entries stands out of the noise.
        >>> from dptheory.sparsification import sparse_captured_energy
        >>> [round(sparse_captured_energy(keep_share=0.1, snr=0.5, nonzero_share=share), 3) for share in (1.0, 0.01)]
        [0.168, 0.981]
    """
    keep_share = _checked_share(keep_share)
    snr = _validate.real("snr", snr, 0.0, _MAX_SNR)
    nonzero_share = _validate.real("nonzero_share", nonzero_share, _MIN_DENSITY, 1.0)
    if keep_share == 1.0:
        return 1.0
    spread = math.hypot(1.0, snr / math.sqrt(nonzero_share))

    # The smaller side of the law keeps its digits: the tail above y in logarithms, or the mass within y.
    if keep_share <= 0.5:
        lowest = -float(scipy.special.ndtri_exp(math.log(keep_share) - math.log(2.0)))
        logs = np.log([nonzero_share, 1 - nonzero_share]) if nonzero_share < 1.0 else np.array([0.0, -math.inf])

        def surplus(y: float) -> float:
            return float(np.logaddexp(*(logs + math.log(2.0) + scipy.special.log_ndtr([-y / spread, -y])))) - math.log(
                keep_share
            )
    else:
        lowest = math.sqrt(2) * float(scipy.special.erfinv(1 - keep_share))

        def surplus(y: float) -> float:
            inside = nonzero_share * scipy.special.erf(y / spread / math.sqrt(2)) + (
                1 - nonzero_share
            ) * scipy.special.erf(y / math.sqrt(2))
            return 1 - float(inside) / (1 - keep_share)

    low, high = 0.999999 * lowest, 1.000001 * lowest * spread
    u = float(scipy.optimize.brentq(surplus, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000)) / spread
    return min(1.0, max(keep_share, _captured(u, spread)))


def _captured(u: float, spread: float) -> float:
    """Share of the energy of the non-zero entries above u, in their own standard deviations."""
    return _tail(u) + 2 * (1 - spread**-2) * u * math.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)


def _reliability(snr: float) -> float:
    """rho = t^2 / (1 + t^2)."""
    return 1.0 if math.isinf(snr) else (snr / math.hypot(1.0, snr)) ** 2


def _tail(y: float) -> float:
    """P(|N(0, 1)| > y)."""
    return float(scipy.special.erfc(y / math.sqrt(2)))


def _checked_share(value: float) -> float:
    return _validate.real("keep_share", value, 0.0, 1.0, ends="(]")
