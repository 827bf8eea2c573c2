"""What a plan answers: point, what it rests on, what the methods are worth, the code; and what a search on private records costs."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from scipy.optimize import brentq

from dptheory._rounding import rounded_up
from dptheory.privacy.samplers import selection_epsilon_upper_bound
from dptheory.training._last_weights import first_averaged
from dptheory.training.planning._point import CONSTANT, COSINE, LINEAR, Point, Range

MEAN_RUNS = 5
_MOST_NOISE = 1000.0
_PRECISION = 1e-3
_LIKELY_SHARE = 0.4
_USUAL = "the settings that people take without a plan, a tutorial's, De et al.'s, Tramer and Boneh's"
_WIDTH = 80


@dataclass(frozen=True, kw_only=True)
class PrivateTuning:
    """Random stopping: a geometric number of private runs with settings drawn without looking at the data, the best published.

    Attributes:
        mean_runs: expected number of runs.
        noise_multiplier: that each of them needs for the budget.
        gain: of the metric over the choice, a range of 95 % from pilots: what the larger noise alone changes, at the very setting
            that was chosen. How good a setting such a search finds comes on top, and so does the price of scoring the runs, so
            that this is more than it can give.
    """

    mean_runs: float
    noise_multiplier: float
    gain: Range


def noise_of_tuned_runs(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    noise_multiplier: float,
    mean_runs: float = MEAN_RUNS,
) -> float | None:
    """The noise multiplier that keeps the budget for the best of ``mean_runs`` runs on average; None above 1000.

    The search starts at ``noise_multiplier``, which one run alone needs.
    """

    def excess(log_noise: float) -> float:
        spent = selection_epsilon_upper_bound(
            noise_multiplier=math.exp(log_noise),
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            mean_runs=mean_runs,
        )
        return math.log(min(spent, 1e6) / epsilon)

    low = high = math.log(noise_multiplier)
    while excess(high) > 0:
        low, high = high, high + 0.5
        if high > math.log(_MOST_NOISE):
            return None
    if low == high:
        return noise_multiplier
    return math.exp(float(brentq(excess, low, high, xtol=_PRECISION)) + _PRECISION)


_FACTORS = {LINEAR: "1 - step / {steps}", COSINE: "(1 + math.cos(math.pi * step / {steps})) / 2"}


@dataclass(frozen=True, kw_only=True)
class MethodGain:
    """What a method of the papers changes at the chosen point.

    Attributes:
        method: its name.
        setting: its hyperparameters, in words.
        gain: of the metric over DP-SGD, a range of 95 % from pilots with the same records and seeds; each at its own rate.
        learning_rate: at which it did best.
        why: what the theory says.
        claim: id of the claim that says it.
    """

    method: str
    setting: str
    gain: Range
    learning_rate: float
    why: str
    claim: str

    @property
    def verdict(self) -> str:
        """In words."""
        if self.gain.low > 0:
            return "worth trying"
        return "not worth its cost" if self.gain.high <= 0 else "no difference seen"


@dataclass(frozen=True, kw_only=True)
class Choice(Point):
    """What to train with.

    Attributes:
        batch_size: expected size of the Poisson batches.
        epochs: passes over the private records.
        steps: number of updates.
        noise_multiplier: sigma.
        clip_norm: C.
        learning_rate: of the first step.
        momentum: of SGD.
        schedule: of the learning rate: "constant", "linear" or "cosine", the last two falling to 0.
        average: share of the steps, the last ones, whose weights are averaged; 0 for none.
        num_examples: number of private records that it is for.
        epsilon: of the budget.
        delta: of the budget.
        metric: what the ranges are of.
        expected: of the metric on new records: from that of the pilots' records kept aside, less two standard errors, to that of the
            records that they trained on, more two.
        as_good: by hyperparameter, the range that the pilots do not tell from the choice, all others as chosen.
        costs: by change, how much lower the metric is expected to be, where the pilots see it lower by a standard error and more.
        tried: by hyperparameter, the range that was tried, all others as chosen.
        ahead: in the metric of the duel's pilots, how far the choice is above the best of what people take without a plan: a range of
            95 %; None if it is one of those.
        usual: whose setting it is next to, if it is one of those: "a tutorial's".
        methods: what the papers' methods change; empty where there was no time.
        not_compared: the papers' methods that were not compared: all that serve the network, for want of time, or those that do not.
        seconds_to_compare: about how many seconds for planning the first of these need; 0 where there was time.
        private_tuning: what tuning on the private records would change, where there were no public ones; None otherwise.
        public: which records the pilots used, in words.
        pilots: number of pilots.
        seconds: that planning took, without the time for which it was stopped.
    """

    num_examples: int
    epsilon: float
    delta: float
    metric: str
    expected: Range
    as_good: Mapping[str, Range] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    tried: Mapping[str, Range] = field(default_factory=dict)
    ahead: Range | None = None
    usual: str = ""
    methods: tuple[MethodGain, ...] = ()
    private_tuning: PrivateTuning | None = None
    public: str = ""
    pilots: int = 0
    not_compared: tuple[str, ...] = ()
    seconds_to_compare: float = 0.0
    seconds: float = 0.0

    @property
    def point(self) -> Point:
        """The choice alone."""
        return Point(**{name: getattr(self, name) for name in Point.__dataclass_fields__})

    def code(self) -> str:
        """A training loop of the choice, ready to paste: it needs ``model`` and ``private``, the data set of private records."""
        average, falls = self.average > 0, self.schedule != CONSTANT
        first = first_averaged(self.steps, self.average)
        lines = [
            *(["import math", ""] if self.schedule == COSINE else []),
            "import torch",
            *(["from torch.optim.lr_scheduler import LambdaLR"] if falls else []),
            *(["from torch.optim.swa_utils import AveragedModel"] if average else []),
            "from torch.utils.data import DataLoader",
            "",
            "from dptheory.training import make_private",
            "from dptheory.training.mechanisms import DpSgd",
            "",
            f"# epsilon {self.epsilon:g} at delta {self.delta:g} for {self.num_examples:,} records: {self.steps:,} steps",
            *(["mean = AveragedModel(model)"] if average else []),
            "sgd = torch.optim.SGD(",
            "    [p for p in model.parameters() if p.requires_grad],",
            f"    lr={self.learning_rate!r},",
            f"    momentum={self.momentum!r},",
            ")",
            "network, optimizer, loader = make_private(",
            "    module=model.train(),",
            "    optimizer=sgd,",
            f"    data_loader=DataLoader(private, batch_size={self.batch_size}),",
            "    mechanism=DpSgd(),",
            f"    noise_multiplier={self.noise_multiplier!r},",
            f"    max_grad_norm={self.clip_norm!r},",
            f"    sampling_rate={self.batch_size} / {self.num_examples},",
            f"    expected_batch_size={self.batch_size},",
            "    # secure=True,  # for a model that you release: nobody can repeat it",
            ")",
        ]
        if falls:
            factor = _FACTORS[self.schedule].format(steps=self.steps)
            lines += ["scheduler = LambdaLR(", f"    sgd, lambda step: {factor}", ")"]
        lines += [
            "taken = 0",
            f"while taken < {self.steps}:",
            "    for features, labels in loader:",
            "        optimizer.zero_grad()",
            "        # or your own loss, a mean",
            "        torch.nn.functional.cross_entropy(network(features), labels).backward()",
            "        optimizer.step()",
            "        if optimizer.accountant.steps == taken:",
            "            continue  # a dry batch: it only tests that records stay apart",
            "        taken += 1",
        ]
        if falls:
            lines += ["        scheduler.step()"]
        if average:
            lines += [f"        if taken > {first}:", "            mean.update_parameters(model)"]
        lines += [f"        if taken == {self.steps}:", "            break"]
        if average:
            lines += ["# mean.module is the trained network"]
        lines += [f"print(optimizer.statement(delta={self.delta!r}).markdown())"]
        return "\n".join(lines) + "\n"

    @property
    def likely(self) -> float:
        """Of the metric, one number in the expected range: two fifths of its way up, where measured runs ended on average."""
        return self.expected.low + _LIKELY_SHARE * (self.expected.high - self.expected.low)

    def __str__(self) -> str:
        rate = "" if self.schedule == CONSTANT else f", falling to 0 ({self.schedule})"
        average = f", weights averaged over the last {self.average:.0%} of the steps" if self.average else ""
        momentum = f" and momentum {self.momentum:g}" if self.momentum else ""
        parts = [
            f"Take batches of {self.batch_size:,} for {self.epochs:g} epochs ({self.steps:,} steps) at noise multiplier "
            f"{rounded_up(self.noise_multiplier, 4)}, clip norm {self.clip_norm:.3g}, learning rate {self.learning_rate:.3g}"
            f"{rate}{momentum}{average}: {self._expectation()}, {self._beside_usual()}.",
            f"This keeps epsilon {self.epsilon:g} at delta {self.delta:g} for {self.num_examples:,} records "
            "(Poisson batches; one record replaced by a null one, their number being public).",
            f"It rests on {self.pilots} pilots on {self.public}: trainings at the noise per step that the private run will have. "
            f"Planning took {self.seconds:.0f} seconds in all.",
            *self._table(),
            self._edges(),
        ]
        if self.costs:
            parts.append(
                f"What a wrong choice costs ({self.metric}): "
                + "; ".join(f"{name} {-loss:+.3f}" for name, loss in self.costs.items())
                + "."
            )
        if self.private_tuning is not None:
            other = self.private_tuning
            parts.append(
                f"Tuning on the private records instead (the best of {other.mean_runs:g} runs on average) would need noise multiplier "
                f"{rounded_up(other.noise_multiplier, 4)}, which alone changes the {self.metric} by "
                f"{other.gain.low:+.3f} to {other.gain.high:+.3f}."
            )
        if self.methods:
            parts.append(f"The papers' methods over DP-SGD, in pilots ({self.metric}, 95 %):")
        for one in self.methods:
            parts += [
                f"  {one.method:31}  {one.gain.low:+.3f} to {one.gain.high:+.3f}  {one.verdict}",
                f"    {one.setting}: {one.why} [{one.claim}].",
            ]
        if self.not_compared:
            why = "as they need another network or other labels"
            if self.seconds_to_compare:
                enough = f"{math.ceil(self.seconds_to_compare / 10) * 10}"
                why = f"for want of time: about {enough} seconds are enough (--seconds {enough}; seconds={enough} in Python)"
            parts.append(f"Of the papers' methods these were not compared, {why}: {', '.join(self.not_compared)}.")
        return "\n".join(_wrapped(part) for part in parts)

    def _expectation(self) -> str:
        if not math.isfinite(self.likely):
            return f"no number for the {self.metric}, since its pilots diverged"
        return f"expect {self.metric} {self.likely:.3f} ({self.expected.low:.3f} to {self.expected.high:.3f})"

    def _beside_usual(self) -> str:
        if self.ahead is None:
            return f"next to {self.usual}, one of {_USUAL}; nothing beat it in pilots by more than a standard error"
        low, high = self.ahead.low, self.ahead.high
        return (
            f"in pilots {(low + high) / 2:+.3f} over the best of {_USUAL} ({low:+.3f} to {high:+.3f}, 95 %), "
            f"which is {'sure' if low > 0 else 'not sure'}"
        )

    def _table(self) -> list[str]:
        """What is as good and what was tried, by hyperparameter."""
        if not self.tried:
            return []
        rows = [("", "choice", "as good in pilots", "tried", "")] + [
            (
                name,
                _short(self._value(name)),
                _short_range(self.as_good.get(name)),
                _short_range(tried),
                self._edge(name),
            )
            for name, tried in self.tried.items()
        ]
        return [f"  {a:14} {b:>8}  {c:18} {d:18} {e}".rstrip() for a, b, c, d, e in rows]

    def _value(self, name: str) -> float:
        return float(getattr(self, name.replace(" ", "_")))

    def _edge(self, name: str) -> str:
        """Whether the choice is the least or the most that was tried, and so another might be better."""
        tried, value = self.tried[name], self._value(name)
        if tried.low == tried.high:
            return "as given"
        return "smallest tried" if value <= tried.low else "largest tried" if value >= tried.high else ""

    def _further(self, name: str) -> float:
        """Half or twice the choice, beyond the edge that it is at."""
        further = self._value(name) * (0.5 if self._value(name) <= self.tried[name].low else 2.0)
        return min(round(further), self.num_examples) if name == "batch size" else further

    def _edges(self) -> str:
        known = f"More than {self.epochs:g} epochs were not tried: max_epochs (--max-epochs) allows more."
        for name in self.tried:
            if name == "batch size" and self.batch_size == self.num_examples:
                known += " Batches hold all records, and cannot be larger."
            elif self._edge(name).endswith("tried"):
                argument = name.replace(" ", "_")
                known += (
                    f" The {name} is the {self._edge(name).replace(' tried', '')} that was tried: to look further, plan again with "
                    f"{argument} (--{argument.replace('_', '-')}) fixed at {self._further(name):.6g}."
                )
        return known


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _short_range(found: Range | None) -> str:
    if found is None:
        return ""
    return _short(found.low) if found.low == found.high else f"{_short(found.low)} to {_short(found.high)}"


def _wrapped(part: str) -> str:
    """Lines of at most 80 columns; what is indented stays so, and no word is broken."""
    indent = " " * (len(part) - len(part.lstrip()))
    if len(part) <= _WIDTH:
        return part
    return textwrap.fill(
        part.strip(),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
