"""What fine-tuning a small BERT costs, layer by layer, and what a further view of an image costs: part after part."""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dptheory.training.benchmarks import _arms
from dptheory.training.benchmarks._networks import EVERYTHING, LORA, VIEWS, WAYS, Timed, installed, timed
from dptheory.training.benchmarks._steps import Part, measured, peak
from dptheory.training.benchmarks._timing import Work, in_turns

OWN = (_arms.PLAIN, _arms.DP_SGD)
"""Arms of all that may be trained."""
OTHERS = (_arms.PLAIN, _arms.DP_SGD, _arms.HOOKS, _arms.GHOST)
"""Arms of LoRA and of all weights."""

Build = Callable[..., Timed]


def parts(
    rounds: int, threads: int, *, text: Build = timed, views: Mapping[str, Timed] = VIEWS
) -> Iterator[tuple[str, Part]]:
    """Names of what is measured, and how; that of text where its packages are installed."""
    yield "time/views", lambda: measured(lambda: {"times": in_turns(_private(views), rounds)})
    for name, one in views.items():
        yield f"memory/{_arms.DP_SGD}/{name}", _peak(_arms.DP_SGD, name, one.batch, threads)
    if not installed():
        return
    yield "time/ways", lambda: measured(lambda: _ways(rounds, text))
    for way in WAYS:
        for arm in OWN:
            yield f"memory/{arm}/{way}", _peak(arm, way, text(way).batch, threads)
    for way in (LORA, EVERYTHING):
        yield f"time/{way}", lambda way=way: measured(lambda: {"times": in_turns(_of_arms(way, text), rounds)})  # type: ignore[misc]
        yield f"memory/{_arms.GHOST}/{way}", _peak(_arms.GHOST, f"{way}, places by hand", text(way).batch, threads)


def versions() -> dict[str, str]:
    """Of the packages of text, where they are installed."""
    return {name: importlib.metadata.version(name) for name in ("transformers", "peft")} if installed() else {}


def _peak(arm: str, network: str, batch: int, threads: int) -> Part:
    return lambda: {"mebibytes": peak(arm, network, batch, threads)}


def _private(networks: Mapping[str, Timed]) -> dict[str, Work]:
    return {name: _arms.build(_arms.DP_SGD, one, *one.examples(one.batch)) for name, one in networks.items()}


def _of_arms(way: str, text: Build) -> dict[str, Work]:
    """A step by every arm; Opacus is handed what it cannot make a row for each example of."""
    networks = {arm: text(way, by_hand=arm == _arms.GHOST) for arm in OTHERS}
    return {arm: _arms.build(arm, one, *one.examples(one.batch)) for arm, one in networks.items()}


def _ways(rounds: int, text: Build) -> dict[str, Any]:
    """All ways in turns, each in plain torch and privately; and how many numbers each trains."""
    works: dict[str, Work] = {}
    trained: dict[str, int] = {}
    for way in WAYS:
        one = text(way)
        trained[way] = sum(p.numel() for p in one.model().parameters() if p.requires_grad)
        for arm in OWN:
            works[f"{arm}/{way}"] = _arms.build(arm, one, *one.examples(one.batch))
    return {"trained": trained, "times": in_turns(works, rounds)}
