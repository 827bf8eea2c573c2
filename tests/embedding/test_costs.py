"""Costs of a power iteration: closed forms, groups, the larger of two peaks, bad input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptheory import embedding
from tests.refused import refused

SIZES = {
    "width": st.integers(1, 10**4),
    "vectors": st.integers(1, 100),
    "anchors": st.integers(1, 10**4),
    "groups": st.integers(1, 20),
}


def shape(width: int, vectors: int, groups: int) -> tuple[int, int]:
    """(p, k), k <= p."""
    return groups * vectors * width, groups * vectors


@given(**SIZES)
def test_multiply_adds_are_the_printed_count(width: int, vectors: int, anchors: int, groups: int) -> None:
    p, k = shape(width, vectors, groups)
    found = embedding.power_iteration(dim=p, subspace_dim=k, anchors=anchors, groups=groups)
    assert found.products * groups == 2 * anchors * k * p
    assert found.orthogonalisation * groups**2 == p * k**2
    assert found.scaling * groups == k * p
    assert found.total == found.products + found.orthogonalisation + found.scaling


@given(**SIZES)
def test_operations_are_twice_the_multiply_adds_less_one_for_each_inner_product(
    width: int, vectors: int, anchors: int, groups: int
) -> None:
    p, k = shape(width, vectors, groups)
    fused = embedding.power_iteration(dim=p, subspace_dim=k, anchors=anchors, groups=groups)
    found = embedding.power_iteration(dim=p, subspace_dim=k, anchors=anchors, groups=groups, unit="operation")
    assert 2 * fused.products - found.products == anchors * k + k * p // groups
    assert 2 * (2 * fused.orthogonalisation - found.orthogonalisation) == k * (vectors + 1)
    assert found.scaling == fused.scaling


@given(**SIZES, gradients=st.integers(1, 10**4))
def test_memory_is_the_larger_of_two_stages(
    width: int, vectors: int, anchors: int, groups: int, gradients: int
) -> None:
    p, k = shape(width, vectors, groups)
    m, n = anchors, gradients
    first, second = m * p + k * p // groups + m * k - n * p, k * p // groups + n * k
    assert embedding.extra_floats(dim=p, subspace_dim=k, anchors=m, gradient_count=n, groups=groups) == max(
        first, second
    )
    assert (first >= second) == (m >= n)


def test_the_paper_s_own_setting() -> None:
    """ResNet20 with p = 270,000, m = 2000 anchor gradients, batches of n = 1000, k = 1000."""
    assert (
        embedding.extra_floats(dim=270_000, subspace_dim=1000, anchors=2000, gradient_count=1000)
        == 2000 * 270_000 + 2_000_000
    )
    assert (
        embedding.extra_floats(dim=270_000, subspace_dim=1000, anchors=500, gradient_count=1000)
        == 1000 * 270_000 + 1_000_000
    )
    assert embedding.power_iteration(dim=270_000, subspace_dim=1000, anchors=2000).products == 4000 * 270_000_000


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: embedding.power_iteration(dim=0, subspace_dim=1, anchors=1), "dim"),
        (lambda: embedding.power_iteration(dim=4, subspace_dim=5, anchors=1), "subspace_dim"),
        (lambda: embedding.power_iteration(dim=4, subspace_dim=2, anchors=0), "anchors"),
        (lambda: embedding.power_iteration(dim=4, subspace_dim=2, anchors=1, groups=3), "groups"),
        (
            lambda: embedding.power_iteration(dim=5, subspace_dim=2, anchors=1, groups=2),
            "dim",
        ),
        (
            lambda: embedding.power_iteration(dim=6, subspace_dim=3, anchors=1, groups=2),
            "subspace_dim",
        ),
        (lambda: embedding.power_iteration(dim=4, subspace_dim=2, anchors=1, unit="flop"), "unit"),
        (lambda: embedding.extra_floats(dim=4, subspace_dim=2, anchors=1, gradient_count=0), "gradient_count"),
        (lambda: embedding.extra_floats(dim=4.0, subspace_dim=2, anchors=1, gradient_count=1), "dim"),
    ],
)
def test_bad_input(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(says):
        call()
