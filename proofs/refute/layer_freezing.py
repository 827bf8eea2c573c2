"""LF, Appendix A (lf.appA.moment): a bound on the second moment of the private gradient. Held against an enumeration."""

import itertools

from dptheory import claims, freezing
from dptheory.checks import Conjecture, Range

RANGES = {
    "clip": [1, 2],
    "noise_multiplier": [1, 2, 4],
    "dim": Range(1, 6, integer=True),
    "batch_size": [1, 4, 64],
}


def truth(clip: int, noise_multiplier: int, dim: int, batch_size: int) -> float:
    """E|s + z|^2: the signal s has norm C and lies on one axis, z has two equally likely signs in each of its entries."""
    tau = noise_multiplier * clip / batch_size
    signs = list(itertools.product((tau, -tau), repeat=dim))
    return sum((clip + z[0]) ** 2 + sum(entry**2 for entry in z[1:]) for z in signs) / len(signs)


def printed_bound(clip: int, noise_multiplier: int, dim: int, batch_size: int) -> float:
    """The printed bound knows no dimension."""
    return claims.get("lf.appA.moment").printed(clip, noise_multiplier, batch_size)


def corrected_moment(clip: int, noise_multiplier: int, dim: int, batch_size: int) -> float:
    return freezing.private_second_moment(
        second_moment=clip**2, clip_norm=clip, noise_multiplier=noise_multiplier, dim=dim, batch_size=batch_size
    )


printed = Conjecture(claimed=printed_bound, truth=truth, relation="<=", ranges=RANGES)
corrected = Conjecture(claimed=corrected_moment, truth=truth, ranges=RANGES)
