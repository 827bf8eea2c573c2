"""Bias of clipping a gradient first and its residual afterwards: in fractions, and by the calculator."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dptheory import embedding

CASES = (
    ((3, 4), (12, 0), Fraction(13, 2), Fraction(1, 2)),  # both clips bind
    ((3, 4), (0, 12), Fraction(20), Fraction(1, 2)),  # the residual's alone
    ((-12, 0), (3, 4), Fraction(5), Fraction(1)),  # the gradient's alone
    ((8, 0), (0, 6), Fraction(4), Fraction(1, 10)),
    ((0, 3), (4, 0), Fraction(6), Fraction(1)),  # none
)
"""Embedding and residual with whole norms, apart and together; the clip S and the share r."""


def in_fractions(part: str, *case: Any) -> Fraction:
    """Bias of ``copies`` copies of one example: the gradient scaled to S, then its residual to r S, in fractions."""
    first, second, clip, share, copies = case
    size = math.isqrt(sum(x * x for x in (*first, *second)))
    scale = min(Fraction(1), clip / size)
    length = math.isqrt(sum(x * x for x in second)) * scale
    again = min(Fraction(1), share * clip / length) if length else Fraction(1)
    bias = [copies * (scale - 1) * x for x in first] + [copies * (scale * again - 1) * x for x in second]
    if part == "square":
        return sum((x * x for x in bias), Fraction(0))
    first_entry, second_entry = bias[:2] if part == "embedding" else bias[2:]
    return Fraction(first_entry + 7 * second_entry)


def calculated(part: str, *case: Any) -> float:
    first, second, clip, share, copies = case
    found = embedding.joint_clipping_bias(
        [first] * copies + [(0, 0)],
        residuals=[second] * copies + [(0, 0)],
        clip_norm=float(clip),
        residual_share=float(share),
    )
    return found.square if part == "square" else float(getattr(found, part) @ np.array([1.0, 7.0]))


def apart(part: str, *case: Any) -> float:
    """Wrong statement: the residual is clipped before the gradient is, so that both are clipped apart."""
    first, second, clip, share, copies = case
    found = embedding.clipping_bias(
        [first] * copies, residuals=[second] * copies, embedding_clip=float(clip), residual_clip=float(share * clip)
    )
    return found.square if part == "square" else float(getattr(found, part) @ np.array([1.0, 7.0]))
