"""proofs/results/baselines.md: what is printed, where it is from, and what the page makes of it."""

import math
from collections.abc import Sequence

import pytest

from dptheory import papers
from tests.baselines_page import (
    DECLARED,
    PAGE,
    Improved,
    Plain,
    best,
    printed,
    quoted,
    rivals,
    written,
)
from tests.said import page


def test_the_page_is_what_is_printed_and_run() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(PAGE, written()), "python -m tests.baselines_page writes it anew"


PLAIN = {
    "LF, Table 1": (95.6, 97.5, 98.1, 80.1, 85.5, 86.2),
    "GEP, Table 1": (94.7, 96.8, 97.2),
    "RS, Table 2": (83.2, 86.6, 85.8, 88.9, 62.4, 69.7),
    "RF, Table 1": (69.4, 92.6),
    "GEP, Table 3": (88.2, 91.1, 93.2, 93.4),
    "GIP, Table 6": (60.0, 66.84, 69.3),
}
WITH_METHOD = {
    "LF, Table 1": (95.7, 97.6, 98.1, 81.5, 86.8, 87.5),
    "GEP, Table 1": (96.3, 93.1, 97.9, 94.5, 98.4, 95.9),
    "RS, Table 2": (84.5, 87.4, 87.0, 89.2, 63.2, 70.0),
    "RF, Table 1": (69.4, 92.7),
    "GEP, Table 3": (90.9, 91.0, 93.5, 92.9, 94.3, 93.1, 94.8, 93.2),
}
"""Typed from the papers' text a second time, in the order of baselines.toml."""


def test_the_numbers_are_the_papers() -> None:
    plain, methods = {}, {}  # type: dict[str, list[float]], dict[str, list[float]]
    for one, made in printed():
        plain.setdefault(one.source, []).append(one.value)
        for improved in made:
            methods.setdefault(one.source, []).append(improved.value)
    assert {source: tuple(values) for source, values in plain.items()} == PLAIN
    assert {source: tuple(values) for source, values in methods.items()} == WITH_METHOD


def test_tramer_and_bonehs_numbers_have_a_source() -> None:
    assert "README" in DECLARED["tramer_and_boneh"] and "commit" in DECLARED["tramer_and_boneh"]
    found = {(one.data, one.input, one.source.split(", ")[1], one.epsilon): one.value for one in quoted()}
    assert found == {
        ("MNIST", "pixels", "CNN", 3.0): 98.1, ("MNIST", "scattering", "linear", 3.0): 98.7, ("MNIST", "scattering", "CNN", 3.0): 98.7,
        ("FashionMNIST", "pixels", "CNN", 3.0): 86.0, ("FashionMNIST", "scattering", "linear", 3.0): 89.7,
        ("FashionMNIST", "scattering", "CNN", 3.0): 89.0, ("CIFAR-10", "scattering", "linear", 3.0): 67.0,
        ("CIFAR-10", "scattering", "CNN", 3.0): 69.3, ("CIFAR-10", "public", "linear", 2.0): 92.4,
    }  # fmt: skip


def test_what_is_left_out_stands_as_printed() -> None:
    pate = [papers.table("gep.table1").cell(f"MNIST, PATE, epsilon {epsilon}").text for epsilon in (2, 5, 8)]
    assert "({}, {} and {} on MNIST at 2, 5 and 8)".format(*pate) in PAGE.read_text(encoding="utf-8")


def _plain(value: float, *, input: str = "pixels", epsilon: float = 1.0, data: str = "MNIST") -> Plain:
    return Plain(data=data, input=input, epsilon=epsilon, value=value, source="a paper")


def test_a_rival_has_no_larger_budget_and_no_more_public_records() -> None:
    own = _plain(90.0)
    others = [
        own,
        _plain(91.0),
        _plain(99.0, epsilon=1.1),
        _plain(99.0, data="FashionMNIST"),
        _plain(99.0, input="public"),
    ]
    made = Improved(plain=own, method="a method", value=91.5, measured="not run")
    assert [one.value for one in rivals(made, others)] == [91.0, 91.0]
    assert [one.value for one in rivals(made, [*others, _plain(92.0, input="scattering", epsilon=0.5)])] == [91.0, 92.0]
    assert best(others, data="MNIST", inputs=("scattering",), epsilon=1.0) is None


ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
"""Of Tramer and Boneh's accountant (dp_utils.py), which turns Renyi's divergence into epsilon + log(1 / delta) / (order - 1)."""


@pytest.mark.parametrize(
    "one", [one for group in DECLARED["accounts"] for one in group.get("of", ())], ids=lambda one: one["what"]
)
def test_no_other_number_of_epochs_asks_for_the_printed_noise(one: dict[str, float]) -> None:
    """To two digits; their search ends at an epsilon of at most .01 below the budget."""
    analysis = pytest.importorskip("opacus.accountants.analysis.rdp")
    rate, batches = one["batch_size"] / one["train_size"], one["train_size"] // one["batch_size"]

    def divergences(q: float, noise: float) -> Sequence[float]:
        found: Sequence[float] = analysis.compute_rdp(q=q, noise_multiplier=noise, steps=1, orders=ORDERS)
        return found

    before = divergences(1.0, one["normalised"]) if "normalised" in one else [0.0] * len(ORDERS)
    low, high = (divergences(rate, one["noise_multiplier"] + shift) for shift in (0.005, -0.005))

    def epsilon(step: Sequence[float], epochs: int) -> float:
        return min(
            2 * first + batches * epochs * each + math.log(1e5) / (order - 1)
            for first, each, order in zip(before, step, ORDERS, strict=True)
        )

    fits = [e for e in range(1, 200) if epsilon(low, e) <= one["epsilon"] and epsilon(high, e) >= one["epsilon"] - 0.01]
    assert fits == [one["epochs"]]
