"""The reader of the printed numbers: settings and tables of the five papers, from the TOML files beside this module.

A file holds ``[[settings]]`` and ``[tables.<name>]``. A setting is what ``[common]`` says, then what the setting named by
``like`` says, then its own keys; each of its ``runs`` adds an id of its own and what differs. A row of a table holds the values
of its ``keys``, then a cell for each of its ``columns``.
"""

import functools
import tomllib
from importlib import resources
from typing import Any

from dptheory.papers._records import Cell, Setting, Table, found_in

PAPERS = ("rf", "rs", "lf", "gep", "gip")


def setting(id: str) -> Setting:
    """The setting of this id, such as "rf.end-to-end-cnn.eps3".

    Args:
        id: paper, setting and run, with points between them.

    Returns:
        The setting.

    Raises:
        ValueError: no such setting; the message names the nearest ones.

    Example: RF's CNN at epsilon 3.
        >>> from dptheory.papers import setting
        >>> run = setting("rf.end-to-end-cnn.eps3")
        >>> run.dim, run.batch_size, run.noise_multiplier
        (550000, 1000, 1.54)
    """
    return found_in("id", id, "a printed setting", _settings())


def settings(group: str) -> tuple[Setting, ...]:
    """All settings of a paper ("gip") or of one of its groups ("gip.wrn-16-4"), in the order of the file.

    Args:
        group: a paper, or a paper and one of its groups.

    Returns:
        The settings.

    Raises:
        ValueError: no such paper or group; the message names the nearest ones.

    Example: RF ran its CNN at two budgets.
        >>> from dptheory.papers import settings
        >>> [run.id for run in settings("rf.end-to-end-cnn")]
        ['rf.end-to-end-cnn.eps3', 'rf.end-to-end-cnn.eps7.53']
    """
    groups: dict[str, list[Setting]] = {}
    for one in _settings().values():
        parts = one.id.split(".")
        for name in (parts[0], ".".join(parts[:2])):
            groups.setdefault(name, []).append(one)
    return tuple(found_in("group", group, "a paper or a group of its settings", groups))


def table(id: str) -> Table:
    """The table of this id, such as "rs.table2".

    Args:
        id: paper and table, with a point between them.

    Returns:
        The table.

    Raises:
        ValueError: no such table; the message names the nearest ones.

    Example: RF's first table of accuracies.
        >>> from dptheory.papers import table
        >>> table("rf.table1").label
        'RF, Table 1'
    """
    return found_in("id", id, "a printed table", _tables())


def tables() -> tuple[Table, ...]:
    """Every printed table, paper by paper.

    Returns:
        The tables.

    Example: RF's come first.
        >>> from dptheory.papers import tables
        >>> tables()[0].id
        'rf.table1'
    """
    return tuple(_tables().values())


def published_train_size(dataset: str) -> int | None:
    """Training images of a data set as published; None where it has none or more than one such set."""
    return _TRAIN_SIZES.get(dataset)


_TRAIN_SIZES = {
    "CIFAR10": 50_000,
    "MNIST": 60_000,
    "FMNIST": 60_000,
    "FashionMNIST": 60_000,
    "SVHN extended": 604_388,  # 73,257 and 531,131 extra images
}
"""A paper that prints its own (GIP) has it in its settings."""


@functools.cache
def _file(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def _settings() -> dict[str, Setting]:
    found = [one for paper in PAPERS for one in _settings_of(paper)]
    return {one.id: one for one in found}


def _settings_of(paper: str) -> list[Setting]:
    content, found = _file(paper), []
    groups: dict[str, dict[str, Any]] = {}
    for own in content["settings"]:
        group = content.get("common", {}) | (groups[own["like"]] if "like" in own else {}) | own
        groups[own["id"]] = group
        for run in group.get("runs", [{}]):
            values = {key: value for key, value in (group | run).items() if key not in ("runs", "like")}
            values["id"] = ".".join((paper, group["id"], *([run["id"]] if run else [])))
            values["source"] = f"{paper.upper()}, {group['source']}"
            values.setdefault("train_size", published_train_size(values.get("dataset", "")))
            values["subspace_dims"] = tuple(values.get("subspace_dims", ()))
            values["others"] = tuple(values.get("others", {}).items())
            found.append(Setting(**values))
    return found


@functools.cache
def _tables() -> dict[str, Table]:
    return {f"{p}.{name}": _table(p, name, raw) for p in PAPERS for name, raw in _file(p).get("tables", {}).items()}


def _table(paper: str, name: str, raw: dict[str, Any]) -> Table:
    columns, across = raw["columns"], raw.get("across", "column")
    units = raw.get("units", [raw.get("unit", "")] * len(columns))
    cells = []
    for row in raw["rows"]:
        keys, texts = row[: len(raw["keys"])], row[len(raw["keys"]) :]
        for column, unit, text in zip(columns, units, texts, strict=True):
            of = (*zip(raw["keys"], keys, strict=True), (across, column))
            cells.append(Cell(name=raw["name"].format(**dict(of)), keys=of, text=text, unit=unit))
    return Table(
        id=f"{paper}.{name}",
        label=f"{paper.upper()}, {raw['label']}",
        caption=raw["caption"],
        spread=raw.get("spread"),
        cells=tuple(cells),
    )
