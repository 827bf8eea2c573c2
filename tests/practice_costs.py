"""``python -m tests.practice_costs``: what fine-tuning costs, in proofs/guides/fine_tuning.md, from what the benchmark measured."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dptheory.training.benchmarks._arms import DP_SGD, GHOST, HOOKS, PLAIN
from dptheory.training.benchmarks._networks import EVERYTHING, FEW, LORA, MANY, SEVERAL, WAYS
from tests.said import marked, page, table

PROOFS = Path(__file__).parents[1] / "proofs"
PAGE = PROOFS / "guides" / "fine_tuning.md"
RESULTS = PROOFS / "figures" / "practice_benchmark.json"
TIME = "processor_median"

Results = dict[str, Any]

STEPS = (
    ("LoRA of a two-layer BERT: DP-SGD / plain torch", LORA, DP_SGD, PLAIN, 1.8),
    ("all weights of it: DP-SGD / plain torch", EVERYTHING, DP_SGD, PLAIN, 3.0),
    ("all weights of it: DP-SGD / Opacus ghost", EVERYTHING, DP_SGD, GHOST, 1.0),
)
"""What, way of training, arm, what it is divided by, and the goal."""
A_VIEW = 1.05


def machine(results: Results) -> str:
    """What measured, and how busy it was."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    loads = [load for part in results["parts"].values() for load in part.get("load", []) if load is not None]
    busy = f" From {min(loads):g} to {max(loads):g} processes ran or waited for these cores meanwhile." if loads else ""
    return f"{results['machine']}, {results['cores']} cores, {results['threads']} thread of torch, float32; {versions}.{busy}"


def goals(results: Results) -> Iterator[list[str]]:
    """A row for each goal: what, goal, found, whether it was reached."""
    parts = results["parts"]
    for what, way, arm, against, goal in STEPS:
        if f"time/{way}" in parts:
            times = parts[f"time/{way}"]["times"]
            yield _goal(what, goal, times[arm][TIME] / times[against][TIME])
    if "time/views" in parts:
        times = {name: one[TIME] for name, one in parts["time/views"]["times"].items()}
        yield _goal("small CNN: time of a further view / of a further image", A_VIEW, _slopes(times))
    peaks = {name: parts.get(f"memory/{DP_SGD}/{name}", {}).get("mebibytes") for name in (FEW, SEVERAL, MANY)}
    if None not in peaks.values():
        yield _goal("small CNN: memory of a further view / of a further image", A_VIEW, _slopes(peaks))


def _slopes(numbers: dict[str, Any]) -> float:
    """What the further views cost, over what as many further images cost."""
    return float((numbers[SEVERAL] - numbers[FEW]) / (numbers[MANY] - numbers[FEW]))


def _goal(what: str, goal: float, found: float) -> list[str]:
    return [what, f"{goal:g}", f"{found:.2f}", "yes" if found <= goal else "**no**"]


def written(results: Results) -> str:
    """What stands between the markers."""
    return marked("tests.practice_costs", _lines(results))


def _lines(results: Results) -> Iterator[str]:
    parts = results["parts"]
    yield machine(results)
    if "time/ways" in parts:
        heads = ("trained", "numbers", "plain ms", "DP-SGD ms", "ratio", "plain MiB", "DP-SGD MiB")
        yield from ("", *table(heads, map(partial(_way, parts), WAYS)))
    there = [way for way in (LORA, EVERYTHING) if f"time/{way}" in parts]
    if there:
        arms = (PLAIN, DP_SGD, HOOKS, GHOST)
        yield from ("", "Beside other ways to the same gradients, in ms, and over plain torch:", "")
        times = {way: {arm: parts[f"time/{way}"]["times"][arm][TIME] for arm in arms} for way in there}
        rows = ((way, *(f"{1e3 * t:.0f} ({t / one[PLAIN]:.2f})" for t in one.values())) for way, one in times.items())
        yield from table(("trained", *arms), rows)


def _way(parts: Results, way: str) -> list[str]:
    plain, private = (parts["time/ways"]["times"][f"{arm}/{way}"][TIME] for arm in (PLAIN, DP_SGD))
    peaks = [parts.get(f"memory/{arm}/{way}", {}).get("mebibytes") for arm in (PLAIN, DP_SGD)]
    costs = [f"{1e3 * plain:.0f}", f"{1e3 * private:.0f}", f"{private / plain:.2f}", *map(_mebibytes, peaks)]
    return [way, f"{parts['time/ways']['trained'][way]:,}", *costs]


def _mebibytes(peak: float | None) -> str:
    return "not measured" if peak is None else f"{peak:,.0f}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE, written(json.loads(RESULTS.read_text(encoding="utf-8")))), encoding="utf-8")
