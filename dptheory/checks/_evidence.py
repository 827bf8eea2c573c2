"""What a check is, and what it leaves behind."""

import enum
import zlib
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol


class Kind(enum.Enum):
    """How a piece of evidence was won."""

    EXACT = "exact"
    SYMBOLIC = "symbolic"
    CERTIFICATE = "certificate"
    MONTE_CARLO = "monte carlo"
    SEARCH = "search"
    COUNTEREXAMPLE = "counterexample"


@dataclass(frozen=True)
class Evidence:
    """Outcome of one check.

    Attributes:
        check: its name.
        kind: how it was found out.
        passed: whether the statement holds and the wrong one was rejected.
        claimed, observed: the statement's value and the one found, where the check compares two numbers.
        standard_error: of ``observed``, where it was drawn.
        detectable: the smallest relative error that the check would have caught.
        samples: how many draws or cases.
        seconds: what it took.
        seed: of the draws.
        detail: what was compared, and what became of the wrong statement that the check was also run on.
        finished: False where the budget ran out first: such a check did not pass, but it did not refute anything either.
    """

    check: str
    kind: Kind
    passed: bool
    claimed: float | None = None
    observed: float | None = None
    standard_error: float | None = None
    detectable: float | None = None
    samples: int = 0
    seconds: float = 0.0
    seed: int = 0
    detail: str = ""
    finished: bool = True


class Check(Protocol):
    """A named test of one statement, which also shows that it rejects a wrong one."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    def run(self, budget: float, seed: int, executor: Executor | None = None) -> Evidence:
        """Run for at most ``budget`` seconds (a little over: the step under way is finished).

        The outcome depends on ``seed`` and not on the executor or its number of workers, as long as the budget suffices.

        Args:
            budget: seconds; inf sets no limit.
            seed: of the random draws.
            executor: where the work is spread; None runs it here.

        Returns:
            What was found, and whether it passed.
        """
        ...


def failing(*conditions: tuple[bool, str]) -> list[str]:
    """What is said of the conditions that do not hold."""
    return [says for holds, says in conditions if not holds]


def stream(seed: int, name: str) -> int:
    """A seed of its own for each check, so that checks run under one seed do not share random numbers."""
    return seed ^ zlib.crc32(name.encode())
