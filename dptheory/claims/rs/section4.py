import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

noise_share = new_row(
    id="rs.noise_share",
    source=Source("rs", "section 4.1"),
    verdict=Verdict.HOLDS,
)


def _share(decrease: Fraction, rate: Fraction, clip: Fraction, sigma: Fraction, dim: int, batch: int) -> Fraction:
    """The noise term of the bound of one step over its other terms, G = 1."""
    noise = rate * clip**2 * sigma**2 * dim / (2 * batch**2)
    return noise / (decrease / rate + rate * clip**2 / 2)


@noise_share.equal(
    lambda: itertools.product((Fraction(1, 10), Fraction(1)), (Fraction(1, 4), Fraction(2)), (1, 4), (7, 550_000))
)
def _(rate: Fraction, clip: Fraction, sigma: int, dim: int) -> Sides:
    """the share at no decrease"""
    return (
        Fraction(dim * sigma**2, 1000**2),
        lambda: _share(Fraction(0), rate, clip, Fraction(sigma), dim, 1000),
        Fraction(dim * sigma, 1000**2) + 1,
    )


@noise_share.equal((Fraction(1, 10), Fraction(1, 4)), (Fraction(1), Fraction(3)))
def _(rate: Fraction, clip: Fraction) -> Sides:
    """it rises as the decrease falls"""
    path = [_share(Fraction(1, n), rate, clip, Fraction(2), 1000, 10) for n in range(1, 30)]
    return True, path == sorted(path), path == sorted(path, reverse=True)


def printed_coordinates(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> int:
    """(1 - r) d: the coordinates that the last mask keeps."""
    return sum(masks[-1])


epoch_mask = new_row(
    id="rs.epoch_mask",
    source=Source("rs", "section 4.2; RF, section 3.2"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_coordinates,
    calculators=(convergence.coasting_distance,),
)


def _epoch_moves(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> list[Fraction]:
    """How far each parameter moves in the last epoch (learning rate 1), gradient 1 on the coordinates kept."""
    velocity = [Fraction(0)] * len(masks[0])
    moved = velocity
    for mask in masks:
        moved = [Fraction(0)] * len(mask)
        for _ in range(steps):
            velocity = [mu * v + m for v, m in zip(velocity, mask, strict=True)]
            moved = [w + v for w, v in zip(moved, velocity, strict=True)]
    return moved


def _epoch_cases() -> Iterator[tuple[Fraction, tuple[tuple[int, ...], ...], int]]:
    masks: tuple[tuple[tuple[int, ...], ...], ...] = (
        ((1, 0), (0, 1)),
        ((1, 1, 1, 1), (1, 0, 0, 1)),
        ((1, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 0)),
    )
    yield from itertools.product((Fraction(0), Fraction(1, 2), Fraction(9, 10)), masks, (1, 10))


@epoch_mask.equal(_epoch_cases, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> Sides:
    """coordinates that move, counted"""
    return (
        Fraction(sum(max(column) if mu else column[-1] for column in zip(*masks, strict=True))),
        lambda: Fraction(sum(w != 0 for w in _epoch_moves(mu, masks, steps))),
        Fraction(printed_coordinates(mu, masks, steps)),
    )


@epoch_mask.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (1, 5, 40)), tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """how far a frozen coordinate coasts"""
    return (
        convergence.coasting_distance(
            learning_rate=1.0, velocity=float((1 - mu**steps) / (1 - mu)), momentum=float(mu), steps=steps
        ),
        lambda: _epoch_moves(mu, ((1,), (0,)), steps)[0],
        0.0,
    )


@epoch_mask.equal(
    lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (Fraction(3, 2), Fraction(-4))), tolerance=1e-13
)
def _(mu: Fraction, velocity: Fraction) -> Sides:
    """how far it coasts in the end, in fractions"""
    # the way x left at velocity v solves x(v) = mu v + x(mu v), x linear in v
    return (
        convergence.coasting_distance(learning_rate=0.25, velocity=float(velocity), momentum=float(mu), steps=math.inf),  # type: ignore[arg-type]
        Fraction(1, 4) * mu * velocity / (1 - mu),
        lambda: convergence.coasting_distance(
            learning_rate=0.25, velocity=float(velocity), momentum=float(mu), steps=20
        ),
    )
