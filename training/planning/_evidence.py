"""``python -m dptheory.training.planning._evidence``: plans beside a grid and plain defaults, in every setting.

Every run is one line of JSON, written when it ends; what the file has is not run again. The study trains on the private records as
the engine would and accounts for the noise, but takes the private accuracy of many settings as it is: it measures plans, and would
be no way to choose one.
"""

import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import nn
from torch.utils.data import TensorDataset

from dptheory.planning import Candidate, candidates
from dptheory.training._files import JsonLines, Line
from dptheory.training._randomness import seeded
from dptheory.training.mechanisms import DpSgd
from dptheory.training.planning._evidence_settings import DELTA, PUBLISHED, SEEDS, SETTINGS, Pairs, Records, Setting
from dptheory.training.planning._pilot import Job, Outcome, Problem, pilot, pilot_steps
from dptheory.training.planning._plan import plan
from dptheory.training.planning._point import CONSTANT, DE_ET_AL, TRAMER_AND_BONEH, TUTORIAL, Point, Usual
from dptheory.training.planning._public import Shipped, Synthetic
from dptheory.training.planning._search import point_of_candidate
from dptheory.training.planning._simulated import accuracy, judged
from dptheory.training.planning._training import private_steps, trained
from dptheory.training.planning._workers import cores

Place = tuple[float, float, float, float]
"""In the grid: sampling rate, share of the passes, clip, learning rate times clip."""
GRID, GRID_SEED, DEFAULT, PLAN = "grid", "grid seed", "default", "plan"
OWN, SHIPPED, SYNTHETIC = "own", "shipped", "synthetic"
CLIPS = (0.1, 1.0)
FINALISTS = 4
_FACTOR = {"stride": math.sqrt(10.0), "rate": 4.0, "share": 4.0}
_MOST_EXTENSIONS = 6
_LEAST_BATCH = 32


# --- one run --------------------------------------------------------------------------------------------------------------


def priced(
    setting: Setting,
    count: int,
    *,
    batch_size: int,
    epochs: float,
    clip_norm: float,
    stride: float,
    momentum: float = 0.0,
    average: float = 0.0,
) -> Point:
    """A point at the least noise that keeps the setting's budget."""
    candidate = _candidate(setting.epsilon, count, batch_size, epochs)
    return point_of_candidate(candidate, clip_norm, stride, momentum, CONSTANT, average)


@functools.cache
def _candidate(epsilon: float, count: int, batch_size: int, epochs: float) -> Candidate:
    """A batch size and passes at their least noise, which takes a while to find."""
    (found,) = candidates(
        num_examples=count, epsilon=epsilon, delta=DELTA, max_epochs=epochs, batch_size=batch_size, epochs=epochs
    )
    return found


def private_accuracy(records: Records, point: Point, seed: int) -> float:
    """Of the private run that a point describes, on the test records."""
    networks = seeded(
        seed,
        lambda: trained(
            records.model,
            nn.functional.cross_entropy,
            records.private,
            steps=private_steps(point),
            seed=seed,
            mechanism=lambda network: DpSgd(),
            averages=(point.average,) if point.average else (),
        ),
    )
    return judged(accuracy, networks[point.average], records.test)


def _run(records: Records, point: Point, seed: int, **said: Any) -> Line:
    began = time.process_time()
    found = private_accuracy(records, point, seed)
    took = time.process_time() - began
    return {**said, **vars(point), "seed": seed, "accuracy": found, "seconds": round(took, 3)}


# --- the grid -------------------------------------------------------------------------------------------------------------


def _grid(setting: Setting, records: Records, name: str, results: JsonLines) -> None:
    """All of the first axes, then further along every axis at whose end the best is; clips stay."""
    count = len(records.private[1])
    axes = {"rate": list(setting.rates), "share": list(setting.shares), "stride": list(setting.strides)}
    places: list[Place] = list(itertools.product(axes["rate"], axes["share"], CLIPS, axes["stride"]))
    known = {_place(line): line for line in results.lines() if (line["kind"], line["setting"]) == (GRID, name)}
    reached: dict[Place, Line] = {}  # not all that is known: a grid that goes on takes the same way
    for _ in range(1 + _MOST_EXTENSIONS):
        for place in places:
            if place not in known:
                rate, share, clip, stride = place
                epochs, batch = share * setting.max_epochs, round(rate * count)
                point = priced(setting, count, batch_size=batch, epochs=epochs, clip_norm=clip, stride=stride)
                known[place] = _run(records, point, 0, kind=GRID, setting=name, place=place)
                results.add(known[place])
            reached[place] = known[place]
        top = max(reached, key=lambda place: reached[place]["accuracy"])
        places = list(_further(axes, dict(zip(("rate", "share", "clip", "stride"), top, strict=True)), count))
        if not places:
            return


def _further(axes: dict[str, list[float]], top: Mapping[str, float], count: int) -> Iterator[Place]:
    """Places beyond the ends at which the best is: at its clip and passes, with every rate or stride; the axes grow."""
    for name, values in axes.items():
        low, high = min(values), max(values)
        new = low / _FACTOR[name] if top[name] == low else high * _FACTOR[name] if top[name] == high else None
        if new is None or (name == "share" and new > 1.0):
            continue
        if name == "rate" and (new > 1.0 or new * count < _LEAST_BATCH):
            continue
        values.append(new)
        beside = {"rate": [top["rate"]], "share": [top["share"]], "stride": list(axes["stride"])}
        if name == "stride":
            beside["rate"] = list(axes["rate"])
        beside[name] = [new]
        yield from itertools.product(beside["rate"], beside["share"], [top["clip"]], beside["stride"])


def _grid_seeds(records: Records, name: str, results: JsonLines) -> None:
    """The best of the grid with further seeds."""
    lines = [line for line in results.lines() if line["setting"] == name]
    done = {(_place(line), line["seed"]) for line in lines if line["kind"] == GRID_SEED}
    ranked = sorted((line for line in lines if line["kind"] == GRID), key=lambda line: -line["accuracy"])
    for line, seed in itertools.product(ranked[:FINALISTS], SEEDS[1:]):
        place = _place(line)
        if (place, seed) not in done:
            results.add(_run(records, point_of(line), seed, kind=GRID_SEED, setting=name, place=place))


def _place(line: Line) -> Place:
    rate, share, clip, stride = line["place"]
    return rate, share, clip, stride


def point_of(line: Line) -> Point:
    """What a line was run with."""
    return Point(**{key: line[key] for key in Point.__dataclass_fields__})


# --- defaults -------------------------------------------------------------------------------------------------------------

DEFAULTS: Mapping[str, Usual] = {"tutorial": TUTORIAL, "De et al.": DE_ET_AL, "Tramer and Boneh": TRAMER_AND_BONEH}


def default(setting: Setting, count: int, usual: Usual) -> Point:
    """A plain choice for so many private records."""
    return priced(
        setting,
        count,
        batch_size=usual.size(count),
        epochs=setting.max_epochs,
        clip_norm=usual.clip_norm,
        stride=usual.stride,
        momentum=usual.momentum,
        average=usual.average,
    )


def _defaults(setting: Setting, records: Records, name: str, results: JsonLines) -> None:
    done = {
        (line["name"], line["seed"]) for line in results.lines() if (line["kind"], line["setting"]) == (DEFAULT, name)
    }
    for key, usual in DEFAULTS.items():
        missing = [seed for seed in setting.seeds if (key, seed) not in done]
        if missing:
            point = default(setting, len(records.private[1]), usual)
            for seed in missing:
                results.add(_run(records, point, seed, kind=DEFAULT, setting=name, name=key))


# --- the plan -------------------------------------------------------------------------------------------------------------


class _Counting(Executor):
    """Counts the examples that pilots see and the processor time that they take.

    A pilot's seconds are those of processor time, so that a plan does as much on a busy machine as on an idle one.
    """

    def __init__(self, inner: ProcessPoolExecutor | ThreadPoolExecutor) -> None:
        self._inner = inner
        self._max_workers: int = inner._max_workers  # type: ignore[union-attr]
        self.examples = 0.0
        self.seconds = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A pilot."""
        problem, job = args
        self.examples += _examples(problem, job)
        future = self._inner.submit(_timed, problem, job)
        future.add_done_callback(self._took)
        return future

    def _took(self, future: Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.seconds += future.result().seconds


def _inner(device: torch.device) -> ProcessPoolExecutor | ThreadPoolExecutor:
    """A process for each core, as a plan has it by itself; on CUDA one pilot at a time."""
    if device.type == "cuda":
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(cores(), get_context("fork"), torch.set_num_threads, (1,))


def _timed(problem: Problem, job: Job) -> Outcome:
    began = time.process_time()
    outcome = pilot(problem, job)
    return replace(outcome, seconds=time.process_time() - began)


def _examples(problem: Problem, job: Job) -> float:
    train, _ = problem.split(job)
    steps = pilot_steps(job, records=len(train[1]))
    return steps.count * steps.batch_size


def _plan(
    setting: Setting, records: Records, name: str, results: JsonLines, public: str, seconds: float | None
) -> None:
    source: TensorDataset | Shipped | Synthetic | None = {
        OWN: TensorDataset(*records.public),
        SHIPPED: setting.shipped,
        SYNTHETIC: setting.synthetic,
    }[public]
    if source is None:
        return
    key = PLAN, name, public
    done = [line for line in results.lines() if (line["kind"], line["setting"], line.get("public")) == key]
    missing = [seed for seed in setting.seeds if seed not in {line["seed"] for line in done}]
    if not missing:
        return
    if done:
        point, said = point_of(done[0]), done[0]["plan"]
    else:
        began = time.process_time()
        with _inner(records.public[1].device) as inner:
            executor = _Counting(inner)
            choice = plan(
                records.model,
                source,
                num_examples=len(records.private[1]),
                epsilon=setting.epsilon,
                delta=DELTA,
                max_epochs=setting.max_epochs,
                seconds=seconds,
                executor=executor,
            )
        point = choice.point
        said = {
            "records": source.count if isinstance(source, Shipped | Synthetic) else len(source),
            "low": choice.expected.low,
            "high": choice.expected.high,
            "pilots": choice.pilots,
            "examples": round(executor.examples),
            "core_seconds": round(executor.seconds + time.process_time() - began, 1),
            "wall_seconds": round(choice.seconds, 1),
            "allowed": seconds,
            "load": round(os.getloadavg()[1], 1),
        }
    for seed in missing:
        results.add(_run(records, point, seed, kind=PLAN, setting=name, public=public, plan=said))


def _on(records: Records, device: str) -> Records:
    def moved(pair: Pairs) -> Pairs:
        return pair[0].to(device), pair[1].to(device)

    return Records(
        model=records.model.to(device),
        public=moved(records.public),
        private=moved(records.private),
        test=moved(records.test),
    )


# --- the command ----------------------------------------------------------------------------------------------------------


def measure(
    name: str,
    setting: Setting,
    results: JsonLines,
    *,
    parts: Sequence[str],
    public: Sequence[str] = (OWN, SHIPPED, SYNTHETIC),
    seconds: float | None = None,
    device: str = "cpu",
) -> None:
    """What is missing of a setting."""
    records = _on(setting.build(), device)
    if "grid" in parts:
        _grid(setting, records, name, results)
        _grid_seeds(records, name, results)
    if "defaults" in parts:
        _defaults(setting, records, name, results)
    if "plan" in parts:
        for one in public:
            _plan(setting, records, name, results, one, seconds)


def main(
    out: Annotated[Path, typer.Option(help="file of the results, which grows")],
    only: Annotated[str, typer.Option(help="settings, with commas; all where it is left out")] = "",
    parts: Annotated[str, typer.Option(help="of grid, defaults and plan, with commas")] = "grid,defaults,plan",
    public: Annotated[str, typer.Option(help="of own, shipped and synthetic, with commas")] = "own,shipped,synthetic",
    seconds: Annotated[float | None, typer.Option(help="for each plan; its default where it is left out")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
) -> None:
    """Measure what is missing."""
    torch.set_num_threads(1)
    known = {**SETTINGS, **PUBLISHED}
    for name in only.split(",") if only else known:
        print(name, flush=True)
        wanted = ["plan"] if name in PUBLISHED else parts.split(",")
        few = public.split(",")
        measure(name, known[name], JsonLines(out), parts=wanted, public=few, seconds=seconds, device=device)


if __name__ == "__main__":
    typer.run(main)
