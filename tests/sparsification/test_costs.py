"""Bytes and operations against round trips and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import sparsification
from tests.named import in_order
from tests.refused import refused

INDEX = ("seed", "kept", "dropped", "bitmap")


@given(st.integers(1, 10**12), st.floats(0, 1), st.integers(1, 10**6), st.sampled_from(INDEX), st.integers(1, 64))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_ratio_is_the_kept_share_plus_the_index(dim: int, share: float, rounds: int, index: str, bits: int) -> None:
    keep = min(max(round(dim * share), 1), dim)
    sent = sparsification.communication(dim, keep, rounds=rounds, index=index, value_bits=bits)  # type: ignore[arg-type]
    assert sent.ratio == pytest.approx((sent.values + sent.index) / sent.dense, rel=1e-15)
    width = (dim - 1).bit_length()
    told = {"seed": 128, "kept": keep * width, "dropped": (dim - keep) * width, "bitmap": dim}[index]
    exact = keep / dim + told / (dim * bits * rounds)
    rounding = 8 * (rounds + 1) / (dim * bits * rounds)
    assert abs(sent.ratio - exact) <= (1 + exact) * rounding + 1e-9


def test_a_mask_of_each_kind_can_be_read_back() -> None:
    dim, keep = 300, 40
    kept = np.sort(np.random.default_rng(1).permutation(dim)[:keep])
    width = (dim - 1).bit_length()
    bits = np.array([b == "1" for i in kept for b in f"{i:b}".zfill(width)])
    message = np.packbits(bits)
    assert message.nbytes == sparsification.communication(dim, keep, rounds=1, index="kept").index
    unpacked = np.unpackbits(message)[: keep * width].reshape(keep, width)
    assert np.array_equal(unpacked @ (1 << np.arange(width)[::-1]), kept)


def test_more_rounds_make_the_index_free() -> None:
    ratios = [
        sparsification.communication(550_000, 55_000, rounds=rounds, index="kept").ratio
        for rounds in (1, 10, 100, 10**6)
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == pytest.approx(0.1 * (1 + 20 / 32), rel=1e-9)
    assert ratios[-1] == pytest.approx(0.1, rel=1e-5)


def test_one_entry_needs_no_index() -> None:
    assert sparsification.communication(1, 1, rounds=1, index="kept").index == 0
    assert sparsification.communication(7, 7, rounds=3, index="dropped") == sparsification.Communication(
        dense=84, values=84, index=0
    )


@given(*(st.integers(1, 50) for _ in range(4)), st.integers(1, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_operations_scale_with_every_size(dim: int, basis: int, samples: int, gradients: int, repeats: int) -> None:
    found = sparsification.projection_operations(
        dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients, iterations=repeats
    )
    assert found.total == found.power_method + found.projection
    doubled = sparsification.projection_operations(
        dim=2 * dim, subspace_dim=2 * basis, anchors=2 * samples, gradient_count=gradients, iterations=repeats
    )
    assert (doubled.power_method, doubled.projection) == (8 * found.power_method, 4 * found.projection)
    once = sparsification.projection_operations(dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients)
    assert found.power_method == repeats * once.power_method


BAD = [
    (sparsification.communication, (0, 1, 1), "dim"),
    (sparsification.communication, (10, 0, 1), "keep"),
    (sparsification.communication, (10, 11, 1), "keep"),
    (sparsification.communication, (10, 1, 0), "rounds"),
    (sparsification.communication, (10, 1, 1, "zip"), "index"),
    (sparsification.communication, (10, 1, 1, "seed", 65), "value_bits"),
    (sparsification.projection_operations, (0, 1, 1, 1), "dim"),
    (sparsification.projection_operations, (1, 0, 1, 1), "subspace_dim"),
    (sparsification.projection_operations, (1, 1, 0, 1), "anchors"),
    (sparsification.projection_operations, (1, 1, 1, 0), "gradient_count"),
    (sparsification.projection_operations, (1, 1, 1, 1, 0), "iterations"),
    (sparsification.projection_operations, (1.5, 1, 1, 1), "dim"),
]


@pytest.mark.parametrize(("function", "arguments", "name"), BAD, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bad_input_names_the_argument(function, arguments, name) -> None:  # type: ignore[no-untyped-def]
    with refused(name):
        in_order(function, arguments)
