"""``proofs/results.md`` and the pages below it: an overview, a page for each study with a run, one for the papers' measured claims."""

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dptheory.claims import STATES, Answer
from dptheory.errors import ArgumentError
from dptheory.files import write_atomically
from dptheory.training.studies import _comparisons, _measured, _results, _rules, _verdicts
from dptheory.training.studies import _plan as plans
from dptheory.training.studies._comparisons import ComparisonResult
from dptheory.training.studies._instruments import read_instruments
from dptheory.training.studies._measured import FindMeasured, nothing_measured
from dptheory.training.studies._plan import Find
from dptheory.training.studies._rules import Condition
from dptheory.training.studies._statistics import rounded
from dptheory.training.studies._study import Study


def write_answers(results: Path, out: Path, page: Path) -> dict[str, int]:
    """Write what the results say: for the ledger as JSON, for readers as pages, for the pictures as JSON beside the overview.

    Args:
        results: folder of the results, a file per study.
        out: the JSON file.
        page: the Markdown page that gives an overview; a page for each study that has a run goes in the folder of its name.

    Returns:
        How many claims are in each state.

    Raises:
        ValueError: a study, a rule or a result file that is none; a folder, or one of a file, that is not there.
        OSError: a file cannot be written.

    Example: a folder without results still gives a page.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.training.studies import write_answers
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out, page = Path(folder) / "answers.json", Path(folder) / "page.md"
        ...     states = write_answers(Path(folder), out, page)
        ...     "What our own runs say" in page.read_text(encoding="utf-8"), sum(states.values()) > 0
        (True, True)
    """
    _results.require_folder(results)
    for name, path in (("out", out), ("page", page)):
        if not path.parent.is_dir():
            raise ArgumentError(name, "lie in an existing folder (of the repository's root)", str(path))
    studies = _rules.read_studies()
    finds = {name: _verdicts.committed(study, results) for name, study in studies.items()}
    found = _verdicts.all_answers(_rules.read_rules(studies), finds, _measured.committed(results))
    forecasts = _rules.read_forecasts(studies)
    contradicted = _rules.read_contradicted(studies)
    measured = _measured.committed(results)
    pages = results_pages(studies, forecasts, found, finds, measured, contradicted=contradicted, name=page.stem)
    write_atomically(out, _verdicts.to_json(found))
    write_atomically(page.with_suffix(".json"), tables(studies, forecasts, finds))
    page.with_suffix("").mkdir(exist_ok=True)
    write_atomically(page, pages.overview)
    for name, text in pages.below.items():
        write_atomically(page.with_suffix("") / f"{name}.md", text)
    return dict(Counter(one.state for one in found.values()))


@dataclass(frozen=True, kw_only=True)
class Pages:
    """What is written: the page of all, and those below it by name: claims, instruments, and every study that has a run."""

    overview: str
    below: dict[str, str]


def results_pages(
    studies: Mapping[str, Study],
    forecasts: Mapping[str, tuple[Condition, ...]],
    answers: Mapping[str, Answer],
    finds: Mapping[str, Find],
    measured: FindMeasured = nothing_measured,
    *,
    contradicted: Mapping[str, str] = MappingProxyType({}),
    name: str = "results",
) -> Pages:
    """The pages as Markdown; ``name`` is that of the overview's file and of the folder of the others beside it."""
    env = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    env.filters["cell"] = lambda text: text.replace("|", r"\|")
    env.filters["beginning"] = lambda text: re.split(r"[:;.] |\.$", text, maxsplit=1)[0]
    sections = [_section(study, forecasts[name], finds[name]) for name, study in studies.items()]
    common = {"folder": name, "answers": answers, "counts": _counts(answers)}

    def page(template: str, **values: object) -> str:
        return env.get_template(template).render(**common, **values)

    below = {
        "claims": page(
            "results_claims.md.j2",
            linked=lambda id: f"[`{id}`](../measured.md)",
            decided_by=functools.partial(_decided_by, {one["name"] for one in sections if one["made"]}),
        ),
        "instruments": page("results_instruments.md.j2", instruments=list(_instrumented(answers, measured))),
    }
    for one in sections:
        if one["made"]:
            below[one["name"]] = page("results_study.md.j2", one=one, contradicted=contradicted.get(one["name"], ""))
    theory = _theory(studies, forecasts, finds)
    overview = page("results.md.j2", contradicted=contradicted, theory=theory, studies=sections)
    return Pages(overview=overview, below=below)


def tables(
    studies: Mapping[str, Study], forecasts: Mapping[str, tuple[Condition, ...]], finds: Mapping[str, Find]
) -> str:
    """The comparisons that can be made, by study, with the interval in which the theory expects each; null for an open end."""
    found = {name: list(_differences(study, forecasts[name], finds[name])) for name, study in studies.items()}
    return json.dumps({name: rows for name, rows in found.items() if rows}, indent=1) + "\n"


def _differences(study: Study, forecast: tuple[Condition, ...], find: Find) -> Iterator[dict[str, object]]:
    for comparison in study.comparisons:
        made = _comparisons.compare(study, comparison, find)
        if made is None:
            continue
        targets = [one.target for one in forecast if one.comparison == comparison]
        numbers = {"mean": made.last.mean, "low": made.last.low, "high": made.last.high, "best": made.best.mean}
        yield {
            "arm": made.arm,
            "against": made.against,
            "phases": list(comparison.phases),
            "pairs": made.last.pairs,
            **{name: rounded(value) for name, value in numbers.items()},
            "forecast": _common(targets) if targets else None,
        }


def _common(intervals: list[tuple[float, float]]) -> list[float | None]:
    """Ends of what all intervals have in common; None for an open end."""
    ends = (max(low for low, _ in intervals), min(high for _, high in intervals))
    return [None if math.isinf(end) else end for end in ends]


def _theory(
    studies: Mapping[str, Study], forecasts: Mapping[str, tuple[Condition, ...]], finds: Mapping[str, Find]
) -> dict[str, Any]:
    """How the conditions that the theory sets came out, and those that came out the other way, by study."""
    found = [(name, _verdicts.finding(studies[name], c, finds[name])) for name in studies for c in forecasts[name]]
    made = [(name, one) for name, one in found if one is not None]
    against = [(name, one) for name, one in made if one.outcome == "the opposite"]
    held = sum(one.outcome == "holds" for _, one in made)
    return {
        "conditions": len(found),
        "tried": len(made),
        "held": held,
        "against": against,
        "open": len(made) - held - len(against),
    }


def _instrumented(answers: Mapping[str, Answer], measured: FindMeasured) -> Iterator[tuple[str, ...]]:
    """Every instrument with what it takes and what it answers."""
    for name, one in read_instruments().items():
        done = [result for seed in one.seeds if (result := measured(name, seed)) is not None]
        claims = ", ".join(f"`{id}`" for id, found in answers.items() if found.instrument == name)
        seconds = ", ".join(f"{result['cpu_seconds']} s" for result in done)
        versions = ", ".join(dict.fromkeys(f"`{_results.version(result)[:12]}`" for result in done))
        yield f"`{name}`", one.title, claims, f"`{_measured.command(one)}`", seconds or "not run", versions


def _section(study: Study, forecast: tuple[Condition, ...], find: Find) -> dict[str, Any]:
    """What the page says of a study."""
    made = [one for one in (_comparisons.compare(study, c, find) for c in study.comparisons) if one is not None]
    fewest = min((one.last.pairs for one in made), default=0)
    far = _verdicts.progress(study, find)
    return {
        "name": study.name,
        "study": study,
        "far": far,
        "answer": _answer(study, find),
        "outcomes": [one for one in (_verdicts.finding(study, c, find) for c in forecast) if one is not None],
        "made": [_row(one) for one in made],
        "fewest": fewest,
        "least_p": min(1.0, 2.0 * len(study.comparisons) / 2.0**fewest),
        "chosen": list(plans.choices_in_words(study, find)),
        "command": _verdicts.command(study),
        "path": _results.path_of(_verdicts.COMMITTED, study.name).as_posix(),
    }


def _counts(answers: Mapping[str, Answer]) -> str:
    """How many claims are in which state, and on what that rests; ends with a blank."""
    states = Counter(one.state for one in answers.values())
    told = ", ".join(f"{states[state]} {state}" for state in STATES)
    small, run = sum(one.setting == "small setting" for one in answers.values()), len(answers) - states["not run"]
    where = f" Of the {run} that were run {small} were run in a small setting."
    return f"{len(answers)} claims: {told}.{where}{_shared(answers)}{_by_instruments(answers)} "


def _shared(answers: Mapping[str, Answer]) -> str:
    """On how many measurements the answers rest: two claims may ask for the same numbers."""
    run = [one for one in answers.values() if one.state != "not run"]
    numbers = {(one.study, one.instrument, one.findings, one.measured) for one in run}
    return f" Some rest on the same numbers: the {len(run)} on {len(numbers)}." if len(numbers) < len(run) else ""


def _by_instruments(answers: Mapping[str, Answer]) -> str:
    """How many answers are of instrumented runs, by their numbers of seeds."""
    seeds = Counter(len(one.measured[0].values) for one in answers.values() if one.measured)
    if not seeds:
        return ""
    parts = ", ".join(
        f"{count} with {number} seed{'s' if number > 1 else ''}" for number, count in sorted(seeds.items())
    )
    return f" Of the answers {sum(seeds.values())} are of instrumented runs ({parts}): no interval, every seed has to hold."


def _decided_by(paged: set[str], found: Answer) -> str:
    if found.study:
        page = f"{found.study}.md" if found.study in paged else f"../../training/configs/studies/{found.study}.toml"
        return f"[{found.study}]({page})"
    if found.instrument:
        return f"[{found.instrument}](instruments.md)"
    return found.reason + (f": `{found.command}`" if found.command else "")


def _answer(study: Study, find: Find) -> str:
    """What the main comparison says; empty while it cannot be made."""
    main = next(one for one in study.comparisons if one.main)
    made = _comparisons.compare(study, main, find)
    return "" if made is None else _sentence(made)


def _sentence(found: ComparisonResult) -> str:
    """The main comparison in words."""
    last, margin = found.last, found.comparison.margin
    told_apart = last.low > 0 or last.high < 0
    word = f"is {'better' if last.low > 0 else 'worse'} than" if told_apart else "is not told apart from"
    where = ", ".join(found.comparison.phases)
    sentence = f"{found.arm} {word} {found.against} ({where}): {last} points over {last.pairs} pairs"
    if margin is None or (found.equivalence is None and last.high < 0):
        return sentence + "."
    if found.equivalence is not None:
        shown = "shown" if found.equivalence.equivalent else "not shown"
        return f"{sentence}; {shown} to be within {margin:g} (p = {found.equivalence.p:.2g})."
    return f"{sentence}; a gain of {margin:g} is {'excluded' if last.high < margin else 'not excluded'}."


def _row(found: ComparisonResult) -> tuple[str, ...]:
    last, best, margin, within = found.last, found.best, found.comparison.margin, found.equivalence
    return (
        f"{found.arm} - {found.against}{' (main)' if found.comparison.main else ''}",
        ", ".join(found.comparison.phases),
        str(last.pairs),
        str(last),
        f"{found.adjusted_p:.3g}",
        str(best),
        "" if margin is None else f"{margin:g}" + (f" (TOST p = {within.p:.3f})" if within else ""),
        f"{found.diverged[0]}, {found.diverged[1]}",
    )
