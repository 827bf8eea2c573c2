"""Trying to refute a conjecture: by enumeration, search, certificates or draws."""

import itertools
import math
import os
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dptheory import _validate
from dptheory.checks._certificate import WorstCase
from dptheory.checks._conjecture import Conjecture, ConjectureError, bad_result, described, guarded, line_of, stated
from dptheory.checks._equality import relative_difference
from dptheory.checks._evidence import Kind, stream
from dptheory.checks._law import count_outcomes, draws_for, pearson, power, probabilities
from dptheory.checks._mean import SIGMAS, Moments, estimate
from dptheory.checks._search import Range, smallest_slack
from dptheory.errors import ArgumentError

_MOST_SEEDS = 10**18
_SEARCHED_FIRST = 4096  # whole numbers with more points than this are searched first, then enumerated
_MOST_DRAWN = 12
_TRIALS = 2000
_CLEARLY = 1e-4
_OUTSIDE = 1e300  # a slack that no search takes for a violation, and whose differences are numbers


@dataclass(frozen=True, kw_only=True)
class Refutation:
    """What came of the attempt to refute a conjecture.

    Attributes:
        refuted: whether there is a counterexample. If not, the conjecture may still be wrong elsewhere, or by less than
            ``detectable``.
        kind: EXACT (every point of the ranges), SEARCH, CERTIFICATE (of worst cases) or MONTE_CARLO. Of a counterexample it is how
            it was found: EXACT where it is the first of all points in their order.
        relation: "==", "<=" or ">=": how the truth was claimed to lie to the claimed number.
        call: the claimed function's call at the counterexample, shrunk; otherwise at the point with the least to spare. Of a
            law with the outcome that is off most, as in ``claimed(n=2)[1]``.
        parameters: of that call.
        claimed, observed: there the claimed number, and the truth.
        standard_error: of ``observed``, where it was drawn.
        error: relative amount by which the claim is missed there; negative: what it has to spare. Of a law the effect w.
        detectable: relative error that would have been seen: of "==" at each of the points, of a bound if it were lower (or
            higher) by that much everywhere. inf where nothing would have been seen.
        points: how many sets of parameters were tried, each counted once.
        domain: how many there are in the ranges, those that ``where`` leaves out included; None where a range is not of whole
            numbers or a list.
        looked_at: how many points were looked at: tried, or left out by ``where``.
        samples: how many draws, or evaluations of the truth.
        finished: False where the budget ran out before all that was planned.
        seconds: what it took.
        seed: of search and draws.
    """

    refuted: bool
    kind: Kind
    relation: str
    call: str
    parameters: Mapping[str, Any]
    claimed: float
    observed: float
    standard_error: float | None
    error: float
    detectable: float
    points: int
    domain: int | None
    looked_at: int
    samples: int
    finished: bool
    seconds: float
    seed: int

    @property
    def summary(self) -> str:
        """The outcome in one sentence."""
        about = "" if self.standard_error is None else f" +- {self.standard_error:.2g}"
        if self.refuted:
            off = "" if math.isinf(self.error) else f": a relative error of {self.error:.3g}"
            return f"{self.call} = {self.claimed:.6g}, but the truth is {self.observed:.6g}{about}{off}"
        how = {
            Kind.EXACT: f"it holds at all {self.points} points of the ranges",
            Kind.SEARCH: f"a search over {self.points} points found nothing",
            Kind.CERTIFICATE: f"it holds against the worst cases at {self.points} points",
            Kind.MONTE_CARLO: f"{self.samples} draws at {self.points} points say nothing against it",
        }[self.kind]
        if not self.finished:
            unseen = self.domain is not None and self.looked_at < self.domain
            part = f", having looked at {self.looked_at} of the {self.domain} in the ranges" if unseen else ""
            fewer = self.kind is Kind.MONTE_CARLO and not part
            how = f"time ran out{' before all draws were made' if fewer else ''}; {how}{part}"
        if math.isinf(self.detectable):
            return f"{how}; no error would have been seen"
        if self.relation == "==":
            return f"{how}; a relative error of {self.detectable:.2g} at any of them would have been seen"
        if self.kind is Kind.MONTE_CARLO:  # draws say how near a bound may come, not how far it stays away
            tighter = "lower" if self.relation == "<=" else "higher"
            return (
                f"{how}; a bound {tighter} by {self.detectable:.2g} of itself everywhere would have been refuted; "
                f"nearest: {self.call} = {self.claimed:.6g}, drawn as {self.observed:.6g}{about}"
            )
        way = "above" if self.relation == "<=" else "below"
        return (
            f"{how}; the bound stays {way} the truth by {self.detectable:.2g} of itself or more, least at {self.call}"
        )


@dataclass(frozen=True)
class _Judged:
    """A claim against the truth at one point; refuted where ``error`` is above ``allowed``."""

    parameters: dict[str, Any]
    claimed: float
    observed: float
    error: float
    allowed: float
    certificate: bool

    @property
    def over(self) -> float:
        return self.error - self.allowed


def refute(conjecture: Conjecture, *, budget: float = 30.0, seed: int = 0) -> Refutation:
    """Look for parameters at which a conjecture is wrong, and say what error would have been seen.

    With ``truth``: whole numbers and lists are enumerated, the simplest points first, as far as the budget allows; where they
    have more than 4096 points together a search comes first. Otherwise a search (Hypothesis, then an optimiser from the worst
    points). With ``sampler`` or ``outcomes``: draws at all points where there are at most 12, otherwise at the middle, at
    corners and at random points; a difference counts from 5 standard errors on, and has to come again in fresh draws. A
    counterexample is shrunk before it is given.

    Args:
        conjecture: the claim.
        budget: seconds, > 0; inf sets no limit, so that an immense domain of whole numbers is gone through to its end. A call
            under way is finished.
        seed: of search and draws, 0..10^18.

    Returns:
        The counterexample, or what would have been seen. The same for the same seed, as long as the budget suffices.

    Raises:
        ValueError: an argument outside its range; as :class:`ConjectureError`, a function of the conjecture that fails or gives
            NaN, or ``where`` that leaves no point.

    Example: that 2^n bounds n^2 from above, which fails at one whole number.
        >>> from dptheory.checks import Conjecture, Range, refute
        >>> ranges = {"n": Range(0, 20, integer=True)}
        >>> mine = Conjecture(claimed=lambda n: 2**n, truth=lambda n: n**2, relation="<=", ranges=ranges)
        >>> refute(mine).summary
        'claimed(n=3) = 8, but the truth is 9: a relative error of 0.111'
    """
    _validate.instance("conjecture", conjecture, Conjecture)
    budget = _validate.real("budget", budget, 0.0, ends="(]")
    seed = _validate.integer("seed", seed, 0, _MOST_SEEDS)
    start = time.monotonic()
    found = (
        _by_truth(conjecture, start + budget, seed) if conjecture.truth else _by_draws(conjecture, start + budget, seed)
    )
    return Refutation(**found, relation=conjecture.relation, seconds=time.monotonic() - start, seed=seed)


# --- against a truth that is computed -----------------------------------------------------------------------------------


def _by_truth(conjecture: Conjecture, deadline: float, seed: int) -> dict[str, Any]:
    rows = _rows(conjecture.ranges)
    domain = None if rows is None else math.prod(map(_length, rows))
    looked = _Looked(conjecture)
    searched = domain is None or domain > _SEARCHED_FIRST
    finished = _search(looked, deadline, seed) if searched else True
    found_by_search = looked.refutes
    if rows is not None and not found_by_search:
        finished = _enumerate(looked, rows, deadline)
    judged = looked.worst
    if judged is None:
        raise _nothing_admitted(looked.count)
    refuted = judged.over > 0
    if found_by_search:
        judged = _shrunk(conjecture, judged, deadline)
    by_search = found_by_search or domain is None or not finished
    kind = Kind.CERTIFICATE if judged.certificate else Kind.SEARCH if by_search else Kind.EXACT
    seen = judged.allowed if conjecture.relation == "==" else judged.allowed - judged.error
    return {
        "refuted": refuted,
        "kind": kind,
        "call": conjecture.call(judged.parameters),
        "parameters": judged.parameters,
        "claimed": judged.claimed,
        "observed": judged.observed,
        "standard_error": None,
        "error": judged.error,
        "detectable": judged.allowed if refuted else seen,
        "points": looked.tried,
        "domain": domain,
        "looked_at": looked.count,
        "samples": looked.tried,
        "finished": finished or refuted,
    }


class _Looked:
    """What was looked at so far, each point once, and the worst point of those admitted."""

    def __init__(self, conjecture: Conjecture) -> None:
        self.conjecture = conjecture
        self.searched: dict[tuple[float, ...], float | None] = {}  # by place; None where ``where`` leaves the point out
        self.enumerated = 0  # those that the search had not looked at
        self.tried = 0
        self.worst: _Judged | None = None

    @property
    def count(self) -> int:
        return len(self.searched) + self.enumerated

    @property
    def refutes(self) -> bool:
        return self.worst is not None and self.worst.over > 0

    def at(self, point: dict[str, Any]) -> float | None:
        """By how much the claim is missed beyond what is allowed; None where ``where`` leaves the point out."""
        if not _admitted(self.conjecture, point):
            return None
        judged = _judge(self.conjecture, point)
        self.tried += 1
        if self.worst is None or judged.over > self.worst.over:
            self.worst = judged
        return judged.over


def _judge(conjecture: Conjecture, parameters: dict[str, Any]) -> _Judged:
    claimed, truth = stated(conjecture, "claimed", parameters), stated(conjecture, "truth", parameters)
    allowed, certificate = conjecture.tolerance, isinstance(truth, WorstCase)
    if isinstance(truth, WorstCase):
        allowed, truth = max(allowed, truth.gap + truth.defect), truth.dual
    error = _missed(conjecture, claimed, truth)
    return _Judged(parameters, float(claimed), float(truth), error, allowed, certificate)


def _missed(conjecture: Conjecture, claimed: Any, truth: Any) -> float:
    """Relative amount by which the claim is missed; of a bound relative to itself, and negative where it has to spare."""
    if abs(float(claimed) - float(truth)) <= conjecture.absolute_tolerance or claimed == truth:
        return 0.0
    if conjecture.relation == "==":
        return relative_difference(claimed, truth)
    gap = float(truth) - float(claimed) if conjecture.relation == "<=" else float(claimed) - float(truth)
    scale = max(abs(float(claimed)), abs(float(truth)) if gap > 0 else 0.0)
    return gap / scale if scale and math.isfinite(scale) else math.copysign(math.inf, gap)


def _enumerate(looked: _Looked, rows: Sequence[Sequence[Any]], deadline: float) -> bool:
    """Look at all points, the simplest first, up to the first that refutes; whether that ended within the budget."""
    for place in _places([_length(row) for row in rows]):
        enough = looked.worst is not None or looked.count >= _SEARCHED_FIRST
        if enough and time.monotonic() > deadline:
            return False
        if place in looked.searched:
            continue
        looked.enumerated += 1
        looked.at(_named(looked.conjecture, rows, place))
        if looked.refutes:
            break
    return True


def _search(looked: _Looked, deadline: float, seed: int) -> bool:
    """Search for a point that refutes; whether the search ran to its end."""
    conjecture = looked.conjecture
    box = {
        name: one if isinstance(one, Range) else Range(0, max(len(one) - 1, 1), integer=True)
        for name, one in conjecture.ranges.items()
    }

    def slack(**shares: float) -> float:
        place = _place(conjecture, shares)
        if place not in looked.searched:
            point = {
                name: share if isinstance(one := conjecture.ranges[name], Range) else one[int(at)]
                for (name, share), at in zip(shares.items(), place, strict=True)
            }
            looked.searched[place] = looked.at(point)
        over = looked.searched[place]
        return _OUTSIDE if over is None else -over

    _, _, _, finished = smallest_slack(slack, box, deadline - time.monotonic(), seed, enough=-_CLEARLY)
    return finished


def _place(conjecture: Conjecture, shares: Mapping[str, float]) -> tuple[float, ...]:
    """A point of the search as the enumeration names it: of whole numbers and lists the place."""
    ranges = conjecture.ranges
    return tuple(
        (int(share) - round(one.low) if one.integer else share)
        if isinstance(one := ranges[name], Range)
        else min(int(share), len(one) - 1)
        for name, share in shares.items()
    )


def _shrunk(conjecture: Conjecture, judged: _Judged, deadline: float) -> _Judged:
    def refutes(point: dict[str, Any]) -> bool:
        return time.monotonic() < deadline and _admitted(conjecture, point) and _judge(conjecture, point).over > 0

    return _judge(conjecture, shrink(judged.parameters, conjecture.ranges, refutes))


# --- against draws ------------------------------------------------------------------------------------------------------


def _by_draws(conjecture: Conjecture, deadline: float, seed: int) -> dict[str, Any]:
    at = law_at if conjecture.outcomes else mean_at
    rows = _rows(conjecture.ranges)
    domain = None if rows is None else math.prod(map(_length, rows))
    left_out = 0
    if rows is None or domain is None or domain > _MOST_DRAWN:
        points = list(_chosen(conjecture, seed))
    else:
        listed = [_named(conjecture, rows, place) for place in _places([_length(row) for row in rows])]
        points = [point for point in listed if _admitted(conjecture, point)]
        left_out = len(listed) - len(points)
    if not points:
        raise _nothing_admitted(left_out or _TRIALS)
    samples = 0
    every: list[Drawn] = []
    refuting: Drawn | None = None

    def judge(point: dict[str, Any], left: float, part: str) -> Drawn:
        nonlocal samples
        found = at(conjecture, point, left, seed, part)
        samples += found.count
        return found

    def confirmed(found: Drawn, left: float) -> Drawn | None:
        again = judge(found.parameters, left, "again") if found.refuted else None
        return again if again and again.refuted else None

    for i, point in enumerate(points):
        if every and time.monotonic() > deadline:
            break
        share = (deadline - time.monotonic()) / (len(points) - i)
        every.append(judge(point, share / 2, "first"))
        refuting = confirmed(every[-1], share)
        if refuting:
            break
    for i in [i for i, one in enumerate(every) if not one.finished]:  # the time that others left
        left = deadline - time.monotonic()
        if refuting or left <= 0:
            break
        every[i] = judge(points[i], left / 2, "first")
        refuting = confirmed(every[i], left / 2)

    if refuting is not None:

        def refutes(point: dict[str, Any]) -> bool:
            left = deadline - time.monotonic()
            if left <= 0 or not _admitted(conjecture, point):
                return False
            return all(judge(point, left / 4, part).refuted for part in ("first", "again"))

        simplest = shrink(refuting.parameters, conjecture.ranges, refutes)
        if simplest != refuting.parameters:
            refuting = judge(simplest, max(deadline - time.monotonic(), 1.0), "again")
    shown = refuting or max(every, key=lambda one: one.error)
    seen = max if conjecture.relation == "==" else min
    return {
        "refuted": refuting is not None,
        "kind": Kind.MONTE_CARLO,
        "call": conjecture.call(shown.parameters) + ("" if shown.outcome is None else f"[{shown.outcome}]"),
        "parameters": shown.parameters,
        "claimed": shown.claimed,
        "observed": shown.observed,
        "standard_error": shown.standard_error,
        "error": shown.error,
        "detectable": seen(one.detectable for one in every),
        "points": len(every),
        "domain": domain,
        "looked_at": len(every) + left_out,
        "samples": samples,
        "finished": refuting is not None or (len(every) == len(points) and all(one.finished for one in every)),
    }


def _chosen(conjecture: Conjecture, seed: int) -> Iterator[dict[str, Any]]:
    """Up to 12 admitted points: the middle, corners, then random ones."""
    names = list(conjecture.ranges)
    rng = np.random.default_rng(seed)
    corners = itertools.islice(itertools.product((0.0, 1.0), repeat=len(names)), 4)
    shares = itertools.chain(
        [(0.5,) * len(names)], corners, (tuple(rng.random(len(names)).tolist()) for _ in range(_TRIALS))
    )
    seen: list[dict[str, Any]] = []
    for row in shares:
        point = {
            name: one.value(share) if isinstance(one, Range) else one[min(int(share * len(one)), len(one) - 1)]
            for (name, one), share in zip(conjecture.ranges.items(), row, strict=True)
        }
        if point not in seen and _admitted(conjecture, point):
            seen.append(point)
            yield point
        if len(seen) == _MOST_DRAWN:
            return


# --- points -------------------------------------------------------------------------------------------------------------


def _rows(ranges: Mapping[str, Range | Sequence[Any]]) -> list[Sequence[Any]] | None:
    """The values of each parameter, the simplest first; None where one is not of whole numbers or a list."""
    rows: list[Sequence[Any]] = []
    for one in ranges.values():
        if isinstance(one, Range) and not one.integer:
            return None
        rows.append(range(round(one.low), round(one.high) + 1) if isinstance(one, Range) else one)
    return rows


def _length(row: Sequence[Any]) -> int:
    """Also of more whole numbers than ``len`` can count."""
    return row.stop - row.start if isinstance(row, range) and row.step == 1 else len(row)


def _named(conjecture: Conjecture, rows: Sequence[Sequence[Any]], place: tuple[int, ...]) -> dict[str, Any]:
    return {name: row[i] for name, row, i in zip(conjecture.ranges, rows, place, strict=True)}


def _places(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every place in rows of these lengths, by their sum and then in order; none is kept."""
    for total in range(sum(lengths) - len(lengths) + 1):
        yield from _places_of_sum(lengths, total)


def _places_of_sum(lengths: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    if not lengths:
        yield ()
        return
    rest = sum(lengths[1:]) - len(lengths) + 1  # the largest sum that the others can have
    for first in range(max(0, total - rest), min(lengths[0] - 1, total) + 1):
        for others in _places_of_sum(lengths[1:], total - first):
            yield (first, *others)


def _admitted(conjecture: Conjecture, point: Mapping[str, Any]) -> bool:
    return conjecture.where is None or bool(guarded("where", conjecture.where, point))


def _nothing_admitted(points: int) -> ConjectureError:
    return ConjectureError(f"where must leave some of the {points} points that were tried, got none")


# --- From a counterexample to a simpler one


_MOST_TRIALS = 300


def shrink(
    parameters: Mapping[str, Any],
    ranges: Mapping[str, Range | Sequence[Any]],
    refutes: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """The parameters made simpler, one after the other, as long as they refute.

    Whole numbers go towards the low end, others to fewer digits, values towards the first of their row. ``refutes``
    is asked at most 300 times; it says no where time is over.
    """
    best, asked = dict(parameters), 0
    moved = True
    while moved:
        moved = False
        for name, where in ranges.items():
            for value in _simpler(best[name], where):
                if asked == _MOST_TRIALS:
                    return best
                asked += 1
                if refutes(best | {name: value}):
                    best[name] = value
                    moved = True
                    break
    return best


def _simpler(value: Any, where: Range | Sequence[Any]) -> Iterator[Any]:
    """Simpler values, the simplest first; each is strictly simpler than the value, so that shrinking ends."""
    if not isinstance(where, Range):
        yield from where[: next(i for i, one in enumerate(where) if one is value or bool(one == value))]
    elif where.integer:
        low = round(where.low)
        halves = (value - ((value - low) >> k) for k in range(1, (value - low).bit_length()))
        whole = {low, low + 1, low + 2, *halves}
        yield from sorted(one for one in whole if low <= one < value)
    else:
        tried = {
            0.0,
            1.0,
            2.0,
            0.5,
            -1.0,
            float(where.low),
            float(where.high),
            *(float(f"{value:.{n}g}") for n in (1, 2, 3, 6)),
        }
        fitting = {
            one for one in tried if where.low <= one <= where.high and _written_length(one) < _written_length(value)
        }
        yield from sorted(fitting, key=_written_length)


def _written_length(value: float) -> tuple[int, float]:
    return len(repr(float(value)).replace(".0", "")), abs(value)


# --- A conjecture at one point against draws: of a mean, or of a law


_MIN_DRAWS = 2_000


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What draws say at one point.

    Attributes:
        refuted: the claim is missed by more than 5 standard errors.
        claimed, observed, standard_error: the two numbers, and how well the second is known.
        error: relative amount by which the claim is missed; negative: what a bound has to spare.
        detectable: the relative error that would have been seen.
        outcome: of a law, the outcome that is off most; the numbers are its probabilities.
    """

    parameters: dict[str, Any]
    refuted: bool
    claimed: float
    observed: float
    standard_error: float
    error: float
    detectable: float
    count: int
    finished: bool
    outcome: int | None = None


def mean_at(conjecture: Conjecture, parameters: dict[str, Any], budget: float, seed: int, part: str) -> Drawn:
    """The claimed mean against that of the sampler; an error counts from 5 standard errors on, 10 are seen for sure."""
    claimed = float(stated(conjecture, "claimed", parameters))
    if not math.isfinite(claimed):
        raise bad_result(
            "claimed", conjecture.claimed, parameters, f"must be finite where draws judge it, got {claimed}"
        )

    def scale(found: Moments) -> float:
        return max(abs(claimed), abs(found.mean) if conjecture.relation == "==" else 0.0) or math.inf

    def reach(found: Moments) -> float:
        size = scale(found)
        return math.inf if math.isinf(size) else 2 * SIGMAS * found.standard_error / size

    sampler = _sampler(conjecture, "sampler", parameters)
    own = stream(seed, f"{conjecture.call(parameters)}, {part}")
    found = estimate(sampler, lambda m: reach(m) <= conjecture.resolution, budget, own, conjecture.row_bytes)
    gap = {"==": abs(found.mean - claimed), "<=": found.mean - claimed, ">=": claimed - found.mean}[conjecture.relation]
    rounding = max(conjecture.absolute_tolerance, conjecture.tolerance * max(abs(claimed), abs(found.mean)))
    size, enough = scale(found), found.count >= _MIN_DRAWS
    error = gap / size if math.isfinite(size) else math.copysign(math.inf, gap) if gap else 0.0
    spare = 0.0 if conjecture.relation == "==" else max(-error, 0.0)
    return Drawn(
        parameters=parameters,
        refuted=enough and gap > SIGMAS * found.standard_error + rounding,
        claimed=claimed,
        observed=found.mean,
        standard_error=found.standard_error,
        error=error,
        detectable=spare + reach(found) if enough else math.inf,
        count=found.count,
        finished=enough and reach(found) <= conjecture.resolution,
    )


def law_at(conjecture: Conjecture, parameters: dict[str, Any], budget: float, seed: int, part: str) -> Drawn:
    """The claimed probabilities against the outcomes drawn, by Pearson's chi-square; see :class:`LawCheck`."""
    given = guarded("claimed", conjecture.claimed, parameters)
    try:
        law = probabilities("claimed", np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        says = f"must give two or more positive probabilities with sum 1, got {given}"
        raise bad_result("claimed", conjecture.claimed, parameters, says) from None
    critical, noncentrality = power(law.size)
    draws = draws_for(law.size, conjecture.resolution)
    own = stream(seed, f"{conjecture.call(parameters)}, {part}")
    sampler = _sampler(conjecture, "outcomes", parameters, law.size)
    counts = count_outcomes(sampler, law.size, draws, budget, own, conjecture.row_bytes)
    count = int(counts.sum())
    observed = counts / count
    deviation = (observed - law) / np.sqrt(law * (1 - law) / count)
    worst = int(np.argmax(np.abs(deviation)))
    statistic, enough = pearson(counts, law), count >= _MIN_DRAWS
    return Drawn(
        parameters=parameters,
        refuted=enough and statistic > critical,
        claimed=float(law[worst]),
        observed=float(observed[worst]),
        standard_error=math.sqrt(float(law[worst] * (1 - law[worst])) / count),
        error=math.sqrt(statistic / count),
        detectable=math.sqrt(noncentrality / count) if enough else math.inf,
        count=count,
        finished=enough and count >= draws,
        outcome=worst,
    )


def _sampler(
    conjecture: Conjecture, role: str, parameters: dict[str, Any], outcomes: int | None = None
) -> Callable[[np.random.Generator, int], Any]:
    """The user's sampler at one point; what it draws is checked here, so that the error names it."""
    function = getattr(conjecture, role)

    def draw(rng: np.random.Generator, count: int) -> Any:
        drawn = np.asarray(guarded(role, function, parameters, rng, count))
        numbers = drawn.dtype.kind in ("iu" if outcomes else "biuf")
        inside = numbers and (((drawn >= 0) & (drawn < outcomes)).all() if outcomes else bool(np.isfinite(drawn).all()))
        if drawn.shape != (count,) or not inside:
            what = f"whole numbers 0..{outcomes - 1}" if outcomes else "finite numbers"
            got = f"shape {drawn.shape}" if drawn.shape != (count,) else f"{drawn[:5]}"
            raise bad_result(role, function, parameters, f"must give {count} {what}, shape ({count},), got {got}")
        return drawn.astype(np.intp if outcomes else np.float64)

    return draw


# --- The conjectures that a file of the user's defines


_MODULE = "dptheory_conjectures"


def read_conjectures(path: str | os.PathLike[str]) -> dict[str, Conjecture]:
    """Run a Python file and give the :class:`Conjecture` objects that it defines, by their names, in their order.

    The file is run as any Python program is. Names with a leading underscore are left out.

    Args:
        path: the file.

    Returns:
        One or more conjectures by name.

    Raises:
        ValueError: no path; as :class:`ConjectureError`, with the file and the line, a file that does not run or defines none.
        OSError: the file cannot be read.

    Example: a file with one line that matters.
        >>> import pathlib, tempfile
        >>> from dptheory.checks import read_conjectures
        >>> text = '''
        ... from dptheory.checks import Conjecture
        ... doubled = Conjecture(claimed=lambda n: 2 * n, truth=lambda n: n + n, ranges={"n": range(10)})
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.py")
        ...     _ = file.write_text(text)
        ...     list(read_conjectures(file))
        ['doubled']
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ArgumentError("path", "be that of a Python file", path)
    name = str(path)
    try:
        code = compile(Path(path).read_bytes(), name, "exec")
    except SyntaxError as error:  # also of bytes that are no UTF-8
        line = f", line {error.lineno}" if error.lineno else ""
        raise ConjectureError(f"{name}{line}: {error.msg}") from error
    except ValueError as error:
        raise ConjectureError(f"{name}: {error}") from error
    found = {key: value for key, value in _run(code, name).items() if isinstance(value, Conjecture)}
    found = {key: value for key, value in found.items() if not key.startswith("_")}
    if not found:
        raise ConjectureError(
            f"{name} must define a Conjecture, as in claim = Conjecture(claimed=..., truth=..., ranges=...)"
        )
    return found


def refute_file(
    path: str | os.PathLike[str], *, names: Iterable[str] = (), budget: float = 30.0, seed: int = 0
) -> dict[str, Refutation]:
    """Try to refute the conjectures of a file: :func:`read_conjectures`, then :func:`refute` for each.

    Args:
        path: the file, which is run.
        names: which of its conjectures; all where none is given.
        budget: seconds for one conjecture, > 0; inf sets no limit.
        seed: of search and draws, 0..10^18.

    Returns:
        The outcomes by the names of the conjectures.

    Raises:
        ValueError: a name that the file does not define, or an argument outside its range; as :class:`ConjectureError`, with the
            file and the line, what goes wrong in the file.
        OSError: the file cannot be read.

    Example: a file with one line that matters.
        >>> import pathlib, tempfile
        >>> from dptheory.checks import refute_file
        >>> text = '''
        ... from dptheory.checks import Conjecture
        ... doubled = Conjecture(claimed=lambda n: 2 * n, truth=lambda n: n * n, ranges={"n": range(10)})
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.py")
        ...     _ = file.write_text(text)
        ...     refute_file(file)["doubled"].call
        'claimed(n=1)'
    """
    wanted = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in wanted):
        raise ArgumentError("names", "be a row of names", names)
    found = read_conjectures(path)
    for name in wanted:
        if name not in found:
            raise ArgumentError("names", f"be among {', '.join(found)}", name)
    return {name: refute(found[name], budget=budget, seed=seed) for name in wanted or found}


def _run(code: types.CodeType, name: str) -> dict[str, object]:
    """The names that the file leaves behind. Its module stays known, as dataclasses of the file look themselves up there."""
    module = types.ModuleType(_MODULE)
    module.__file__ = name
    sys.modules[_MODULE] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise ConjectureError(f"{line_of(error, name) or f'{name}: '}{described(error)}") from error
    return dict(vars(module))
