"""A plan in plain words: what to do, each number with the claim behind it."""

import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory._rounding import rounded_up
from dptheory.planning._records import Choice, Interval, MethodForecast, Plan, ReleasedStatistics
from dptheory.planning._words import count_or_size, span
from dptheory.privacy import NOISE
from dptheory.sparsification import least_kappa_tuned

_WORTH = 1.05
_MODEL = (
    "Choices rest on a bound for gradients of one kind; that a whole training has such is a model. Forecasts are of one step at "
    "its best learning rate. The noise multiplier is exact: batches are Poisson, and neighbours add-remove; a run that takes its "
    "rate from a public number of records keeps the same epsilon for zero-out neighbours."
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One sentence of advice.

    Attributes:
        text: the sentence.
        claims: ids of the ledger that it rests on.
    """

    text: str
    claims: tuple[str, ...]


def recommended(plan: Plan) -> str:
    """The method to take: of those that are sure to gain 5 % or more the one with the highest start; else DP-SGD.

    What gains less is not worth what it costs in memory and time. Without measured curvature nothing is recommended beside
    DP-SGD: a method that keeps noise out of flat directions looks better than it is.

    Args:
        plan: of :func:`dptheory.planning.plan`.

    Returns:
        Its name in a configuration of a run.

    Raises:
        ValueError: ``plan`` is something else.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: without statistics nothing is sure to beat DP-SGD.
        >>> from dptheory.planning import TrainingSetup, plan, recommended
        >>> setup = TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10)
        >>> recommended(plan(setup))
        'dp-sgd'
    """
    _validate.instance("plan", plan, Plan)
    gains = [one for one in plan.methods if one.curved_descent is not None and one.lower >= _WORTH]
    return max(gains, key=lambda one: one.lower).method if gains else "dp-sgd"


def advice(plan: Plan) -> tuple[Advice, ...]:
    """What a plan says, in sentences.

    Args:
        plan: of :func:`dptheory.planning.plan`.

    Returns:
        The sentences, the recommendation first.

    Raises:
        ValueError: ``plan`` is something else.

    Source: new, on RF, section 2.2, and RS, Theorem 3.5 (rf.mse_criterion, rs.tuned).

    Example: a run on all records at once.
        >>> from dptheory.planning import TrainingSetup, advice, plan
        >>> setup = TrainingSetup(num_examples=1000, epsilon=3.0, delta=1e-5, dim=2000, batch_size=1000, epochs=10)
        >>> print(advice(plan(setup))[1].text)
        Train for 10 epochs, 10 steps, with batch size 1000 and noise multiplier 4.4, the least for epsilon = 3, rounded up.
    """
    _validate.instance("plan", plan, Plan)
    found = [_first(plan), _training(plan), _noise(plan)]
    found += _released(plan)
    free = [choice for choice in (plan.batch_size, plan.epochs, plan.clip_norm) if _is_free(choice)]
    found += [_regret(plan)] if free else []
    found += [_range(plan, choice) for choice in free]
    found += [_scale(plan), *(_about(plan, one) for one in plan.methods if one.method != "dp-sgd")]
    if plan.setup.layer_sizes is None:
        found.append(Advice(text="layer-freezing: no forecast without layer_sizes.", claims=()))
    if plan.borrowed:
        text = f"The statistics are borrowed from {plan.statistics}: measure your own before you trust a decision that is close."
        if plan.measured_dim != plan.setup.entries:
            sizes = f"They are of {plan.measured_dim:,} parameters, yours are {plan.setup.entries:,}"
            taken = "the energy of the noise is taken to grow with that number, the curvature summed along it to stay"
            text += f" {sizes}: {taken}. Take the learning rate and the forecasts with curvature as guesses."
        found.append(Advice(text=text, claims=()))
    found.append(Advice(text=_MODEL, claims=("gip.thm2",)))
    return tuple(found)


def _is_free(choice: Choice) -> bool:
    return not choice.fixed and choice.value is not None


def _first(plan: Plan) -> Advice:
    name = recommended(plan)
    if name != "dp-sgd":
        one = next(one for one in plan.methods if one.method == name)
        text = f"Take {name}: its best step is forecast to gain {_between(one)} times that of DP-SGD."
        return Advice(text=text, claims=one.descent.claims)
    open_ones = [one.method for one in plan.methods if one.verdict == "undecided"]
    text = "Take DP-SGD: no method is sure to gain 5 % more."
    if open_ones:
        text += f" Undecided: {', '.join(open_ones)}."
    return Advice(text=text, claims=("rf.mse_criterion",))


def _training(plan: Plan) -> Advice:
    epochs = f"{plan.epochs.value:g} epoch{'s' if plan.epochs.value != 1 else ''}"
    text = (
        f"Train for {epochs}, {plan.steps} steps, with batch size {plan.batch_size.value:.0f} and noise multiplier "
        f"{rounded_up(plan.noise_multiplier)}, {_least(plan)}."
    )
    if plan.setup.delta * plan.setup.num_examples > 1.0:
        text += (
            f" delta = {plan.setup.delta:g} is above 1 / num_examples = {1.0 / plan.setup.num_examples:.3g}: to publish a whole "
            "record at random would keep such a budget."
        )
    return Advice(text=text, claims=("gip.thm2", "rf.sigmas"))


def _least(plan: Plan) -> str:
    epsilon = f"{plan.setup.epsilon:g}"
    if plan.noise_multiplier == NOISE[0]:
        return f"the smallest that is accounted for; it keeps epsilon = {epsilon}"
    return f"the least for epsilon = {epsilon}, rounded up"


def _released(plan: Plan) -> list[Advice]:
    """What statistics of private records cost and say."""
    if plan.released is None:
        return []
    one = plan.released
    cost = (
        f"The statistics are of the private records, and were released before: by themselves they spend epsilon = "
        f"{one.epsilon:.3g}, the training {one.training_epsilon:.3g}, both together at most {plan.setup.epsilon:g}. For that "
        f"the noise multiplier is {rounded_up(plan.noise_multiplier, 4)} in place of {rounded_up(one.noise_alone, 4)}. "
        f"Account for both: Step(noise_multiplier={one.noise_multiplier:.5g}, sampling_rate=1, count={one.count}) and the "
        "training."
    )
    if not one.secure:
        cost += " The release is a simulation: seeded. Its noise protects nothing from who knows the seed."
    return [Advice(text=cost, claims=("gip.lem1",)), Advice(text=_norms(plan, one), claims=("gip.lem1", "rf.scaling"))]


def _norms(plan: Plan, one: ReleasedStatistics) -> str:
    """What clips do at the start; of the levels the outermost that the noise lets tell."""
    found = []
    if plan.clip_norm.value is not None and one.clip_probability is not None:
        found.append(f"the clip {plan.clip_norm.value:g} shortens {_share(one.clip_probability)} of the gradients")
    low = next(((level, norm.lower) for level, norm in one.norm_quantiles if norm.lower > 0.0), None)
    high = next(
        ((level, norm.upper) for level, norm in reversed(one.norm_quantiles) if math.isfinite(norm.upper)), None
    )
    if low is not None:
        share = f"{100 - 100 * low[0]:g} % or more"
        found.append(f"a clip up to {low[1]:.3g} shortens {share}, being that far one scale with the learning rate")
    if high is not None:
        share = f"{100 - 100 * high[0]:g} % or fewer"
        found.append(f"one from {high[1]:.3g} on shortens {share}, and what is added to it adds noise to the rest")
    said = "; ".join(found) if found else "the noise leaves nothing to tell of the norms"
    return f"At the start {said}. Intervals of the release hold together with 95 %; later norms were not measured."


def _share(one: Interval) -> str:
    return f"{Interval(lower=100 * one.lower, upper=100 * one.upper, claims=one.claims)} %"


def _frozen(plan: Plan, layers: int) -> str:
    """How much of the squared norms the frozen layers hold, beside their share of the noise."""
    if plan.released is None or plan.setup.layer_sizes is None:
        return ""
    rest = plan.released.layer_shares[layers:]
    first = plan.released.layer_shares[:layers]
    # the shares sum to at most 1, and to 1 but for gradients that are 0
    lower = sum(one.lower for one in first)
    upper = min(1.0, sum(one.upper for one in first), 1.0 - sum(one.lower for one in rest))
    held = _share(Interval(lower=lower, upper=max(lower, upper), claims=("gip.lem1",)))
    noise = sum(plan.setup.layer_sizes[:layers]) / plan.setup.entries
    return f" At the start the frozen layers hold {held} of the records' squared norms, and {100 * noise:.3g} % of the noise."


def _noise(plan: Plan) -> Advice:
    than = (
        "longer than any mean of clipped gradients can be"
        if plan.noise_share > 1.0
        else "shorter than the mean of clipped gradients that all point one way"
    )
    text = f"d sigma^2 / B^2 = {plan.noise_share:.3g}: the noise of a step is {than}."
    return Advice(text=text, claims=("gip.eq6", "rs.larger_clip"))


def _regret(plan: Plan) -> Advice:
    measured = bool(plan.measured_clips)
    where = (
        "At the moment that is worst for these choices"
        if measured
        else "For the gradients that are worst for these choices"
    )
    best = f"that of the best choice for {'it' if measured else 'them'}"
    text = f"{where} the bound is {plan.worst_regret:.3g} times {best}: their worst regret."
    return Advice(text=text, claims=("rs.tuned", "rs.lem3.1"))


def _range(plan: Plan, choice: Choice) -> Advice:
    assert choice.value is not None and choice.lower is not None and choice.upper is not None
    if choice.lower == choice.upper:
        text = f"No other value of {choice.name} that was tried has a worst regret within 10 % of the least."
    else:
        ends = f"{count_or_size(choice.lower)} to {count_or_size(choice.upper)}"
        text = f"For {choice.name} from {ends} the worst regret stays within 10 % of the least."
    if choice.name == "clip_norm" and len(plan.measured_clips) > 1:
        for end, which, more in ((-1, "largest", "larger"), (0, "least", "smaller")):
            if choice.value == plan.measured_clips[end]:
                text += f" {count_or_size(choice.value)} is the {which} that was measured: a {more} one may be better."
    return Advice(text=text, claims=choice.claims)


def _scale(plan: Plan) -> Advice:
    moves = "; ".join(f"{one.change}: {span(one.lower, one.upper)}" for one in plan.rules)
    text = "While every gradient is clipped, clip and learning rate are one scale, their product. "
    if plan.learning_rate.value is None:
        text += "Nothing that is known fixes it. "
    elif plan.learning_rate.lower is not None:
        low, high = plan.learning_rate.lower, plan.learning_rate.upper
        assert high is not None
        text += f"The best rate of one step is {span(low, high)} {_over(plan.moments)}. "
        if not plan.learning_rate.fixed and low < high:
            text += f"{plan.learning_rate.value:.3g} descends at all of them. "
    if plan.left_out:
        text += f"Left out, as DP-SGD is not seen to descend there at this clip: {', '.join(plan.left_out)}. "
    return Advice(text=f"{text}The tuned rate moves by the factor ({moves}).", claims=("rf.scaling", "rs.tuned"))


def _over(moments: tuple[str, ...]) -> str:
    return (
        f"at the moment {moments[0]}"
        if len(moments) == 1
        else f"over those of the moments {', '.join(moments)} that have one"
    )


def _about(plan: Plan, one: MethodForecast) -> Advice:
    known = math.isfinite(one.upper)
    what = f"{_between(one)} times DP-SGD's descent" if known else "as it depends on gradients that were not measured"
    found = f"{one.method}{_setting(one)}: {one.verdict}, {what}."
    if known and one.curved_descent is None:
        found += (
            " That is the guarantee for a loss that curves alike in all directions; with the real curvature there is none, as it "
            "was not measured for this method or is not positive at some moment."
        )
    claims = one.descent.claims
    if one.method == "random-sparsification" and plan.statistics is None:
        rate = one.parts[0].value
        needed = least_kappa_tuned(drop_rate=rate, noise_to_curvature=plan.noise_share)
        found += (
            " In the bound of RS, Theorem 3.5, with C^2 for the second moment, a mask pays only where kappa is above "
            f"{needed:.3g}. Where it leaves the chance that deviations fit under the clip as it was, kappa is at most "
            f"{math.sqrt(1 - rate):.3g}, and it pays at no noise. With the second moment of the batch, as in the interval, a "
            "smaller kappa can pay."
        )
    if one.method == "random-k":
        found += " On a convex loss it is at most 1."
    if one.method == "layer-freezing":
        found += _frozen(plan, int(one.parts[0].value))
    if one.method == "index-pruning":
        gain = next(part.value for part in one.parts if part.name == "retained_gain")
        far = next(part.value for part in one.parts if part.name == "total_variation")
        found += f" Its indices keep {gain:.2g} of what top-k gains over random entries; the run is within {far:.2g} of random-k."
        claims = (*claims, "gip.budget")
    return Advice(text=found, claims=tuple(dict.fromkeys(claims)))


def _setting(one: MethodForecast) -> str:
    return f" at {one.parts[0].name} {one.parts[0].value:.3g}" if one.parts else ""


def _between(one: MethodForecast) -> str:
    return span(one.lower, one.upper)
