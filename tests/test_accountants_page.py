"""The page of compared accountants says what the committed answers say."""

import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from dptheory.privacy import epsilon_bounds
from dptheory.privacy.referee import draw

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE = (RESULTS / "accountants.md").read_text(encoding="utf-8")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()]


TIMES, COMPARED = rows("accountant_times.jsonl"), rows("accountants.jsonl")


def test_the_settings_are_those_of_the_law() -> None:
    assert len(TIMES) == 1000
    for found, seed in ((TIMES, 11), (COMPARED, 5)):
        drawn = itertools.islice(draw(count=1000, seed=seed), len(found))
        assert [one["setting"] for one in found] == [asdict(setting) for setting in drawn]


def test_the_times() -> None:
    seconds = [one["answers"][0]["seconds"] for one in TIMES]
    widths = [(one["upper"] - one["lower"]) / one["upper"] if one["upper"] else 0.0 for one in TIMES]
    assert all(math.isfinite(one["upper"]) for one in TIMES)
    row = (
        f"| {len(TIMES)} | {median(seconds):.3f} | {quantiles(seconds, n=100)[-1]:.2f} | {max(seconds):.1f} "
        f"| {sum(one > 5.0 for one in seconds)} | {sum(one > 1e-9 for one in widths)} | {sum(one > 1e-4 for one in widths)} "
        f"| {sum(one > 1e-3 for one in widths)} |"
    )
    assert row in PAGE, row


def test_what_was_found() -> None:
    tools = [answer["tool"] for answer in COMPARED[0]["answers"]]
    for number, tool in enumerate(tools):
        answers = [one["answers"][number] for one in COMPARED]
        offs = [answer["off"] for answer in answers if answer["off"] is not None]
        row = (
            f"| {tool} | {len(answers)} | {len(answers) - len(offs)} | {sum(off < -1e-9 for off in offs)} | {min(offs):.1e} "
            f"| {median(offs):.1e} | {median(answer['seconds'] for answer in answers):.3f} |"
        )
        assert row in PAGE, row
        if tool != "Opacus GDP":
            assert {answer["finding"] for answer in answers} == {"valid"}


def test_the_bounds_are_still_those() -> None:
    """Of the first settings, which take a second together."""
    for one in TIMES[:20]:
        found = epsilon_bounds(**one["setting"])
        assert found.lower <= one["upper"] * (1 + 1e-12) and one["lower"] * (1 - 1e-12) <= found.upper
