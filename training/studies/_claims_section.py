"""Of ``proofs/results.md``: the papers' measured claims with their answers, what was asked of each and what was found."""

from collections import Counter
from collections.abc import Iterator, Mapping

from dptheory.claims import Answer
from dptheory.training.studies._markdown import table


def overview(answers: Mapping[str, Answer]) -> Iterator[str]:
    """How many claims are in each state, and a row per claim."""
    counts = Counter(one.state for one in answers.values())
    yield (
        f"{len(answers)} claims: "
        + ", ".join(f"{counts[state]} {state}" for state in ("confirmed", "not confirmed", "not run"))
        + "."
        + _shared(answers)
        + _by_instruments(answers)
        + " [What was asked and found](#what-was-asked-and-found) follows the table. A study's section below has the command of "
        "its runs and their cost; the page of a claim has those too, and the result files."
    )
    yield ""
    yield from table(
        ("claim", "answer", "the paper", "decided by, or why not"),
        (
            (
                _linked(id),
                one.summary,
                "; ".join(f"{what}: {value}" for what, value in one.reported[:3])
                + ("; ..." if one.reported[3:] else ""),
                _decided_by(one),
            )
            for id, one in answers.items()
        ),
    )


def details(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Of every claim that was asked of a study or an instrument: the question, the numbers that decide, what goes with them."""
    for id, one in answers.items():
        if not one.question:
            continue
        yield f"- {_linked(id)}, {one.state}. {one.question}"
        yield from (f"  - {found}" for found in (*one.findings, *one.measured))
        if one.findings or one.measured:
            yield f"  - not the paper's setting: {one.differs}"
        if one.beside:
            yield f"  - asked after the results, deciding nothing: {one.beside}"


def corrected(answers: Mapping[str, Answer]) -> Iterator[str]:
    """The questions that results had a part in."""
    yield "Of these the question, or what decides, was changed when results were known:"
    yield ""
    yield from [f"- `{id}`: {one.corrected}" for id, one in answers.items() if one.corrected] or ["none"]


def _linked(claim: str) -> str:
    return f"[`{claim}`]({claim.split('.')[0]}/empirical.md)"


def _shared(answers: Mapping[str, Answer]) -> str:
    """On how many measurements the answers rest: two claims may ask for the same numbers."""
    found = {
        state: [
            (one.study, one.instrument, one.findings, one.measured) for one in answers.values() if one.state == state
        ]
        for state in ("confirmed", "not confirmed")
    }
    if all(len(set(numbers)) == len(numbers) for numbers in found.values()):
        return ""
    told = ", ".join(f"the {len(numbers)} {state} on {len(set(numbers))}" for state, numbers in found.items())
    return f" Some rest on the same numbers: {told}."


def _by_instruments(answers: Mapping[str, Answer]) -> str:
    """How many answers are of instrumented runs, by their numbers of seeds."""
    seeds = Counter(len(one.measured[0].values) for one in answers.values() if one.measured)
    if not seeds:
        return ""
    parts = ", ".join(
        f"{count} with {number} seed{'s' if number > 1 else ''}" for number, count in sorted(seeds.items())
    )
    return f" Of the answers {sum(seeds.values())} are of instrumented runs ({parts}): no interval, every seed has to hold."


def _decided_by(found: Answer) -> str:
    if found.study:
        return f"[{found.study}](#study-{found.study})"
    if found.instrument:
        return f"[{found.instrument}](#instrumented-runs)"
    return found.reason + (f": `{found.command}`" if found.command else "")
