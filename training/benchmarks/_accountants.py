"""Accountants side by side: the time of each one's answer, and its distance from the certified value."""

import contextlib
import functools
import math
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any, Literal, Self

import numpy as np

from dptheory import privacy

# --- Calls in a process of their own, one after the other, each with a limit of CPU time: a busy machine changes little


Call = Callable[..., Any]

_START = 600.0
"""Seconds that imports and a first call may take; they are not counted."""
_PATIENCE = 100.0
"""Seconds on the clock per second of CPU time: a call that takes longer sleeps, or does not listen."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    Attributes:
        value: what it returned; None where it returned nothing in time.
        seconds: of CPU time that it took, or the limit.
        refused: why there is no value; empty where there is one.
    """

    value: Any
    seconds: float
    refused: str = ""


class Worker:
    """A process for calls of functions that can be imported by name.

    Args:
        warm_up: called once when the process starts; what it takes is not counted.
    """

    def __init__(self, warm_up: Call) -> None:
        self._warm_up = warm_up
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def call(self, function: Call, arguments: dict[str, Any], limit: float) -> Outcome:
        """The outcome of one call that may take ``limit`` seconds of CPU time."""
        connection = self._connection or self._start()
        connection.send((function, arguments, limit))
        if not connection.poll(_PATIENCE * limit):
            self._stop()
            return Outcome(None, limit, f"no answer in {_PATIENCE * limit:g} s on the clock")
        try:
            outcome: Outcome = connection.recv()
        except EOFError:
            self._stop()
            return Outcome(None, math.nan, "the process died")
        return outcome

    def _start(self) -> "Connection[Any, Any]":
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._warm_up), daemon=True)
        self._process.start()
        theirs.close()
        if not mine.poll(_START):
            self._stop()
            raise TimeoutError(f"{self._warm_up.__name__} took more than {_START:g} s")
        mine.recv()
        self._connection = mine
        return mine

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._connection = self._process = None


def _serve(connection: "Connection[Any, Any]", warm_up: Call) -> None:
    warnings.simplefilter("ignore")
    warm_up()
    connection.send("ready")
    signal.signal(signal.SIGPROF, _spent)
    while True:
        try:
            function, arguments, limit = connection.recv()
        except EOFError:
            return
        connection.send(_timed(function, arguments, limit))


class _Spent(BaseException):
    """The CPU time is spent; no library takes it for an error of its own."""


def _spent(*_: object) -> None:
    raise _Spent


def _timed(function: Call, arguments: dict[str, Any], limit: float) -> Outcome:
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        value, refused = function(**arguments), ""
    except _Spent:
        return Outcome(None, limit, f"no answer in {limit:g} s")
    except Exception as error:
        value, refused = None, " ".join(f"{type(error).__name__}: {error}".split())[:160]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return Outcome(value, time.process_time() - started, refused)


Quantity = Literal["epsilon", "noise_multiplier"]
Bracket = tuple[float | None, float]
"""Lower bound, where the tool gives one, and the upper bound that it reports."""

NOISE, LOG_RATE, LOG_STEPS, LOG_DELTA = (0.4, 20.0), (-4.0, 0.0), (2.0, 6.0), (-15.0, -1.0)
"""What settings are drawn from, uniformly in the logarithm."""
LARGEST_EPSILON = 1000.0
_MOST_DRAWS = 10_000
LIBRARIES = ("dptheory", "numpy", "scipy", "python-flint", "dp-accounting", "opacus", "prv-accountant")
ROUNDING = 1e-9
"""An answer is counted as below the truth from this relative distance on."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A run of DP-SGD."""

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float


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


@dataclass(frozen=True, kw_only=True)
class Tool:
    """How a tool is asked for epsilon of a setting, and for the least noise multiplier at an epsilon, if it can be."""

    epsilon: Callable[..., Bracket]
    noise_multiplier: Callable[..., Bracket] | None = None


def draw(count: int, seed: int, known: Sequence[Certified] = ()) -> Iterator[Certified]:
    """``count`` settings over the core of the accountant; those with an epsilon of 0 or above 1,000 are drawn again.

    The first ones are ``known`` from a run that was stopped: they are not certified again.
    """
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(_MOST_DRAWS):
        if found == count:
            return
        setting = Setting(
            noise_multiplier=float(np.exp(rng.uniform(*np.log(NOISE)))),
            sampling_rate=float(10 ** rng.uniform(*LOG_RATE)),
            steps=round(10 ** rng.uniform(*LOG_STEPS)),
            delta=float(10 ** rng.uniform(*LOG_DELTA)),
        )
        if found < len(known):
            if setting == known[found].setting:
                found += 1
                yield known[found - 1]
            continue
        if not 0.0 < _ours(setting)[1] <= LARGEST_EPSILON:
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
    """Setting after setting, what every tool says of epsilon, and of the first ``noise_count`` also of the noise multiplier.

    Of ``known`` settings nothing is asked: they have their answers.
    """
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(functools.partial(_warm_up, name))) for name in TOOLS}
        for number, one in enumerate(draw(count, seed, known)):
            if number < len(known):
                continue
            answers = []
            for name, tool in TOOLS.items():
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
    """All answers of a tool to one question.

    Attributes:
        tool, quantity: who was asked what.
        answered, refused: how many settings.
        below: answers below the truth, which are wrong.
        seconds, excess: medians over the answers.
        worst: largest excess.
    """

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


def versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def _answer(worker: Worker, number: int, name: str, quantity: Quantity, one: Certified, limit: float) -> Answer:
    asked: dict[str, Any] = {"setting": one.setting}
    if quantity == "noise_multiplier":
        asked["epsilon"] = one.upper
    outcome: Outcome = worker.call(getattr(TOOLS[name], quantity), asked, limit)
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


def _warm_up(name: str) -> None:
    import logging

    logging.disable(logging.ERROR)
    TOOLS[name].epsilon(Setting(noise_multiplier=2.0, sampling_rate=0.01, steps=100, delta=1e-5))


def _ours(setting: Setting) -> Bracket:
    found = privacy.epsilon_bounds(**asdict(setting))
    return found.lower, found.upper


def _ours_noise(setting: Setting, epsilon: float) -> Bracket:
    asked = {name: value for name, value in asdict(setting).items() if name != "noise_multiplier"}
    return None, privacy.least_noise_multiplier(epsilon=epsilon, **asked)


def _our_rdp(setting: Setting) -> Bracket:
    return None, privacy.rdp_epsilon(**asdict(setting))


def _event(setting: Setting, noise_multiplier: float) -> Any:
    import dp_accounting

    one = dp_accounting.PoissonSampledDpEvent(setting.sampling_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    return dp_accounting.SelfComposedDpEvent(one, setting.steps)


def _pld(setting: Setting, interval: float) -> Bracket:
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=interval)
    return None, float(accountant.compose(_event(setting, setting.noise_multiplier)).get_epsilon(setting.delta))


def _pld_noise(setting: Setting, epsilon: float, interval: float) -> Bracket:
    from dp_accounting import mechanism_calibration
    from dp_accounting.pld import PLDAccountant

    return None, float(
        mechanism_calibration.calibrate_dp_mechanism(
            lambda: PLDAccountant(value_discretization_interval=interval),
            lambda noise: _event(setting, noise),
            epsilon,
            setting.delta,
            mechanism_calibration.LowerEndpointAndGuess(0.2, 2.0),
        )
    )


def _opacus(setting: Setting, name: str) -> Bracket:
    from opacus.accountants import create_accountant

    accountant = create_accountant(name)
    accountant.history = [(setting.noise_multiplier, setting.sampling_rate, setting.steps)]
    return None, float(accountant.get_epsilon(delta=setting.delta))


def _opacus_noise(setting: Setting, epsilon: float, name: str) -> Bracket:
    from opacus.accountants.utils import get_noise_multiplier

    return None, float(
        get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=setting.delta,
            sample_rate=setting.sampling_rate,
            steps=setting.steps,
            accountant=name,
        )
    )


def _prv_accountant(setting: Setting) -> Bracket:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    accountant = PRVAccountant(
        prvs=PoissonSubsampledGaussianMechanism(
            sampling_probability=setting.sampling_rate, noise_multiplier=setting.noise_multiplier
        ),
        max_self_compositions=setting.steps,
        eps_error=0.01,
        delta_error=setting.delta / 1000,
    )
    lower, _, upper = accountant.compute_epsilon(delta=setting.delta, num_self_compositions=setting.steps)
    return float(lower), float(upper)


TOOLS: dict[str, Tool] = {
    "dptheory": Tool(epsilon=_ours, noise_multiplier=_ours_noise),
    "dptheory RDP": Tool(epsilon=_our_rdp),
    "dp-accounting PLD 1e-3": Tool(
        epsilon=functools.partial(_pld, interval=1e-3), noise_multiplier=functools.partial(_pld_noise, interval=1e-3)
    ),
    "dp-accounting PLD 1e-4": Tool(epsilon=functools.partial(_pld, interval=1e-4)),
    "Opacus PRV": Tool(
        epsilon=functools.partial(_opacus, name="prv"), noise_multiplier=functools.partial(_opacus_noise, name="prv")
    ),
    "Opacus RDP": Tool(
        epsilon=functools.partial(_opacus, name="rdp"), noise_multiplier=functools.partial(_opacus_noise, name="rdp")
    ),
    "prv-accountant": Tool(epsilon=_prv_accountant),
}
"""The tools by name, with their own defaults where they have any; prv-accountant's errors are those that Opacus takes."""
