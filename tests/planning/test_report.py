"""A plan in words, as Markdown and as JSON: word for word in one case, and true to the record in others."""

import dataclasses
import functools
import json
import math
from pathlib import Path

import pytest

from dptheory import planning
from dptheory.planning import MethodResult, Plan, plan
from tests.planning.test_plan import STATS, bare, setup_of

_RESULT = MethodResult(
    method="dp-sgd", runs=2, accuracy=0.71, difference=0.0, lower=-0.1, upper=0.1, largest_epsilon=math.inf, planned=True,
    forecast="reference", outcome="reference",
)  # fmt: skip


@functools.cache
def measured() -> Plan:
    return plan(setup_of(dim=400, layer_sizes=(300, 100), batch_size=1000, epochs=10), stats=STATS, borrowed=True)


APPROVED = Path(__file__).parent / "approved.md"


def test_the_markdown_word_for_word() -> None:
    """The page of two plans as somebody has read it; after a change that is meant, read it again and write it anew."""
    found = planning.to_markdown(bare()) + planning.to_markdown(measured(), results=[_RESULT])
    assert found == APPROVED.read_text(encoding="utf-8")


def test_every_sentence_of_the_page_is_advice() -> None:
    text = APPROVED.read_text(encoding="utf-8")
    for found in (bare(), measured()):
        said = planning.advice(found)
        lines = [f"- {one.text}" + (f" ({', '.join(one.claims)})" if one.claims else "") for one in said]
        assert "\n".join(lines) in text and len(lines) >= 10


@pytest.mark.parametrize("number", [0, 1])
def test_the_json_is_the_record(number: int) -> None:
    found = (bare(), measured())[number]
    text = planning.to_json(found, results=[_RESULT][:number])
    read = json.loads(text, parse_constant=pytest.fail)

    def plain(value: object) -> object:
        if isinstance(value, float) and math.isinf(value):
            return None
        if isinstance(value, tuple | list):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        return value

    expected = dataclasses.asdict(found)
    expected["advice"] = [dataclasses.asdict(one) for one in planning.advice(found)]
    expected["results"] = [dataclasses.asdict(_RESULT)][:number]
    assert read == plain(expected)
    assert text.endswith("}\n")


def test_what_a_table_says_of_an_interval() -> None:
    made = [
        planning.Interval(lower=low, upper=high, claims=())
        for low, high in ((0, math.inf), (0.5, math.inf), (1, 1), (1, 2))
    ]
    assert [str(one) for one in made] == ["not known", "0.5 or more", "1", "1 to 2"]


def test_advice_says_when_noise_is_longer_than_any_signal() -> None:
    texts = [one.text for one in planning.advice(bare(dim=5 * 10**6))]
    assert any("longer than any mean of clipped gradients" in text for text in texts)
    assert any("shorter than the mean" in one.text for one in planning.advice(bare(dim=100)))


def test_a_gain_is_recommended_first() -> None:
    high = planning.Interval(lower=1.2, upper=1.4, claims=("rf.mse_criterion",))
    low = planning.Interval(lower=1.01, upper=1.4, claims=("rf.mse_criterion",))
    for span, expected in ((high, "gep-joint"), (low, "dp-sgd")):
        methods = [
            dataclasses.replace(one, descent=span, curved_descent=span) if one.method == "gep-joint" else one
            for one in measured().methods
        ]
        found = dataclasses.replace(measured(), methods=tuple(methods))
        assert planning.recommended(found) == expected
        first = planning.advice(found)[0].text
        start = (
            "Take gep-joint: its best step is forecast to gain 1.2 to 1.4 times"
            if span is high
            else "Take DP-SGD: no method"
        )
        assert first.startswith(start)


def test_a_range_of_one_value_is_said_as_such() -> None:
    found = bare()
    alone = dataclasses.replace(found.epochs, value=3, lower=3, upper=3, fixed=False)
    said = [one.text for one in planning.advice(dataclasses.replace(found, epochs=alone))]
    assert "No other value of epochs that was tried has a worst regret within 10 % of the least." in said


def _texts(found: Plan) -> str:
    return " ".join(one.text for one in planning.advice(found))


def test_noise_is_never_printed_below_the_least() -> None:
    """Down to three digits 2.4304 became 2.43, which spends 3.0007 of 3."""
    for sigma, words in ((2.43044, "2.44"), (0.80727, "0.808"), (1.45, "1.45"), (999.5, "1000"), (4.0000001, "4.01")):
        found = dataclasses.replace(bare(), noise_multiplier=sigma)
        assert f"noise multiplier {words}, the least for epsilon = 3, rounded up." in _texts(found)
        (row,) = [line for line in planning.to_markdown(found).splitlines() if line.startswith("| noise_multiplier")]
        assert float(row.split("|")[2]) >= sigma
    floor = _texts(dataclasses.replace(bare(), noise_multiplier=0.05))
    assert "noise multiplier 0.05, the smallest that is accounted for; it keeps epsilon = 3." in floor


def test_whole_numbers_are_printed_in_full() -> None:
    free = dataclasses.replace(bare().batch_size, value=2097152, lower=1048576, upper=2097152, fixed=False)
    found = dataclasses.replace(bare(), batch_size=free)
    assert "with batch size 2097152 and" in _texts(found)
    assert "For batch_size from 1048576 to 2097152 the worst regret" in _texts(found)
    assert "| batch_size | 2097152 | 1048576 to 2097152 |" in planning.to_markdown(found)


def test_the_worst_regret_is_said_where_something_was_chosen() -> None:
    assert "worst regret" not in _texts(bare())
    free = dataclasses.replace(bare().epochs, fixed=False)
    found = dataclasses.replace(bare(), epochs=free, worst_regret=1.577)
    assert (
        "For the gradients that are worst for these choices the bound is 1.58 times that of the best choice for"
        in _texts(found)
    )
    found = dataclasses.replace(measured(), worst_regret=1.234)
    assert "At the moment that is worst for these choices the bound is 1.23 times that of the best" in _texts(found)


def test_a_clip_at_the_end_of_those_measured_is_named() -> None:
    for value, words in ((0.5, "0.5 is the least that was measured"), (2.0, "2 is the largest that was measured")):
        clip = dataclasses.replace(measured().clip_norm, value=value)
        assert words in _texts(dataclasses.replace(measured(), clip_norm=clip))
    inside = dataclasses.replace(measured(), measured_clips=(0.1, 0.5, 2.0))
    assert "that was measured" not in _texts(inside)


def test_moments_and_what_is_left_out_are_named() -> None:
    assert "over those of the moments start, end that have one. " in _texts(measured())
    assert "Left out" not in _texts(measured())
    said = _texts(dataclasses.replace(measured(), left_out=("middle",)))
    assert "Left out, as DP-SGD is not seen to descend there at this clip: middle." in said


def test_a_delta_that_protects_nobody_is_named() -> None:
    assert "1 / num_examples" not in _texts(bare())
    setup = dataclasses.replace(bare().setup, delta=0.001)
    assert "delta = 0.001 is above 1 / num_examples = 0.0005" in _texts(dataclasses.replace(bare(), setup=setup))
