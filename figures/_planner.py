"""What results say of the planner, from the tables beside its page."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from figures._table import Data

TABLES = Path(__file__).parents[1] / "proofs" / "planner.json"
SETTINGS = ("mnist-1", "mnist-3", "fashion-mnist-1", "fashion-mnist-3", "excerpt-3", "excerpt-8")
"""Data and epsilon; a column ``setting`` holds places in this row."""


def rows(table: str) -> list[Mapping[str, Any]]:
    """The rows of one table, in the order of the page."""
    found: list[Mapping[str, Any]] = json.loads(TABLES.read_text(encoding="utf-8"))[table]
    return found


def columns(table: Iterable[Mapping[str, Any]], *names: str) -> Data:
    """Place of the setting and the named columns."""
    kept = [[SETTINGS.index(row["setting"]), *(row[name] for name in names)] for row in table]
    return dict(zip(("setting", *names), np.array(kept, dtype=float).T, strict=True))
