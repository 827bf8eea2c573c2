"""Findings as they stand on the terminal: a line each, and a last one that counts them."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from dptheory.training.audits import _runs, _suite
from dptheory.training.audits._findings import Finding


def report(seed: int, long: bool, say: Callable[[str], object]) -> bool:
    """Run the quick form or the thorough one, and say each finding.

    Args:
        seed: of all draws, >= 0.
        long: the thorough form, which takes minutes; otherwise the quick one, about a minute.
        say: called with every line of text.

    Returns:
        Whether every statement held.
    """
    torch.set_num_threads(1)
    held = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        every = _suite.thorough(seed, Path(folder)) if long else _suite.quick(seed, _runs.by_process, Path(folder))
        for finding in every:
            say(line(finding))
            held, refused = held + finding.passed, refused + (not finding.passed)
    say(f"{held} statements held, {refused} refused")
    return refused == 0


def line(finding: Finding) -> str:
    """Name, both numbers, and, where it is refused, the statement."""
    chance = "" if finding.chance is None else f", chance {finding.chance:.2g}"
    numbers = f"measured {finding.measured:.6g}, claimed {finding.claimed:.6g}{chance}"
    return (
        f"held     {finding.name}: {numbers}"
        if finding.passed
        else f"REFUSED  {finding.name}: {numbers}; {finding.statement}"
    )
