"""``python -m tests.audit_page``: the numbers of proofs/results/audits.md, from the runs in proofs/results/audits.jsonl."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dptheory.training._json_lines import JsonLines, Line
from dptheory.training.audits._power import KEYS, REPETITIONS
from tests.written import marked, page

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE, LINES = RESULTS / "audits.md", RESULTS / "audits.jsonl"


def written(lines: Sequence[Line]) -> str:
    """What stands between the markers."""
    return marked("tests.audit_page", [*_table(lines), "", *_repetitions(again(lines))])


def again(lines: Sequence[Line]) -> list[Line]:
    """The repetitions of one true claim: the runs of the settings that have most seeds."""
    groups: dict[tuple[float, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in KEYS[:-1]), []).append(line)
    return max(groups.values(), key=len)


def refused(line: Line) -> bool:
    """The claim is refuted, or something that it rests on."""
    return line["proved"] > line["claim"] or bool(line["accused"])


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield "| true epsilon | claim | proved | share | all right | right guesses | canaries | rate | steps | sigma | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for line in sorted(lines, key=lambda line: (line["rate"], *(line[key] for key in KEYS))):
        if line["seed"] == 0:
            share, verdict = line["proved"] / line["epsilon"], " (falls)" if refused(line) else ""
            yield (
                f"| {line['epsilon']:g} | {line['claim']:g}{verdict} | {line['proved']:.2f} | {share:.0%} | {line['most']:.1f} | "
                f"{line['hits']} of {line['guesses']} | {line['canaries']:,} | {line['rate']:g} | {line['steps']} | "
                f"{line['noise_multiplier']:.2f} | {line['seconds']:.0f} |"
            )


def _repetitions(lines: Sequence[Line]) -> Iterator[str]:
    first, proved = lines[0], np.array([line["proved"] for line in lines])
    low, middle, high = np.quantile(proved, (0.05, 0.5, 0.95))
    accused, above = sum(bool(line["accused"]) for line in lines), float(np.mean(proved > first["epsilon"] / 2))
    yield (
        f"The true claim of {first['claim']:g} at rate {first['rate']:g}, {len(lines)} of {REPETITIONS} repetitions, a seed each: "
        f"{sum(map(refused, lines))} refused, {accused} of them accused of a mistake. Proved: {middle:.2f} in the median, "
        f"{low:.2f} to {high:.2f} in 90 % of them, {proved.max():.2f} at most; above half of epsilon in {above:.0%}."
    )


def main() -> None:
    PAGE.write_text(page(PAGE, written(JsonLines(LINES).lines())), encoding="utf-8")


if __name__ == "__main__":
    main()
