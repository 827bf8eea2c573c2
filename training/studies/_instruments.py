"""What an instrument is made of, read from TOML: arms to train, and what is measured at which of their steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._files import read_toml, said
from dptheory.training.runs import RunConfig, from_dict
from dptheory.training.studies._study import merged

FILE = Path(__file__).resolve().parents[1] / "configs" / "instruments.toml"


@dataclass(frozen=True)
class Measuring:
    """One kind of measurement.

    Attributes:
        kind: name of the measurement.
        arms: of which it is made.
        steps: after which, 0 for the starting weights; rising.
        options: of the measurement.
    """

    kind: str
    arms: tuple[str, ...]
    steps: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Instrument:
    """Runs that are measured on the way.

    Attributes:
        name: of its table in the file.
        title: in words.
        cost: what the runs take.
        examples: the first test images, whose per-sample gradients are measured.
        base: keys of :class:`dptheory.training.runs.RunConfig` that all arms share.
        arms: changes of the base, by name, merged like those of a study's arms.
        seeds: one result file each.
        measurings: what is measured.
        quantities: the numbers by which claims are answered.

    Example: one that comes with the package; its plain arm is DP-SGD.
        >>> from dptheory.training.studies import read_instrument
        >>> instrument = read_instrument("masks")
        >>> instrument.config("dp-sgd", seed=0).mechanism["name"], instrument.last_step("dp-sgd") > 0
        ('dp-sgd', True)
    """

    name: str
    title: str
    cost: str
    examples: int
    base: Mapping[str, Any]
    arms: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    measurings: tuple[Measuring, ...]
    quantities: tuple[str, ...]

    def config(self, arm: str, *, seed: int) -> RunConfig:
        """The run of an arm.

        Args:
            arm: one of ``arms``.
            seed: of weights, batches, masks and noise.

        Raises:
            ValueError: a value outside its range.
        """
        return from_dict(merged(self.base, self.arms[arm]) | {"seed": seed})

    def last_step(self, arm: str) -> int:
        """The last step of an arm after which something is measured; it is trained no further.

        Args:
            arm: one of ``arms``.
        """
        return max((step for one in self.measurings if arm in one.arms for step in one.steps), default=0)


_KEYS = ("title", "cost", "examples", "seeds", "quantities", "base", "arms", "measure")


def read_instrument(name: str, *, file: Path = FILE) -> Instrument:
    """An instrument from its table in a TOML file.

    Args:
        name: of the table.
        file: of instruments, a table for each.

    Returns:
        The instrument.

    Raises:
        ValueError: no such table, not TOML, or an unknown key or value.
        OSError: no such file.

    Example: the arms of one that comes with the package.
        >>> from dptheory.training.studies import read_instrument
        >>> sorted(read_instrument("freezing").arms)
        ['dp-sgd', 'freezing']
    """
    tables = read_toml(file)
    table = tables[_validate.choice("name", name, tuple(tables))]
    unknown, missing = set(table) - set(_KEYS), set(_KEYS) - set(table)
    if unknown or missing:
        raise ArgumentError(name, f"have the keys {', '.join(_KEYS)}", list(table), got=", ".join(table))
    arms = table["arms"]
    found = Instrument(
        name=name,
        title=said(table, "title"),
        cost=said(table, "cost"),
        examples=_validate.integer("examples", table["examples"], 2, 10_000),
        base=table["base"],
        arms=arms,
        seeds=tuple(table["seeds"]),
        measurings=tuple(_measuring(kind, one, tuple(arms)) for kind, one in table["measure"].items()),
        quantities=tuple(table["quantities"]),
    )
    for arm in arms:
        for seed in found.seeds:
            found.config(arm, seed=seed)
    return found


def read_instruments(file: Path = FILE) -> dict[str, Instrument]:
    """All instruments by name."""
    return {name: read_instrument(name, file=file) for name in read_toml(file)}


def _measuring(kind: str, table: Mapping[str, Any], known: tuple[str, ...]) -> Measuring:
    options = {key: value for key, value in table.items() if key not in ("arms", "steps")}
    arms = tuple(_validate.choice(f"measure.{kind}.arms", arm, known) for arm in table.get("arms", known))
    steps = tuple(table.get("steps", ()))
    if not steps or list(steps) != sorted(set(steps)) or steps[0] < 0:
        raise ArgumentError(f"measure.{kind}.steps", "be rising, from 0 on", steps)
    return Measuring(kind, arms, steps, options)
