"""``python -m tests.audit_page``: the numbers of proofs/results/audits.md, from the runs in proofs/results/audits.jsonl."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from dptheory.privacy import Composition, Step
from dptheory.privacy.auditing import one_run_epsilon
from dptheory.training._files import JsonLines, Line
from dptheory.training.audits._power import CANARIES, DELTA, KEYS, REPETITIONS
from tests.said import marked, page

RESULTS = Path(__file__).parents[1] / "proofs" / "results"
PAGE, LINES = RESULTS / "audits.md", RESULTS / "audits.jsonl"


def written(lines: Sequence[Line]) -> str:
    """What stands between the markers."""
    return marked("tests.audit_page", [*_table(lines), *map(_repetitions, again(lines)), "", _in_theory()])


def again(lines: Sequence[Line]) -> list[list[Line]]:
    """The repetitions: runs that differ by their seeds alone."""
    groups: dict[tuple[float, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in KEYS[:-1]), []).append(line)
    return [group for group in groups.values() if len(group) > 1]


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


def _repetitions(lines: Sequence[Line]) -> str:
    first, proved = lines[0], np.array([line["proved"] for line in lines])
    low, middle, high = np.quantile(proved, (0.05, 0.5, 0.95))
    accused, above = sum(bool(line["accused"]) for line in lines), float(np.mean(proved > first["epsilon"] / 2))
    return (
        f"\nThe true claim of {first['claim']:g} at rate {first['rate']:g}, {len(lines)} of {REPETITIONS} repetitions, a seed each: "
        f"{sum(map(refused, lines))} refused, {accused} of them accused of a mistake. Proved: {middle:.2f} in the median, "
        f"{low:.2f} to {high:.2f} in 90 % of them, {proved.max():.2f} at most; above half of epsilon in {above:.0%}."
    )


def expected(epsilon: float, guesses: int) -> float:
    """What so many guesses prove of a Gaussian release, each canary's score N(coin mu, 1), where the expected number is right."""
    one = Composition((Step(noise_multiplier=1.0, sampling_rate=1.0, count=1),))
    mu, tail = 1.0 / one.noise_scale(epsilon=epsilon, delta=DELTA), guesses / (2.0 * CANARIES)
    edge = brentq(lambda x: (norm.sf(x - mu) + norm.sf(x)) / 2.0 - tail, -10.0, 10.0 + mu)
    hits = round(guesses * norm.sf(edge - mu) / (norm.sf(edge - mu) + norm.sf(edge)))
    inside, rest = np.arange(guesses) % 2 == 0, np.zeros(CANARIES - guesses)
    scores, coins = np.where(inside, 1.0, -1.0), np.where(np.arange(guesses) < hits, inside, ~inside)
    # what is not guessed stands in the middle
    scores, coins = np.r_[scores, rest], np.r_[coins, rest > 0]
    found = one_run_epsilon(scores=scores, coins=coins, delta=DELTA, guesses=guesses, composition=one)
    assert found.hits == hits
    return found.epsilon_lower


def _in_theory() -> str:
    each = ", ".join(f"{guesses} {expected(8.0, guesses):.1f}" for guesses in (56, 80, 112, 224, 312, 448))
    return (
        f"In theory, of a Gaussian release of epsilon 8 and {CANARIES} canaries whose scores are independent, as many right as "
        f"expected, by the number of guesses: {each}."
    )


def main() -> None:
    PAGE.write_text(page(PAGE, written(JsonLines(LINES).lines())), encoding="utf-8")


if __name__ == "__main__":
    main()
