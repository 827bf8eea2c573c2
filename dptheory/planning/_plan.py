"""The plan: choices, noise, rules, and the methods ranked."""

import math
from collections.abc import Sequence
from dataclasses import replace

from dptheory import _validate
from dptheory.planning import _measured, _methods, _released
from dptheory.planning._private_statistics import PrivateStats
from dptheory.planning._records import Choice, MethodForecast, Plan, Rule
from dptheory.planning._schedule import CLAIMS, Point, choose, estimated_noise, step_at
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._signal import UNKNOWN, Signal, Step
from dptheory.planning._statistics import GradientStats
from dptheory.privacy import least_noise_multiplier


def plan(setup: TrainingSetup, *, stats: GradientStats | PrivateStats | None = None, borrowed: bool = False) -> Plan:
    r"""What to train with at a budget, and whether one of the five methods is worth it.

    Batch size, epochs and clip are chosen together: each choice on a coarse grid has its noise multiplier, and a bound on
    descent at the tuned learning rate proportional to :math:`\sqrt{E|g|^2 / T} / \langle w, m\rangle` with
    :math:`E|g|^2 = |m|^2 + (1-q) s / B + d \sigma^2 C^2 / B^2`, m the mean clipped gradient, s the mean square of one. Without
    statistics m and s can be anything with :math:`|m|^2 \le s \le C^2`, with them they are those of each measured moment,
    and where the curvature was measured E g' H g takes the place of E|g|^2 in cases of its own. What a choice can lose is its
    worst regret: the largest ratio, over these cases, of its bound to that of the best choice for the case. The plan has the
    fewest epochs of those whose worst regret is within 5 % of the least; the least can be far above 1. The bound is a theorem for
    gradients of one kind; that a whole training has such is a model.

    The learning rate needs statistics with curvature: of one step the best rate is <w, m> / E g' H g. Where the moments differ,
    the plan takes the harmonic mean of the least and the largest: there the moment that gains the smallest share of its best
    descent gains as much as any rate lets it, and every moment descends.

    A method is forecast by the descent of one step at its best learning rate, :math:`\langle w, m\rangle^2 / E|g|^2`, over
    that of DP-SGD. Without statistics the interval holds what any gradient can give; with them it is a 95 % interval at each
    moment
    (a jackknife over folds of the records; not widened for looking at many), from the lowest to the highest of the moments at
    which DP-SGD is seen to descend; at others there is nothing to compare. That is the descent which is guaranteed on a loss that
    curves alike in all directions; networks do not, and noise in flat directions costs little. With measured curvature the
    same ratio is given for E g' H g in place of E|g|^2, without an interval at a moment: the curvature is measured without folds.
    Nothing is decided on which the two do not agree.

    Statistics of private records are a release, which takes its part of the budget: the noise is that with which release and
    training together keep it. They say how many gradients a clip shortens and where the squared norms lie, at the start; the rest
    they leave as it is without statistics.

    Args:
        setup: what is known and what is fixed.
        stats: of measured gradients, or what was released of private ones; without them methods that depend on the gradients get
            ranges.
        borrowed: the statistics are of another network or other data: the number of parameters may differ, and the noise is
            that of the user's own.

    Returns:
        Choices, noise, rules and forecasts.

    Raises:
        ValueError: an argument outside its range; more noise needed than sigma = 1000; statistics that do not fit the setup.

    Source: new, on RF, section 2.2, and RS, Theorem 3.5 (rf.mse_criterion, rs.tuned, rs.lem3.1).

    Example: RF's CNN at epsilon 3 with 1,000 of 50,000 images per batch. Pruning at random guarantees half of the descent.
        >>> from dptheory.planning import TrainingSetup, plan
        >>> found = plan(TrainingSetup(num_examples=50_000, epsilon=3.0, delta=1e-5, dim=550_570, batch_size=1000, epochs=40))
        >>> round(found.noise_multiplier, 2), round(found.noise_share, 2), found.steps
        (1.45, 1.16, 2000)
        >>> [(one.method, one.descent.upper, one.verdict) for one in found.methods if one.method == "random-k"]
        [('random-k', 0.5, 'undecided')]
    """
    _validate.instance("setup", setup, TrainingSetup)
    borrowed = _validate.flag("borrowed", borrowed)
    private = stats if isinstance(stats, PrivateStats) else None
    asked = setup
    """What the choices and the forecasts are made for: of the budget what statistics of private records leave."""
    if private is not None:
        setup = _released.fitting(setup, private, borrowed)
        asked = _released.left_for_training(setup, private)
    if stats is None or private is not None:
        schedule = choose(asked, (), lambda clip: corners(setup))
        known = None
    else:
        known = _measured.measured(setup, _validate.instance("stats", stats, GradientStats), borrowed)
        some = _measured.cases(known) if known.descends_somewhere else lambda clip: corners(setup)
        schedule = choose(setup, known.clips, some)
    point = schedule.point
    rate = point.batch_size / setup.num_examples
    steps = step_at(setup, point, 0.0).steps
    if private is None:
        sigma = least_noise_multiplier(epsilon=setup.epsilon, delta=setup.delta, sampling_rate=rate, steps=steps)
    else:
        sigma = _released.noise_beside(setup, private, sampling_rate=rate, steps=steps)
    step = step_at(setup, point, sigma)
    descending = None
    if known is None:
        shapes = _methods.shapes(asked, step, point.clip_norm)
        methods = tuple(_methods.forecast_without(asked, shape, step) for shape in shapes)
        signals: Sequence[Signal] = corners(setup)
    else:
        assert point.clip_norm is not None
        signals = _measured.flat_signals(known, point.clip_norm)
        descending = known.descending(point.clip_norm)
        methods = _measured.forecasts(setup, descending, step, point.clip_norm)
    return Plan(
        setup=setup,
        statistics=None if stats is None else stats.name,
        moments=_names(descending),
        left_out=tuple(name for name in _names(known) if name not in _names(descending)),
        measured_clips=() if known is None else known.clips,
        borrowed=borrowed and stats is not None,
        measured_dim=None if stats is None else stats.dim,
        released=None if private is None else _released.released(setup, private, step, point.clip_norm),
        batch_size=schedule.batch_size,
        epochs=schedule.epochs,
        clip_norm=schedule.clip_norm,
        worst_regret=schedule.worst_regret,
        learning_rate=_learning_rate(setup, descending, step, point.clip_norm),
        steps=steps,
        sampling_rate=rate,
        noise_multiplier=sigma,
        noise_share=setup.entries * (sigma / point.batch_size) ** 2,
        rules=_rules(asked, point, step, signals),
        methods=ranked(methods),
    )


def _names(known: _measured.Measured | None) -> tuple[str, ...]:
    return () if known is None else tuple(moment.name for moment in known.stats.moments)


def corners(setup: TrainingSetup) -> list[Signal]:
    """What the mean and the mean square of clipped gradients can be, at their extremes."""
    return [replace(corner, noise=float(setup.entries)) for corner in UNKNOWN]


def _learning_rate(
    setup: TrainingSetup, known: _measured.Measured | None, step: Step, clip_norm: float | None
) -> Choice:
    rates = None
    if known is not None and clip_norm is not None:
        rates = _measured.learning_rates(known, step, clip_norm)
    low, high = (None, None) if rates is None else (min(rates), max(rates))
    value = setup.learning_rate
    if value is None and rates is not None:
        # 2 u - u^2 of the best descent at u times the best rate: the same at both ends where these u sum to 2.
        value = 2.0 / (1.0 / min(rates) + 1.0 / max(rates))
    return Choice(
        name="learning_rate",
        value=value,
        lower=low,
        upper=high,
        fixed=setup.learning_rate is not None,
        claims=("rf.mse_criterion",) if rates is not None else ("rf.scaling", "rs.tuned"),
    )


def _rules(setup: TrainingSetup, point: Point, step: Step, signals: Sequence[Signal]) -> tuple[Rule, ...]:
    """The tuned rate is proportional to 1 / sqrt(T E|g|^2); the clip and it are one scale while everything is clipped."""
    louder = replace(step, noise_multiplier=2.0 * step.noise_multiplier)
    found = [
        _rule("noise_multiplier x 2", step, louder, signals),
        Rule(change="clip_norm x 2", lower=0.5, upper=1.0, claims=("rf.scaling", "rs.tuned")),
    ]
    if 2 * point.batch_size <= setup.num_examples:
        larger = step_at(setup, Point(2 * point.batch_size, point.epochs, point.clip_norm), step.noise_multiplier)
        before, after = (
            estimated_noise(setup.epsilon, setup.delta, one.sampling_rate, one.steps) for one in (step, larger)
        )
        larger = replace(larger, noise_multiplier=step.noise_multiplier * after / before)
        found.append(_rule("batch_size x 2, same epochs and budget", step, larger, signals))
    return tuple(found)


def _rule(change: str, before: Step, after: Step, signals: Sequence[Signal]) -> Rule:
    factors = [math.sqrt(before.steps * _square(one, before) / (after.steps * _square(one, after))) for one in signals]
    return Rule(change=change, lower=min(factors), upper=max(factors), claims=CLAIMS)


def _square(signal: Signal, step: Step) -> float:
    return signal.sampled_square(step) + signal.noise_energy(step)


def ranked(methods: Sequence[MethodForecast]) -> tuple[MethodForecast, ...]:
    """With the places that the intervals of the descents allow, and a verdict against DP-SGD."""

    spans = [_known(one) for one in methods]

    def judged(one: MethodForecast) -> MethodForecast:
        low, high = _known(one)
        better = sum(other > high for other, _ in spans)
        worse = sum(other < low for _, other in spans)
        if one.method == "dp-sgd":
            verdict = "reference"
        elif low > 1.0:
            verdict = "gain"
        else:
            verdict = "loss" if high <= 1.0 else "undecided"
        return replace(one, best_rank=1 + better, worst_rank=len(methods) - worse, verdict=verdict)

    return tuple(judged(one) for one in methods)


def _known(one: MethodForecast) -> tuple[float, float]:
    """Both descents together; anything where the curvature was not measured, which can turn any ratio."""
    if one.method == "dp-sgd" or one.curved_descent is not None:
        return one.lower, one.upper
    return 0.0, math.inf
