"""The law of batches, in which every record is with the stated rate whatever else is in it, and the digits of secure noise."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory.training import mechanisms as m
from dptheory.training._randomness import own_generator, secure_normal
from dptheory.training.audits import _board, _findings, _laws
from dptheory.training.audits._findings import Finding
from dptheory.training.engine import (
    AllocatedBatches,
    Batches,
    GeneratorBatches,
    PoissonBatches,
    SecureBatches,
    secure_noise,
)
from dptheory.training.runs import prepare, read_config

# --- How fine secure noise is: what a coarse number hides, its last digits may tell


_WORD = 64
_SUMMANDS = 4
_BITS = 52
_DRAWS = 1 << 16


def secure_bits() -> list[Finding]:
    """Each bit that noise is made of, and how often it repeats."""
    drawn = secure_noise(torch.zeros(_DRAWS, dtype=torch.float64), 1.0)
    # Near 0, where they are densest, half sums of four are 5e-16 / 2 apart at most: two of 65,536 agree with probability 1e-7.
    return [
        _findings.at_least(
            "secure noise: bits",
            "every one of 52 random bits of each of four summands changes a number",
            min(_moving_bits(word) for word in range(_SUMMANDS)),
            _BITS,
        ),
        _findings.equal("secure noise: repeats", "no two numbers are one", _DRAWS - len(np.unique(drawn.numpy())), 0.0),
    ]


def _moving_bits(word: int) -> int:
    """How many random bits of one summand change the number.

    All four are next to the middle of their law, where the number is next to 0 and rounding takes no digit away.
    """
    middle = np.full(_SUMMANDS, 1 << (_BITS - 1), dtype=np.uint64)
    moved = 0
    for bit in range(_WORD):
        words = middle.copy()
        words[word] ^= np.uint64(1 << bit)
        moved += _of_bits(words) != _of_bits(middle)
    return moved


def _of_bits(words: NDArray[np.uint64]) -> float:
    """The normal number that these random words make, one for each summand; of what is drawn beside, 0."""
    left = iter(words)
    return float(secure_normal(1, lambda count: np.uint64(next(left, 0)).tobytes()[:count]))


Indices = NDArray[np.int64]

_RECORDS, _EXPECTED, _PASSES = 30, 20, 600
"""Of the loader: 3/2 batches hold its records, so that a rate of one in a whole number of steps is another rate."""
_STEPS = 300
_CHUNK, _MANY = 1 << 17, 1 << 10
"""2^27 numbers: of 24 bits each, eight of them would be 0."""
_LEAST_RATE = 1e-12
_FINE_RATE = 1.5 * 2.0**-16
"""Half-way between two multiples of 2^-16: what has no finer uniform numbers draws a third too often, or too seldom."""


def law(drawn: Sequence[Indices], records: int, rate: float) -> list[Finding]:
    """Batches against the law of Poisson samples: all statements are exact."""
    sizes = np.array([len(batch) for batch in drawn])
    inside = np.zeros((len(drawn), records))
    for row, batch in zip(inside, drawn, strict=True):
        row[batch] = 1.0
    once = [
        _findings.binomial(
            "sampling rate",
            "records are drawn into batches with the rate that the account has",
            int(inside.sum()),
            inside.size,
            rate,
        ),
        _findings.equal("repeats", "no record is drawn twice into one batch", float(sizes.sum() - inside.sum()), 0.0),
    ]
    if rate == 1.0:
        return once
    apart = 2 * (len(drawn) // 2)
    both = _laws.product(inside.T, inside)[np.triu_indices(records, 1)]
    again = (inside[0:apart:2] * inside[1:apart:2]).sum(0)
    counts = (
        ("each record", "no record is drawn more often than another", inside.sum(0), len(drawn), rate),
        ("pairs of records", "whether a record is drawn tells nothing about another", both, len(drawn), rate**2),
        ("fresh batches", "whether it is drawn tells nothing about the next batch", again, apart // 2, rate**2),
    )
    return [
        *once,
        _findings.law_of_sizes("law of batch sizes", "batch sizes are those of Poisson samples", sizes, records, rate),
        *(
            _findings.binomial_of_each(name, statement, hits.astype(np.int64), trials, claimed)
            for name, statement, hits, trials, claimed in counts
        ),
    ]


def allocated(drawn: Sequence[Indices], records: int, steps: int, participations: int) -> list[Finding]:
    """Batches of whole epochs against the law of random allocation: all statements are exact."""
    inside = np.zeros((len(drawn) // steps, steps, records), dtype=np.int64)
    for number, batch in enumerate(drawn):
        np.add.at(inside[number // steps, number % steps], batch, 1)
    off = int(np.abs(inside.sum(1) - participations).max())
    first, second = inside[:, 0], inside[:, min(1, steps - 1)]
    both = participations * (participations - 1) / (steps * (steps - 1)) if steps > 1 else 1.0
    return [
        _findings.equal("participations", "each record is in as many batches of an epoch as it must be", off, 0.0),
        _findings.binomial(
            "pairs of steps", "all sets of steps are alike", int((first & second).sum()), first.size, both
        ),
        # of one step in each epoch nothing tells random allocation from Poisson samples
        *law(drawn[::steps], records, participations / steps),
    ]


_STEPS_PER_EPOCH, _EPOCHS = 5, 400


def allocation(seed: int, secure: bool = False) -> list[Finding]:
    """The batches of random allocation, of one participation and of two, as the loader of ``make_private`` draws them."""
    found = []
    for participations in (1, 2):
        batches = AllocatedBatches(
            train_size=_RECORDS,
            steps_per_epoch=_STEPS_PER_EPOCH,
            participations=participations,
            seed=None if secure else own_generator(seed),
        )
        drawn = [batches.batch(step).numpy() for step in range(_EPOCHS * _STEPS_PER_EPOCH)]
        name = f"random allocation, {participations} of {_STEPS_PER_EPOCH}{', secure' if secure else ''}"
        found += _findings.named(name, allocated(drawn, _RECORDS, _STEPS_PER_EPOCH, participations))
    return found


def loader(seed: int, secure: bool = False) -> list[Finding]:
    """The loader of ``make_private`` where its batch size does not divide its records."""
    plan = _board.Plan(
        np.zeros((_RECORDS, 1)), (1,), _EXPECTED, _RECORDS, _PASSES, noise_multiplier=1.0, clip_norm=1.0, seed=seed, secure=secure
    )  # fmt: skip
    with _board.quiet():
        _, optimizer, batches = _board.private(_board.Board(plan.sizes), m.DpSgd(), plan)
        drawn = [names.numpy() for _ in range(plan.epochs) for _, names in batches]
    rate = optimizer.privacy(1e-5).sampling_rate
    passes = _findings.equal(
        "length of a pass",
        "a pass has as many batches as hold the records, rounded",
        len(drawn) / plan.epochs,
        max(1, round(_RECORDS / _EXPECTED)),
    )
    stated = _findings.equal("rate of the account", "it is that of batch size and records", rate, _EXPECTED / _RECORDS)
    name = f"loader of make_private{', secure' if secure else ''}"
    return _findings.named(name, [stated, passes, *law(drawn, _RECORDS, rate)])


def run(config: Path, secure: bool = False) -> list[Finding]:
    """The batches that ``dptheory run`` draws with a configuration, without the training."""
    start = prepare(read_config(config), torch.device("cpu"))
    records, rate = len(start.train), start.optimizer.privacy(1e-5).sampling_rate
    drawn = [start.batches.batch(step, 0, 1).numpy() for step in range(_STEPS)]
    stated = _findings.equal(
        "rate of the account",
        "it is that of batch size and records",
        rate,
        start.config.batch_size / records,
    )
    name = f"batches of dptheory run{', secure' if secure else ''}"
    return _findings.named(name, [stated, *law(drawn, records, rate)])


def fine_rates(seed: int) -> list[Finding]:
    """Rates at which uniform numbers of single precision, or of few bits, draw too often: 1e-12, and 1.5 / 2^16."""
    kinds: tuple[tuple[str, Callable[..., Batches], int], ...] = (
        ("batches of a generator", partial(GeneratorBatches, generator=own_generator(seed)), _MANY),
        ("batches of a seed", partial(PoissonBatches, seed=seed), _MANY),
        ("secure batches", SecureBatches, _MANY // 4),  # whose numbers take longer
    )
    found = []
    for name, kind, most in kinds:
        for rate, steps in ((_LEAST_RATE, most), (_FINE_RATE, _MANY // 4)):
            batches = kind(train_size=_CHUNK, sampling_rate=rate)
            hits = sum([len(batches.batch(step, 0, 1)) for step in range(steps)])
            statement = "small rates are not rounded"
            found.append(_findings.binomial(f"{name}: rate {rate:.3g}", statement, hits, _CHUNK * steps, rate))
    return found
