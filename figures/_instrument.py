"""What instrumented runs measured, from the committed results."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from figures._table import Data

RESULTS = Path(__file__).parents[1] / "proofs" / "results" / "instruments.jsonl"


@cache
def _results() -> dict[str, Mapping[str, Any]]:
    """The last result of every instrument and seed."""
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return {line["run"]: line for line in lines}


def rows(instrument: str, arm: str, kind: str, seed: int = 0) -> list[Mapping[str, Any]]:
    """The measurements of one kind of one arm, in the order of their steps."""
    return list(_results()[f"{instrument}_seed={seed}"]["arms"][arm]["measured"][kind])


def epoch(instrument: str, arm: str, step: float, seed: int = 0) -> float:
    """Epochs that a number of steps makes."""
    return float(step / _results()[f"{instrument}_seed={seed}"]["arms"][arm]["steps_per_epoch"])


def columns(table: Mapping[str, Sequence[float | None]]) -> Data:
    """Columns of numbers; NaN for null."""
    return {name: np.array([np.nan if x is None else x for x in values], dtype=float) for name, values in table.items()}
