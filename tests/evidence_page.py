"""``python -m tests.evidence_page``: the numbers of proofs/results/plan.md, from the runs in proofs/results/plan.jsonl."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory.training.planning._evidence import (
    DEFAULT,
    DEFAULTS,
    GRID,
    GRID_SEED,
    OWN,
    PLAN,
    SHIPPED,
    SYNTHETIC,
)
from dptheory.training.planning._evidence_settings import PUBLISHED, SEEDS, SETTINGS
from tests.said import marked, page, table

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE, LINES = RESULTS / "plan.md", RESULTS / "plan.jsonl"
MANY = 1000
"""Public records, from which a plan is to be within one point."""
ONE, MEAN, OF_FEW, BELOW_DEFAULT, WITHOUT = 1.0, 0.4, 2.0, 0.5, 2.0
"""The goals, in points."""
CORE_SECONDS = 600.0
"""Five minutes of two cores."""

Line = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One plan beside its setting's grid and defaults; accuracies in percent.

    Attributes:
        name: of the setting.
        grid: the best mean of three seeds among the best four of the grid.
        points: of the grid.
        plan: mean of its seeds.
        error: standard error of the difference of ``grid`` and ``plan``, from their seeds.
        defaults: means of the seeds, by name.
        said: what the plan said and cost.
        run_seconds: processor seconds of one run of the choice.
        run_examples: that it sees.
        inside: of the runs, those within the range that the plan expected.
        choice: what was chosen, in words.
    """

    name: str
    grid: float
    points: int
    plan: float
    error: float
    defaults: Mapping[str, float]
    said: Mapping[str, Any]
    run_seconds: float
    run_examples: float
    inside: int
    choice: str

    @property
    def regret(self) -> float:
        """In points, against the grid's best."""
        return self.grid - self.plan

    @property
    def below(self) -> float:
        """In points, against the best default."""
        return max(self.defaults.values()) - self.plan

    @property
    def goal(self) -> float:
        """For the regret, with public records of its own."""
        return ONE if self.said["records"] >= MANY else OF_FEW


def read(path: Path = LINES) -> list[Line]:
    """All lines."""
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _square_error(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.fsum((v - middle) ** 2 for v in values) / (len(values) - 1) / len(values)


def grid_best(lines: Sequence[Line]) -> list[float] | None:
    """Accuracies of the three seeds of the point with the best mean of three; None where not all have been run."""
    further = [line for line in lines if line["kind"] == GRID_SEED]
    first = {tuple(line["place"]): line["accuracy"] for line in lines if line["kind"] == GRID}
    by_place: dict[tuple[float, ...], list[float]] = {}
    for line in further:
        place = tuple(line["place"])
        by_place.setdefault(place, [first[place]]).append(line["accuracy"])
    whole = [values for values in by_place.values() if len(values) == len(SEEDS)]
    return max(whole, key=_mean, default=None)


def default_accuracies(lines: Sequence[Line]) -> dict[str, list[float]]:
    """Of the seeds of every default, by name, in one setting."""
    own = [line for line in lines if line["kind"] == DEFAULT]
    return {key: [line["accuracy"] for line in own if line["name"] == key] for key in DEFAULTS}


def row(lines: Sequence[Line], name: str, public: str) -> Row | None:
    """One of the table; None where runs are missing."""
    own = [line for line in lines if line["setting"] == name]
    plans = [line for line in own if line["kind"] == PLAN and line["public"] == public]
    defaults = default_accuracies(own)
    top = grid_best(own)
    if top is None or any(len(v) < len(SETTINGS[name].seeds) for v in (plans, *defaults.values())):
        return None
    found = [line["accuracy"] for line in plans]
    one = plans[0]
    low, high = one["plan"]["low"], one["plan"]["high"]
    return Row(
        name=name,
        grid=100.0 * _mean(top),
        points=sum(line["kind"] == GRID for line in own),
        plan=100.0 * _mean(found),
        error=100.0 * math.sqrt(_square_error(top) + _square_error(found)),
        defaults={key: 100.0 * _mean(values) for key, values in defaults.items()},
        said=one["plan"],
        run_seconds=_mean([line["seconds"] for line in plans]),
        run_examples=one["steps"] * one["batch_size"],
        inside=sum(low <= value <= high for value in found),
        choice=_choice(one),
    )


def _choice(line: Line) -> str:
    average = f", mean of the last {line['average']:.0%}" if line["average"] else ""
    return (
        f"B {line['batch_size']:,}, {line['epochs']:g} passes, C {line['clip_norm']:.3g}, rate {line['learning_rate']:.3g} "
        f"{line['schedule']}, momentum {line['momentum']:g}{average}"
    )


def rows(lines: Sequence[Line], public: str) -> list[Row]:
    """Those that there are, the largest regret first."""
    found = [one for name in SETTINGS if (one := row(lines, name, public)) is not None]
    return sorted(found, key=lambda one: -one.regret)


# --- the page -------------------------------------------------------------------------------------------------------------


def written(lines: Sequence[Line]) -> str:
    """What stands between the markers."""
    return marked("tests.evidence_page", _lines(lines))


def _lines(lines: Sequence[Line]) -> Iterator[str]:
    own, shipped, synthetic = (rows(lines, public) for public in (OWN, SHIPPED, SYNTHETIC))
    yield from ("## What does not reach the goal", "", *_misses(lines, own, shipped, synthetic))
    heads = ("goal", "reached in", "worst", "mean")
    yield from ("", "## Goals", "", *table(heads, _goals(own, shipped, synthetic)))
    yield from ("", "## With public records, the worst first", "", *_table(own))
    heads = ("setting", "what", "choice")
    chosen = ([r.name, SETTINGS[r.name].words, r.choice] for r in own)
    yield from ("", "What was chosen, and what is trained:", "", *table(heads, chosen))
    both = [(one, "shipped images") for one in shipped] + [(one, "synthetic records") for one in synthetic]
    heads = ("what stands in", "setting", "grid's best", "plan", "regret", "to the best default")
    regrets = (
        [
            what,
            one.name,
            f"{one.grid:.2f}",
            f"{one.plan:.2f}",
            f"{one.regret:.2f} ± {one.error:.2f}",
            f"{-one.below:+.2f}",
        ]
        for one, what in sorted(both, key=lambda pair: -pair[0].regret)
    )
    yield from ("", "## Without public records, the worst first", "", *table(heads, regrets))
    heads = ("setting", "published", "plan", "runs", "lowest", "planning, core seconds", "one run", "choice")
    yield from ("", "## Published numbers, in percent", "", *table(heads, _published(lines)))
    heads = ("setting", "points", "grid's best", *DEFAULTS, "plan")
    yield from ("", "## Grids and defaults, in percent", "", *table(heads, _accuracies(lines)))


def _published(lines: Sequence[Line]) -> Iterator[list[Any]]:
    """Plans on all records, beside what Tramer and Boneh (2021) print for the same features, model and budget."""
    for name, setting in PUBLISHED.items():
        own = published_plans(lines, name)
        if own:
            accuracies = [line["accuracy"] for line in own]
            took = f"{own[0]['plan']['core_seconds']:.0f}", f"{_mean([line['seconds'] for line in own]):.0f}"
            found = _percent(accuracies), len(own), f"{100.0 * min(accuracies):.2f}"
            yield [name, setting.published, *found, *took, _choice(own[0])]


def published_plans(lines: Sequence[Line], name: str) -> list[Line]:
    """The runs of one of ``PUBLISHED``; empty where some are missing."""
    own = [line for line in lines if (line["kind"], line["setting"]) == (PLAN, name)]
    return own if len(own) == len(PUBLISHED[name].seeds) else []


def _accuracies(lines: Sequence[Line]) -> Iterator[list[Any]]:
    """Of every setting that has its grid and defaults, with or without a plan."""
    for name in SETTINGS:
        own = [line for line in lines if line["setting"] == name]
        top, defaults = grid_best(own), default_accuracies(own)
        if top is None or any(len(values) < len(SETTINGS[name].seeds) for values in defaults.values()):
            continue
        found = [line["accuracy"] for line in own if line["kind"] == PLAN and line["public"] == OWN]
        plan = _percent(found) if len(found) == len(SETTINGS[name].seeds) else "not yet"
        points = sum(line["kind"] == GRID for line in own)
        yield [name, points, _percent(top), *map(_percent, defaults.values()), plan]


def _percent(accuracies: Sequence[float]) -> str:
    """The mean, and the standard error from its seeds."""
    return f"{100.0 * _mean(accuracies):.2f} ± {100.0 * math.sqrt(_square_error(accuracies)):.2f}"


def _goals(own: Sequence[Row], shipped: Sequence[Row], synthetic: Sequence[Row]) -> Iterator[list[str]]:
    many, few = [r for r in own if r.goal == ONE], [r for r in own if r.goal != ONE]
    regrets, of_few = [r.regret for r in many], [r.regret for r in few]
    yield _goal(f"regret at most {ONE:g} with {MANY:,} public records and more", regrets, ONE)
    if regrets:
        yield [f"mean of these at most {MEAN:g}", _word(_mean(regrets) <= MEAN), "", f"{_mean(regrets):.2f}"]
    yield _goal(f"regret at most {OF_FEW:g} with fewer", of_few, OF_FEW)
    yield _goal(f"below the best default by at most {BELOW_DEFAULT:g}", [r.below for r in own], BELOW_DEFAULT)
    cost = [r.said["core_seconds"] / max(CORE_SECONDS, r.run_seconds) for r in own]
    yield _goal("planning at most five minutes of two cores, or one run where that is more (share of it)", cost, 1.0)
    inside, runs = sum(r.inside for r in own), sum(len(SETTINGS[r.name].seeds) for r in own)
    yield ["runs within the range that the plan expected (no goal)", f"{inside} of {runs}", "", ""]
    for found, what in ((shipped, "shipped images"), (synthetic, "synthetic records")):
        if found:
            mean, worst = _mean([r.regret for r in found]), max(r.regret for r in found)
            name = f"{what} in place of public records: mean regret at most {WITHOUT:g}"
            yield [name, _word(mean <= WITHOUT), f"{worst:.2f}", f"{mean:.2f}"]


def _goal(name: str, values: Sequence[float], goal: float) -> list[str]:
    if not values:
        return [name, "not measured", "", ""]
    reached = sum(value <= goal for value in values)
    count = f"{reached} of {len(values)}"
    shown = count if reached == len(values) else f"**{count}**"
    return [name, shown, f"{max(values):.2f}", f"{_mean(values):.2f}"]


def _word(reached: bool) -> str:
    return "yes" if reached else "**no**"


def _misses(
    lines: Sequence[Line], own: Sequence[Row], shipped: Sequence[Row], synthetic: Sequence[Row]
) -> Iterator[str]:
    found = [
        f"- {r.name}: {r.regret:.2f} ± {r.error:.2f} points below the grid's best, where {r.goal:g} is the goal."
        for r in own
        if r.regret > r.goal
    ]
    found += [
        f"- {r.name}: {r.below:.2f} points below the best default ({max(r.defaults, key=lambda key: r.defaults[key])})."
        for r in own
        if r.below > BELOW_DEFAULT
    ]
    regrets = [r.regret for r in own if r.goal == ONE]
    if regrets and _mean(regrets) > MEAN:
        found.append(
            f"- The mean regret with {MANY:,} public records and more is {_mean(regrets):.2f}, where {MEAN:g} is the goal."
        )
    for part, what in ((shipped, "shipped images"), (synthetic, "synthetic records")):
        mean = _mean([r.regret for r in part]) if part else 0.0
        if mean > WITHOUT:
            found.append(
                f"- With {what} in place of public records the mean regret is {mean:.2f}, where {WITHOUT:g} is the goal."
            )
    costs = [(r.name, r.said["core_seconds"], r.run_seconds) for r in own]
    published = {name: published_plans(lines, name) for name in PUBLISHED}
    for name, runs in published.items():
        if runs:
            costs.append((name, runs[0]["plan"]["core_seconds"], _mean([line["seconds"] for line in runs])))
    for name, took, run in costs:
        allowed = max(CORE_SECONDS, run)
        if took > allowed:
            found.append(f"- {name}: planning took {took:.0f} core seconds, where {allowed:.0f} is the goal.")
    for name, setting in PUBLISHED.items():
        accuracies = [100.0 * line["accuracy"] for line in published[name]]
        if accuracies and setting.published is not None and _mean(accuracies) < setting.published:
            found.append(f"- {name}: {_mean(accuracies):.2f} where {setting.published} is published.")
    unmeasured = [name for name in PUBLISHED if not published[name]]
    missing = [name for name in SETTINGS if name not in {r.name for r in own}] + unmeasured
    if missing:
        found.append(f"- Not measured yet: {', '.join(missing)}.")
    wanted = {
        SHIPPED: [n for n, s in SETTINGS.items() if s.shipped],
        SYNTHETIC: [n for n, s in SETTINGS.items() if s.synthetic],
    }
    for public, names in wanted.items():
        absent = [name for name in names if row(lines, name, public) is None]
        if absent:
            found.append(f"- Not measured yet without public records ({public}): {', '.join(absent)}.")
    yield from found or ["Every goal below is reached."]


def _table(own: Sequence[Row]) -> Iterator[str]:
    costs = "planning, core seconds | one run | examples, in runs | expected | plan | inside"
    heads = ("setting", "epsilon", "public records", "regret", *(f"to {key}" for key in DEFAULTS), *costs.split(" | "))
    yield from table(heads, map(_cells, own))


def _cells(r: Row) -> list[str]:
    return [
        *(r.name, f"{SETTINGS[r.name].epsilon:g}", f"{r.said['records']:,}", f"{r.regret:.2f} ± {r.error:.2f}"),
        *(f"{r.plan - value:+.2f}" for value in r.defaults.values()),
        *(f"{r.said['core_seconds']:.0f}", f"{r.run_seconds:.1f}", f"{r.said['examples'] / r.run_examples:.1f}"),
        f"{100 * r.said['low']:.1f} to {100 * r.said['high']:.1f}",
        *(f"{r.plan:.2f}", f"{r.inside} of {len(SETTINGS[r.name].seeds)}"),
    ]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE, written(read())), encoding="utf-8")
