"""What our own runs answer, in two words."""

import pytest

from dptheory.claims import Answer, Baseline, Compared, Finding, Measured

SAME = tuple(Compared(what=what, here="a", there="a") for what in ("data", "network", "epochs"))
OTHER = (*SAME[:2], Compared(what="epochs", here="3", there="80"))


def _finding(outcome: str, *, size: bool = False, cannot: str = "", high: float = 0.1) -> Finding:
    numbers = dict(mean=0.0, low=-0.1, high=high, confidence=0.95, pairs=4)
    return Finding(comparison="a - b", **numbers, relation="above 0", outcome=outcome, size=size, cannot=cannot)  # type: ignore[arg-type]


def _number(outcome: str, *, size: bool = False) -> Measured:
    return Measured(quantity="x", values=(0.0,), relation="above 0", outcome=outcome, size=size)


@pytest.mark.parametrize(
    ("outcomes", "sizes", "state"),
    [
        (("holds", "holds"), (), "seen"),
        (("holds",), ("holds",), "seen"),
        (("holds",), ("open",), "trend only"),
        (("holds",), ("the opposite",), "trend only"),
        (("holds", "open"), (), "open"),
        (("holds", "the opposite"), (), "not seen"),
        (("the opposite", "open"), (), "not seen"),
        (("the opposite", "the opposite"), ("holds",), "opposite"),
        (("open",), ("holds",), "open"),
        ((), ("holds",), "seen"),
        ((), ("holds", "open"), "open"),
        ((), (), "not run"),
    ],
)
def test_what_was_seen(outcomes: tuple[str, ...], sizes: tuple[str, ...], state: str) -> None:
    parts = (*map(_finding, outcomes), *(_finding(one, size=True) for one in sizes))
    assert Answer(findings=parts).state == state


def test_numbers_of_instruments_count_alike() -> None:
    assert Answer(measured=(_number("holds"),)).state == "seen"
    assert Answer(measured=(_number("fails"),)).state == "not seen"
    assert Answer(measured=(_number("holds"), _number("fails", size=True))).state == "trend only"


def test_what_is_not_asked_or_cannot_be_told_is_not_seen() -> None:
    assert Answer(findings=(_finding("holds"),), unasked="the rest").state == "trend only"
    assert Answer(findings=(_finding("holds"), _finding("the opposite", cannot="no noise"))).state == "open"
    assert Answer(findings=(_finding("holds"), _finding("holds", size=True, cannot="no noise"))).state == "trend only"
    assert "it cannot decide here: no noise" in str(_finding("open", cannot="no noise"))


def test_an_interval_without_the_printed_gain_is_not_open() -> None:
    def with_gain(gain: float | None) -> Answer:
        baseline = Baseline(what="DP-SGD", here=83.5, there=83.2, gain=gain)
        return Answer(findings=(_finding("open", high=0.11),), baseline=baseline, compared=SAME)

    assert (with_gain(1.3).state, with_gain(0.1).state, with_gain(None).state) == ("not seen", "open", "open")
    assert "of the paper's gain of 1.3 points +0.00 [-0.10, +0.11] is left over it" in with_gain(1.3).far()[1]
    assert "left over it" not in with_gain(None).far()[1]


def test_where_it_was_looked_for() -> None:
    def where(compared: tuple[Compared, ...], here: float | None = None) -> str | None:
        baseline = None if here is None else Baseline(what="DP-SGD", here=here, there=69.4)
        return Answer(findings=(_finding("holds"),), compared=compared, baseline=baseline).setting

    assert (where(SAME), where(OTHER), where(())) == ("paper's setting", "small setting", "small setting")
    assert (where(SAME, 67.4), where(SAME, 67.3), where(SAME, 75.0)) == (
        "paper's setting",
        "small setting",
        "paper's setting",
    )
    nothing = Answer(reason="needs a GPU", compared=OTHER)
    assert (nothing.state, nothing.setting, nothing.in_words) == ("not run", None, "not run")
    assert Answer(findings=(_finding("holds"),), compared=OTHER).in_words == "seen, small setting"


def test_how_far_the_setting_is() -> None:
    answer = Answer(
        findings=(_finding("holds"),),
        compared=OTHER,
        baseline=Baseline(what="CNN", here=57.24, there=69.4),
        differs="last epoch",
    )
    assert answer.far() == [
        "setting: data a; network a; epochs 3 (the paper: 80)",
        "baseline, CNN: 57.2 % here, 69.4 in the paper, 12.2 points below",
        "differs in: last epoch",
    ]
    assert [line for line in answer.lines() if line in answer.far()] == answer.far()
