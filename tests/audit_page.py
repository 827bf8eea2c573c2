"""``python -m tests.audit_page``: the numbers of proofs/results/audits.md, from the runs in proofs/results/audits.jsonl."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dptheory.training._json_lines import JsonLines, Line
from tests.written import marked, page

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE, LINES = RESULTS / "audits.md", RESULTS / "audits.jsonl"
KEYS = ("epsilon", "rate", "steps", "canaries", "seed")


def written(lines: Sequence[Line]) -> str:
    """What stands between the markers."""
    return marked("tests.audit_page", _table(lines))


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield "| true epsilon | proved | share | right guesses | canaries | sampling rate | steps | sigma | seed | seconds of one core |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for line in sorted(lines, key=lambda line: (line["rate"], *(line[key] for key in KEYS))):
        share, sigma = line["proved"] / line["epsilon"], line["noise_multiplier"]
        yield (
            f"| {line['epsilon']:g} | {line['proved']:.2f} | {share:.0%} | {line['hits']} of {line['guesses']} | "
            f"{line['canaries']:,} | {line['rate']:g} | {line['steps']} | {sigma:.2f} | {line['seed']} | {line['seconds']:.0f} |"
        )
    yield ""
    accused = sum(bool(line["accused"]) for line in lines)
    long = max(line["seconds"] for line in lines)
    yield f"{len(lines)} runs; {accused} of them accused of a mistake, of which none has one; the longest took {long:.0f} seconds."


def main() -> None:
    PAGE.write_text(page(PAGE, written(JsonLines(LINES).lines())), encoding="utf-8")


if __name__ == "__main__":
    main()
