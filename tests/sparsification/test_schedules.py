"""Gradual cooling against a count epoch by epoch."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import sparsification
from tests.named import in_order
from tests.refused import refused

RATES = st.floats(0, 1)


@given(RATES, st.integers(2, 200), st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_density_is_the_mean_over_the_epochs(final: float, cooling: int, epochs: int, baseline: int) -> None:
    kept = sum(
        1 - sparsification.freeze_rate(epoch=e, final_drop_rate=final, cooling_epochs=cooling) for e in range(epochs)
    )
    assert sparsification.total_density(
        final_drop_rate=final, cooling_epochs=cooling, epochs=epochs, baseline_epochs=baseline
    ) == pytest.approx(kept / baseline, rel=1e-12, abs=1e-12)


@given(RATES, st.integers(2, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_ramp_over_the_whole_run_keeps_one_minus_half_the_rate(final: float, epochs: int) -> None:
    assert sparsification.total_density(final_drop_rate=final, cooling_epochs=epochs, epochs=epochs) == pytest.approx(
        1 - final / 2, rel=1e-12
    )


@given(RATES, st.integers(2, 100), st.integers(0, 300))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_rate_rises_from_zero_to_the_final_rate(final: float, cooling: int, epoch: int) -> None:
    assert sparsification.freeze_rate(epoch=0, final_drop_rate=final, cooling_epochs=cooling) == 0.0
    now, later = (
        sparsification.freeze_rate(epoch=e, final_drop_rate=final, cooling_epochs=cooling) for e in (epoch, epoch + 1)
    )
    assert now <= later <= final
    assert sparsification.freeze_rate(epoch=cooling - 1, final_drop_rate=final, cooling_epochs=cooling) == final


def test_the_papers_tables() -> None:
    assert sparsification.total_density(
        final_drop_rate=0.9, cooling_epochs=40, epochs=60, baseline_epochs=40
    ) == pytest.approx(float(Fraction(3, 5)), rel=1e-15)
    assert sparsification.total_density(
        final_drop_rate=0.9, cooling_epochs=80, epochs=100, baseline_epochs=80
    ) == pytest.approx(0.575, rel=1e-15)
    assert sparsification.total_density(final_drop_rate=0.9, cooling_epochs=40, epochs=60) == pytest.approx(
        0.4, rel=1e-15
    )


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ends(rate: float) -> None:
    assert (
        sparsification.total_density(final_drop_rate=rate, cooling_epochs=2, epochs=1) == 1.0
    )  # the first epoch is dense
    assert sparsification.total_density(final_drop_rate=rate, cooling_epochs=2, epochs=2) == 1 - rate / 2


BAD = [
    (sparsification.freeze_rate, (-1, 0.5, 2), "epoch"),
    (sparsification.freeze_rate, (0, 1.1, 2), "final_drop_rate"),
    (sparsification.freeze_rate, (0, 0.5, 1), "cooling_epochs"),
    (sparsification.total_density, (-0.1, 2, 2), "final_drop_rate"),
    (sparsification.total_density, (0.5, 1, 2), "cooling_epochs"),
    (sparsification.total_density, (0.5, 2, 0), "epochs"),
    (sparsification.total_density, (0.5, 2, 2.5), "epochs"),
    (sparsification.total_density, (0.5, 2, 2, 0), "baseline_epochs"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)
