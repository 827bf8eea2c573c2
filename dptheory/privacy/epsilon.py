"""Which method bounds what a run spends, and why. Start reading here.

A run is a list of parts (:mod:`dptheory.privacy._parts`): what its steps release. Its privacy curve is, in each direction,

    delta(epsilon) = sup over events A of P(A) - e^epsilon Q(A),

P and Q the laws of all releases with and without the record ("remove"), without and with it ("add"), or with one record and with
another ("replace"). A method (:mod:`dptheory.privacy.methods`) proves bounds of that curve, or of its inverse, in one direction.
The narrowest ends win, and each end carries the name of the method that gave it. Files below are those of the folder ``methods``.

Noisy values alone (:class:`Step`), in this order, until one is narrow enough:

    Gaussian        Gaussian, _closed_forms.py. No sampling: a closed form. With sampling the same number is an upper bound,
                    as sampling only helps.
    one step        OneStep, _closed_forms.py. One sampled step: one integral over its output.
    saddle line     ManyKindsLine, _many_kinds.py. More than 16 kinds, a schedule: below, by one rule for all kinds of near noise;
                    add/remove, at most 1000 rates.
    lattice         ManyKinds, _many_kinds.py. Other schedules: all losses on one lattice, from both sides; of more than 128 kinds
                    near ones binned.
    saddle line     SaddleLine, saddle/_brackets.py. The inversion integral: ten digits where noise is .05 to 10^7, rates are from
                    1e-8, and there are up to 10^9 steps, seven up to 10^12, of up to 16 kinds; of more, near ones are binned,
                    upwards for one end and downwards for the other. Nearly every number comes from here. It is wide where the
                    losses have two scales: steps that are few, and rare. What takes long is asked where the bracket is wider
                    than ``rtol`` alone.
    rare steps      RareSteps, lattice/_method.py. A record takes part once or less on average: what one extreme output alone makes
                    of delta in closed form, the rest on a lattice, from both sides. Asked before lines that take seconds; named
                    "lattice".
    participations  Participations, _closed_forms.py. Reveals when the record took part: close where single steps give themselves
                    away, and never far off where a record hardly ever takes part.
    lattice         Lattice, lattice/_method.py. Steps of one kind where the line is wide: the sum of few rare losses, from both sides.
    RDP             Renyi, renyi/_parts.py. What is outside the range of the line: any noise, any rate, up to 10^12 steps.
    grid            Grid, grid/_bounds.py. The same. Both for add/remove alone.

Index sets and masks (:class:`JointStep`, :class:`IndexSteps`, :class:`MaskedStep`), add/remove alone, all of these:

    of the values           Below, as releasing less spends less; above, as if a mask hid nothing.
    values and index sets   joint_epsilon, _added.py. Above: epsilon of the values plus what index sets spend for given batches,
      added up              exactly or as zCDP.
    RDP                     renyi_delta, renyi/_parts.py. Above: Renyi curves of all parts.
    lattice                 IndexLoss, lattice/_index_law.py. Both: index sets of one mechanism alone, by the moments of their losses.
    grid                    GridPair, grid/_bounds.py. Both: the losses of values and index sets from one sample. Seconds, so only
                            where the rest is wide.

Batches of a fixed size (:class:`FixedSizeStep`), replace-one alone (_fixed_size.py):

    below   what is attained where all other records are alike: Poisson steps with half of the noise.
    above   a pair that dominates every step, or one with the largest divergence (proofs/privacy/fixed_size_batches.md).

Epochs of random allocation (:class:`RandomAllocation`), alone or beside noisy values (random_allocation/_bounds.py):

    random allocation   both, of one participation: the law of an epoch's likelihood ratio on a lattice.
    blocks              above, of several: as many epochs of one participation each.
    Gaussian            above, as if it were known when the record takes part; below, the sum of an epoch's outputs.
    remove, then add    above, where a record is replaced.

Releases that are no steps (:class:`LaplaceRelease`, :class:`BlackBox`), alone or beside those two (_other_releases.py):

    other releases  both: the laws of all losses on a lattice, beside what black boxes reveal.
    added up        above: what the steps spend, and the largest loss of everything else.

``certified`` answers come from the saddle line in ball arithmetic, and from nothing else (saddle/_certified.py). PRV, PLD and
Renyi accountants of other people are second opinions (references): nothing here asks them.
"""

import functools
import math
from collections.abc import Callable

from dptheory.privacy._bounds import (
    ADDED,
    CHANCE,
    GRID,
    LATTICE,
    LINE,
    MAX_RELEASES,
    NONE,
    RENYI,
    RTOL,
    Direction,
    Found,
    Unresolved,
)
from dptheory.privacy._parts import (
    BlackBox,
    FixedSizeStep,
    IndexSteps,
    LaplaceRelease,
    Parts,
    RandomAllocation,
    Steps,
    alike,
    chance,
    index_epsilon,
    index_zcdp_rho,
    values_of,
)
from dptheory.privacy.methods._added import joint_epsilon
from dptheory.privacy.methods._closed_forms import Gaussian, OneStep, Participations
from dptheory.privacy.methods._fixed_size import fixed_size_delta, fixed_size_epsilon
from dptheory.privacy.methods._many_kinds import ManyKinds, ManyKindsLine
from dptheory.privacy.methods._method import Bracket, Method
from dptheory.privacy.methods._other_releases import releases_delta, releases_epsilon
from dptheory.privacy.methods.grid._bounds import LEAST, Grid, GridPair, grid_bounds, grid_epsilon, grid_upper
from dptheory.privacy.methods.lattice._index_law import POINT_MASS, IndexLoss
from dptheory.privacy.methods.lattice._method import Lattice, RareSteps
from dptheory.privacy.methods.random_allocation._bounds import allocation_delta, allocation_epsilon
from dptheory.privacy.methods.renyi._parts import Renyi, renyi_delta, renyi_epsilon
from dptheory.privacy.methods.saddle._brackets import (
    MOST_KINDS,
    NearbyDeltas,
    SaddleLine,
    gaussian_mu,
    largest_loss,
)
from dptheory.privacy.methods.saddle._line import step_losses

__all__: tuple[str, ...] = ()


@functools.cache
def value_methods(rtol: float, schedule: bool, rare: bool) -> tuple[Method, ...]:
    """Of noisy values alone, in the order in which they are asked.

    Args:
        rtol: the relative width that is narrow enough.
        schedule: whether there are so many kinds of steps that they share nodes.
        rare: whether a record hardly ever takes part.
    """
    first: tuple[Method, ...] = ()
    if rare:
        first = (ManyKindsLine(longest=False) if schedule else SaddleLine(rtol, longest=False), RareSteps(rtol))
    if schedule:
        first = (*first, ManyKindsLine(), ManyKinds())
    return (
        Gaussian(),
        OneStep(),
        *first,
        SaddleLine(rtol),
        Participations(),
        Lattice(),
        Renyi(),
        Grid(),
    )


_ROUGH = 1e-7
_NARROW = 1e-3
"""Relative width at which no grid is asked for index sets: it takes seconds."""
_LEAST_ABOUT, _NEAR, _PASSES = 1e-30, 100.0, 4
"""An upper bound of delta leaves out a share of about what it is: what is found must not be far above that."""


def epsilon_of(parts: Parts, directions: tuple[Direction, ...], delta: float, rtol: float = RTOL) -> Found:
    """Bounds of the least epsilon at which delta(epsilon) <= delta in all directions."""
    if fixed := _fixed(parts):
        return _fixed_epsilon(fixed, directions, delta)
    first, *others = directions
    values = values_of(parts, hidden=False) if _only_values(parts) else ()
    found = _asked(values, first, rtol, delta=delta) if values else epsilon_in(parts, first, delta, rtol)
    for direction in others:
        if found.lower == math.inf:
            break
        # delta falls with epsilon: where it is small enough here, the other direction's epsilon is no larger
        if values:
            small = _asked(values, direction, rtol, epsilon=found.lower).upper <= delta
        else:
            small = _delta_is_at_most(delta, parts, direction, found.lower)
        if not small:
            found = found.with_more(epsilon_in(parts, direction, delta, rtol))
    return found


def delta_of(parts: Parts, directions: tuple[Direction, ...], epsilon: float, rtol: float = RTOL) -> Found:
    """Bounds of the least delta(epsilon) that holds in all directions; epsilon >= 0."""
    first, *others = (delta_in(parts, one, epsilon, rtol) for one in directions)
    return functools.reduce(Found.with_more, others, first)


def epsilon_in(parts: Parts, direction: Direction, delta: float, rtol: float = RTOL) -> Found:
    """Bounds of the least epsilon of one direction."""
    if _released(parts):
        return releases_epsilon(parts, direction, delta, lambda rest, share: epsilon_in(rest, direction, share, rtol))
    if _allocated(parts):
        return allocation_epsilon(parts, direction, delta)
    if _only_values(parts):
        return _asked(values_of(parts, hidden=False), direction, rtol, delta=delta)
    return _with_more_than_values_epsilon(parts, direction, delta)


def delta_in(parts: Parts, direction: Direction, epsilon: float, rtol: float = RTOL) -> Found:
    """Bounds of delta(epsilon) of one direction."""
    if fixed := _fixed(parts):
        return _fixed_delta(fixed, direction, epsilon)
    if _released(parts):
        return releases_delta(parts, direction, epsilon, lambda rest, place: delta_in(rest, direction, place, rtol))
    if _allocated(parts):
        return allocation_delta(parts, direction, epsilon)
    if _only_values(parts):
        values = values_of(parts, hidden=False)
        return _asked(values, direction, rtol, epsilon=epsilon)
    return _on_the_grid(_around(parts, direction, epsilon), parts, direction, epsilon)


def upper_epsilon(parts: Parts, directions: tuple[Direction, ...], delta: float) -> float:
    """The upper end of :func:`epsilon_of`, for searches: without what only lower ends, or a grid that is never lower, cost."""
    fixed = _fixed(parts)
    if fixed and not _alike(fixed)[1] and chance(_alike(fixed)[0]) > delta:
        return _fixed_above_epsilon(_alike(fixed)[0], delta).upper
    if fixed or index_epsilon(parts) > 0.0 or _has_own_methods(parts):
        return epsilon_of(parts, directions, delta).upper
    values = values_of(parts, hidden=False)  # and masks
    return min(epsilon_of(values, directions, delta).upper, renyi_epsilon(parts, delta))


def delta_curve(parts: Parts, direction: Direction) -> Callable[[float], Found]:
    """Bounds of delta at every epsilon >= 0: where a grid is needed, one for all, precise to some 1e-9."""
    if _only_values(parts):
        return _values_curve(parts, direction)
    if direction == "replace" or _fixed(parts) or _has_own_methods(parts):
        return functools.partial(delta_in, parts, direction)
    try:
        sums = GridPair(parts, direction, 0.0, _ROUGH)
    except Unresolved:
        return functools.partial(delta_in, parts, direction)

    def bounds(epsilon: float) -> Found:
        around = _around(parts, direction, epsilon)
        return around.with_lower(sums.lower(epsilon), GRID).with_upper(sums.upper(epsilon), GRID)

    return bounds


def _values_curve(parts: Parts, direction: Direction) -> Callable[[float], Found]:
    values = values_of(parts, hidden=False)
    one_by_one = functools.partial(delta_in, parts, direction)
    if _fixed(parts) or len(values) > MOST_KINDS or not values or not SaddleLine().serves(values, direction):
        return one_by_one
    steps = step_losses(values, direction)
    if gaussian_mu(steps) is not None or len(steps) == steps[0].count == 1:
        return one_by_one
    nearby = NearbyDeltas(steps)

    def bounds(epsilon: float) -> Found:
        bracket = nearby.bracket(epsilon) if 0.0 < epsilon < largest_loss(steps) else None
        return one_by_one(epsilon) if bracket is None else Found(*bracket, LINE, LINE)

    return bounds


# --- noisy values alone -----------------------------------------------------------------------------------------------------


def _asked(
    values: Steps, direction: Direction, rtol: float, *, epsilon: float = 0.0, delta: float | None = None
) -> Found:
    """Bounds of epsilon at a delta, or of delta at an epsilon: the narrowest ends of all methods that serve, up to a narrow one."""
    if not values:
        return Found(0.0, 0.0, Gaussian.name, Gaussian.name)
    if delta is not None and chance(values) <= delta:
        return Found(0.0, 0.0, CHANCE, CHANCE)  # delta covers that the record takes part at all
    found = [(Bracket(0.0, 1.0 if delta is None else math.inf), NONE)]
    schedule, rare = len(values) > MOST_KINDS, RareSteps(rtol).serves(values, direction)
    for method in value_methods(rtol, schedule, rare):
        if not method.serves(values, direction):
            continue
        bracket = (
            method.delta(values, direction, epsilon) if delta is None else method.epsilon(values, direction, delta)
        )
        found.append((bracket, method.name))
        if bracket.settled or bracket.upper <= LEAST:
            break
    (below, name_below), (above, name_above) = (
        max(found, key=lambda one: one[0].lower),
        min(found, key=lambda one: one[0].upper),
    )
    return Found(below.lower, above.upper, name_below, name_above)


def _only_values(parts: Parts) -> bool:
    """Whether nothing but noisy values is released: no mask hides any, and no index set tells more."""
    return (
        not _allocated(parts)
        and not _released(parts)
        and index_epsilon(parts) == 0.0
        and values_of(parts, hidden=False) == values_of(parts, hidden=True)
    )


def _has_own_methods(parts: Parts) -> bool:
    """Whether no grid is asked of what masks hide and index sets tell."""
    return _only_values(parts) or _allocated(parts) or _released(parts)


def _allocated(parts: Parts) -> bool:
    """Whether some epochs are of random allocation; noisy values alone stand beside them."""
    return any(isinstance(part, RandomAllocation) for part in parts)


def _released(parts: Parts) -> bool:
    """Whether something is released that is no step."""
    return any(isinstance(part, LaplaceRelease | BlackBox) for part in parts)


# --- index sets and masks ---------------------------------------------------------------------------------------------------


def _within_samples(parts: Parts) -> bool:
    """Whether nothing is released of a record that is in no sample."""
    return not any(isinstance(part, IndexSteps) for part in parts)


def _around(parts: Parts, direction: Direction, epsilon: float) -> Found:
    """Bounds of delta by the values, with and without what else is released, and by Renyi curves."""
    outer, inner = values_of(parts, hidden=False), values_of(parts, hidden=True)
    pure = index_epsilon(parts)
    found = Found(0.0, 1.0)
    if _within_samples(parts):
        found = found.with_upper(chance(outer), CHANCE)
    if inner:
        alone = delta_in(inner, direction, epsilon)
        found = found.with_lower(alone.lower, f"{alone.below} of the values")
    if pure <= epsilon:
        alone = delta_in(outer, direction, math.nextafter(epsilon - pure, 0.0) if pure > 0.0 else epsilon)
        found = found.with_upper(alone.upper, ADDED if pure > 0.0 else f"{alone.above} without masks")
    for loss, count in _index_sets_alone(parts):
        lower, upper = loss.delta_bounds(epsilon=epsilon, count=count)
        found = found.with_lower(lower, LATTICE).with_upper(upper, LATTICE)
    return found.with_upper(renyi_delta(parts, epsilon), RENYI)


def _index_sets_alone(parts: Parts) -> list[tuple[IndexLoss, int]]:
    """The law of one release and the number of releases, where nothing but index sets of one mechanism is released."""
    index_sets = [part for part in parts if isinstance(part, IndexSteps)]
    mechanisms, count = {part.mechanism for part in index_sets}, sum(part.steps * part.groups for part in index_sets)
    if len(index_sets) < len(parts) or len(mechanisms) > 1 or count > MAX_RELEASES:
        return []
    return [(IndexLoss(one), count) for one in mechanisms if one.theta <= POINT_MASS]


def _on_the_grid(found: Found, parts: Parts, direction: Direction, epsilon: float) -> Found:
    """``found``, narrowed where it is wide and a grid serves."""
    if direction != "replace" and found.upper - found.lower > _NARROW * found.upper:
        lower, upper = grid_bounds(parts, direction, epsilon)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _with_more_than_values_epsilon(parts: Parts, direction: Direction, delta: float) -> Found:
    outer, inner = values_of(parts, hidden=False), values_of(parts, hidden=True)
    if outer and _within_samples(parts) and chance(outer) <= delta:
        return Found(0.0, 0.0, CHANCE, CHANCE)
    pure = index_epsilon(parts)
    found = Found(0.0, math.inf)
    values = functools.cache(lambda share: epsilon_in(outer, direction, share))
    if inner:
        least = values(delta) if inner == outer else epsilon_in(inner, direction, delta)
        found = found.with_lower(least.lower, f"{least.below} of the values")
    if pure == 0.0:
        found = found.with_upper(values(delta).upper, f"{values(delta).above} without masks")
    found = found.with_upper(renyi_epsilon(parts, delta), RENYI)
    for loss, count in _index_sets_alone(parts):
        lower, upper = loss.epsilon_bounds(delta=delta, count=count)
        found = found.with_lower(lower, LATTICE).with_upper(upper, LATTICE)
    if pure > 0.0:
        added = joint_epsilon(
            delta=delta,
            values=lambda share: values(share).upper,
            index_epsilon=pure,
            index_zcdp_rho=index_zcdp_rho(parts),
        )
        found = found.with_upper(added, ADDED)
    if direction != "replace" and found.upper - found.lower > _NARROW * found.upper:
        lower, upper = grid_epsilon(parts, direction, delta)
        found = found.with_lower(lower, GRID).with_upper(upper, GRID)
    return found


def _delta_is_at_most(delta: float, parts: Parts, direction: Direction, epsilon: float) -> bool:
    """Whether this is known: of a delta far below, no grid need say how far."""
    if _has_own_methods(parts):
        return delta_in(parts, direction, epsilon).upper <= delta
    found = _around(parts, direction, epsilon)
    if found.upper <= delta or direction == "replace":
        return found.upper <= delta
    return (
        grid_upper(parts, direction, epsilon, delta) <= delta
        or _on_the_grid(found, parts, direction, epsilon).upper <= delta
    )


# --- batches of a fixed size ------------------------------------------------------------------------------------------------


def _fixed(parts: Parts) -> tuple[FixedSizeStep, ...]:
    """The steps on batches of a fixed size, where parts are such; a composition holds them alone."""
    return tuple(part for part in parts if isinstance(part, FixedSizeStep))


def _alike(fixed: tuple[FixedSizeStep, ...]) -> tuple[Steps, bool]:
    """What is attained where the other records are alike; and whether all data attain no more: of all records, or one step."""
    steps = values_of(tuple(alike(step) for step in fixed), hidden=False)
    return steps, all(step.sampling_rate == 1.0 for step in steps) or sum(step.count for step in steps) == 1


def _fixed_epsilon(fixed: tuple[FixedSizeStep, ...], directions: tuple[Direction, ...], delta: float) -> Found:
    steps, exact = _alike(fixed)
    found = epsilon_of(steps, directions, delta)
    if exact or chance(steps) <= delta:  # the chance to be in a batch is that of Poisson's
        return found
    above = _fixed_above_epsilon(steps, delta)
    return Found(found.lower, above.upper, found.below, above.above)


def _fixed_delta(fixed: tuple[FixedSizeStep, ...], direction: Direction, epsilon: float) -> Found:
    steps, exact = _alike(fixed)
    found = delta_in(steps, direction, epsilon)
    if exact:
        return found
    above, about = Found(0.0, 1.0), max(found.lower, _LEAST_ABOUT)
    for _ in range(_PASSES):
        above = _fixed_above_delta(steps, epsilon, about)
        if above.upper <= _NEAR * about:
            break
        about = above.upper
    return Found(found.lower, above.upper, found.below, above.above)


def _fixed_above_epsilon(alike: Steps, delta: float) -> Found:
    if len(alike) > 1:  # sampling only helps
        return Found(0.0, Gaussian().epsilon(alike, "remove", delta).upper, above=Gaussian.name)
    return fixed_size_epsilon(alike[0], delta)


def _fixed_above_delta(alike: Steps, epsilon: float, about: float) -> Found:
    if len(alike) > 1:
        return Found(0.0, Gaussian().delta(alike, "remove", epsilon).upper, above=Gaussian.name)
    return fixed_size_delta(alike[0], epsilon, about)
