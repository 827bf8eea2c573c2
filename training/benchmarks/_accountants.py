"""Accountants side by side: the time of each one's answer, and its distance from the certified value."""

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dptheory import privacy
from dptheory.privacy import referee
from dptheory.privacy.referee import ROUNDING, Outcome, Setting, Worker, installed, warm_up

Quantity = Literal["epsilon", "noise_multiplier"]
LARGEST_EPSILON = 1000.0
_MOST_DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A setting with an enclosure of its epsilon, which takes its noise multiplier: that is the least for this epsilon."""

    setting: Setting
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one tool said of one setting.

    Attributes:
        number: of the setting.
        tool: its name in ``TOOLS``.
        quantity: what was asked for.
        lower, upper: its bounds; None where it gives none.
        seconds: of CPU time, or the limit.
        refused: why there is no answer, or empty.
    """

    number: int
    tool: str
    quantity: Quantity
    lower: float | None
    upper: float | None
    seconds: float
    refused: str


def draw(count: int, seed: int, known: Sequence[Certified] = ()) -> Iterator[Certified]:
    """``count`` settings of :func:`dptheory.privacy.referee.draw`'s law "core"; those with an epsilon of 0 or above 1,000 are left out.

    The first ones are ``known`` from a run that was stopped: they are not certified again.
    """
    found = 0
    for setting in referee.draw(count=_MOST_DRAWS, seed=seed, law="core"):
        if found == count:
            return
        if found < len(known):
            if setting == known[found].setting:
                found += 1
                yield known[found - 1]
            continue
        if not 0.0 < privacy.epsilon_bounds(**asdict(setting)).upper <= LARGEST_EPSILON:
            continue
        try:
            certain = privacy.epsilon_bounds(**asdict(setting), certified=True)
        except ValueError:  # an enclosure that would be too wide
            continue
        found += 1
        yield Certified(setting=setting, lower=certain.lower, upper=certain.upper)
    raise ValueError(f"only {found} of {count} settings came out of seed {seed}: the file may be of another range")


def measure(
    count: int, seed: int, noise_count: int, limit: float, known: Sequence[Certified] = ()
) -> Iterator[tuple[Certified, list[Answer]]]:
    """Setting after setting, what every tool says of epsilon, and of the first ``noise_count`` also of the noise multiplier."""
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(functools.partial(warm_up, name))) for name in installed()}
        for number, one in enumerate(draw(count, seed, known)):
            if number < len(known):
                continue
            answers = []
            for name, tool in installed().items():
                answers.append(_answer(workers[name], number, name, "epsilon", one, limit))
                if tool.noise_multiplier is not None and number < noise_count:
                    answers.append(_answer(workers[name], number, name, "noise_multiplier", one, limit))
            yield one, answers


def excess(answer: Answer, settings: list[Certified]) -> float:
    """Distance of the upper bound from the truth: over max(1, epsilon), or relative for noise. NaN without an answer."""
    if answer.upper is None:
        return math.nan
    one = settings[answer.number]
    if answer.quantity == "epsilon":
        truth = (one.lower + one.upper) / 2
        return (answer.upper - truth) / max(1.0, truth)
    return answer.upper / one.setting.noise_multiplier - 1


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All answers of a tool to one question: ``below`` are below the truth, and wrong; seconds and excess are medians."""

    tool: str
    quantity: Quantity
    answered: int
    refused: int
    below: int
    seconds: float
    excess: float
    worst: float


def summaries(answers: list[Answer], settings: list[Certified]) -> list[Summary]:
    """One for every tool and question, in the order of the answers."""
    found = []
    for tool, quantity in dict.fromkeys((one.tool, one.quantity) for one in answers):
        mine = [one for one in answers if (one.tool, one.quantity) == (tool, quantity)]
        given = [one for one in mine if one.upper is not None]
        distances = np.array([excess(one, settings) for one in given])
        found.append(
            Summary(
                tool=tool,
                quantity=quantity,
                answered=len(given),
                refused=len(mine) - len(given),
                below=int((distances < -ROUNDING).sum()),
                seconds=float(np.median([one.seconds for one in given])) if given else math.nan,
                excess=float(np.median(distances)) if given else math.nan,
                worst=float(distances.max()) if given else math.nan,
            )
        )
    return found


def _answer(worker: Worker, number: int, name: str, quantity: Quantity, one: Certified, limit: float) -> Answer:
    asked: dict[str, Any] = {"setting": one.setting}
    if quantity == "noise_multiplier":
        asked["epsilon"] = one.upper
    outcome: Outcome = worker.call(getattr(installed()[name], quantity), asked, limit)
    lower, upper = (None, None) if outcome.refused else outcome.value
    refused = outcome.refused
    if upper is not None and not math.isfinite(upper):
        lower, upper, refused = None, None, f"{upper}"
    return Answer(
        number=number,
        tool=name,
        quantity=quantity,
        lower=lower,
        upper=upper,
        seconds=outcome.seconds,
        refused=refused,
    )
