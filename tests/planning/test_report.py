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
    assert "No other value of epochs that was tried keeps the bound within 10 % of the best." in said
