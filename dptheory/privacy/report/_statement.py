"""What a run says of its privacy, in the form that Ponomareva et al., "How to DP-fy ML" (2023), ask for of reports."""

import dataclasses
import datetime
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory._rounding import for_json, rounded_down, rounded_up
from dptheory.errors import ArgumentError
from dptheory.privacy._composition import Composition
from dptheory.privacy._parts import (
    BlackBox,
    FixedSizeStep,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    MaskedStep,
    Part,
    RandomAllocation,
)
from dptheory.privacy.report._attack import AttackRisk

NOT_STATED = "not stated"
NEIGHBOURS = {
    "add-remove": "data sets that differ by one record, added or removed",
    "replace-one": "data sets of one size that differ in one record",
    "zero-out": "data sets of one public size N in which one record is replaced by a null record, whose gradient is zero",
}
"""Adjacencies in words."""
_KINDS = 6
"""Of steps that the text names at most."""
_READABLE = 20.0
_OTHERWISE = {
    "add-remove": "without it",
    "replace-one": "with another in its place",
    "zero-out": "with a null record in its place",
}
"""What is compared with its presence, by adjacency."""
OUTPUT = (
    "the noisy gradient of every step, and so the model after every step: the guarantee covers all of it, whatever part is published, "
    "such as the last model alone; losses, accuracies on private records and checkpoints are not covered"
)
COVERED = (
    "the steps of this one run; several runs on the same records have together at most the sum of their epsilons, at the sum of "
    "their deltas"
)
NOT_COUNTED = (
    "not counted: choosing hyperparameters, or this run among others, by looking at the private data costs more than stated; "
    "choices made on public records alone cost nothing"
)


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The guarantee of a run with all that it rests on; :func:`privacy_statement` makes one.

    Attributes:
        date: of the statement, as in 2026-11-27; empty where it is not known.
        mechanism: what was run.
        train_size: number of records; None where it is not stated, as it must not be where it is private.
        unit: what is protected.
        adjacency: which data sets are neighbours: "add-remove", "replace-one" or "zero-out".
        output: what the guarantee takes to be released.
        covered: which accesses to the data it covers.
        public: what it takes to be known to everybody.
        sampler: how batches were drawn.
        composition: the steps in words, kind by kind.
        steps: their number.
        delta: of the guarantee.
        epsilon: of the guarantee; inf where something is released without noise.
        epsilon_lower: no smaller epsilon holds with this delta.
        accountant: what gave both bounds.
        randomness: where batches, masks and noise come from, and their seeds.
        secure: whether all of it comes from a cryptographic generator that nobody can repeat.
        epsilon_if_secure: epsilon of a secure run of the same steps.
        attack: what the best attacker can do; None where nothing bounds it.
        tuning: what choosing among runs costs, or that it is not counted.
        software: versions of what computed it.

    Example: the verdict comes first.
        >>> from dptheory.privacy import Composition, Step, privacy_statement
        >>> run = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
        >>> print(privacy_statement(composition=run, delta=1e-5).markdown().splitlines()[2])
        **The run is (3.34141, 1e-05)-differentially private** in the central model.
    """

    date: str
    mechanism: str
    train_size: int | None
    unit: str
    adjacency: str
    output: str
    covered: str
    public: tuple[str, ...]
    sampler: str
    composition: tuple[str, ...]
    steps: int
    delta: float
    epsilon: float
    epsilon_lower: float
    accountant: str
    randomness: str
    secure: bool
    epsilon_if_secure: float
    attack: AttackRisk | None
    tuning: str
    software: tuple[str, ...]

    def json(self) -> str:
        """All attributes as JSON text, in their order; infinity is null.

        Returns:
            The text, with a line break at its end.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: the text can be read back.
            >>> import json
            >>> from dptheory.privacy import Composition, Step, privacy_statement
            >>> run = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
            >>> json.loads(privacy_statement(composition=run, delta=1e-5).json())["steps"]
            10
        """
        return json.dumps(for_json(dataclasses.asdict(self)), indent=2, allow_nan=False) + "\n"

    def markdown(self) -> str:
        """The statement for readers.

        Returns:
            Markdown text.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: its first line.
            >>> from dptheory.privacy import Composition, Step, privacy_statement
            >>> run = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
            >>> print(privacy_statement(composition=run, delta=1e-5).markdown().splitlines()[0])
            # Privacy statement
        """
        rows = [
            ("Date", self.date or NOT_STATED),
            ("Mechanism", self.mechanism),
            ("Records", self._records()),
            ("Unit of privacy", self.unit),
            ("Neighbours", f"{self.adjacency}: {NEIGHBOURS[self.adjacency]}"),
            ("Released", self.output),
            ("Data accesses covered", self.covered),
            ("Taken to be public", ", ".join(self.public) or "nothing"),
            ("Sampler accounted for", self.sampler),
            ("Steps", f"{self.steps}: {of_all(self.composition)}" if self.composition else str(self.steps)),
            ("Accountant", self.accountant),
            (
                "Bounds of the least epsilon at this delta",
                f"{_number(self.epsilon_lower, up=False)} to {_number(self.epsilon)}",
            ),
            ("Seeds and generators", self.randomness),
            ("Cost of tuning", self.tuning),
            ("Software", ", ".join(self.software) or NOT_STATED),
        ]
        # a list and no table: a window wraps it at words
        lines = ["# Privacy statement", "", *self._verdict(), ""]
        lines += [f"- **{name}**: {' '.join(value.split())}" for name, value in rows]
        if self.attack is not None:
            lines += ["", "## What an attacker can do", "", *str(self.attack).splitlines()]
        return "\n".join(lines) + "\n"

    def _records(self) -> str:
        if self.train_size is not None:
            return f"{self.train_size:,}"
        return f"{NOT_STATED}{', as their number is private' if self.adjacency == 'add-remove' else ''}"

    def _verdict(self) -> list[str]:
        if math.isinf(self.epsilon):
            return [
                "**The run has no privacy guarantee**: something leaves without noise, or nothing bounds what it reveals."
            ]
        lines = [
            f"**The run is ({_number(self.epsilon)}, {self.delta:g})-differentially private** in the central model.",
            "In plain words: whatever is done with what is released, nothing is more than "
            f"{_factor(self.epsilon)} times as likely with {self.unit} as {_OTHERWISE[self.adjacency]}, plus {self.delta:g}, "
            "nor the other way round.",
        ]
        if self.secure and self.randomness == NOT_STATED:  # of settings, which say nothing of how a loop goes by them
            lines.append(
                "Provided that batches are drawn and records clipped as stated below, and that batches and noise come from "
                "generators that nobody can repeat."
            )
        return lines if self.secure else [*self._simulation(), "", *lines]  # first: many readers stop after the verdict

    def _simulation(self) -> list[str]:
        return [
            "**A simulation, not to be released**: its randomness can be repeated, and what follows holds only against those who "
            f"know neither batches nor noise. A secure run of the same steps has epsilon = {_number(self.epsilon_if_secure)}."
        ]


def privacy_statement(
    *,
    composition: Composition | None,
    delta: float,
    mechanism: str = "DP-SGD",
    train_size: int | None = None,
    unit: str = "one record",
    adjacency: str | None = None,
    public: tuple[str, ...] = (),
    sampler: str | None = None,
    randomness: str = NOT_STATED,
    secure: bool = True,
    epsilon_if_secure: float | None = None,
    tuning: str = NOT_COUNTED,
    software: tuple[str, ...] = (),
    certified: bool = False,
) -> PrivacyStatement:
    """The privacy statement of a run, from its steps as data.

    Args:
        composition: the steps; None before the first.
        delta: in [1e-30, 0.99].
        mechanism: what was run.
        train_size: number of records, 1 to 1e12, where it is public, as it is not between neighbours by "add-remove"; None where it is
            not to be stated.
        unit: what is protected: what a record of the composition is.
        adjacency: "zero-out" where a record is replaced by a null record, the number of records being public, which costs what
            "add-remove" costs; None for that of the composition.
        public: what is taken to be known to everybody.
        sampler: how batches were drawn, with the name of the law that is accounted for: "Poisson", or "random allocation"; None for
            that name. Where every record is in every step, any words.
        randomness: where batches, masks and noise come from, and their seeds.
        secure: whether all of it comes from a cryptographic generator that nobody can repeat.
        epsilon_if_secure: of a secure run of the same steps; None for that of the composition.
        tuning: what choosing among runs costs, or that it is not counted.
        software: versions.
        certified: bounds as enclosures in ball arithmetic, as for :meth:`Composition.epsilon`.

    Returns:
        The statement.

    Raises:
        ValueError: an argument outside its range, or an adjacency that the composition was not accounted for.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: by hand: ten releases of noise 4 are one of mu = sqrt(10) / 4.
        >>> from dptheory.privacy import Composition, Step, privacy_statement
        >>> run = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
        >>> found = privacy_statement(composition=run, delta=1e-5, unit="one user, of one record each")
        >>> round(found.epsilon, 4), found.steps, found.tuning.split(":")[0]
        (3.3414, 10, 'not counted')
    """
    delta = _validate.real("delta", delta, 1e-30, 0.99)
    if composition is not None:
        _validate.instance("composition", composition, Composition)
    own = "add-remove" if composition is None else composition.adjacency
    known = own if adjacency is None else _validate.choice("adjacency", adjacency, tuple(NEIGHBOURS))
    if known != own and not (known == "zero-out" and own == "add-remove"):
        raise ArgumentError("adjacency", f"be that of the composition, {own!r}", adjacency)
    if train_size is not None:
        train_size = _validate.integer("train_size", train_size, 1, 10**12)
        if known == "add-remove":
            raise ArgumentError("train_size", "be left out where one record may be added or removed", train_size)
    _validate.flag("secure", secure)
    if epsilon_if_secure is not None:
        epsilon_if_secure = _validate.real("epsilon_if_secure", epsilon_if_secure, 0.0)
    laws = _laws(composition)
    sampler = " and ".join(laws) or "Poisson" if sampler is None else _validate.instance("sampler", sampler, str)
    # a statement of other batches would be false: the epsilon of a shuffle can be four times that of Poisson's
    for law in laws:
        if law.lower() not in sampler.lower():
            raise ArgumentError("sampler", f"name {law!r}, the law that is accounted for", sampler)
    words = {"mechanism": mechanism, "unit": unit, "sampler": sampler, "randomness": randomness, "tuning": tuning}
    for name, text in words.items():
        _validate.instance(name, text, str)
    for name, texts in (("public", public), ("software", software)):
        if not all(isinstance(one, str) for one in _validate.instance(name, texts, tuple)):
            raise ArgumentError(name, "be a tuple of texts", texts)
    _validate.flag("certified", certified)
    spent = None if composition is None else composition.epsilon(delta, certified=certified)
    epsilon = 0.0 if spent is None else spent.upper
    return PrivacyStatement(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        mechanism=mechanism,
        train_size=train_size,
        unit=unit,
        adjacency=known,
        output=OUTPUT,
        covered=COVERED,
        public=public,
        sampler=sampler,
        composition=() if composition is None else in_words(composition),
        steps=0 if composition is None else sum(_count(part) for part in composition.parts),
        delta=delta,
        epsilon=epsilon,
        epsilon_lower=0.0 if spent is None else spent.lower,
        accountant="no steps" if spent is None else f"dptheory, {spent.method}; bounds of all steps together",
        randomness=randomness,
        secure=secure,
        epsilon_if_secure=epsilon if epsilon_if_secure is None else epsilon_if_secure,
        attack=None if composition is None else composition.attack(certified=certified),
        tuning=tuning,
        software=software,
    )


def _laws(composition: Composition | None) -> tuple[str, ...]:
    """Names of the laws of batches that an account rests on."""
    parts = () if composition is None else composition.parts
    others = (FixedSizeStep, RandomAllocation)
    found = {
        "Poisson": any(getattr(part, "sampling_rate", 1.0) < 1.0 for part in parts if not isinstance(part, others)),
        "random allocation": any(isinstance(part, RandomAllocation) for part in parts),
        "without replacement": any(isinstance(part, FixedSizeStep) for part in parts),
    }
    return tuple(law for law, rests in found.items() if rests)


def in_words(composition: Composition) -> tuple[str, ...]:
    """Its steps, kind by kind."""
    return tuple(described(part) for part in composition.parts)


def described(part: Part) -> str:
    """Steps of one kind in words."""
    if isinstance(part, IndexSteps):
        return f"{part.steps} with index sets alone, for given batches ({_index(part)})"
    if isinstance(part, RandomAllocation):
        cut = "" if part.stopped_after is None else f", each cut short after {part.stopped_after}"
        times = "once" if part.participations == 1 else f"{part.participations} times"
        each = f"epochs of {part.steps_per_epoch} steps, a record taking part {times} in each{cut}"
        return f"{part.count} {each}, at noise multiplier {part.noise_multiplier:.6g}"
    if isinstance(part, LaplaceRelease):
        return f"{part.count} releases with Laplace noise of scale {part.noise_multiplier:.6g} over the sensitivity"
    if isinstance(part, BlackBox):
        return f"{part.count} releases of which each is ({part.epsilon:.6g}, {part.delta:.6g})-private"
    text = f"{part.count} at noise multiplier {part.noise_multiplier:.6g} and sampling rate {part.sampling_rate:.6g}"
    if isinstance(part, MaskedStep):
        return f"{text}, each behind a fresh secret mask of {part.mask.keep} of {part.mask.dim} entries"
    if isinstance(part, FixedSizeStep):
        return f"{text}, on batches of a fixed size"
    return f"{text}, with index sets of the same sample ({_index(part)})" if isinstance(part, JointStep) else text


def _index(part: IndexSteps | JointStep) -> str:
    law = part.mechanism
    return f"{part.groups} groups, {law.keep} of {law.dim} entries, theta {law.theta:.6g}"


def _count(part: Part) -> int:
    if isinstance(part, RandomAllocation):
        return part.steps * part.count
    return part.steps if isinstance(part, IndexSteps) else part.count


def _number(value: float, *, up: bool = True) -> str:
    """To six digits, rounded so that what is printed holds as well."""
    if math.isinf(value):
        return "no bound"
    return rounded_up(value, 6) if up else rounded_down(value, 6)


def _factor(epsilon: float) -> str:
    """e^epsilon in three digits, rounded up; of a large epsilon as a power."""
    return rounded_up(math.exp(epsilon), 3) if epsilon < _READABLE else f"e^{_number(epsilon)}"


def of_all(kinds: tuple[str, ...]) -> str:
    """All kinds of steps in words, or the ends of a schedule with many; the JSON has all."""
    many = len(kinds) > _KINDS
    return "; ".join((*kinds[: _KINDS - 1], f"{len(kinds) - _KINDS} more kinds", kinds[-1]) if many else kinds)


# --- The privacy statement of a finished run, read from its folder


STATEMENT_JSON = "statement.json"
_UNBOUNDED = ("epsilon", "epsilon_if_secure")
"""Infinite where JSON has null."""


def read_statement(path: str | os.PathLike[str]) -> PrivacyStatement:
    """Read the privacy statement that a run has written as JSON.

    Args:
        path: the folder of the run, or the file itself.

    Returns:
        The statement, as it was.

    Raises:
        ValueError: no such folder or file, or one that holds no statement.
        OSError: the file cannot be read.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: what :meth:`PrivacyStatement.json` wrote.
        >>> import pathlib, tempfile
        >>> from dptheory.privacy import Composition, Step, privacy_statement, read_statement
        >>> run = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
        >>> found = privacy_statement(composition=run, delta=1e-5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "statement.json").write_text(found.json())
        ...     read_statement(folder) == found
        True
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ArgumentError("path", "be that of a run's folder", path)
    file = Path(path)
    file = file / STATEMENT_JSON if file.is_dir() else file
    if not file.exists():
        raise ArgumentError("path", f"be the folder of a finished run, which holds a {STATEMENT_JSON}", str(path))
    try:
        return _statement(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentError("path", f"hold a privacy statement: {file}: {error}", path) from None


def _statement(plain: Any) -> PrivacyStatement:
    if isinstance(plain, dict):
        plain = {"date": "", "train_size": None} | plain  # those of version 0.2 have neither
    found = _fields(PrivacyStatement, plain)
    if found["attack"] is not None:
        found["attack"] = AttackRisk(**_fields(AttackRisk, found["attack"]))
    for name in _UNBOUNDED:
        found[name] = math.inf if found[name] is None else found[name]
    _validate.choice("adjacency", found["adjacency"], tuple(NEIGHBOURS))
    for name in ("delta", "epsilon", "epsilon_lower", "epsilon_if_secure"):
        found[name] = _validate.real(name, found[name], 0.0)
    _validate.integer("steps", found["steps"], 0)
    if found["date"]:
        datetime.date.fromisoformat(found["date"])
    if found["train_size"] is not None:
        _validate.integer("train_size", found["train_size"], 1)
    _validate.flag("secure", found["secure"])
    for name in ("public", "composition", "software"):
        if not isinstance(found[name], list) or not all(isinstance(one, str) for one in found[name]):
            raise ArgumentError(name, "be a list of texts", found[name])
        found[name] = tuple(found[name])
    for name in ("date", "mechanism", "unit", "output", "covered", "sampler", "accountant", "randomness", "tuning"):
        _validate.instance(name, found[name], str)
    return PrivacyStatement(**found)


def _fields(kind: type[PrivacyStatement] | type[AttackRisk], plain: Any) -> dict[str, Any]:
    """The table of a dataclass, with all of its fields and no others."""
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(plain, dict) or set(plain) != set(names):
        raise ValueError(f"it must be a table with {', '.join(names)}")
    if kind is AttackRisk:
        for name in names:
            if name != "replaced":
                _validate.real(name, plain[name], 0.0, 1.0)
    return dict(plain)
