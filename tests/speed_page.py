"""``python -m tests.speed_page``: the numbers of proofs/speed.md, from what the benchmark of steps measured."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dptheory.training.benchmarks._arms import (
    ARMS,
    DP_SGD,
    FROZEN,
    GEP,
    GHOST,
    HOOKS,
    MASK,
    OPACUS,
    PLAIN,
)
from dptheory.training.benchmarks._networks import NETWORKS
from tests.said import marked, page, table

PROOFS = Path(__file__).parents[1] / "proofs"
PAGE = PROOFS / "speed.md"
RESULTS = PROOFS / "figures" / "step_benchmark.json"
CUDA = PROOFS / "figures" / "step_benchmark_cuda.json"
"""Of one session with a GPU, by hand: networks of larger batches, medians of steps in turns."""

Results = dict[str, Any]

STEPS = (
    ("linear", DP_SGD, PLAIN, 2.5), ("linear", DP_SGD, GHOST, 0.8), ("linear", MASK, DP_SGD, 1.4),
    ("MLP", DP_SGD, PLAIN, 2.5), ("MLP", DP_SGD, GHOST, 0.8), ("MLP", MASK, DP_SGD, 1.4), ("MLP", FROZEN, DP_SGD, 0.6),
    ("MLP", GEP, HOOKS, 0.3),
    ("small CNN", DP_SGD, PLAIN, 1.6), ("small CNN", DP_SGD, GHOST, 0.8), ("small CNN", DP_SGD, HOOKS, 0.75),
    ("small CNN", MASK, DP_SGD, 1.2), ("small CNN", FROZEN, DP_SGD, 0.6),
)  # fmt: skip
"""Network, arm, what it is divided by, and the goal."""
MEMORY_GOAL, DRAW_GOAL, EPOCH_GOAL = 100.0, 1e-3, 3.0


def ratio(times: Results, arm: str, against: str, key: str = "median") -> float:
    """Time of one arm over that of another."""
    return float(times[arm][key] / times[against][key])


def written(results: Results, cuda: Results | None = None) -> str:
    """What stands between the markers."""
    return marked("tests.speed_page", (*_lines(results), *(_on_a_gpu(cuda) if cuda else ())))


def _lines(results: Results) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    yield f"{results['machine']}, {results['cores']} cores, {results['threads']} threads of torch, float32; {versions}."
    loads = [load for part in results["parts"].values() for load in part.get("load", []) if load is not None]
    if loads:
        yield (
            f"From {min(loads):g} to {max(loads):g} processes ran or waited for these cores meanwhile: "
            + ("the machine was shared." if max(loads) > results["threads"] + 1 else "it was idle otherwise.")
        )
    missing = [name for name in NETWORKS if f"step/{name}" not in results["parts"]]
    if missing:
        yield f"Not measured yet: {', '.join(missing)}."
    heads = ("what", "goal", "medians", "least times", "processor time", "reached")
    yield from ("", "## Goals", "", *table(heads, _goals(results["parts"])))
    for name, part in _parts(results, "step/"):
        yield from ("", *_network(name, part))
    if draws := _parts(results, "draw/"):
        tools = list(draws[0][1]["times"])
        rows = ([f"{float(n):.0e}", *(f"{1e3 * p['times'][tool]['median']:.3g}" for tool in tools)] for n, p in draws)
        yield from ("", "## A batch of 256, in ms", "", *table(["records", *tools], rows))
    if peaks := _parts(results, "memory/"):
        yield from ("", f"## Peak memory of a step, MLP, batch {results['memory_batch']}", "")
        yield from table(("step", "MiB"), ([arm, f"{part['mebibytes']:,.0f}"] for arm, part in peaks))


def _on_a_gpu(cuda: Results) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in cuda["versions"].items())
    yield from (
        "",
        "## On a GPU",
        "",
        f"One {cuda['device']}, {cuda['date']}, {versions}; medians of {cuda['rounds']} rounds.",
        "",
    )
    arms = (DP_SGD, MASK, HOOKS, OPACUS, GHOST)
    heads = ("network", "batch", "plain torch, ms", *(f"{arm} / plain" for arm in arms), "DP-SGD / Opacus hooks")
    rows = []
    for name, found in cuda["networks"].items():
        ms = found["milliseconds"]
        ratios = [*(ms[arm] / ms[PLAIN] for arm in arms), ms[DP_SGD] / ms[OPACUS]]
        rows.append([name, found["batch"], f"{ms[PLAIN]:.3g}", *(f"{one:.2f}" for one in ratios)])
    yield from table(heads, rows)


def _parts(results: Results, kind: str) -> list[tuple[str, Results]]:
    return [(name.removeprefix(kind), part) for name, part in results["parts"].items() if name.startswith(kind)]


def _goals(parts: Results) -> Iterator[list[str]]:
    for network, arm, against, goal in STEPS:
        if f"step/{network}" in parts:
            times = parts[f"step/{network}"]["times"]
            if arm not in times or against not in times:
                continue
            yield _goal(f"{network}: {arm} / {against}", goal, times, arm, against)
    if f"memory/{DP_SGD}" in parts:
        found = parts[f"memory/{DP_SGD}"]["mebibytes"]
        goal = [f"{MEMORY_GOAL:g} MiB", f"{found:.0f} MiB", "", ""]
        yield ["peak memory of a step, MLP", *goal, _word(found, MEMORY_GOAL)]
    for name, part in parts.items():
        if name.startswith("draw/"):
            times = part["times"]["PoissonBatches"]
            keys = ("median", "least", "processor_median")
            numbers = [f"{1e3 * times[key]:.3g} ms" for key in keys]
            size = float(name.removeprefix("draw/"))
            yield [f"batch of 256 of {size:.0e} records", "1 ms", *numbers, _word(times["median"], DRAW_GOAL)]
    if "epoch" in parts:
        name = f"epoch of a run, MLP, {parts['epoch']['data']} / {PLAIN}"
        yield _goal(name, EPOCH_GOAL, parts["epoch"]["times"], "run", PLAIN)


def _goal(name: str, goal: float, times: Results, arm: str, against: str) -> list[str]:
    numbers = [ratio(times, arm, against, key) for key in ("median", "least", "processor_median")]
    return [name, f"{goal:g}", *(f"{one:.2f}" for one in numbers), _word(numbers[0], goal)]


def _word(found: float, goal: float) -> str:
    return "yes" if found <= goal else "**no**"


def _network(name: str, part: Results) -> Iterator[str]:
    times = part["times"]
    against = [arm for arm in (PLAIN, DP_SGD, HOOKS, GHOST) if arm in times]
    yield f"## {name}: batch {part['batch']}, {part['parameters']:,} parameters, {times[PLAIN]['rounds']} rounds"
    yield ""
    heads = ["step", "median ms", "least ms", "processor ms", *(f"/ {arm}" for arm in against)]
    yield from table(heads, (_arm(arm, part, against) for arm in ARMS if arm in times or arm in part["skipped"]))


def _arm(arm: str, part: Results, against: list[str]) -> list[str]:
    times = part["times"]
    if arm not in times:
        return [arm, part["skipped"][arm], *[""] * (2 + len(against))]
    numbers = [1e3 * times[arm][key] for key in ("median", "least", "processor_median")]
    return [arm, *(f"{one:.4g}" for one in numbers), *(f"{ratio(times, arm, other):.2f}" for other in against)]


if __name__ == "__main__":
    both = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, CUDA))
    PAGE.write_text(page(PAGE, written(*both)), encoding="utf-8")
