import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.privacy import gaussian_delta

Rows = tuple[tuple[int, ...], ...]


row = new_row(
    id="rs.thm3.1",
    source=Source("rs", "Theorem 3.1; RF, section 3"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("part_holds", "correction_holds"),
    calculators=(privacy.masked_sensitivity,),
    figure="audit_claims",
)


# Norms of these, masked or not, are whole: sensitivities have exact squares.
_UNIVERSES: tuple[Rows, ...] = (((3, 4), (-6, 8)), ((0, 2), (5, 12), (-8, 15)), ((1, 2, 2), (2, -3, 6), (4, 4, -7)))


def _mask_cases() -> Iterator[tuple[Rows, Fraction, tuple[int, ...]]]:
    for rows in _UNIVERSES:
        for mask in itertools.product((0, 1), repeat=len(rows[0])):
            for clip in (Fraction(1), Fraction(5), Fraction(9), Fraction(40)):
                yield rows, clip, mask


def _largest_square(rows: Rows, clip: Fraction, mask: tuple[int, ...]) -> Fraction:
    """The largest squared norm of a masked, clipped gradient."""
    return max(min(Fraction(sum(m * x * x for m, x in zip(mask, row, strict=True))), clip * clip) for row in rows)


def _squared(rows: Rows, clip: Fraction, mask: tuple[int, ...] | None) -> float:
    return privacy.masked_sensitivity(gradients=rows, clip_norm=float(clip), mask=mask) ** 2


@row.equal(_mask_cases, tolerance=1e-13)
def _(rows: Rows, clip: Fraction, mask: tuple[int, ...]) -> Sides:
    """squared sensitivity in whole numbers, all masks"""
    return _squared(rows, clip, mask), lambda: _largest_square(rows, clip, mask), lambda: _squared(rows, clip, None)


def _replace_squared(side: int, height: int, mask: tuple[int, int] | None) -> float:
    """Two examples with gradients (+-side, height), clip 1."""
    rows = ((side, height), (-side, height))
    return privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask, adjacency="replace-one") ** 2


@row.equal((1, 100), (2, 3), (7, 1), tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(side: int, height: int) -> Sides:
    """replace-one: gradients (+-a, b) under the mask (1, 0)"""
    return _replace_squared(side, height, (1, 0)), Fraction(4), lambda: _replace_squared(side, height, None)


@row.equal((1, 100), (2, 3), (7, 1), tolerance=1e-13)
def _(side: int, height: int) -> Sides:
    """replace-one: gradients (+-a, b) without a mask"""
    return (
        _replace_squared(side, height, None),
        Fraction(4 * side**2, side**2 + height**2),
        lambda: _replace_squared(side, height, (1, 0)),
    )


def _growth(adjacency: str, first: float, second: float, third: float, fourth: float) -> float:
    rows = ((first, second), (third, fourth))
    whole = privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=None, adjacency=adjacency)
    return whole - privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=(1, 0), adjacency=adjacency)


@row.inequality(
    {name: Range(-3.0, 3.0) for name in ("first", "second", "third", "fourth")},
    # wrong: nor does it under replace-one
    wrong=lambda **point: _growth("replace-one", **point),
)
def _add_remove_slack(**point: float) -> float:
    """add/remove: no mask raises the sensitivity"""
    return _growth("add-remove", **point)


def _within(bound: float, first: float, second: float, third: float, keep: int) -> float:
    rows = ((first, second, third), (-second, third, first))
    mask = tuple(int(j < keep) for j in range(3))
    return bound - privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask, adjacency="replace-one")


def _replace_half_slack(**point: float) -> float:
    """Wrong statement: it is at most C, as under add/remove."""
    return _within(1.0, **point)  # type: ignore[arg-type]


@row.inequality(
    {
        **{name: Range(-3.0, 3.0) for name in ("first", "second", "third")},
        "keep": Range(1, 3, integer=True),
    },
    wrong=_replace_half_slack,
)
def _replace_bound_slack(**point: float) -> float:
    """replace-one: at most 2C under any mask"""
    return _within(2.0, **point)  # type: ignore[arg-type]


def _public_mask_delta(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """delta of masked sum and mask together: the mean over the masks, of a canary (1, second, third) with C = 1."""
    masks = [tuple(int(j in kept) for j in range(3)) for kept in itertools.combinations(range(3), keep)]
    norms = [privacy.masked_sensitivity(gradients=[(1.0, second, third)], clip_norm=1.0, mask=mask) for mask in masks]
    return sum(gaussian_delta(norm / sigma, epsilon) for norm in norms) / len(masks)


def _amplified_slack(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """Wrong statement: it lowers delta by the share of entries kept."""
    allowed = keep / 3 * gaussian_delta(1 / sigma, epsilon)
    return 1.0 - _public_mask_delta(sigma, epsilon, second, third, keep) / allowed


@row.inequality(
    {
        "sigma": Range(0.5, 4.0),
        "epsilon": Range(0.0, 2.0),
        "second": Range(0.0, 2.0),
        "third": Range(0.0, 2.0),
        "keep": Range(1, 2, integer=True),
    },
    wrong=_amplified_slack,
)
def _mask_slack(sigma: float, epsilon: float, second: float, third: float, keep: int) -> float:
    """delta with a published random mask

    The mask, published, costs nothing on top of the account without a mask.
    """
    return 1.0 - _public_mask_delta(sigma, epsilon, second, third, keep) / gaussian_delta(1 / sigma, epsilon)


def _long_sensitivity(adjacency: str, masked: bool) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 1/2), clipped to norm 1, the first entry masked or not."""
    rows = np.zeros((2, 20_000))
    rows[0, :2], rows[1, -1] = (3.0, 4.0), 0.5
    mask = np.ones(20_000)
    mask[0] = 0.0
    return privacy.masked_sensitivity(gradients=rows, clip_norm=1.0, mask=mask if masked else None, adjacency=adjacency)


@row.equal(
    lambda: [(adjacency, masked) for adjacency in ("add-remove", "replace-one") for masked in (False, True)],
    tolerance=1e-12,
)
def _(adjacency: str, masked: bool) -> Sides:
    """long gradients by hand, 20,000 entries"""
    return (
        _long_sensitivity(adjacency, masked),
        1.0 if adjacency == "add-remove" else math.sqrt(1.25),
        lambda: 1.01 * _long_sensitivity(adjacency, masked),
    )
