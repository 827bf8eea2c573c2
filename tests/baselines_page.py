"""``python -m tests.baselines_page``: the numbers of proofs/results/baselines.md, from what is printed and from committed runs."""

import json
import math
import statistics
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from dptheory import papers, privacy
from dptheory.training.planning._evidence_settings import PUBLISHED
from dptheory.training.studies import Study
from dptheory.training.studies._rules import read_studies
from tests.evidence_page import published_plans
from tests.evidence_page import read as read_plans
from tests.said import marked, page, table

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE = RESULTS / "baselines.md"
DECLARED: Mapping[str, Any] = tomllib.loads((RESULTS / "baselines.toml").read_text(encoding="utf-8"))
DELTA = 1e-5
"""Of every number on the page, but for RS, which prints none."""
PLANNED = "[plan](plan.md)"
INPUTS = {
    "pixels": "pixels",
    "scattering": "scattering features",
    "public": "features learned on public images",
}


@dataclass(frozen=True, kw_only=True)
class Plain:
    """An accuracy of plain DP-SGD, in percent.

    Attributes:
        data, input: what it is trained on.
        epsilon: of its budget.
        value: the accuracy.
        source: of the number, in a few words.
        ours: whether we ran it.
    """

    data: str
    input: str
    epsilon: float
    value: float
    source: str
    ours: bool = False


@dataclass(frozen=True, kw_only=True)
class Improved:
    """What a paper prints with its method, beside its own plain DP-SGD; ``measured``: the method's gain in our runs."""

    plain: Plain
    method: str
    value: float
    measured: str

    @property
    def gain(self) -> float:
        """In points, as printed."""
        return round(self.value - self.plain.value, 9)


def percent(text: str) -> float:
    """Of a printed accuracy, which may be a share."""
    value = Fraction(text.split()[0])
    return float(100 * value if value <= 1 else value)


# --- what is printed ------------------------------------------------------------------------------------------------------


def printed() -> Iterator[tuple[Plain, list[Improved]]]:
    """Each paper's plain DP-SGD, and what its methods make of it."""
    for one in DECLARED["printed"]:
        table = papers.table(one["table"])
        for epsilon in one["epsilons"]:
            plain = Plain(
                data=one["data"],
                input=one["input"],
                epsilon=float(epsilon),
                value=percent(table.cell(one["plain"].format(epsilon=epsilon)).text),
                source=table.label,
            )
            yield (
                plain,
                [
                    Improved(
                        plain=plain,
                        method=method,
                        value=percent(table.cell(cell.format(epsilon=epsilon)).text),
                        measured=_measured(one.get("measured"), method, epsilon),
                    )
                    for method, cell in one["methods"].items()
                ],
            )


def quoted() -> Iterator[Plain]:
    """Plain DP-SGD of Tramer and Boneh."""
    for one in DECLARED["quoted"]:
        for data, given, network, text in one["rows"]:
            source = f"Tramer and Boneh, {network}"
            yield Plain(data=data, input=given, epsilon=float(one["epsilon"]), value=percent(text), source=source)


@cache
def _differences() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS.parent / "results.json").read_text(encoding="utf-8"))
    return found


def _measured(declared: Mapping[str, Any] | None, method: str, epsilon: str) -> str:
    if declared is None or epsilon not in declared["phases"]:
        return "not run"
    phases, arm, against = [declared["phases"][epsilon]], declared["arms"][method], declared["against"]
    (one,) = [
        row
        for row in _differences()[declared["study"]]
        if (row["phases"], row["arm"], row["against"]) == (phases, arm, against)
    ]
    return f"{one['mean']:+.2f} [{one['low']:+.2f}, {one['high']:+.2f}] ([{declared['study']}]({declared['study']}.md))"


# --- ours -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Run:
    """Our plain DP-SGD at one budget.

    Attributes:
        data, input, epsilon: as of :class:`Plain`.
        what: network and length.
        rate: how the learning rate was chosen.
        accuracies: of the seeds, in percent; empty where runs are missing.
        source: study or plan.
    """

    data: str
    input: str
    epsilon: float
    what: str
    rate: str
    accuracies: Sequence[float]
    source: str

    @property
    def plain(self) -> Plain:
        """Its mean."""
        mean = statistics.fmean(self.accuracies)
        source = f"ours, {self.source}"
        return Plain(data=self.data, input=self.input, epsilon=self.epsilon, value=mean, source=source, ours=True)


def ours() -> Iterator[Run]:
    """What was run, and what is declared and was not."""
    for one in DECLARED["ours"]:
        given = {"data": one["data"], "input": one["input"], "rate": one.get("rate", "")}
        if "plan" in one["runs"]:
            yield _planned(one["runs"]["plan"], given)
        else:
            for epsilon, phase in one["runs"]["phases"].items():
                yield _studied(one["runs"], float(epsilon), phase, given)


@cache
def _studies() -> Mapping[str, Study]:
    return read_studies()


def _planned(name: str, given: Mapping[str, Any]) -> Run:
    lines, setting = published_plans(read_plans(), name), PUBLISHED[name]
    return Run(
        **given,
        epsilon=setting.epsilon,
        what=f"linear, {setting.max_epochs:g} epochs",
        accuracies=[100.0 * line["accuracy"] for line in lines],
        source=PLANNED,
    )


def _studied(runs: Mapping[str, Any], epsilon: float, phase: str, given: Mapping[str, Any]) -> Run:
    study = _studies()[runs["study"]]
    seeds = study.phase(phase).seeds
    config = study.config(phase, arm=runs["arm"], point={}, seed=seeds[0])
    path = RESULTS / f"{study.name}.jsonl"
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    own = [line for line in lines if (line["phase"], line["arm"]) == (phase, runs["arm"])]
    assert config.epsilon == epsilon
    page_of = (
        f"[{study.name}]({study.name}.md)"
        if len(own) == len(seeds)
        else f"[{study.name}](../../training/configs/studies/{study.name}.toml)"
    )
    return Run(
        **given,
        epsilon=epsilon,
        what=f"{config.model}, {config.epochs:g} epochs",
        accuracies=[100.0 * line["epochs"]["test_accuracy"][-1] for line in own] if len(own) == len(seeds) else [],
        source=page_of,
    )


# --- what is printed beside it --------------------------------------------------------------------------------------------


def all_plain() -> list[Plain]:
    """Every plain DP-SGD, printed or ours."""
    return [*(plain for plain, _ in printed()), *quoted(), *(run.plain for run in ours() if run.accuracies)]


def best(plain: Sequence[Plain], *, data: str, inputs: Sequence[str], epsilon: float) -> Plain | None:
    """The highest at this budget or a smaller one."""
    own = [one for one in plain if one.data == data and one.input in inputs and one.epsilon <= epsilon]
    return max(own, key=lambda one: one.value, default=None)


def rivals(one: Improved, plain: Sequence[Plain]) -> tuple[Plain, Plain]:
    """The best plain DP-SGD on the same input, and on any that needs no more public records."""
    own = one.plain
    wider = (own.input,) if own.input == "public" else ("pixels", "scattering")
    same, widest = (best(plain, data=own.data, inputs=i, epsilon=own.epsilon) for i in ((own.input,), wider))
    assert same is not None and widest is not None  # the paper's own
    return same, widest


# --- what the printed noise spends ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Account:
    """A printed noise multiplier and the run that it is for.

    Attributes:
        source: paper and setting.
        epsilon: printed.
        noise_multiplier, sampling_rate, steps: of the run.
        normalised: noise multiplier of two releases before it; None without.
        length: where the number of steps is from.
    """

    source: str
    epsilon: float
    noise_multiplier: float
    sampling_rate: float
    steps: int
    normalised: float | None = None
    length: str

    def spent(self) -> float:
        """Upper end of epsilon, exactly accounted, Poisson batches."""
        return self._run(self.steps).epsilon(delta=DELTA).upper

    def less_noise(self) -> float:
        """The factor by which all noise can be smaller for the printed budget."""
        return self._run(self.steps).noise_scale(epsilon=self.epsilon, delta=DELTA)

    def more_steps(self) -> float:
        """The factor by which there can be more of them for the printed budget and noise, to a part in 400."""
        found = _last(
            lambda steps: self._run(steps).epsilon(delta=DELTA).upper <= self.epsilon, self.steps, 2 * self.steps, 400
        )
        return found / self.steps

    def _run(self, steps: int) -> privacy.Composition:
        run = privacy.Step(noise_multiplier=self.noise_multiplier, sampling_rate=self.sampling_rate, count=steps)
        before = (
            (privacy.Step(noise_multiplier=self.normalised, sampling_rate=1.0, count=2),) if self.normalised else ()
        )
        return privacy.Composition((*before, run))


def _last(holds: Callable[[int], bool], low: int, high: int, parts: int = 0) -> int:
    """The largest number at which it holds, where it does at ``low`` and not at ``high``; to a part of ``parts``, if any."""
    while high - low > max(1.0, low / parts if parts else 0.0):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def accounts() -> Iterator[Account]:
    """Every printed noise for the three data sets."""
    for group in DECLARED["accounts"]:
        for id in group.get("settings", ()):
            yield _printed_account(papers.setting(id), group.get("normalised"))
        for one in group.get("of", ()):
            steps = one["train_size"] // one["batch_size"] * one["epochs"]
            yield Account(
                source=f"Tramer and Boneh: {one['what']}",
                epsilon=one["epsilon"],
                noise_multiplier=one["noise_multiplier"],
                sampling_rate=one["batch_size"] / one["train_size"],
                steps=steps,
                normalised=one.get("normalised"),
                length=one["length"],
            )


def _printed_account(one: papers.Setting, normalised: float | None) -> Account:
    rate, noise = one.number("batch_size") / one.number("train_size"), one.number("noise_multiplier")
    assert one.delta == DELTA
    if one.epochs is not None:
        steps, length = math.ceil(one.epochs / rate), f"{one.epochs} epochs"
    else:
        length = "what Rényi's accounting affords"
        run = {"noise_multiplier": noise, "sampling_rate": rate, "delta": DELTA}
        steps = _last(lambda count: privacy.rdp_epsilon(**run, steps=count) <= one.number("epsilon"), 1, 10_000)
    return Account(
        source=f"{one.source}: {one.model}, {one.dataset}",
        epsilon=one.number("epsilon"),
        noise_multiplier=noise,
        sampling_rate=rate,
        steps=steps,
        normalised=normalised,
        length=length,
    )


# --- the page -------------------------------------------------------------------------------------------------------------


def written() -> str:
    """What stands between the markers."""
    return marked("tests.baselines_page", _lines())


def _lines() -> Iterator[str]:
    plain, runs, spent = all_plain(), list(ours()), [(one, one.spent()) for one in accounts()]
    made = [one for _, methods in printed() for one in methods]
    yield from ("## What a practitioner takes home", "", *_taken_home(made, plain, runs, spent))
    for given, words in INPUTS.items():
        if own := [one for one in made if one.plain.input == given]:
            yield from ("", f"## What is bought, in points: {words}", "", *_gains(own, plain))
    yield from ("", "## Plain DP-SGD, all numbers", "", *_plain_lines(plain, runs))
    yield from ("", "## By accounting", "", *_accounts(spent))


def _taken_home(
    made: Sequence[Improved], plain: Sequence[Plain], runs: Sequence[Run], spent: Sequence[tuple[Account, float]]
) -> Iterator[str]:
    own = [one for one in made if one.plain.input != "public"]
    pairs = [(one, *rivals(one, plain)) for one in own]
    same, widest = (sum(one.value <= round(pair[at].value, 9) for one, *pair in pairs) for at in (0, 1))
    left = "; ".join(
        f"{one.plain.data} at epsilon {one.plain.epsilon:g} {one.value - wide.value:+.1f} ({one.plain.source}, {one.plain.input})"
        for one, _, wide in pairs
        if one.value > wide.value
    )
    yield (
        "1. **Scattering features and another plain DP-SGD mostly give more than a method.** The papers print "
        f"{len(own)} results of a method on MNIST, FashionMNIST and CIFAR-10 without learned features. Of these {same} are no "
        f"higher than the best plain DP-SGD on the same input at this budget or a smaller one, and {widest} no higher than the "
        "best on pixels or scattering features, which need no public record. What the others are above it, in points: "
        f"{left}."
    )
    gains = sorted(one.gain for one in own if one.gain > 0)
    wide, which = _spread(plain)
    yield (
        f"2. Where a method gains, it gains {gains[0]:.1f} to {gains[-1]:.1f} points over its own paper's plain DP-SGD. Plain "
        f"DP-SGD of two papers at one budget and on one input differs by up to {wide:.1f} points ({which})."
    )
    planned = ", ".join(
        f"{one.data} {statistics.fmean(one.accuracies):.2f} (Tramer and Boneh: {_most(plain, one):.1f})"
        for one in runs
        if one.accuracies and one.source == PLANNED
    )
    below, all_of_them = _below(plain)
    yield (
        "3. Ours is not the best plain DP-SGD. Planned on 1,000 public records and exactly accounted, a linear model on "
        f"scattering features reaches, at epsilon 3: {planned}. On pixels ours are below the best printed at {below} of "
        f"{all_of_them} budgets."
    )
    factors = [one.epsilon / exact for one, exact in spent]
    yield (
        f"4. Exact accounting finds none of the {len(spent)} printed noise multipliers too small, for Poisson batches: the "
        f"printed epsilon is {min(factors):.2f} to {max(factors):.2f} times the exact one. What that is worth in accuracy was "
        "not measured."
    )


def _most(plain: Sequence[Plain], run: Run) -> float:
    own = (run.data, run.input, run.epsilon)
    return max(
        one.value for one in plain if (one.data, one.input, one.epsilon) == own and one.source.startswith("Tramer")
    )


def _spread(plain: Sequence[Plain]) -> tuple[float, str]:
    """Largest difference of two papers' plain DP-SGD on one input at one budget, and which they are."""
    value = attrgetter("value")
    kinds = [[one for one in plain if not one.ours and _kind(one) == kind] for kind in {_kind(one) for one in plain}]
    ends = [(max(own, key=value), min(own, key=value)) for own in kinds if own]
    most, least = max(ends, key=lambda pair: pair[0].value - pair[1].value)
    words = f"{most.data} at epsilon {most.epsilon:g}: {most.value:.1f} in {most.source}, {least.value:.1f} in {least.source}"
    return most.value - least.value, words


def _below(plain: Sequence[Plain]) -> tuple[int, int]:
    """At how many budgets our best on pixels is below the best printed one, of how many that both have."""
    pixels = [one for one in plain if one.input == "pixels"]
    both = {_kind(one) for one in pixels if one.ours} & {_kind(one) for one in pixels if not one.ours}
    tops = [
        [max(one.value for one in pixels if _kind(one) == kind and one.ours == own) for own in (True, False)]
        for kind in both
    ]
    return sum(here < there for here, there in tops), len(tops)


def _kind(one: Plain) -> tuple[str, str, float]:
    return one.data, one.input, one.epsilon


def _gains(made: Sequence[Improved], plain: Sequence[Plain]) -> Iterator[str]:
    more = ["by scattering features"] if any(one.plain.input == "pixels" for one in made) else []
    heads = ["data", "epsilon", "paper", "its DP-SGD", "by its method", "by another plain DP-SGD", *more]
    rows = []
    for one in sorted(made, key=lambda one: (one.plain.data, one.plain.epsilon)):
        own, (same, widest) = one.plain, rivals(one, plain)
        features = [_named(widest if widest.input == "scattering" else own, one) for _ in more]
        printed = f"{own.source}, {one.method}", f"{own.value:.1f}", f"{one.gain:+.1f} ({one.value:.1f})"
        rows.append([own.data, f"{own.epsilon:g}", *printed, _named(same, one), *features, one.measured])
    yield from table([*heads, "the method's gain here"], rows)


def _named(rival: Plain, one: Improved) -> str:
    """What it has more than the paper's own, in points; "-" where there is none higher."""
    if rival.value <= one.plain.value:
        return "-"
    budget = "" if rival.epsilon == one.plain.epsilon else f", epsilon {rival.epsilon:g}"
    return f"{rival.value - one.plain.value:+.1f} ({rival.value:.1f}, {rival.source}{budget})"


def _plain_lines(plain: Sequence[Plain], runs: Sequence[Run]) -> Iterator[str]:
    printed = sorted((one for one in plain if not one.ours), key=lambda one: (*_kind(one), -one.value))
    heads = ["data", "input", "epsilon", "accuracy"]
    rows = [
        [one.data, one.input, f"{one.epsilon:g}", f"{one.value:.{2 if 'GIP' in one.source else 1}f}", one.source]
        for one in printed
    ]
    yield from table([*heads, "of"], rows)
    yield from ("", "Ours, mean and standard error, last epoch:", "")
    rows = []
    for run in sorted(runs, key=lambda run: (run.data, run.input, run.epsilon)):
        found = [_mean(run.accuracies), len(run.accuracies)] if run.accuracies else ["not run yet", ""]
        rows.append([run.data, run.input, f"{run.epsilon:g}", *found, run.what, run.rate, run.source])
    yield from table([*heads, "runs", "network", "learning rate chosen by", "of"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values) / math.sqrt(len(values)):.2f}"


def _accounts(spent: Sequence[tuple[Account, float]]) -> Iterator[str]:
    heads = (
        "printed for | noise | rate | steps | length | epsilon | exact | all noise, for the printed epsilon | or steps"
    )
    rows = []
    for one, exact in spent:
        run = f"{one.noise_multiplier:g}", f"{one.sampling_rate:.4f}", one.steps, one.length
        worth = [f"{100 * (factor - 1):+.0f} %" for factor in (one.less_noise(), one.more_steps())]
        rows.append([one.source, *run, f"{one.epsilon:g}", f"{exact:.3f}", *worth])
    yield from table(heads.split(" | "), rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE, written()), encoding="utf-8")
