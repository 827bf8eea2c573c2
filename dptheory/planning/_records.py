"""The records that a plan is made of."""

import math
from dataclasses import dataclass

from dptheory._rounding import rounded_up
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._words import count_or_size


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number that is known to lie between two; with what it rests on.

    Attributes:
        lower, upper: the ends, the same where the number is known; inf where nothing bounds it.
        claims: ids of the ledger.
    """

    lower: float
    upper: float
    claims: tuple[str, ...]

    def __str__(self) -> str:
        """The interval in a table."""
        if math.isinf(self.upper):
            return "not known" if self.lower == 0.0 else f"{self.lower:.3g} or more"
        first, last = f"{self.lower:.3g}", f"{self.upper:.3g}"
        return first if first == last else f"{first} to {last}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One hyperparameter.

    Attributes:
        name: as an argument of the library.
        value: what to take; None where nothing that is known decides it.
        lower, upper: the least and the largest value on the grid with which the worst regret is at most 10 % above the least, the
            other free choices being made anew. Of the learning rate: the least and the largest best rate of one step over the
            moments that count. None where nothing decides them.
        fixed: whether it was given.
        claims: ids of the ledger.
    """

    name: str
    value: float | None
    lower: float | None
    upper: float | None
    fixed: bool
    claims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """By what factor the tuned learning rate moves when something else does.

    Attributes:
        change: what is changed, as "noise_multiplier x 2".
        lower, upper: the factor lies between these.
        claims: ids of the ledger.
    """

    change: str
    lower: float
    upper: float
    claims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One hyperparameter of a method.

    Attributes:
        name: as in a configuration of a run.
        value: the setting that the forecast is about.
        claims: ids of the ledger.
    """

    name: str
    value: float
    claims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class MethodForecast:
    """What is forecast of one method at the plan's batch, steps and budget, in units of the squared clip.

    Attributes:
        method: its name in a configuration of a run.
        parts: the setting that the forecast is about: the best of those measured, or one for comparison.
        noise_energy: squared norm of the noise in the mean of a batch.
        error: mean squared distance of what is released from the mean of what the method would release of all records:
            noise, and the batch drawn; what the method cuts off on purpose is not in it.
        cosine: mean cosine that noise alone leaves between the two.
        descent: the descent of one step with its best learning rate, over that of DP-SGD, on a loss that curves alike in all
            directions; 1 for DP-SGD. Of random sparsification without statistics: the same ratio in the bound of RS, Theorem 3.5.
        curved_descent: the same with the measured curvature, from the lowest to the highest moment; None without it.
        index_epsilon: what the choice of entries takes of the budget.
        memory: numbers held beyond the gradients of the records.
        communication: bytes of one release, a value having four.
        best_rank, worst_rank: the places, from 1, that the intervals allow, each from the lower of ``descent`` and
            ``curved_descent`` to the higher, and without the second any; different ones mean undecided.
        verdict: "gain" or "loss" where that interval lies on one side of 1, "reference" for DP-SGD itself, else "undecided".
            Either needs ``curved_descent``: noise that is kept out of flat directions saves little, and a gradient that is cut
            in steep directions loses little.
    """

    method: str
    parts: tuple[Part, ...]
    noise_energy: Interval
    error: Interval
    cosine: Interval
    descent: Interval
    curved_descent: Interval | None
    index_epsilon: float
    memory: int
    communication: int
    best_rank: int
    worst_rank: int
    verdict: str

    @property
    def lower(self) -> float:
        """Lower end of both descents."""
        return min(one.lower for one in (self.descent, self.curved_descent) if one is not None)

    @property
    def upper(self) -> float:
        """Upper end of both descents."""
        return max(one.upper for one in (self.descent, self.curved_descent) if one is not None)


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """What finished runs of one method say of its forecast.

    Attributes:
        method: its name in a configuration of a run.
        runs: how many there were.
        accuracy: mean test accuracy after the last epoch.
        difference: from the mean of DP-SGD's runs; None without any.
        lower, upper: 95 % interval of the difference; None with fewer than two runs of either, and for DP-SGD itself.
        largest_epsilon: the most that one of the runs spent.
        planned: whether all are as planned (:func:`compare_runs`).
        forecast: the plan's verdict on the method; "undecided" where it has none.
        outcome: "agrees" or "contradicts" where forecast and interval are both decided, "measured, not forecast" where the
            interval alone is, else "undecided"; "reference" for DP-SGD, "not as planned" where a run of the method or of DP-SGD
            is not.
    """

    method: str
    runs: int
    accuracy: float
    difference: float | None
    lower: float | None
    upper: float | None
    largest_epsilon: float
    planned: bool
    forecast: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class ReleasedStatistics:
    """What statistics of private records cost a plan, and what they say; they were measured at the start of the training alone.

    Attributes:
        noise_multiplier, count: of the release (:attr:`PrivateStats.release`).
        secure: whether its noise is of a cryptographic generator.
        epsilon: that the release spends by itself at the plan's delta.
        training_epsilon: that the training spends by itself; with the release the plan's epsilon is kept.
        noise_alone: the noise multiplier that the training would need without the release.
        clip_probability: share of the records that the plan's clip shortens; None where the clip is left open.
        norm_quantiles: (level, the norm that this share of the records does not exceed), levels rising.
        layer_shares: of each layer in a record's squared norm, the mean over the records.
    """

    noise_multiplier: float
    count: int
    secure: bool
    epsilon: float
    training_epsilon: float
    noise_alone: float
    clip_probability: Interval | None
    norm_quantiles: tuple[tuple[float, Interval], ...]
    layer_shares: tuple[Interval, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The choice for a training, what it rests on, and the methods beside DP-SGD; :func:`dataclasses.asdict` makes it plain data.

    Attributes:
        setup: what was asked.
        statistics: name of the measured statistics; None without any.
        moments: names of the measured moments that the forecasts of methods and the learning rate rest on: those at which DP-SGD
            is seen to descend at the chosen clip, with every fold left out.
        left_out: names of the other measured moments.
        measured_clips: clips at which DP-SGD was measured, rising; empty without statistics.
        borrowed: whether they are of another network or other data than the user's, shipped with the library.
        measured_dim: number of parameters of the network that they are of; None without statistics.
        batch_size, epochs, clip_norm, learning_rate: the choices.
        worst_regret: the largest ratio, over what is not known, of the bound at these choices to that at the best ones tried.
        steps: T of the chosen epochs.
        sampling_rate: q = batch_size / num_examples.
        released: what statistics of private records cost and say; None where the statistics are public, or there are none.
        noise_multiplier: sigma, the least that keeps the budget (:func:`dptheory.privacy.least_noise_multiplier`; beside what was
            released :func:`dptheory.privacy.least_noise_beside`).
        noise_share: d sigma^2 / B^2: the noise's energy over the squared clip.
        rules: how the learning rate moves with the rest.
        methods: DP-SGD first.
    """

    setup: TrainingSetup
    statistics: str | None
    moments: tuple[str, ...]
    left_out: tuple[str, ...]
    measured_clips: tuple[float, ...]
    borrowed: bool
    measured_dim: int | None
    released: ReleasedStatistics | None
    batch_size: Choice
    epochs: Choice
    clip_norm: Choice
    learning_rate: Choice
    worst_regret: float
    steps: int
    sampling_rate: float
    noise_multiplier: float
    noise_share: float
    rules: tuple[Rule, ...]
    methods: tuple[MethodForecast, ...]

    def choice_rows(self) -> tuple[tuple[str, ...], ...]:
        """What to take, as the rows of a table, its head first: name, value, range and claims of each hyperparameter.

        The noise multiplier is rounded up. A learning rate has no range here: its ends are of another kind.

        Returns:
            The rows, of texts.

        Source: new, on RS, Theorem 3.5 (rs.tuned).

        Example: what was given is named so.
            >>> from dptheory.planning import TrainingSetup, plan
            >>> setup = TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10)
            >>> plan(setup).choice_rows()[1]
            ('batch_size', '1000 (given)', '', 'rs.tuned, rs.lem3.1')
        """
        choices = (self.batch_size, self.epochs, self.clip_norm, self.learning_rate)
        return (
            ("choice", "take", "worst regret within 10 % of the least", "rests on"),
            *(_choice_row(one) for one in choices),
            ("noise_multiplier", rounded_up(self.noise_multiplier, 5), "", "gip.thm2"),
        )


def _choice_row(one: Choice) -> tuple[str, ...]:
    value = "left open" if one.value is None else count_or_size(one.value, 5)
    if one.fixed:
        value += " (given)"
    near = ""
    if one.lower is not None and one.upper is not None and not one.fixed and one.name != "learning_rate":
        near = f"{count_or_size(one.lower, 5)} to {count_or_size(one.upper, 5)}"
    return one.name, value, near, ", ".join(one.claims)


@dataclass(frozen=True, kw_only=True)
class PlannedTraining:
    """A plan, and what finished runs say of it.

    Attributes:
        plan: the plan.
        results: of the runs that it was compared with, method by method; empty without any.
    """

    plan: Plan
    results: tuple[MethodResult, ...]
