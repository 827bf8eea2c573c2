"""RS: bytes sent under a mask."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.checks import ExactCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.sparsification import _costs


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
    sent = sparsification.communication(dim, keep, rounds, index)
    return Fraction(sent.values + sent.index)


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


_COMMUNICATION = Claim(
    id="rs.communication",
    title="communication",
    source=Source("rs", "section 5; RF, section 4"),
    statement=r"Sending non-zero values and indices, with one mask for several rounds, takes $\tilde O(1-r)$ of the dense communication.",
    verdict=Verdict.HOLDS,
    conditions=(
        "gradients are sent (or updates without momentum: with momentum frozen parameters move too, rs.epoch_mask)",
        "the kept indices or a seed: RF's list of the dropped ones adds r ceil(log2 d)/(b R), which does not shrink with 1 - r",
    ),
    correction=r"$R$ rounds of $b$-bit values under one mask: $(1-r)\big(1+\lceil\log_2d\rceil/(bR)\big)$, up to twice $1-r$ in a single round; $(1-r)$ plus 16 bytes with a shared seed.",
    calculators=(sparsification.communication,),
    checks=(
        ExactCheck(
            name="length of an encoded message",
            cases=_message_cases,
            truth=lambda *case: Fraction(_encoded(*case)),
            statement=_total_bytes,
            wrong=lambda dim, keep, rounds, index: Fraction(4 * keep * rounds),  # indices are free
        ),
        ExactCheck(
            name="ratio with kept indices, d = 550,000",
            cases=lambda: itertools.product((Fraction(1, 2), Fraction(1, 10)), (1, 50)),
            truth=lambda x, rounds: x * (1 + Fraction(20, 32 * rounds)),  # 2^19 < 550,000 < 2^20
            statement=lambda x, rounds: sparsification.communication(550_000, int(550_000 * x), rounds, "kept").ratio,
            wrong=lambda x, rounds: x,
            tolerance=1e-12,
        ),
        ExactCheck(
            name="every part in whole bytes, for any number of bits a value",
            cases=lambda: [
                (*size, index, bits, part)
                for size in ((17, 3), (999, 500), (20_000, 1_999))
                for index in ("seed", "kept", "dropped", "bitmap")
                for bits in (32, 16, 5)
                for part in ("dense", "values", "index")
            ],
            truth=lambda dim, keep, index, bits, part: Fraction(_packed(dim, keep, 3, index, bits, part)),
            statement=lambda dim, keep, index, bits, part: Fraction(
                getattr(sparsification.communication(dim, keep, 3, index, bits), part)
            ),
            wrong=lambda dim, keep, index, bits, part: Fraction(4 * keep * 3),
        ),
    ),
    proved=True,
)

CLAIMS = (_COMMUNICATION,)
