"""A composition from a file of the user's, TOML or JSON."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dptheory.errors import ArgumentError
from dptheory.privacy._composition import Composition
from dptheory.privacy._parts import (
    BlackBox,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    MaskedStep,
    Part,
    RandomAllocation,
    Step,
)
from dptheory.privacy.methods.renyi._curves import FreshMask
from dptheory.pruning import SubsetMallows

_VALUES = ("noise_multiplier", "sampling_rate", "count")
_LAW = ("dim", "keep", "theta")


def _joint(row: dict[str, Any]) -> Part:
    law = SubsetMallows(**{name: row.pop(name) for name in _LAW})
    return JointStep(mechanism=law, **row)


def _masked(row: dict[str, Any]) -> Part:
    mask = FreshMask(dim=row.pop("dim"), keep=row.pop("keep"))
    return MaskedStep(mask=mask, **row)


def _index(row: dict[str, Any]) -> Part:
    law = SubsetMallows(**{name: row.pop(name) for name in _LAW})
    return IndexSteps(mechanism=law, **row)


_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[dict[str, Any]], Part]]] = {
    "step": (_VALUES, (), lambda row: Step(**row)),
    "joint_step": ((*_VALUES, *_LAW), ("groups",), _joint),
    "masked_step": ((*_VALUES, "dim", "keep"), (), _masked),
    "index_steps": (("steps", *_LAW), ("groups",), _index),
    "random_allocation": (
        ("noise_multiplier", "steps_per_epoch", "count"),
        ("participations", "stopped_after"),
        lambda row: RandomAllocation(**row),
    ),
    "laplace_release": (("noise_multiplier", "count"), (), lambda row: LaplaceRelease(**row)),
    "black_box": (("epsilon", "delta", "count"), (), lambda row: BlackBox(**row)),
}
"""Of each kind of steps the keys that it must have, those that it may have, and what is made of them."""


def read_composition(path: str | os.PathLike[str]) -> Composition:
    """Read a composition from a TOML file, or a JSON file of the same form.

    One table per kind of steps: ``[[step]]`` with noise_multiplier, sampling_rate and count; ``[[joint_step]]`` with dim, keep
    and theta of the index mechanism besides, and groups if there are several; ``[[masked_step]]`` with dim and keep of the mask;
    ``[[index_steps]]`` with steps, dim, keep, theta and groups; ``[[random_allocation]]`` with noise_multiplier, steps_per_epoch
    and count, and participations and stopped_after where they are needed; ``[[laplace_release]]`` with noise_multiplier and count;
    ``[[black_box]]`` with epsilon, delta and count. ``adjacency`` may stand before them.

    Args:
        path: the file; one whose name ends in .json is JSON.

    Returns:
        The composition.

    Raises:
        ValueError: no file, or one that holds no composition; the message names the file, the table and the key.
        OSError: the file cannot be read.

    Source: GIP, Theorem 2 (gip.thm2).

    Example: the noise falls after half of the steps.
        >>> import pathlib, tempfile
        >>> from dptheory.privacy import read_composition
        >>> text = '''
        ... [[step]]
        ... noise_multiplier = 2.0
        ... sampling_rate = 0.04
        ... count = 500
        ... [[step]]
        ... noise_multiplier = 1.0
        ... sampling_rate = 0.02
        ... count = 500
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "run.toml")
        ...     _ = file.write_text(text)
        ...     [part.count for part in read_composition(file).parts]
        [500, 500]
    """
    if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
        given = str(path) if isinstance(path, os.PathLike) else path
        raise ArgumentError("path", "be that of a TOML or JSON file that exists", given)
    try:
        text = Path(path).read_text(encoding="utf-8")
        plain = json.loads(text) if str(path).endswith(".json") else tomllib.loads(text)
        return _composition(plain)
    except (ValueError, RecursionError) as error:  # of the readers, too
        raise ArgumentError("path", f"hold a composition: {path}: {error}", path) from None


def _composition(plain: Any) -> Composition:
    if not isinstance(plain, dict):
        raise ValueError("it must be a table")
    tables = dict(plain)
    adjacency = tables.pop("adjacency", "add-remove")
    unknown = sorted(set(tables) - set(_KINDS))
    if unknown or not tables:
        raise ArgumentError(
            "it",
            f"hold tables of the kinds {', '.join(_KINDS)}",
            ", ".join(unknown) or "none",
        )
    return Composition(
        tuple(_part(name, row) for name, rows in tables.items() for row in _rows(name, rows)), adjacency=adjacency
    )


def _rows(name: str, rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArgumentError(name, f"be a list of tables, as [[{name}]] begins one", rows)
    return rows


def _part(name: str, row: dict[str, Any]) -> Part:
    needed, more, make = _KINDS[name]
    lacking, unknown = [key for key in needed if key not in row], sorted(set(row) - {*needed, *more})
    if lacking or unknown:
        wrong = f"lacks {', '.join(lacking)}" if lacking else f"has an unknown {', '.join(unknown)}"
        raise ValueError(f"a {name} {wrong}; it has the keys {', '.join((*needed, *more))}")
    return make(dict(row))
