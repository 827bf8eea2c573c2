"""What our own runs answer, in two words."""

import pytest

from dptheory.claims import Answer, Finding, Measured


def _answer(*outcomes: str, differs: str = "") -> Answer:
    findings = tuple(
        Finding(comparison="a - b", mean=0, low=0, high=0, confidence=0.95, pairs=4, relation="above 0", outcome=one)
        for one in outcomes
        if one != "fails"
    )
    fails = tuple(
        Measured(quantity="x", values=(0.0,), relation="above 0", outcome=one) for one in outcomes if one == "fails"
    )
    return Answer(state="not confirmed", findings=findings, measured=fails, differs=differs)


@pytest.mark.parametrize(
    ("outcomes", "seen"),
    [
        (("holds", "holds"), "seen"),
        (("holds", "open"), "trend only"),
        (("holds", "fails"), "trend only"),
        (("holds", "the opposite"), "not seen"),
        (("the opposite", "open"), "not seen"),
        (("the opposite", "the opposite"), "opposite"),
        (("open",), "open"),
        (("fails",), "not seen"),
    ],
)
def test_what_was_seen(outcomes: tuple[str, ...], seen: str) -> None:
    assert _answer(*outcomes).seen == seen


def test_where_it_was_looked_for() -> None:
    assert _answer("holds").setting == "paper's setting"
    assert _answer("holds", differs="a small CNN").setting == "small setting"
    nothing = Answer(state="not run", reason="needs a GPU", differs="a small CNN")
    assert (nothing.seen, nothing.setting) == ("not run", None)
