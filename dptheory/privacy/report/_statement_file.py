"""The privacy statement of a finished run, read from its folder."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy.report._attack import AttackRisk
from dptheory.privacy.report._statement import NEIGHBOURS, PrivacyStatement

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
    found = _fields(PrivacyStatement, plain)
    if found["attack"] is not None:
        found["attack"] = AttackRisk(**_fields(AttackRisk, found["attack"]))
    for name in _UNBOUNDED:
        found[name] = math.inf if found[name] is None else found[name]
    _validate.choice("adjacency", found["adjacency"], tuple(NEIGHBOURS))
    for name in ("delta", "epsilon", "epsilon_lower", "epsilon_if_secure"):
        found[name] = _validate.real(name, found[name], 0.0)
    _validate.integer("steps", found["steps"], 0)
    _validate.flag("secure", found["secure"])
    for name in ("public", "composition", "software"):
        if not isinstance(found[name], list) or not all(isinstance(one, str) for one in found[name]):
            raise ArgumentError(name, "be a list of texts", found[name])
        found[name] = tuple(found[name])
    for name in ("mechanism", "unit", "output", "covered", "sampler", "accountant", "randomness", "tuning"):
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
