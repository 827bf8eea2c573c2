"""What each accountant says of a setting, beside bounds that hold; and settings where one says too little."""

import contextlib
import enum
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import DELTA, MAX_STEPS, NOISE, RATE
from dptheory.privacy._composition import epsilon_bounds, valid_delta
from dptheory.privacy._parts import checked_step
from dptheory.privacy.referee._processes import Outcome, Worker
from dptheory.privacy.referee._tools import Setting, installed, warm_up

ROUNDING = 1e-9
"""Relative: an answer that is off by less is taken for rounded."""
LIMIT = (1e-3, 1e5)
"""Seconds that one answer may be given."""
_OURS = "dptheory"


class Finding(enum.StrEnum):
    """What is to be said of an answer."""

    VALID = "valid"
    TOO_SMALL = "too small"
    LOWER_TOO_LARGE = "lower bound too large"
    ESTIMATE = "estimate"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one tool said.

    Attributes:
        tool: its name.
        finding: ``TOO_SMALL`` where it promises an upper bound that is below the truth; an estimate is called one, wherever it is.
        lower, upper: its bounds; None where it gives none.
        off: relative distance of ``upper`` from the nearest epsilon that our bounds allow: above 0 loose, below 0 too small; absolute
            where that is 0; None without an answer.
        seconds: of CPU time, or the limit.
        refused: why there is no answer, or empty.
    """

    tool: str
    finding: Finding
    lower: float | None
    upper: float | None
    off: float | None
    seconds: float
    refused: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A setting, bounds of its epsilon that hold, and the answers.

    Attributes:
        setting: the run.
        lower, upper: of its epsilon.
        answers: what each tool said, in the order in which they were asked.
        certified: whether the bounds are of ball arithmetic, which assumes nothing of rounding.
    """

    setting: Setting
    lower: float
    upper: float
    certified: bool
    answers: tuple[Answer, ...]


def compare(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    tools: Sequence[str] | None = None,
    limit: float = 60.0,
) -> Comparison:
    """Ask the accountants that are installed for epsilon of one run, each in a process of its own.

    An upper bound below our lower bound is too small. Our bounds are of ball arithmetic where that serves
    (:func:`dptheory.privacy.epsilon_bounds`), else of doubles.

    Args:
        noise_multiplier, sampling_rate, steps, delta: as for :func:`dptheory.privacy.epsilon_bounds`; Poisson samples, a record more
            or less.
        tools: names of one or more to be asked; all that are installed if left out.
        limit: seconds of CPU time that one answer may take, in [1e-3, 1e5].

    Returns:
        Setting, bounds and answers.

    Raises:
        ValueError: an argument outside its range, a tool that is not installed, or no bounds of ours within ``limit``.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2).

    Example: a central limit theorem gives too little, and says that it is an estimate.
        >>> from dptheory.privacy import referee
        >>> found = referee.compare(noise_multiplier=1.0, sampling_rate=1e-3, steps=100, delta=1e-5, tools=["Opacus GDP"])
        >>> [(one.tool, str(one.finding), round(one.off, 1)) for one in found.answers]
        [('Opacus GDP', 'estimate', -0.3)]
    """
    checked = checked_step(noise_multiplier, sampling_rate, steps)
    setting = Setting(
        noise_multiplier=checked.noise_multiplier,
        sampling_rate=checked.sampling_rate,
        steps=checked.count,
        delta=valid_delta(delta),
    )
    with _asking(_asked(tools), _valid_limit(limit)) as referee:
        return referee.compared(setting, certified=True)


def search(
    *,
    count: int,
    seed: int = 0,
    tools: Sequence[str] | None = None,
    limit: float = 60.0,
    law: str = "whole",
    known: Sequence[Comparison] = (),
) -> Iterator[Comparison]:
    """Compare accountants in random settings: those whose answers are too small are what is looked for.

    Our bounds are of doubles; where a tool is below them they are taken in ball arithmetic if that serves.

    Args:
        count: how many settings, 1..1e9.
        seed: of :func:`draw`, a whole number >= 0.
        tools, limit: as for :func:`compare`.
        law: as for :func:`draw`.
        known: what a search that was stopped had found: of the first settings, which are not asked again.

    Returns:
        An iterator: one comparison after the other; settings without bounds of ours within ``limit`` have none of them: 0 and infinity.

    Raises:
        ValueError: an argument outside its range, a tool that is not installed, or ``known`` of other settings.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2).

    Example: two settings, and Opacus's Renyi accountant.
        >>> from dptheory.privacy import referee
        >>> found = list(referee.search(count=2, seed=1, tools=["Opacus RDP"], law="core"))
        >>> [one.finding.value for comparison in found for one in comparison.answers]
        ['valid', 'valid']
    """
    settings, asked, limit = draw(count=count, seed=seed, law=law), _asked(tools), _valid_limit(limit)
    same = isinstance(known, Sequence) and all(isinstance(one, Comparison) for one in known)
    if not same or [one.setting for one in known] != list(itertools.islice(settings, len(known))):
        raise ArgumentError("known", f"be comparisons in the first settings of seed {seed} and law {law!r}", known)

    def compared() -> Iterator[Comparison]:
        with _asking(asked, limit) as referee:
            for setting in settings:
                yield referee.compared(setting, certified=False)

    return compared()


LAWS = {
    "whole": (NOISE, RATE, (1, MAX_STEPS), DELTA),
    "core": ((0.4, 20.0), (1e-4, 1.0), (100, MAX_STEPS), (1e-15, 0.1)),
    "rare": ((0.3, 3.0), (1e-8, 1e-2), (1, 10_000), DELTA),
}
"""Ends of noise multiplier, sampling rate, number of steps and delta, each drawn uniformly in the logarithm."""


def draw(*, count: int, seed: int = 0, law: str = "whole") -> Iterator[Setting]:
    """Random settings, uniformly in the logarithms.

    Args:
        count: how many, 1..1e9.
        seed: a whole number >= 0.
        law: "whole": all that is accounted for: noise 0.05 to 1000, rates 1e-8 to 1, 1 to 10^6 steps, delta 1e-30 to 0.99; "core": 0.4
            to 20, 1e-4 to 1, 100 to 10^6, 1e-15 to 0.1; or "rare": 0.3 to 3, 1e-8 to 0.01, 1 to 10^4, 1e-30 to 0.99.

    Returns:
        An iterator over the settings.

    Source: GIP, Lemma 1 (gip.lem1).

    Example: whatever the seed, a setting is within the range of the accountant.
        >>> from dptheory.privacy import referee
        >>> [one] = referee.draw(count=1)
        >>> 0.05 <= one.noise_multiplier <= 1000 and 1 <= one.steps <= 10**6
        True
    """
    count = _validate.integer("count", count, 1, 10**9)
    ends = LAWS[_validate.choice("law", law, tuple(LAWS))]
    rng = np.random.default_rng(_validate.integer("seed", seed, 0, 2**63 - 1))
    return (_drawn(rng, ends) for _ in range(count))


def _drawn(rng: np.random.Generator, ends: tuple[tuple[float, float], ...]) -> Setting:
    noise, rate, steps, delta = (
        min(max(math.exp(rng.uniform(math.log(low), math.log(high))), low), high) for low, high in ends
    )
    return Setting(noise_multiplier=noise, sampling_rate=rate, steps=round(steps), delta=delta)


@dataclass(frozen=True)
class _Referee:
    workers: dict[str, Worker]
    asked: tuple[str, ...]
    limit: float

    def compared(self, setting: Setting, *, certified: bool) -> Comparison:
        ours = self._ask(_OURS, setting)
        lower, upper = ours.value if not ours.refused else (0.0, math.inf)
        sure = certified and self._certified(setting)
        if sure:
            lower, upper = sure
        answers = self._answers(setting, ours, lower, upper)
        if not certified and any(one.finding in (Finding.TOO_SMALL, Finding.LOWER_TOO_LARGE) for one in answers):
            sure = self._certified(setting)
            if sure:
                lower, upper = sure
                answers = [_judged(one, lower, upper) for one in answers]
        if certified and ours.refused and not sure:
            raise ArgumentError("limit", f"be larger: {ours.refused}", self.limit)
        return Comparison(setting=setting, lower=lower, upper=upper, certified=bool(sure), answers=tuple(answers))

    def _answers(self, setting: Setting, ours: Outcome, lower: float, upper: float) -> list[Answer]:
        found = []
        for name in self.asked:
            outcome = ours if name == _OURS else self._ask(name, setting)
            low, high = (None, None) if outcome.refused else outcome.value
            refused = outcome.refused
            if high is not None and not math.isfinite(high):
                low, high, refused = None, None, f"{high}"
            one = Answer(
                tool=name,
                finding=Finding.FAILED,
                lower=low,
                upper=high,
                off=None,
                seconds=outcome.seconds,
                refused=refused,
            )
            found.append(_judged(one, lower, upper))
        return found

    def _ask(self, name: str, setting: Setting) -> Outcome:
        return self.workers[name].call(installed()[name].epsilon, {"setting": setting}, self.limit)

    def _certified(self, setting: Setting) -> tuple[float, float] | None:
        found = self.workers[_OURS].call(_enclosure, {"setting": setting}, self.limit)
        return None if found.refused else found.value


def _asked(tools: Sequence[str] | None) -> tuple[str, ...]:
    known = tuple(installed())
    if tools is None:
        return known
    if isinstance(tools, str) or not isinstance(tools, Sequence) or not tools:
        raise ArgumentError("tools", f"be a sequence of one or more of {', '.join(known)}, or None for all", tools)
    return tuple(_validate.choice("tools", one, known) for one in tools)


def _valid_limit(limit: float) -> float:
    return _validate.real("limit", limit, *LIMIT)


@contextlib.contextmanager
def _asking(asked: tuple[str, ...], limit: float) -> Iterator[_Referee]:
    with contextlib.ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker(functools.partial(warm_up, name)))
            for name in dict.fromkeys((_OURS, *asked))
        }
        yield _Referee(workers, asked, limit)


def _judged(answer: Answer, lower: float, upper: float) -> Answer:
    """With its finding and distance, for epsilon in [lower, upper]."""
    if answer.upper is None:
        return answer
    said = max(
        answer.upper, 0.0
    )  # below 0 some tools go where nothing is spent: delta may say that much of a smaller epsilon
    allowed = min(max(said, lower), upper)
    off = (said - allowed) / allowed if allowed > 0.0 else said
    if installed()[answer.tool].estimate:
        finding = Finding.ESTIMATE
    elif said < lower * (1 - ROUNDING):
        finding = Finding.TOO_SMALL
    elif answer.lower is not None and answer.lower > upper * (1 + ROUNDING):
        finding = Finding.LOWER_TOO_LARGE
    else:
        finding = Finding.VALID
    return Answer(**asdict(answer) | {"finding": finding, "off": off})


def _enclosure(setting: Setting) -> tuple[float, float]:
    found = epsilon_bounds(**asdict(setting), certified=True)
    return found.lower, found.upper
