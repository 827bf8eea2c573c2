import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.sparsification import _costs

row = new_row(
    id="rs.communication",
    source=Source("rs", "section 5; RF, section 4"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.communication,),
)


def _encoded(dim: int, keep: int, rounds: int, index: str) -> int:
    """Bytes of an actual message: float32 values of every round, and the mask once."""
    kept = np.sort(np.random.default_rng(0).permutation(dim)[:keep])
    values = b"".join(np.zeros(dim, np.float32)[kept].tobytes() for _ in range(rounds))
    mask = np.isin(np.arange(dim), kept)
    width = len(f"{dim - 1:b}") if dim > 1 else 0
    listed = np.flatnonzero(mask if index == "kept" else ~mask)
    bits = (
        mask if index == "bitmap" else np.array([b == "1" for i in listed for b in f"{i:b}".zfill(width)], dtype=bool)
    )
    head = np.random.default_rng(0).bytes(16) if index == "seed" else np.packbits(bits).tobytes()
    return len(values) + len(head)


def _message_cases() -> Iterator[tuple[int, int, int, str]]:
    yield from itertools.product((2, 17, 1000), (1, 2), (1, 50), ("seed", "kept", "dropped", "bitmap"))
    yield from itertools.product((1000,), (100, 900), (1, 50), ("seed", "kept", "dropped", "bitmap"))


def _total_bytes(dim: int, keep: int, rounds: int, index: _costs.Index) -> Fraction:
    sent = sparsification.communication(dim, keep, rounds=rounds, index=index)
    return Fraction(sent.values + sent.index)


@row.equal(_message_cases)
def _(dim: int, keep: int, rounds: int, index: _costs.Index) -> Sides:
    """length of an encoded message"""
    # wrong: the indices are free
    return (
        _total_bytes(dim, keep, rounds, index),
        lambda: Fraction(_encoded(dim, keep, rounds, index)),
        Fraction(4 * keep * rounds),
    )


@row.equal(lambda: itertools.product((Fraction(1, 2), Fraction(1, 10)), (1, 50)), tolerance=1e-12)
def _(x: Fraction, rounds: int) -> Sides:
    """ratio with kept indices, d = 550,000"""
    # 2^19 < 550,000 < 2^20
    return (
        sparsification.communication(550_000, int(550_000 * x), rounds=rounds, index="kept").ratio,
        x * (1 + Fraction(20, 32 * rounds)),
        x,
    )


def _packed(dim: int, keep: int, rounds: int, index: str, bits: int, part: str) -> int:
    """Bytes of one part of a message, its bits packed into an array."""
    if part != "index":
        return rounds * np.packbits(np.zeros((dim if part == "dense" else keep) * bits, dtype=bool)).nbytes
    listed = {
        "seed": 128,
        "kept": keep * len(f"{dim - 1:b}"),
        "dropped": (dim - keep) * len(f"{dim - 1:b}"),
        "bitmap": dim,
    }
    return np.packbits(np.zeros(listed[index], dtype=bool)).nbytes


@row.equal(
    lambda: [
        (*size, index, bits, part)
        for size in ((17, 3), (999, 500), (20_000, 1_999))
        for index in ("seed", "kept", "dropped", "bitmap")
        for bits in (32, 16, 5)
        for part in ("dense", "values", "index")
    ]
)
def _(dim: int, keep: int, index: _costs.Index, bits: int, part: str) -> Sides:
    """every part in whole bytes, for any number of bits a value"""
    return (
        Fraction(getattr(sparsification.communication(dim, keep, rounds=3, index=index, value_bits=bits), part)),
        lambda: Fraction(_packed(dim, keep, 3, index, bits, part)),
        Fraction(4 * keep * 3),
    )
