"""What a study is made of, read from TOML: a question, arms, phases of runs with paired seeds, comparisons."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training._files import only, read_toml, said
from dptheory.training.runs import RunConfig, from_dict
from dptheory.training.studies._statistics import LEAST_FOR_EQUIVALENCE, LEAST_PAIRS

WINNER = "winner"
"""In a comparison: the arm that an earlier phase found best."""
DIFFERENCE, EQUIVALENCE = "difference", "equivalence"
_LEAST = {DIFFERENCE: LEAST_PAIRS, EQUIVALENCE: LEAST_FOR_EQUIVALENCE}
_FOLDER = Path(__file__).resolve().parents[1]
_WORDS = ("title", "question", "forecast", "cost")


@dataclass(frozen=True)
class Phase:
    """Every arm at every point of a grid with every seed.

    Attributes:
        seeds: the same for all arms, so that runs of one seed are pairs.
        changes: to the configuration of every arm.
        per_arm: changes to that of single arms.
        vary: the grid: values of configuration keys such as "optimizer.learning_rate"; empty for one point.
        extend: the grid of the one key goes on beyond an end, by its own last ratio, until an arm's best value is inside.
        tuned_by: an earlier phase: each arm runs at the grid point that was best there, by mean accuracy at the last epoch over
            that phase's seeds, diverged runs included, ties to the smaller values.
        tuned_as: arms that take the point that was best for another one.
        untuned: arms that keep their own settings where the others are tuned.
        winner_of: an earlier phase: its best arm, by the same mean, is an arm here too.
        winner_among: the arms that it may be; by default those that are not in ``arms``.
    """

    name: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    per_arm: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    extend: bool = False
    tuned_by: str | None = None
    tuned_as: Mapping[str, str] = field(default_factory=dict)
    untuned: tuple[str, ...] = ()
    winner_of: str | None = None
    winner_among: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Two arms, pair by pair.

    Attributes:
        phases: in which both run; the pairs of several, whose seeds differ, count together.
        arm: its accuracy less that of ``against``; "winner" for the arm that the phase takes over from an earlier one.
        against: the other arm.
        kind: "difference", or "equivalence" within ``margin``.
        margin: in points (percent of accuracy); of a difference, the one that would matter; None where none is stated.
        main: whether it is the study's main comparison.
    """

    phases: tuple[str, ...]
    arm: str
    against: str
    kind: str = DIFFERENCE
    margin: float | None = None
    main: bool = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question, and the runs that are to answer it.

    Attributes:
        name: of the file, and of the folder of its results.
        title: in a few words.
        question: that it answers.
        answers: ids of the claims that it is evidence on.
        forecast: what the theory expects, with the ids of the claims that say so.
        cost: of a run and of all, as measured.
        device: "any"; or "cuda" for a study that is not to be run without.
        base: configuration that all runs share.
        arms: what each arm changes in it.
        phases: in order.
        comparisons: all that are made, so that their number is known.
    """

    name: str
    title: str
    question: str
    answers: tuple[str, ...]
    forecast: str
    cost: str
    device: str
    base: Mapping[str, Any]
    arms: Mapping[str, Mapping[str, Any]]
    phases: tuple[Phase, ...]
    comparisons: tuple[Comparison, ...]

    @functools.cached_property
    def _made(self) -> dict[tuple[Any, ...], RunConfig]:
        return {}

    def phase(self, name: str) -> Phase:
        """The phase of that name."""
        return next(phase for phase in self.phases if phase.name == name)

    def config(self, phase: str, *, arm: str, point: Mapping[str, Any], seed: int) -> RunConfig:
        """Configuration of one run, in the phase of that name; made once, as comparisons ask for the same ones again and again.

        Raises:
            ValueError: an unknown key, or a value outside its range.
        """
        asked = (phase, arm, *point.items(), seed)
        if asked not in self._made:
            self._made[asked] = self._config(self.phase(phase), arm, point, seed)
        return self._made[asked]

    def _config(self, phase: Phase, arm: str, point: Mapping[str, Any], seed: int) -> RunConfig:
        table: Mapping[str, Any] = self.base
        for changes in (self.arms[arm], phase.changes, phase.per_arm.get(arm, {})):
            table = merged(table, changes)
        for key, value in point.items():
            *path, last = key.split(".")
            for name in reversed(path):
                last, value = name, {last: value}
            table = merged(table, {last: value})
        return from_dict({**table, "seed": seed})


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the changes: subtables key by key, but one with a new name as a whole; ``unset`` lists keys to take out."""
    result = {key: value for key, value in table.items() if key not in changes.get("unset", ())}
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping) and "name" not in value:
            result[key] = merged(old, value)
        elif key != "unset":
            result[key] = value
    return result


def read_study(path: Path) -> Study:
    """A study from a TOML file.

    Args:
        path: of the file; ``configs/studies/...`` of this package are found from anywhere.

    Returns:
        The study, named like the file.

    Raises:
        ValueError: not TOML, or not a study.
        OSError: no such file.

    Example: a shipped study.
        >>> from pathlib import Path
        >>> from dptheory.training.studies import read_study
        >>> read_study(Path("configs/studies/masking.toml")).name
        'masking'
    """
    found = path if path.exists() or path.is_absolute() else _FOLDER / path
    if not found.exists():
        known = ", ".join(str(p.relative_to(_FOLDER)) for p in sorted((_FOLDER / "configs/studies").glob("*.toml")))
        raise FileNotFoundError(f"no file {path}; the package brings {known}")
    table = read_toml(found)
    try:
        return study_from_dict(found.stem, table)
    except ArgumentError as error:
        raise error.retold(f"{path}: {error}") from None


def study_from_dict(name: str, table: Mapping[str, Any]) -> Study:
    """A study from plain values; every configuration that can be known beforehand is built once, so that errors come now.

    Args:
        name: of the study, and of the folder of its results.
        table: title, question, forecast, cost, base, arms and phases; answers, device and comparisons. See :class:`Study`.

    Returns:
        The study.

    Raises:
        ValueError: something is missing, unknown or outside its range.

    Example: a study as TOML has it, of one comparison over eight seeds.
        >>> from dptheory.training.studies import study_from_dict
        >>> study = study_from_dict("half", {
        ...     "title": "half the entries", "question": "Do masks help?", "forecast": "No.", "cost": "Seconds.",
        ...     "base": {"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...              "noise_multiplier": 1.0},
        ...     "arms": {"dp-sgd": {}, "masked": {"mechanism": {"name": "random-sparsification", "drop_rate": 0.5}}},
        ...     "phases": {"final": {"seeds": {"first": 0, "count": 8}}},
        ...     "comparisons": [{"phases": ["final"], "arm": "masked", "against": "dp-sgd", "main": True}]})
        >>> study.config("final", arm="masked", point={}, seed=3).mechanism["drop_rate"]
        0.5
    """
    known = (*_WORDS, "answers", "device", "base", "arms", "phases", "comparisons")
    _only("", table, known)
    words = {word: said(table, word) for word in _WORDS}
    for key in ("base", "arms", "phases"):
        if not isinstance(table.get(key), Mapping) or not table[key]:
            raise ArgumentError(key, f"be a table such as [{key}]", table.get(key))
    for arm, changes in table["arms"].items():
        if not isinstance(changes, Mapping):
            raise ArgumentError(f"arms.{arm}", "be a table of changes", changes)
        _file_name("arms", arm)
    phases: list[Phase] = []
    for phase, values in table["phases"].items():
        _file_name("phases", phase)
        phases.append(_phase(phase, values, table["arms"], phases))
    study = Study(
        name=name,
        **words,
        answers=tuple(table.get("answers", ())),
        device=_validate.choice("device", table.get("device", "any"), ("any", "cuda")),
        base=table["base"],
        arms=table["arms"],
        phases=tuple(phases),
        comparisons=tuple(_comparison(values, phases) for values in table.get("comparisons", ())),
    )
    if sum(c.main for c in study.comparisons) != 1:
        raise ArgumentError(
            "comparisons",
            "have one with main = true",
            sum(c.main for c in study.comparisons),
        )
    for built in study.phases:
        for arm in built.arms:
            study.config(
                built.name, arm=arm, point={k: values[0] for k, values in built.vary.items()}, seed=built.seeds[0]
            )
    return study


def _phase(name: str, table: Mapping[str, Any], arms: Mapping[str, Any], earlier: list[Phase]) -> Phase:
    where = f"phases.{name}"
    _only(
        f"{where}.",
        table,
        (
            "arms",
            "seeds",
            "changes",
            "per_arm",
            "vary",
            "extend",
            "tuned_by",
            "tuned_as",
            "untuned",
            "winner_of",
            "winner_among",
        ),
    )
    chosen = tuple(table.get("arms", arms))
    for arm in chosen:
        _validate.choice(f"{where}.arms", arm, tuple(arms))
    vary = {key: tuple(values) for key, values in table.get("vary", {}).items()}
    for key, values in vary.items():
        if not values or list(values) != sorted(set(values)):
            raise ArgumentError(f"{where}.vary.{key}", "be values in rising order", values)
    extend = _validate.flag(f"{where}.extend", table.get("extend", False))
    if extend and [len(values) > 1 and values[0] > 0 for values in vary.values()] != [True]:
        raise ArgumentError(f"{where}.extend", "be left out unless vary has one key with two or more values > 0", vary)
    seeds = _seeds(f"{where}.seeds", table.get("seeds"))
    before = {phase.name: phase for phase in earlier}
    for key in ("tuned_by", "winner_of"):
        if table.get(key) is None:
            continue
        found = before[_validate.choice(f"{where}.{key}", table[key], tuple(before))]
        if set(found.seeds) & set(seeds):
            raise ArgumentError(
                f"{where}.seeds", "be new ones", found.name, got=f"some of phase {found.name!r}, which chose what runs"
            )
    tuned_by, winner_of, tuned_as = table.get("tuned_by"), table.get("winner_of"), table.get("tuned_as", {})
    for arm in tuned_as:
        _validate.choice(f"{where}.tuned_as", arm, chosen)
    if tuned_as and tuned_by is None:
        raise ArgumentError(f"{where}.tuned_by", "be given where tuned_as is", None, got="none")
    untuned = tuple(table.get("untuned", ()))
    for arm in untuned:
        _validate.choice(f"{where}.untuned", arm, chosen)
    if untuned and (tuned_by is None or set(untuned) & set(tuned_as)):
        raise ArgumentError(f"{where}.untuned", "come with tuned_by, and be in none of tuned_as", untuned)
    if tuned_by is not None and vary:
        raise ArgumentError(f"{where}.vary", "be left out where tuned_by is given", vary)
    among: tuple[str, ...] = ()
    if winner_of is not None:
        among = tuple(table.get("winner_among", [arm for arm in before[winner_of].arms if arm not in chosen]))
        for arm in among:
            _validate.choice(f"{where}.winner_among", arm, before[winner_of].arms)
        if not among or set(among) & set(chosen):
            raise ArgumentError(
                f"{where}.winner_among", f"be arms of {winner_of!r} that are not in {where}.arms", among
            )
    if tuned_by is not None:
        tuner = before[tuned_by]
        same = (tuner.winner_of, tuner.winner_among) == (winner_of, among)
        wanted = {tuned_as.get(arm, arm) for arm in (*chosen, *(() if same else among)) if arm not in untuned}
        if not wanted <= set(tuner.arms):
            raise ArgumentError(f"{where}.tuned_by", "be a phase with the same arms", tuned_by)
    per_arm = table.get("per_arm", {})
    for arm in per_arm:
        _validate.choice(f"{where}.per_arm", arm, tuple(arms))
    changes = table.get("changes", {})
    return Phase(name, chosen, seeds, changes, per_arm, vary, extend, tuned_by, tuned_as, untuned, winner_of, among)


def _comparison(table: Mapping[str, Any], known: list[Phase]) -> Comparison:
    where = "comparisons"
    _only(f"{where}.", table, ("phases", "arm", "against", "kind", "margin", "main"))
    named = {phase.name: phase for phase in known}
    if not isinstance(table.get("phases"), list) or not table["phases"]:
        raise ArgumentError(f"{where}.phases", "be names of phases", table.get("phases"))
    phases = [named[_validate.choice(f"{where}.phases", name, tuple(named))] for name in table["phases"]]
    for phase in phases:
        for key in ("arm", "against"):
            _validate.choice(
                f"{where}.{key}", table.get(key, ""), (*phase.arms, *([WINNER] if phase.winner_of else []))
            )
        if phase.vary:
            raise ArgumentError(f"{where}.phases", "be phases without a grid", phase.name)
    seeds = [seed for phase in phases for seed in phase.seeds]
    if len(set(seeds)) < len(seeds):
        raise ArgumentError(
            f"{where}.phases",
            "have different seeds, so that pairs are independent",
            table["phases"],
        )
    kind = _validate.choice(f"{where}.kind", table.get("kind", DIFFERENCE), tuple(_LEAST))
    if len(seeds) < _LEAST[kind]:
        raise ArgumentError(f"{where}.phases", f"have at least {_LEAST[kind]} pairs for {kind}", len(seeds))
    margin = table.get("margin")
    if margin is not None or kind == EQUIVALENCE:
        margin = _validate.real(f"{where}.margin", margin, 0.0, 100.0, ends="(]")
    main = _validate.flag(f"{where}.main", table.get("main", False))
    return Comparison(tuple(table["phases"]), table["arm"], table["against"], kind, margin, main)


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    """Seeds given one by one, or as ``{first = 100, count = 16}``."""
    if isinstance(value, Mapping):
        _only(f"{name}.", value, ("first", "count"))
        first = _argument_ranges.seed(f"{name}.first", value.get("first", 0))
        value = range(first, first + _validate.integer(f"{name}.count", value.get("count", 0), 1, 10_000))
    if not isinstance(value, list | range) or not value or len(set(value)) != len(value):
        raise ArgumentError(name, "be different seeds, or first and count", value)
    return tuple(_argument_ranges.seed(name, seed) for seed in value)


def _only(prefix: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    only(table, known, prefix=prefix, says="the study has no key")


def _file_name(name: str, value: str) -> None:
    """Names of arms and phases become parts of file names."""
    if value == WINNER or not value.replace("-", "").replace(".", "").isalnum() or value.startswith("."):
        raise ArgumentError(name, f"be named by letters, digits, '-' and '.', not {WINNER!r}; got {value!r}", value)
