"""Successive halving over the points: a sweep of the stride, many short pilots, fewer longer ones, whole ones, and a duel."""

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.planning import Candidate
from dptheory.training.planning._pilot import Job, Outcome, Score
from dptheory.training.planning._point import AVERAGES, CONSTANT, SCHEDULES, USUAL, Point, Range, Schedule, Usual

# --- Neighbouring points share evidence: a Gaussian process over the points, from the noisy scores of some of them


Array = NDArray[np.float64]
_NOISES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Standard deviations of a score, in those of all scores, among which the likelihood chooses."""
_JITTER = 1e-8


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """What the scores say of every place.

    Attributes:
        mean: expected score, shape (places,).
        deviation: its standard deviation, shape (places,).
        noise: estimated standard deviation of one score.
    """

    mean: Array
    deviation: Array
    noise: float


def pooled(places: Array, scores: Array, everywhere: Array) -> Pooled:
    r"""The posterior of a Gaussian process with covariance :math:`s^2\exp(-|x-y|^2/2)` and noise of a variance to be found.

    s is the standard deviation of the scores, their mean the prior mean, and the variance of the noise the likeliest of six.

    Args:
        places: where scores are known, shape (scores, coordinates), scaled so that 1 is a step after which scores may differ.
        scores: shape (scores,), finite; two at least.
        everywhere: where they are asked for, shape (places, coordinates).

    Returns:
        Mean and deviation at every place.
    """
    middle = float(scores.mean())
    scale = float(scores.std())
    if scale == 0:
        return Pooled(mean=np.full(len(everywhere), middle), deviation=np.zeros(len(everywhere)), noise=0.0)
    values = (scores - middle) / scale
    alike = _covariance(places, places)
    noise, lower = max(
        ((noise, _factor(alike, noise)) for noise in _NOISES), key=lambda one: _log_likelihood(one[1], values)
    )
    weights = np.linalg.solve(lower.T, np.linalg.solve(lower, values))
    across = _covariance(everywhere, places)
    spread = np.linalg.solve(lower, across.T)
    variance = np.maximum(1.0 - (spread**2).sum(0), 0.0)
    return Pooled(mean=middle + scale * (across @ weights), deviation=scale * np.sqrt(variance), noise=noise * scale)


def _covariance(some: Array, others: Array) -> Array:
    squares = (some**2).sum(1)[:, None] + (others**2).sum(1)[None] - 2.0 * some @ others.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / 2.0))


def _factor(alike: Array, noise: float) -> Array:
    return np.asarray(np.linalg.cholesky(alike + (noise**2 + _JITTER) * np.eye(len(alike))), float)


def _log_likelihood(lower: Array, values: Array) -> float:
    rest = np.linalg.solve(lower, values)
    return float(-0.5 * rest @ rest - np.log(np.diag(lower)).sum())


Evaluate = Callable[[Sequence[Job]], list[Outcome]]
Predict = Callable[[Sequence[Point]], Array]

MOMENTA = (0.0, 0.9)
_SWEPT = tuple(math.exp(x) for x in np.arange(-10.0, 4.1, 1.4))
"""Strides that the sweep tries."""
_AROUND = tuple(math.exp(x) for x in np.arange(-3.0, 3.1, 0.5))
"""Strides of the grid, in the best of the sweep."""
_BATCH_SCALE, _EPOCHS_SCALE, _CLIP_SCALE, _STRIDE_SCALE = math.log(6.0), math.log(6.0), 2.0, 1.0
"""How far points may lie apart, in logarithms, until their scores tell little about each other."""
_SHAPE_STEP = 0.6
"""The same for two schedules, momenta or averages."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What the user has fixed; None for what is to be chosen."""

    clip_norm: float | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    schedule: Schedule | None = None
    average: float | None = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many pilots each round makes, and how long they are.

    Attributes:
        spread: pilots at places that are spread over all points.
        guided: pilots at places where the score may be best, given all so far.
        short: most steps of these.
        kept: a third of the pilots of the second round.
        middle: most steps of these.
        finalists: a third of the pilots of the last round.
        whole: most steps of these, and of the duel's.

    Each is 1 to 1e6.

    Raises:
        ValueError: another number.
    """

    spread: int
    guided: int
    short: int
    kept: int
    middle: int
    finalists: int
    whole: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _validate.store(self, **{name: _validate.integer(name, value, 1, _MOST)})


_MOST = 10**6
FULL = Effort(spread=48, guided=48, short=60, kept=20, middle=300, finalists=6, whole=2000)
SMALL_BATCH, LARGE_BATCH = 64, 128
_SWEEP_STEPS = 40
_GUIDED_AT_ONCE = 10
_PROPOSED = 0.25
"""Share of the points, those of the least predicted loss, among which the first pilots are."""
_FEW_FOLDS = 3
_FEWEST = 8
"""Pilots of a round, however little time there is."""
_DUELLISTS = 3
"""Points of the last round that meet the usual choices."""
_DUELS = 3
"""Pilots of each of them at least, all with the same seeds."""
_JUDGED = 5000
_SPARED = 0.15
"""Share of its time that a search spares for what comes after it, at least: its rounds take shares of what is left."""


class Pace:
    """Time that is left, and what a step takes: from the pilots so far, so that a search that goes on takes the same way.

    Args:
        seconds: in all.
        workers: pilots at the same time.
    """

    def __init__(self, seconds: float, workers: int) -> None:
        self._seconds, self.workers = seconds, workers
        self._spent = 0.0
        self._steps = self._last = 0.0

    def took(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
        """Note pilots that have ended."""
        self._last = math.fsum(one.seconds for one in outcomes)
        self._steps = float(sum(job.most_steps for job in jobs))  # where a pilot makes fewer, they are larger
        self._spent += self._last

    def steps(self, share: float, *, slower: float = 1.0) -> float:
        """Steps, of all pilots together, for a share of the time left, if each takes ``slower`` times that of the last round."""
        left = max(0.0, self._seconds * self.workers - self._spent)
        return share * left * self._steps / max(self._last * slower, 1e-9)

    def enough(self, steps: float, *, slower: float = 1.0) -> float:
        """Seconds in all in which a search spares time for so many steps, each ``slower`` times as long as those of the last round.

        With more time than it had, a search takes shares of what is more, and spares ``_SPARED`` of it at least.
        """
        more = steps * slower * self._last / max(self._steps, 1.0)
        return (self._spent + more / _SPARED) / self.workers

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._seconds - self._spent / self.workers)


def work(job: Job) -> int:
    """What a pilot costs, in records that it goes through; to judge it costs about so much as some thousands."""
    return _JUDGED + job.most_steps * job.batch_size


def least_work(effort: Effort, *, folds: int, swept: bool) -> int:
    """What the pilots cost, at most, that a search makes however little time it has."""
    later = _FEW_FOLDS * (_FEWEST + effort.finalists) + (_DUELLISTS + len(USUAL)) * max(_DUELS, folds)
    rounds = [
        (2 * len(_SWEPT) if swept else 0, _SWEEP_STEPS * SMALL_BATCH),
        (2 * _FEWEST, effort.short * SMALL_BATCH),
        (later, effort.short * LARGE_BATCH),
    ]
    return sum(pilots * (_JUDGED + records) for pilots, records in rounds)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A finalist.

    Attributes:
        point: what was tried.
        scores: of its pilots, by fold.
    """

    point: Point
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """How the search ended.

    Attributes:
        best: the choice.
        finalists: it and the others of the duel, best first.
        points: all points of the grid.
        steps: most steps of the pilots of the last round.
        pooled: what the pilots of the last round and the duel say of them: the metric on records kept aside, in its own unit.
        ahead: how far the choice is above the best usual point, in this metric; None if it is one.
        usual: whose point the choice is next to, if it is one.
    """

    best: Tried
    finalists: tuple[Tried, ...]
    points: tuple[Point, ...]
    steps: int
    pooled: Pooled
    ahead: Range | None
    usual: str


class _Round:
    """The scores of one round, at places of the grid."""

    def __init__(self, search: "Search") -> None:
        self._search = search
        self.places: list[int] = []
        self._scores: list[Score] = []
        self._folds: list[int] = []

    def add(
        self,
        places: Sequence[int],
        *,
        folds: Sequence[int],
        most_steps: int,
        batch_size: int,
        seed: int | None = None,
    ) -> None:
        """A pilot of each place, each with its own fold, and with one of its own where no seed is given."""
        search = self._search
        jobs = [
            search.job(search.points[place], most_steps=most_steps, batch_size=batch_size, fold=fold, seed=seed)
            for place, fold in zip(places, folds, strict=True)
        ]
        outcomes = search.evaluate(jobs)
        for job, place, outcome in zip(jobs, places, outcomes, strict=True):
            for average, other in search.alike(place).items():
                self.places.append(other)
                self._scores.append(outcome.scores[average])
                self._folds.append(job.fold)

    def add_to_all(self, places: Sequence[int], *, folds: int, most_steps: int, batch_size: int) -> None:
        """A pilot of each place on each of the folds, fold by fold."""
        numbers = [fold for fold in range(folds) for _ in places]
        self.add([*places] * folds, folds=numbers, most_steps=most_steps, batch_size=batch_size)

    def join(self, other: "_Round") -> None:
        """Take over the scores of another round."""
        self.places += other.places
        self._scores += other._scores
        self._folds += other._folds

    def tried(self) -> list[Tried]:
        """Every place with its scores."""
        return [
            Tried(
                point=self._search.points[place],
                scores=tuple(s for at, s in zip(self.places, self._scores, strict=True) if at == place),
            )
            for place in dict.fromkeys(self.places)
        ]

    def pooled(self, worst: float) -> Pooled:
        """The posterior; scores below the quantile ``worst`` count as that quantile, as how bad the bad ones are says nothing."""
        values = self._values(_guide)
        return self._posterior(np.maximum(values, np.quantile(values, worst)))

    def paired(self, worst: float, of: Callable[[Score], float]) -> Pooled:
        """The same where each place has a pilot on each fold: what a fold adds to all of its scores is taken out first."""
        values, folds = self._values(of), np.array(self._folds)
        for fold in np.unique(folds):
            values[folds == fold] += values.mean() - values[folds == fold].mean()
        return self._posterior(np.maximum(values, np.quantile(values, worst)))

    def _values(self, of: Callable[[Score], float]) -> Array:
        return _finite(np.array([of(score) for score in self._scores]))

    def _posterior(self, values: Array) -> Pooled:
        return pooled(self._search.coordinates[self.places], values, self._search.coordinates)


class Search:
    """Successive halving.

    Args:
        candidates: batches and epochs, with their noise.
        evaluate: runs pilots.
        pace: the time that they may take.
        predict: expected loss of points, before any pilot.
        clips: to choose from.
        fixed: what the user has fixed.
        folds: parts of the public records, on each of which a place of the later rounds has a pilot; 1 for simulated records.
        seed: of the search and its pilots.
        phase: told in words what comes next.
    """

    def __init__(
        self,
        *,
        candidates: Sequence[Candidate],
        evaluate: Evaluate,
        pace: Pace,
        predict: Predict,
        clips: Sequence[float],
        fixed: Fixed,
        folds: int,
        seed: int,
        phase: Callable[[str], None],
    ) -> None:
        self._evaluate, self._folds, self._fixed, self._phase = evaluate, folds, fixed, phase
        self._pace = pace
        self._candidates = candidates
        self._clips, self._predict = tuple(clips), predict
        self._random = np.random.default_rng(seed)
        self._jobs = 0
        self.points: tuple[Point, ...] = ()
        self.coordinates: Array = np.zeros((0, 0))
        self._place: dict[Point, int] = {}

    def run(self, effort: Effort) -> Found:
        """A sweep, many short pilots, fewer longer ones, whole ones."""
        self._phase("learning rates")
        self._lay_out(self._sweep())
        self._phase("short pilots")
        first = _Round(self)
        many = min(1.0, self._pace.steps(0.3) / ((effort.spread + effort.guided) * effort.short))
        spread, guided = (max(_FEWEST, round(many * count)) for count in (effort.spread, effort.guided))
        drawn = self._spread(spread)  # fewer, where most is fixed
        first.add(drawn, **self._short(len(drawn), effort))
        everywhere = np.full(len(self.points), True)
        for start in range(0, guided, _GUIDED_AT_ONCE):
            hopeful = self._hopeful(first.pooled(0.5), min(_GUIDED_AT_ONCE, guided - start), everywhere)
            first.add(hopeful, **self._short(len(hopeful), effort))
        few = min(_FEW_FOLDS, self._folds)
        pilots = _FEW_FOLDS * max(_FEWEST, round(many * effort.kept))
        middle = _within(effort.middle, self._pace.steps(0.4, slower=2.0) / pilots, least=effort.short)
        self._phase("longer pilots")
        second = self._deepened(
            first.pooled(0.5), share=0.1, places=pilots // few, folds=few, most_steps=middle, apart=0.3
        )
        pilots = _FEW_FOLDS * effort.finalists
        whole = _within(effort.whole, self._pace.steps(0.4) / pilots, least=middle)  # the duel takes a third more
        batch = LARGE_BATCH
        if whole < effort.whole:
            # rather smaller batches than fewer steps, which are longer: those that are too long diverge
            records, whole = LARGE_BATCH * whole, min(effort.whole, 2 * whole)
            batch = math.ceil(records / whole)
        self._phase("longest pilots")
        last = self._deepened(
            second.paired(0.25, _guide),
            share=0.03,
            places=max(2, pilots // self._folds),
            folds=self._folds,
            most_steps=whole,
            apart=0.1,
            batch_size=batch,
        )
        known = last.paired(0.0, _guide)
        ranked = sorted(dict.fromkeys(last.places), key=lambda place: -known.mean[place])
        usual = self._usual()
        self._phase("duel with usual settings")
        duel = self._duel([*ranked[:_DUELLISTS], *usual.values()], most_steps=whole, batch_size=batch)
        last.join(duel)
        metric = last.paired(0.0, lambda score: score.aside)  # what the user is told is not of the guide
        whose = {
            self.points[other]: name for name, place in reversed(usual.items()) for other in self.alike(place).values()
        }
        decided = decide(duel.tried(), whose)
        return Found(
            best=decided[0],
            finalists=tuple(decided),
            points=self.points,
            steps=whole,
            pooled=metric,
            ahead=ahead_of_usual(decided, whose),
            usual=whose.get(decided[0].point, ""),
        )

    def _duel(self, places: Sequence[int], *, most_steps: int, batch_size: int) -> _Round:
        """Pilots of all places with the same seeds: batches and noise that are a place's good luck are the others' too."""
        found = _Round(self)
        one_each = list({tuple(sorted(self.alike(place).values())): place for place in reversed(places)}.values())
        for number in range(max(_DUELS, self._folds)):
            folds = [number % self._folds] * len(one_each)
            found.add(one_each, folds=folds, most_steps=most_steps, batch_size=batch_size, seed=self._seed())
        return found

    def _usual(self) -> dict[str, int]:
        """The places next to the usual choices, as far as these are not fixed, by whose they are."""
        return {name: self._next_to(usual) for name, usual in USUAL.items()}

    def _next_to(self, usual: Usual) -> int:
        one = self._candidates[0]
        size, most = usual.size(round(one.batch_size / one.sampling_rate)), max(c.epochs for c in self._candidates)
        distances = [
            (
                round(abs(math.log(p.batch_size / size)), 9),
                most - p.epochs,
                p.schedule != CONSTANT,
                (p.momentum > 0) != (usual.momentum > 0),
                abs(p.average - usual.average),
                abs(math.log(p.clip_norm / usual.clip_norm)),
                abs(math.log(p.stride / usual.stride)),
            )
            for p in self.points
        ]
        return min(range(len(self.points)), key=distances.__getitem__)

    def _deepened(
        self,
        known: Pooled,
        *,
        share: float,
        places: int,
        folds: int,
        most_steps: int,
        apart: float,
        batch_size: int = LARGE_BATCH,
    ) -> _Round:
        """A round of longer pilots: half at the best places of the round before, half where the score may be best, given those so far.

        Args:
            known: of the round before.
            share: of all places, the best of that round, among which the second half is.
            places: number of pilots on each fold.
            folds: number of folds.
            most_steps: of each pilot.
            apart: how far the first half are from each other.
            batch_size: of each pilot.
        """
        found = _Round(self)
        first = self._best(known.mean, (places + 1) // 2, apart=apart)
        found.add_to_all(first, folds=folds, most_steps=most_steps, batch_size=batch_size)
        among = known.mean >= np.quantile(known.mean, 1.0 - share)
        for start in range(len(first), places, _GUIDED_AT_ONCE // 2):
            hopeful = self._hopeful(found.paired(0.25, _guide), min(_GUIDED_AT_ONCE // 2, places - start), among)
            found.add_to_all(hopeful, folds=folds, most_steps=most_steps, batch_size=batch_size)
        return found

    def _short(self, count: int, effort: Effort) -> dict[str, Any]:
        folds = [(self._jobs + number) % self._folds for number in range(count)]
        return {"folds": folds, "most_steps": effort.short, "batch_size": SMALL_BATCH}

    def evaluate(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run pilots."""
        outcomes = self._evaluate(jobs)
        self._pace.took(jobs, outcomes)
        return outcomes

    def job(self, point: Point, *, most_steps: int, batch_size: int, fold: int, seed: int | None = None) -> Job:
        """A pilot of a point."""
        self._jobs += 1
        return Job(
            point=point,
            most_steps=most_steps,
            batch_size=batch_size,
            fold=fold,
            seed=self._seed() if seed is None else seed,
        )

    def _seed(self) -> int:
        return int(self._random.integers(2**31))

    def alike(self, place: int) -> dict[float, int]:
        """The places of the points that a pilot of this one scores too: those with other averages."""
        point = self.points[place]
        found = {average: self._place.get(replace(point, average=average)) for average in AVERAGES}
        return {average: other for average, other in found.items() if other is not None}

    # --- the rounds ---------------------------------------------------------------------------------------------------

    def _sweep(self) -> float:
        """The stride about which to search: of a wide range the best, over a large and a middle batch."""
        if self._fixed.learning_rate is not None:
            return 1.0
        ordered = sorted(self._candidates, key=lambda c: c.noise_per_step * math.sqrt(c.steps))
        some = ordered[0], ordered[len(ordered) // 2]
        clip = self._clips[len(self._clips) // 2]
        momentum = self._fixed.momentum or 0.0
        points = [
            point_of_candidate(c, clip, s, momentum, self._fixed.schedule or CONSTANT, 0.0)
            for s in _SWEPT
            for c in some
        ]
        outcomes = self.evaluate([self.job(p, most_steps=_SWEEP_STEPS, batch_size=SMALL_BATCH, fold=0) for p in points])
        values = (
            _finite(np.array([_guide(outcome.scores[0.0]) for outcome in outcomes])).reshape(len(_SWEPT), -1).mean(1)
        )
        padded = np.concatenate([values[:1], values, values[-1:]])
        smooth = (padded[:-2] + 2.0 * padded[1:-1] + padded[2:]) / 4.0
        return _SWEPT[int(smooth.argmax())]

    def _lay_out(self, middle: float) -> None:
        fixed = self._fixed
        momenta = MOMENTA if fixed.momentum is None else (fixed.momentum,)
        schedules = SCHEDULES if fixed.schedule is None else (fixed.schedule,)
        averages = AVERAGES if fixed.average is None else (fixed.average,)
        points = [
            point_of_candidate(candidate, clip, stride, momentum, schedule, average)
            for candidate in self._candidates
            for clip in self._clips
            for momentum in momenta
            for stride in self._strides(middle, clip, momentum)
            for schedule in schedules
            for average in averages
        ]
        self.points = tuple(points)
        self._place = {point: place for place, point in enumerate(points)}
        self.coordinates = np.array([_coordinates(point) for point in points])

    def _strides(self, middle: float, clip: float, momentum: float) -> tuple[float, ...]:
        if self._fixed.learning_rate is not None:
            return (self._fixed.learning_rate * clip / (1.0 - momentum),)
        return tuple(middle * factor for factor in _AROUND)

    def _spread(self, count: int) -> list[int]:
        """Places drawn without replacement among those, one for all averages, of which the theory expects most."""
        plain = np.array([i for i, point in enumerate(self.points) if point.average == self.points[0].average])
        expected = self._predict([self.points[i] for i in plain])
        proposed = plain[np.argsort(expected, kind="stable")[: max(count, round(_PROPOSED * len(plain)))]]
        return [int(i) for i in self._random.choice(proposed, min(count, len(proposed)), replace=False)]

    def _hopeful(self, known: Pooled, count: int, among: NDArray[np.bool_]) -> list[int]:
        """Places of the highest mean plus deviation, apart from each other."""
        worth = np.where(among, known.mean + known.deviation, -np.inf)
        return self._best(worth, count, apart=0.3, unsure=known.deviation)

    def _best(self, worth: Array, count: int, *, apart: float, unsure: Array | None = None) -> list[int]:
        """Places of the most worth, one for all averages; one that is taken lowers the worth of those within ``apart`` of it."""
        left = worth.copy()
        finite = left[np.isfinite(left)]
        loss = (float(finite.max() - np.quantile(finite, 0.9)) or 1.0) if unsure is None else unsure
        taken: list[int] = []
        while len(taken) < count and np.isfinite(left.max()):
            place = int(left.argmax())
            taken.append(place)
            near = ((self.coordinates - self.coordinates[place]) ** 2).sum(1)
            left = left - 0.5 * loss * np.exp(-near / (2.0 * apart**2))
            left[list(self.alike(place).values())] = -np.inf
        return taken


def decide(tried: Sequence[Tried], usual: Container[Point]) -> list[Tried]:
    """The points of a duel, the choice first: the best of the usual ones, unless another is better by more than a standard error.

    What did well on other data is evidence too, and pilots err. The standard error is that of the difference of two means, from
    what is left of the scores of the better half once each point's mean and each seed's are taken out.

    Returns:
        The choice, then the others by their mean score.
    """
    scores = _finite(np.array([[_guide(score) for score in one.scores] for one in tried]))
    means = scores.mean(1)
    order = [int(place) for place in np.argsort(-means, kind="stable")]
    known = [place for place in order if tried[place].point in usual]
    choice = order[0]
    if known and choice not in known and means[choice] - means[known[0]] <= _error(scores[order])[0]:
        choice = known[0]
    return [tried[choice], *(tried[place] for place in order if place != choice)]


def ahead_of_usual(tried: Sequence[Tried], usual: Container[Point]) -> Range | None:
    """How far the first of a duel is above the best usual point, on records kept aside: 95 % by Student's law; None if it is one."""
    scores = _finite(np.array([[score.aside for score in one.scores] for one in tried]))
    means = scores.mean(1)
    known = [float(mean) for mean, one in zip(means, tried, strict=True) if one.point in usual]
    if tried[0].point in usual or not known:
        return None
    error, freedom = _error(scores[np.argsort(-means, kind="stable")])
    half = float(scipy.stats.t.ppf(0.975, freedom)) * error
    middle = float(means[0]) - max(known)
    return Range(middle - half, middle + half)


def _error(ranked: Array) -> tuple[float, int]:
    """Standard error of the difference of two means of seeds, and its degrees of freedom: from the better half, the best first."""
    better = ranked[: max(2, (len(ranked) + 1) // 2)]
    rest = better - better.mean(1, keepdims=True) - better.mean(0, keepdims=True) + better.mean()
    freedom = (better.shape[0] - 1) * (better.shape[1] - 1)
    return math.sqrt(2.0 * float((rest**2).sum()) / freedom / better.shape[1]), freedom


def _guide(score: Score) -> float:
    return score.guide


def _within(most: int, affordable: float, *, least: int) -> int:
    return max(least, min(most, int(affordable)))


def point_of_candidate(
    candidate: Candidate, clip: float, stride: float, momentum: float, schedule: Schedule, average: float
) -> Point:
    """A candidate with all that it leaves open; the learning rate from the stride."""
    return Point(
        batch_size=candidate.batch_size,
        epochs=candidate.epochs,
        steps=candidate.steps,
        noise_multiplier=candidate.noise_multiplier,
        clip_norm=clip,
        learning_rate=stride * (1.0 - momentum) / clip,
        momentum=momentum,
        schedule=schedule,
        average=average,
    )


def _coordinates(point: Point) -> list[float]:
    return [
        math.log(point.batch_size) / _BATCH_SCALE,
        math.log(point.epochs) / _EPOCHS_SCALE,
        math.log(point.clip_norm) / _CLIP_SCALE,
        math.log(point.stride) / _STRIDE_SCALE,
        _SHAPE_STEP * SCHEDULES.index(point.schedule),
        _SHAPE_STEP * (point.momentum > 0),
        _SHAPE_STEP * 2.0 * point.average,
    ]


def _finite(values: Array) -> Array:
    """NaN and infinities, of pilots that diverged under a metric of the user's, count as the worst of the others."""
    good = values[np.isfinite(values)]
    return np.where(np.isfinite(values), values, good.min() if len(good) else 0.0)
