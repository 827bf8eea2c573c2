"""rs.epoch_mask: coordinates updated in an epoch."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict


def printed_coordinates(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> int:
    """(1 - r) d: the coordinates that the last mask keeps."""
    return sum(masks[-1])


row = Row(
    Claim(
        id="rs.epoch_mask",
        title="coordinates updated in an epoch",
        source=Source("rs", "section 4.2; RF, section 3.2"),
        statement=r"""With one mask an epoch, "for one epoch there are certainly $(1-r)d$ coordinates updated, which is favorable in
distributed learning". Algorithm 1 uses momentum, and section 4 itself says that coordinates can still be updated as
long as their velocity has not decayed to zero.""",
        verdict=Verdict.FALSE,
        kernel="rs/epoch_mask.v",
        kernel_theorems=("reading_is_false", "correction_holds"),
        summary="with momentum the frozen coordinates keep moving (as both papers say where they introduce the algorithm), almost "
        r"surely all that were ever kept, at $\sigma>0$; without momentum it is right.",
        conditions=(
            r"$0<\mu<1$, noise $\sigma>0$ (for every coordinate ever kept; one moving frozen coordinate needs only a "
            "velocity that is not zero), and some coordinate kept in an earlier epoch and not in this one. Exact "
            r"arithmetic; in float32 a velocity at $\mu = 0.9$ takes about a thousand steps to underflow.",
            "The claim is right without momentum. The runs of RF, Table 9 use none, those of Tables 5 to 8 use "
            r"$\mu = 0.9$.",
        ),
        correction=r"""With $v_{t+1} = \mu v_t+\tilde g_t$, $w_{t+1} = w_t-\gamma v_{t+1}$ and $\tilde g_t = 0$ on the frozen coordinates:

- $\mu = 0$: at most the $(1-r)d$ kept coordinates move; with noise $\sigma>0$, almost surely exactly they.
- $0<\mu<1$: a coordinate frozen with velocity $v$ moves by $\gamma v\frac{\mu(1-\mu^T)}{1-\mu}$ in the $T$ steps of the
  epoch, in total by $\gamma v\frac\mu{1-\mu}$ if it stays frozen.

What has $(1-r)d$ non-zero entries is the gradient that is sent, not the update.""",
        printed=printed_coordinates,
        calculators=(convergence.coasting_distance,),
        proved=True,
    )
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


@row.equal(_epoch_cases, kind=Kind.COUNTEREXAMPLE)
def _(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> Sides:
    """coordinates that move, counted"""
    return (
        Fraction(sum(max(column) if mu else column[-1] for column in zip(*masks, strict=True))),
        lambda: Fraction(sum(w != 0 for w in _epoch_moves(mu, masks, steps))),
        Fraction(printed_coordinates(mu, masks, steps)),
    )


@row.equal(lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (1, 5, 40)), tolerance=1e-13)
def _(mu: Fraction, steps: int) -> Sides:
    """how far a frozen coordinate coasts"""
    return (
        convergence.coasting_distance(
            learning_rate=1.0, velocity=float((1 - mu**steps) / (1 - mu)), momentum=float(mu), steps=steps
        ),
        lambda: _epoch_moves(mu, ((1,), (0,)), steps)[0],
        0.0,
    )


@row.equal(
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
