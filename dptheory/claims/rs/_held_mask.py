"""The counterexample to a mask held over many steps, in rational arithmetic: L = |w|^2 / 2, w_1 = (1, 1), no deviation, no noise."""

import math
from fractions import Fraction

RATE = Fraction(1, 2)
CLIP = 6  # so large that no gradient is clipped, and that |grad| is the smaller of |grad| and C/4


def mean_square_gradient(steps: int, learning_rate: Fraction, held: bool) -> Fraction:
    """(1/T) sum_t E|w_t|^2 of masked gradient descent with one of two entries kept, mask held or drawn at every step."""
    shrink = (1 - learning_rate) ** 2
    moving, square, total = Fraction(1), Fraction(2), Fraction(0)
    for _ in range(steps):
        total += square
        moving *= shrink
        # held: one entry moves, the other stays at 1; fresh: each entry's second moment moves with probability 1/2
        square = 1 + moving if held else (square + square * shrink) / 2
    return total / steps


def noisy_right_side(steps: int) -> Fraction:
    """2 G Delta / ((1 - r) sqrt T) of Theorem 3.2 for G = Delta = 1; ``steps`` is a square."""
    return 2 / (1 - RATE) / math.isqrt(steps)


def clipped_right_side(steps: int, learning_rate: Fraction) -> Fraction:
    """(Delta / (gamma T) + gamma G C^2 / 2) / kappa with the smallest kappa, 1 - r: the largest right side."""
    return (1 / (learning_rate * steps) + learning_rate * CLIP**2 / 2) / (1 - RATE)
