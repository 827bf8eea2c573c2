"""What the ledger says of one claim."""

import enum
import functools
import inspect
import re
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dptheory import _validate
from dptheory.checks import Check, Evidence
from dptheory.claims._answer import NOT_RUN, Answer
from dptheory.claims._prose import Prose, page_file, read_prose
from dptheory.errors import ArgumentError

MOST_SEEDS = 10**18
_ROOT = Path(__file__).parents[2]


class Verdict(enum.Enum):
    """How far a printed claim can be trusted."""

    HOLDS = "true exactly as printed"
    LOOSE = "true as printed, but a tight or exact value exists"
    CONDITIONAL = "true only under a condition that the paper does not state"
    FALSE = "not true as printed"
    NOT_SHOWN = "the paper's argument does not carry; whether the statement is true stays open"
    EMPIRICAL = "a measured claim, to be compared with runs"


class Severity(enum.Enum):
    """What a FALSE statement takes with it."""

    SLIP = "a misprint: nothing rests on it"
    REPAIRABLE = "a corrected statement serves the paper's use"
    SERIOUS = "what the paper builds on it falls"


PAPERS = {
    "rf": "Random freeze",
    "rs": "Random sparsification",
    "lf": "Layer freezing",
    "gep": "Gradient embedding perturbation",
    "gip": "Gradient index pruning",
}

KERNEL_THEOREMS = {
    "printed_is_false": "the negation of the printed statement",
    "printed_holds": "the printed statement",
    "part_holds": "a part of the printed statement",
    "reading_is_false": "the negation of one reading of it",
    "correction_holds": "the correction",
}
"""The theorems of a module in ``proofs/kernel``, in the order in which they are named."""


@dataclass(frozen=True)
class Source:
    """Where a paper makes the claim.

    Attributes:
        paper: a key of :data:`PAPERS`.
        label: what the paper calls it; "new, on ..." is a result of ours.
        equations: the paper's own numbers.
    """

    paper: str
    label: str
    equations: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.label + (f" (eq. {', '.join(_runs(self.equations))})" if self.equations else "")


def _runs(numbers: tuple[int, ...]) -> list[str]:
    """4, 5, 40, 41, 42 as "4", "5", "40 to 42"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [text for run in runs for text in (map(str, run) if len(run) < 3 else (f"{run[0]} to {run[-1]}",))]


@dataclass(frozen=True)
class Claim:
    """One row of the ledger. What it says in words is read from its page when it is asked for (see :class:`Prose`).

    Attributes:
        id: "gip.mse_t0"; the part before the dot is the paper.
        source: where the paper makes the claim.
        verdict: how far it can be trusted.
        severity: what falls with it; of a FALSE row, and of no other.
        printed: the paper's own formula as a function, where it differs from the calculator.
        calculators: the functions to call instead.
        checks: what tests it.
        figure: name of its picture in ``proofs/figures``.
        reported: the paper's numbers, for empirical claims, as (what, value) pairs.
        part_of: the id of the row that holds the mistake, where this row is false for the same reason; counts say so.
        prose: the words of a measured claim, which has no page of its own; None where the page has them.
        answer: what our own runs say, for empirical claims.
        kernel_theorems: what Coq's kernel has checked of it, names of :data:`KERNEL_THEOREMS`.
    """

    id: str
    source: Source
    verdict: Verdict
    severity: Severity | None = None
    printed: Callable[..., Any] | None = None
    calculators: tuple[Callable[..., Any], ...] = ()
    checks: tuple[Check, ...] = ()
    figure: str | None = None
    reported: tuple[tuple[str, str], ...] = ()
    part_of: str | None = None
    prose: Prose | None = None
    answer: Answer | None = None
    kernel_theorems: tuple[str, ...] = ()

    @functools.cached_property
    def _words(self) -> Prose:
        return self.prose or read_prose(self.page)

    @property
    def page_file(self) -> Path:
        """The page on this machine: in the repository, or as the wheel brought it.

        Raises:
            ValueError: an installation without pages.
        """
        return page_file(self.page)

    @property
    def ours(self) -> bool:
        """Whether it is a result of this library, not of the paper that its source names; these stand last in the ledger."""
        return self.source.label.startswith("new, on ")

    @property
    def proved(self) -> bool:
        """Whether the page has a proof of the corrected statement; without one it is observed only."""
        return self._words.proved

    @property
    def title(self) -> str:
        """A few words for tables."""
        return self._words.title

    @property
    def statement(self) -> str:
        """The claim in our words; this and the next texts are Markdown with LaTeX math."""
        return self._words.statement

    @property
    def summary(self) -> str:
        """Why it has its verdict, in at most 200 characters that can be read alone; empty for a measured claim."""
        return self._words.summary

    @property
    def key_points(self) -> tuple[str, ...]:
        """What a reader of a long page should take away: what is claimed, what is true, what to use instead."""
        return self._words.key_points

    @property
    def conditions(self) -> tuple[str, ...]:
        """What it needs, stated and unstated."""
        return self._words.conditions

    @property
    def correction(self) -> str | None:
        """The right statement, where the printed one fails or is loose."""
        return self._words.correction

    @property
    def printed_error(self) -> str | None:
        """The step of the paper's argument that fails, where there is one to point at."""
        return self._words.printed_error

    @property
    def for_users(self) -> str:
        """What a result of ours changes for a user, one sentence."""
        return self._words.for_users

    @property
    def questions(self) -> str:
        """What it answers, as a reader would ask; empty where the label says enough."""
        return self._words.questions

    @property
    def paper_side(self) -> str:
        """The paper's strongest words for the other side, quoted with their place, and what they leave of the verdict."""
        return self._words.paper_side

    @property
    def judgement(self) -> str:
        """The verdict, with its severity where it has one: "FALSE, serious"."""
        return self.verdict.name + (f", {self.severity.name.lower()}" if self.severity else "")

    @property
    def kernel(self) -> str | None:
        """The Coq file in ``proofs/kernel`` whose module states the claim; None without one."""
        return f"{self.source.paper}.v" if self.kernel_theorems else None

    @property
    def kernel_module(self) -> str | None:
        """The module of the Coq file that states the claim, as "rs.thm3_2"; None without one."""
        paper, _, name = self.id.partition(".")
        return f"{paper}.{re.sub('[.-]', '_', name)}" if self.kernel else None

    @property
    def kernel_proves(self) -> str:
        """What the theorems of the Coq module say, in words; empty without one."""
        theorems = [KERNEL_THEOREMS[name] for name in self.kernel_theorems]
        if self.kernel_theorems[:1] == ("reading_is_false",):
            theorems[0] = "the negation of one reading of the printed statement"
        return "; ".join(theorems)

    @property
    def kernel_says(self) -> str | None:
        """What Coq's kernel has checked, in words."""
        if self.kernel is None:
            return None
        return f"kernel-checked: {self.kernel_proves}, as the file states {'it' if len(self.kernel_theorems) == 1 else 'them'}"

    @property
    def state(self) -> str:
        """ "proved" or "observed"; of a measured claim what was seen, as :attr:`dptheory.claims.Answer.state` has it."""
        if self.verdict is Verdict.EMPIRICAL:
            return self.answer.state if self.answer else NOT_RUN
        return "proved" if self.proved else "observed"

    @property
    def page(self) -> str:
        """Proof page, relative to ``proofs/``; the empirical claims share one page."""
        return "measured.md" if self.verdict is Verdict.EMPIRICAL else f"{self.id.replace('.', '/', 1)}.md"

    @property
    def file(self) -> str:
        """The file that holds its row, relative to the root."""
        paper = self.source.paper
        file = "measured.toml" if self.verdict is Verdict.EMPIRICAL else f"{places_of_rows(paper)[self.id].file}.py"
        return f"dptheory/claims/{paper}/{file}"

    @property
    def calculator_names(self) -> tuple[str, ...]:
        """The calculators as a reader would type them: a package shows what its private modules hold."""
        return tuple(_qualified_name(one) for one in self.calculators)

    @property
    def files(self) -> tuple[str, ...]:
        """What makes up the claim, relative to the root: its own file, its page, its figure, its calculators' modules."""
        figure = (_drawn_in(self.figure), f"proofs/figures/{self.figure}.png") if self.figure else ()
        return (self.file, f"proofs/{self.page}", *figure, *dict.fromkeys(map(source_file, self.calculators)))

    def check(self, budget: float = 30.0, seed: int = 0, executor: Executor | None = None) -> tuple[Evidence, ...]:
        """Run every check of the claim, each for at most ``budget`` seconds; a check that breaks is a check that fails.

        Args:
            budget: seconds for one check, > 0; inf sets no limit.
            seed: of the random draws, 0..10^18.
            executor: where the work is spread; None runs it here.

        Returns:
            The evidence, one for each check.

        Example: the checks of one claim, run to their end.
            >>> import math
            >>> from dptheory.claims import get
            >>> [evidence.passed for evidence in get("gip.eq18").check(budget=math.inf)]
            [True]
        """
        budget = _validate.real("budget", budget, 0.0, ends="(]")
        seed = _validate.integer("seed", seed, 0, MOST_SEEDS)
        if executor is not None:
            _validate.instance("executor", executor, Executor)
        return tuple(_run(check, budget, seed, executor) for check in self.checks)


_ROW = re.compile(r'^(\w+) = new_row\(\s*id="([^"]+)"', re.MULTILINE)


class Place(NamedTuple):
    """Where the row of a claim is written: the file without its ending, and the row's name in it."""

    file: str
    row: str


@functools.cache
def places_of_rows(paper: str) -> dict[str, Place]:
    """By ids; the files are read and not loaded. A file holds one claim, or those of one printed statement."""
    places: dict[str, Place] = {}
    for file in sorted((Path(__file__).parent / paper).glob("[!_]*.py")):
        for row, id in _ROW.findall(file.read_text(encoding="utf-8")):
            if id in places:
                raise ArgumentError.about("id", id, f"claim id {id!r} stands twice in the ledger")
            places[id] = Place(file.stem, row)
    return places


def _run(check: Check, budget: float, seed: int, executor: Executor | None) -> Evidence:
    try:
        return check.run(budget, seed, executor)
    except Exception as error:
        return Evidence(check.name, check.kind, False, seed=seed, detail=f"{type(error).__name__}: {error}")


@functools.cache
def _qualified_name(calculator: Any) -> str:
    """By the package that shows it: the shortest name, where several do."""
    room = ".".join(calculator.__module__.split(".")[:2])
    top = calculator.__qualname__.split(".")[0]
    own = getattr(sys.modules[calculator.__module__], top)
    rooms = sorted(
        (name for name in sys.modules if name == room or name.startswith(f"{room}.")),
        key=lambda name: (len(name), name),
    )
    for name in rooms:
        module = sys.modules[name]
        if top in getattr(module, "__all__", ()) and getattr(module, top) is own:
            return f"{name}.{calculator.__qualname__}"
    public = ".".join(part for part in calculator.__module__.split(".") if not part.startswith("_"))
    return f"{public}.{calculator.__qualname__}"


@functools.cache
def _drawn_in(figure: str) -> str:
    """The module that draws a figure; their folder, in an installation without them."""
    files = sorted((_ROOT / "figures").glob("[!_]*.py"))
    drawn = f"def _draw_{figure.removeprefix('measured_')}("
    found = [file.name for file in files if drawn in file.read_text(encoding="utf-8")]
    return f"figures/{found[0]}" if found else "figures"


def source_file(calculator: Callable[..., Any]) -> str:
    """The module of a calculator as a path relative to the root."""
    found = inspect.getsourcefile(inspect.unwrap(calculator))
    if found is None:
        raise ValueError(f"calculator {calculator!r} has no source file")
    return Path(found).relative_to(_ROOT).as_posix()
