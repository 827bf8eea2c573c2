"""Randomised response on every bit of an index vector, by enumeration."""

import itertools
import math
from fractions import Fraction

CHANCES = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(3, 5), Fraction(9, 10))
"""Probabilities to keep a bit."""


def response(reference: tuple[bool, ...], chance: Fraction) -> dict[tuple[bool, ...], Fraction]:
    """The law of the output."""
    outputs = itertools.product((False, True), repeat=len(reference))
    return {
        out: math.prod(
            (chance if a == b else 1 - chance for a, b in zip(out, reference, strict=True)), start=Fraction(1)
        )
        for out in outputs
    }
