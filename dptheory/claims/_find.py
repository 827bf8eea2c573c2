"""Finding claims, functions and arguments by words: a label in a paper, a symbol, a part of a name."""

import ast
import dataclasses
import difflib
import functools
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dptheory
from dptheory import _validate
from dptheory.claims._claim import PAPERS, Claim, Verdict
from dptheory.claims._registry import all_claims
from dptheory.errors import ArgumentError

_GLOSSARY = Path(__file__).parents[2] / "proofs" / "glossary.md"
_LONGEST_QUERY = 200
_WORST_FIRST = (Verdict.FALSE, Verdict.NOT_SHOWN, Verdict.CONDITIONAL, Verdict.LOOSE, Verdict.HOLDS, Verdict.EMPIRICAL)
_KINDS = {
    "ass": "assumption", "def": "definition", "lem": "lemma", "prop": "proposition", "thm": "theorem", "cor": "corollary",
    "rem": "remark", "alg": "algorithm", "eq": "equation", "app": "appendix", "sec": "section", "tab": "table", "fig": "figure",
}  # fmt: skip
_LETTERS = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ϵ": "epsilon", "θ": "theta", "κ": "kappa",
    "λ": "lambda", "μ": "mu", "ξ": "xi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega",
}  # fmt: skip
_ASKED = """
a am an are at be can cannot could did do does for have how i in is it its many me much my need of on or should so than that the
there these they this to use was what when where which who why will with would you your
"""
_ASKING = frozenset(_ASKED.split())
"""Words of a question that say nothing of what it is about: none has to fit."""
_ALIKE = """
freeze frozen froze / less lower reduce smaller decrease fewer / more larger higher raise increase / beat better outperform
private privacy leak differentially / right correct valid / gaussian normal normally / improve rise help / accuracy accurate
network networks model models / parameters weights / invert inversion reconstruction / prune pruned / tune tuned / train training
sparse sparsification sparsify sparsified / choose choice pick select selection / converge convergence
"""
_SAME = {word: row.split()[0] for row in re.split("[/\n]", _ALIKE.strip()) for word in row.split()}
"""Words that readers take for one another, by the first of them."""
_EXACTLY = 1000.0

Words = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Match:
    """One thing that fits a query.

    Attributes:
        kind: "command", "claim", "function", "argument" or "letter" (of the papers, which stands for several things).
        name: a command, id of a claim, import path of a function, the name or names of an argument.
        title: a few words, Markdown with LaTeX.
        label: of a claim where the paper makes it; otherwise empty.
        verdict: of a claim; None otherwise.
        next_steps: commands to type and pages to open, the best first.
        score: how well it fits, > 0.
    """

    kind: str
    name: str
    title: str
    label: str
    verdict: Verdict | None
    next_steps: tuple[str, ...]
    score: float


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a query found.

    Attributes:
        query: as asked.
        matches: the best first.
        found: how many there are, shown or not.
        whole: whether every word fits each of them; otherwise half of the words or more do.
        near: where it does not, words that are near to those that fit nothing.
        glossary: whether the glossary was searched; it is part of the repository, and not of an installed package.
    """

    query: str
    matches: tuple[Match, ...]
    found: int
    whole: bool
    near: tuple[str, ...]
    glossary: bool


@dataclass(frozen=True)
class _Entry:
    """A match to be, the texts that are searched, each with its weight, and the words of the questions that it answers."""

    match: Match
    fields: tuple[tuple[float, Words], ...]
    exact: frozenset[str]
    questions: Words

    @functools.cached_property
    def words(self) -> frozenset[str]:
        return frozenset(word for _, text in self.fields for word in text)


def find(query: str, *, max_matches: int = 12) -> SearchResult:
    """Look for words in labels, titles and statements of the ledger, in functions and their arguments, and in the glossary.

    A word fits as a whole or as the beginning of a longer one. Where no entry has every word, those with at least half of them
    are given, rare words counting most. "Prop. 2" is "Proposition 2", and a kind of label with its number counts as one word;
    Greek letters may be written or named; a paper by its short name.

    Args:
        query: one word or more, at most 200 characters, as in "GIP Proposition 2", "kappa", "top-k".
        max_matches: the most to give, 1..1000.

    Returns:
        The best matches, with what to type next.

    Raises:
        ValueError: a query without a word or a number in it, or an argument outside its range.

    Example: what became of a proposition, and how to go on.
        >>> from dptheory.claims import find
        >>> found = find("GIP Proposition 2")
        >>> [(one.name, one.verdict.name) for one in found.matches[:3]]
        [('gip.mse_t0', 'FALSE'), ('gip.mse_t', 'FALSE'), ('gip.order', 'CONDITIONAL')]
        >>> found.matches[0].next_steps[0]
        'dptheory claim gip.mse_t0'
    """
    if not isinstance(query, str) or not _words(query) or len(query) > _LONGEST_QUERY:
        raise ArgumentError("query", f"be words to look for, at most {_LONGEST_QUERY} characters", query)
    max_matches = _validate.integer("max_matches", max_matches, 1, 1000)
    units = _units(_words(query))
    telling = _telling(units)
    # in which _fit may see them
    possible = [{one for one in _vocabulary() if one.startswith(unit[0])} for unit in telling]
    entries = [entry for entry in _index() if not any(entry.words.isdisjoint(words) for words in possible)]
    scored = [(_score(entry, units, telling, query.strip()), entry) for entry in entries]
    fitting = [pair for pair in scored if pair[0] > 0]
    whole = bool(fitting)
    if not whole:
        rarity = [_rarity(unit) for unit in telling]
        partly = ((_partial_score(entry, units, telling, rarity), entry) for entry in _index())
        fitting = [pair for pair in partly if pair[0] > 0]
    fitting.sort(key=lambda pair: (-pair[0], _turn(pair[1].match)))
    return SearchResult(
        query=query,
        matches=tuple(dataclasses.replace(entry.match, score=score) for score, entry in fitting[:max_matches]),
        found=len(fitting),
        whole=whole,
        near=() if whole else tuple(_near(telling)),
        glossary=_GLOSSARY.is_file(),
    )


def _turn(match: Match) -> int:
    """Among rows that fit as well: what is wrong with the print before what is right."""
    return _WORST_FIRST.index(match.verdict) if match.verdict in _WORST_FIRST else 0


def _best_fit(entry: _Entry, unit: Words) -> float:
    """Weight of the best text that has the word; 0 where it stands nowhere."""
    return max((weight * _fit(unit, text) for weight, text in entry.fields), default=0.0)


def _as_asked(entry: _Entry, units: list[Words], telling: list[Words]) -> float:
    """What the words of a question add where the entry answers one with them."""
    words = {word for unit in units for word in unit}
    return 0.0 if units == telling else 8.0 * len(words.intersection(entry.questions))


def _score(entry: _Entry, units: list[Words], telling: list[Words], query: str) -> float:
    """Sum over the words of the weight of the best text that has them; 0 where one that tells stands nowhere."""
    total = _as_asked(entry, units, telling) + (_EXACTLY if query in entry.exact else 0.0)
    for unit in telling:
        best = _best_fit(entry, unit)
        if best == 0.0:
            return 0.0
        total += best
    asked = tuple(word for unit in units for word in unit)
    if len(asked) > 1:  # side by side in one text
        total += max((2 * weight for weight, text in entry.fields if _adjacent(asked, text)), default=0.0)
    return total


def _partial_score(entry: _Entry, units: list[Words], telling: list[Words], rarity: list[float]) -> float:
    """The same where words may be missing, each counted by its rarity; 0 where more than half of them are."""
    best = [_best_fit(entry, unit) for unit in telling]
    if 2 * sum(one > 0 for one in best) < len(telling):
        return 0.0
    return _as_asked(entry, units, telling) + sum(one * rare for one, rare in zip(best, rarity, strict=True))


def _rarity(unit: Words) -> float:
    """Logarithm of the share of entries that have the word, negated."""
    having = sum(_best_fit(entry, unit) > 0 for entry in _index())
    return math.log(len(_index()) / max(having, 1))


def _fit(unit: Words, text: Words) -> float:
    """1 for the words side by side, more where they are the beginning; less for a word that only begins like one of the text."""
    if len(unit) > 1:
        return 0.0 if not _adjacent(unit, text) else 1.5 if text[: len(unit)] == unit else 1.0
    (word,) = unit
    if word in text:
        return 1.5 if text[0] == word else 1.0
    return 0.5 if len(word) >= 3 and word.isalpha() and any(one.startswith(word) for one in text) else 0.0


@functools.cache
def _vocabulary() -> frozenset[str]:
    return frozenset[str]().union(*(entry.words for entry in _index()))


def _adjacent(words: Words, text: Words) -> bool:
    return any(text[i : i + len(words)] == words for i, one in enumerate(text) if one == words[0])


@functools.lru_cache(maxsize=100_000)
def _word(raw: str) -> str:
    """A word as it is compared: labels in full, without its ending."""
    raw = _KINDS.get(raw.removesuffix("s"), _SAME.get(raw, raw))
    return re.sub(r"(ing|ed|es|s|e)$", "", raw) if len(raw) > 4 else raw


def _words(text: str) -> Words:
    for letter, name in _LETTERS.items():
        text = text.replace(letter, f" {name} ")
    return tuple(_word(one) for one in re.findall(r"[a-z]+|\d+(?:\.\d+)*", text.lower()))


def _units(words: Words) -> list[Words]:
    """The words one by one, but the kind of a label together with its number or letter."""
    kinds = {_word(kind) for kind in _KINDS.values()}
    units: list[Words] = []
    for word in words:
        numbered = word[0].isdigit() or (len(word) == 1 and word.isalpha())
        if units and numbered and units[-1][-1] in kinds:
            units[-1] = (*units[-1], word)
        else:
            units.append((word,))
    return units


def _telling(units: list[Words]) -> list[Words]:
    """Without the words that every question has, where others are left."""
    telling = [unit for unit in units if len(unit) > 1 or unit[0] not in _ASKING]
    return telling or units


def _near(units: list[Words]) -> Iterator[str]:
    """What is spelt like the words that stand nowhere: words of titles and names, or labels."""
    shown = [one.match for one in _index()]
    titles = [f"{'' if one.kind == 'claim' else one.name} {one.title}".lower() for one in shown]
    vocabulary = sorted({word for title in titles for word in re.findall(r"[a-z]{3,}", title)})
    for unit in units:
        if any(_fit(unit, text) for entry in _index() for _, text in entry.fields):
            continue
        known = vocabulary
        if len(unit) > 1:
            known = sorted({" ".join(one.fields[0][1][:2]) for one in _index() if one.match.kind == "claim"})
        yield from difflib.get_close_matches(" ".join(unit), known, n=3, cutoff=0.7)


# --- what is searched ---------------------------------------------------------------------------------------------------


@functools.cache
def _index() -> tuple[_Entry, ...]:
    claims = all_claims()
    named = {name: claim.id for claim in reversed(claims) for name in claim.calculator_names}
    return (
        *(_of_task(*one) for one in _TASKS),
        *(_of_claim(claim) for claim in claims),
        *(_of_function(*one, named.get(one[0])) for one in (*_functions(), *_of_training())),
        *_of_glossary(),
    )


_TASKS = (
    ("dptheory plan", "batch size, epochs, noise, clip and learning rate for your own network", "planning.md",
     "own network model choose choice tune hyperparameter recommendation which what should advice"),
    ("dptheory privacy epsilon", "the epsilon of a run: Poisson, fixed-size or shuffled batches, random allocation",
     "guides/calculators.md", "accountant shuffle shuffled random allocation balls bins sampling budget noise what is my epsilon"),
    ("dptheory privacy sigma", "the least noise multiplier for a budget", "guides/calculators.md",
     "noise multiplier sigma how much noise do I need for a budget epsilon"),
    ("dptheory privacy steps", "the most steps or epochs for a budget", "guides/calculators.md",
     "steps how many steps or epochs can I train for a budget"),
    ("dptheory privacy tradeoff", "what the best attacker can do against a run", "guides/calculators.md",
     "attacker what can an attacker learn attack risk membership inference tradeoff curve"),
    ("dptheory privacy compare", "all installed accountants beside our bounds: which are right, and how loose", "guides/trust.md",
     "compare accountants which accountant is right valid tight wrong too small opacus rdp prv"),
    ("dptheory privacy statement", "the privacy statement of a run, or of given settings", "guides/trust.md",
     "statement write a privacy statement report guarantee"),
    ("dptheory claim --cite", "BibTeX of a paper and of a row of the ledger", "README.md", "cite citation bibtex reference"),
    ("dptheory audit", "does the epsilon that a training loop reports hold?", "guides/training.md",
     "audit attack canaries leak bug own loop"),
    ("dptheory refute", "look for a counterexample to a formula of your own", "refute.md", "own formula counterexample"),
    ("dptheory run", "train with a configuration, resume it, and get a statement of privacy", "opacus.md",
     "train training opacus move statement configuration mask freeze project"),
    ("dptheory.training.make_private_with_epsilon", "fine-tune a text model, with adapters or fully, from data to statement",
     "guides/fine_tuning.md", "fine tune text language transformer transformers bert hugging face peft lora adapters layers cost"),
)  # fmt: skip
"""What people come for: the command, what it does, its page, and the words that they use for it."""


def _of_task(command: str, title: str, page: str, words: str) -> _Entry:
    module, _, function = command.rpartition(".")
    if function.isidentifier():
        step = f"from {module} import {function}"
    else:
        step = f"{command} --help" if " --" not in command else command.replace(" --", " ID --")
    match = _match("command", command, title, step, f"proofs/{page}")
    exact = {command, *words.split()[:2]}
    return _entry(match, exact, (16.0, words), (8.0, title), (8.0, command), questions=words)


def _match(
    kind: str, name: str, title: str, *next_steps: str, label: str = "", verdict: Verdict | None = None
) -> Match:
    return Match(kind=kind, name=name, title=title, label=label, verdict=verdict, next_steps=next_steps, score=0.0)


def _entry(match: Match, exact: Iterable[str], *fields: tuple[float, str], questions: str = "") -> _Entry:
    return _Entry(match, tuple((weight, _words(text)) for weight, text in fields), frozenset(exact), _words(questions))


def _of_claim(claim: Claim) -> _Entry:
    equations = " ".join(f"equation {number}" for number in claim.source.equations)
    texts = (claim.statement, *claim.conditions, claim.correction or "", claim.printed_error or "", *claim.key_points)
    functions = [f"from {module} import {name}" for module, name in map(_split, claim.calculator_names)]
    steps = (f"dptheory claim {claim.id}", *functions[:1], f"proofs/{claim.page}")
    return _entry(
        _match("claim", claim.id, claim.title, *steps, label=claim.source.label, verdict=claim.verdict),
        {claim.id},
        (10.0, claim.source.label),
        (10.0, equations),
        (12.0, claim.id),
        (8.0, claim.title),
        (6.0, f"{claim.source.paper} {PAPERS[claim.source.paper]}"),
        (4.0, claim.verdict.name),
        (4.0, claim.questions),
        (4.0, " ".join(claim.calculator_names)),
        (4.0, claim.summary),
        (2.0, " ".join(texts)),
        questions=claim.questions,
    )


def _split(name: str) -> tuple[str, str]:
    """Module and name to import; of a method its class."""
    parts = name.split(".")
    return ".".join(parts[:2]), parts[2]


def _functions() -> Iterator[tuple[str, str, str]]:
    """Import path, docstring and arguments of the functions and classes that the packages of the theory offer."""
    for found in pkgutil.iter_modules(dptheory.__path__, "dptheory."):
        if not found.ispkg or found.name in ("dptheory.cli", "dptheory.training"):
            continue
        package = importlib.import_module(found.name)
        for name in package.__all__:
            one = getattr(package, name)
            if inspect.isfunction(one) or (inspect.isclass(one) and _is_made(one)):
                yield f"{found.name}.{name}", inspect.getdoc(one) or "", " ".join(inspect.signature(one).parameters)


def _of_training() -> Iterator[tuple[str, str, str]]:
    """As ``_functions``, read in the files: PyTorch takes seconds to load and may be missing."""
    root = Path(dptheory.__file__).parent
    for package in sorted((root / "training").glob("*/__init__.py")):
        for imported in (one for one in ast.parse(package.read_text("utf-8")).body if isinstance(one, ast.ImportFrom)):
            file = root.joinpath(*(imported.module or "").split(".")[1:]).with_suffix(".py")
            names = {one.name for one in imported.names}
            for made in ast.parse(file.read_text("utf-8")).body if file.is_file() else ():
                if isinstance(made, ast.FunctionDef | ast.ClassDef) and made.name in names:
                    text = (ast.get_docstring(made) or "").replace(r"\*", "*")
                    of_all = [one for one in ast.walk(made) if isinstance(one, ast.arguments)]
                    arguments = " ".join(one.arg for each in of_all for one in each.args)
                    yield f"dptheory.training.{package.parent.name}.{made.name}", text, arguments


def _is_made(one: type) -> bool:
    """By users: not a result, an error or a set of names."""
    result = hasattr(one, "__dataclass_fields__") and "__post_init__" not in vars(one)
    return not (result or issubclass(one, BaseException) or hasattr(one, "__members__"))


def _of_function(name: str, text: str, arguments: str, claim: str | None) -> _Entry:
    module, _, short = name.rpartition(".")
    line = " ".join(text.split("\n\n")[0].split())
    steps = (f"from {module} import {short}", *([f"dptheory claim {claim}"] if claim else []))
    fields = ((10.0, short), (5.0, line), (2.0, module), (2.0, arguments))
    return _entry(_match("function", name, line, *steps), {name, short}, *fields)


def _of_glossary() -> Iterator[_Entry]:
    """Its rows; none where the page is not there."""
    text = _GLOSSARY.read_text(encoding="utf-8") if _GLOSSARY.is_file() else ""
    for section in text.split("\n## ")[1:]:
        if section.startswith("Positional"):
            continue
        for table in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
            head, _, *rest = [
                [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()
            ]
            for row in rest:
                yield _of_row(head, row)


def _of_row(head: list[str], row: list[str]) -> _Entry:
    names = re.findall(r"`(\w+)`", row[0]) or [row[0]]
    letter = head[0] == "letter"
    said = [f"{name}: {cell}" if letter else cell for name, cell in zip(head[1:], row[1:], strict=False) if cell]
    kind = "letter" if letter else "argument"
    match = _match(kind, ", ".join(names), "; ".join(said), "proofs/glossary.md")
    return _entry(match, names, (9.0, " ".join(names)), (4.0, " ".join(row[1:])))
