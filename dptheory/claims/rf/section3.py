import itertools
import math
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._draws import all_masks
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs._runs import spelled

averaged_out = new_row(
    id="rf.averaged_out",
    source=Source("rf", "section 3.2"),
    verdict=Verdict.CONDITIONAL,
    calculators=(convergence.fresh_mask_moments, convergence.epoch_mask_moments),
)


def _factor(held: bool, x: Fraction, y: Fraction, steps: int) -> Fraction:
    return 1 - x + x * y**steps if held else (1 - x + x * y) ** steps


def _error(held: bool, x: Fraction, start: int) -> Fraction:
    """E w^2 after 3 epochs of 4 steps with curvature 1, rate 1/2 and noise of variance 3, so that the floor is 1."""
    return 1 + (start**2 - 1) * _factor(held, x, Fraction(1, 4), 4) ** 3


_SHARES = tuple(Fraction(kept, 4) for kept in (1, 2, 3))


def _by_steps(held: bool, x: Fraction, start: int) -> float:
    """The same by the calculators, step by step."""
    epochs, steps = (3, 4) if held else (12, 1)
    run = spelled(gamma=0.5, epochs=epochs, n=steps, r=float(1 - x))
    return float(convergence.epoch_mask_moments(1.0, start=[float(start)], **run, variance=3.0)[-1, 0])


@averaged_out.equal(lambda: itertools.product((True, False), _SHARES, (0, 1, 2, 1000)), tolerance=1e-12)
def _(held: bool, x: Fraction, start: int) -> Sides:
    """error after 3 epochs of 4 steps, by the recursion step by step"""
    # wrong: that at the noise floor
    return float(_error(held, x, start)), lambda: _by_steps(held, x, start), 1.0 if start != 1 else 2.0


def _enumerated(held: bool, keep: int, start: int) -> Fraction:
    """E w_1^2 after 2 epochs of 2 steps, over all masks that keep ``keep`` of 3 entries; rate 1/2, noise +-1 or 0."""
    drawn = itertools.product(all_masks(3, keep), repeat=2 if held else 4)
    total, count, unit = 0, 0, 2**4  # in units of 1/16 all four steps are whole
    for sequence in drawn:
        kept = [sequence[step // 2 if held else step][0] for step in range(4)]
        for noise in itertools.product((-unit, 0, 0, unit), repeat=4):
            w = unit * start
            for m, z in zip(kept, noise, strict=True):
                w -= m * (w + z) // 2
            total, count = total + w**2, count + 1
    return Fraction(total, count * unit**2)


@averaged_out.equal(lambda: itertools.product((True, False), (1, 2), (0, 1, 3)))
def _(held: bool, keep: int, start: int) -> Sides:
    """two epochs of two steps, by enumeration of masks and noise"""
    floor, x = Fraction(1, 6), Fraction(keep, 3)  # gamma^2 V / (1 - y) = (1/4)(1/2) / (3/4)
    claimed, other = (floor + (start**2 - floor) * _factor(way, x, Fraction(1, 4), 2) ** 2 for way in (held, not held))
    return claimed, lambda: _enumerated(held, keep, start), other


@averaged_out.equal(lambda: itertools.product(_SHARES, (0, 1, 2, 1000)), kind=Kind.COUNTEREXAMPLE)
def _(x: Fraction, start: int) -> Sides:
    """whether the held mask has the smaller, the same or the larger error: -1, 0, 1"""

    def compare() -> int:
        held, fresh = _error(True, x, start), _error(False, x, start)
        return (held > fresh) - (held < fresh)

    # wrong: it has the smaller one
    return (start > 1) - (start < 1), compare, -1 if start else 1


principal = new_row(
    id="rf.principal",
    source=Source("rf", "section 3.3, second reason"),
    verdict=Verdict.CONDITIONAL,
)


def _held_by_entries(dim: int, keep: int) -> Fraction:
    """The largest share of the energy of g = +-(1, ..., 1) that keep entries hold, by enumeration."""
    gradients = ((1,) * dim, (-1,) * dim)
    energy = sum(entry**2 for g in gradients for entry in g)
    sets = itertools.combinations(range(dim), keep)
    return max(Fraction(sum(g[j] ** 2 for g in gradients for j in kept), energy) for kept in sets)


@principal.equal((2, 1), (5, 2), (8, 7), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """share of the energy that entries hold, where one component holds all"""
    return Fraction(keep, dim), lambda: _held_by_entries(dim, keep), Fraction(1)


Batch = tuple[tuple[int, int], ...]

less_bias = new_row(
    id="rf.less_bias",
    source=Source("rf", "section 3.4, Fig. 4, on its reason"),
    verdict=Verdict.NOT_SHOWN,
)


def _mean_clipped(batch: Batch, clip: Fraction) -> Fraction:
    """The first coordinate of the mean of the clipped gradients; their norms are whole numbers."""
    cut = (min(Fraction(1), clip / math.isqrt(x * x + y * y)) * x for x, y in batch)
    return sum(cut, Fraction(0)) / len(batch)


@less_bias.equal((1, Fraction(1, 3)), (2, Fraction(2, 3)), (4, Fraction(0)), kind=Kind.COUNTEREXAMPLE)
def _(clip: int, bias: Fraction) -> Sides:
    """clipping bias of the gradients 4, -2, -2"""
    falling = Fraction(4 - clip, 3)  # wrong: the bound E(|g| - C)_+ on it, as long as only one is clipped
    return bias, lambda: abs(_mean_clipped(((4, 0), (-2, 0), (-2, 0)), Fraction(clip))), falling  # without clipping 0


@less_bias.equal(
    *(
        (batch, large, large / ratio)
        for batch in (((3, 4), (0, 5)), ((5, 12), (-3, 4), (8, 15)), ((1, 0), (0, -2)))
        for large in (Fraction(1), Fraction(1, 2))
        for ratio in (2, 10)
    )
)
def _(batch: Batch, large: Fraction, small: Fraction) -> Sides:
    """clip over 1 - momentum kept, all clipped: the mean clipped gradient times 1 / (1 - momentum)"""
    factor = large / small  # 1 / (1 - momentum) at the smaller clip; 1 at the larger one
    return _mean_clipped(batch, large), lambda: factor * _mean_clipped(batch, small), _mean_clipped(batch, small)
