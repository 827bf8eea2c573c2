import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np

from dptheory import sparsification
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs as enumeration

row = new_row(
    id="rs.split_free",
    source=Source("rs", "new, on Lemma 3.3 and Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.largest_split_free_kappa,),
)


def _descents(w: Array, deviations: Array, clip: float, masks: Array) -> Array:
    """Mean over the deviations of |v| min(|v|, (C - |xi|)_+), v and xi under each mask."""
    sizes, lengths = np.sqrt(masks @ w**2), np.sqrt(masks @ (deviations**2).T)
    return np.asarray(sizes * np.minimum(sizes[:, None], np.maximum(clip - lengths, 0.0)).mean(axis=1))


@functools.cache
def _masks(dim: int, keep: int) -> Array:
    return np.array(
        [np.isin(np.arange(dim), one) for one in itertools.combinations(range(dim), keep)], dtype=np.float64
    )


def _kappa(w: Array, deviations: Array, clip: float, keep: int) -> float:
    """By its definition: all masks, all deviations."""
    masked = _descents(w, deviations, clip, _masks(w.size, keep)).mean()
    return float(masked / _descents(w, deviations, clip, np.ones((1, w.size)))[0])


def _case(
    second: float, third: float, spread: float, turn: float, clip: float, keep: float
) -> tuple[Array, Array, float, int]:
    """Four entries, four deviations with their negatives, at least one within the clip."""
    w = np.array([1.0, second, third, second * third])
    rows = (
        np.random.default_rng(round(100 * turn)).standard_normal((4, 4))
        * spread
        * np.array([[0.0], [0.3], [1.0], [3.0]])
    )
    return w, np.concatenate((rows, -rows)), clip * float(np.linalg.norm(w)), round(keep)


def _bound(w: Array, deviations: Array, clip: float, keep: int) -> float:
    return sparsification.largest_split_free_kappa(
        grad_norm=float(np.linalg.norm(w)),
        clip_norm=clip,
        deviation_norms=np.linalg.norm(deviations, axis=-1),
        drop_rate=1 - keep / w.size,
    )


def _upper_slack(**point: float) -> float:
    case = _case(**point)
    return _bound(*case) / _kappa(*case) - 1


def _too_low(**point: float) -> float:
    case = _case(**point)
    return 0.9 * _bound(*case) / _kappa(*case) - 1


def _lower_slack(**point: float) -> float:
    case = _case(**point)
    return _kappa(*case) / (case[3] / 4) - 1


def _root_below(**point: float) -> float:
    case = _case(**point)
    return _kappa(*case) / math.sqrt(case[3] / 4) - 1


_BOX = {
    "second": Range(0, 3),
    "third": Range(0, 3),
    "spread": Range(0.01, 3, log=True),
    "turn": Range(0, 1),
    "clip": Range(0.05, 5, log=True),
    "keep": Range(1, 4),
}

row.inequality(_BOX, wrong=_too_low, name="upper end, all masks of four entries")(_upper_slack)
row.inequality(_BOX, wrong=_root_below, name="lower end, all masks of four entries")(_lower_slack)


_FLAT = tuple((dim, keep) for dim, keep in ((2, 1), (4, 3), (6, 2)))


@row.equal(*((*one, large) for one in _FLAT for large in (False, True)), tolerance=1e-12)
def _(dim: int, keep: int, large: bool) -> Sides:
    """both ends are attained by equal entries"""
    # far above the clip without deviation: sqrt x C / |w| / H = sqrt x; room for gradient and deviation: x
    w = np.full(dim, 50.0 if large else 0.1)
    deviations = np.zeros((1, dim)) if large else np.full((2, dim), 0.05) * np.array([[1.0], [-1.0]])
    truth = _kappa(w, deviations, 2.0, keep)
    return _bound(w, deviations, 2.0, keep), truth, truth * 1.01


@row.equal(*itertools.product((10_000,), (0.01, 0.5, 0.99, 0.0), (0.3, 4.0)), tolerance=1e-11)
def _(samples: int, rate: float, size: float) -> Sides:
    """the upper end at users' sizes, norm by norm"""
    norms = [2.0 * (i + 0.5) / samples for i in range(samples)]

    def truth() -> float:
        if rate == 0:
            return 1.0
        share = math.fsum(min(1.0, max(1.0 - norm, 0.0) / size) for norm in norms) / samples
        return min(1 - rate, math.sqrt(1 - rate) / size) / share

    found = sparsification.largest_split_free_kappa(
        grad_norm=size, clip_norm=1.0, deviation_norms=norms, drop_rate=rate
    )
    return found, truth, 1.01 * found


def _steps() -> Iterator[tuple[enumeration.Settings, float]]:
    """One masked step from random points, two-point deviations; times a factor that breaks the statement, or not."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        start, deviation = (rng.standard_normal(2) * 10 ** rng.uniform(-1, 1) for _ in range(2))
        law = enumeration.two_point(float(deviation[0]), float(deviation[1]))
        yield (
            enumeration.Settings(
                (float(start[0]), float(start[1])), law, clip=float(10 ** rng.uniform(-1, 1)), steps=1
            ),
            1.0,
        )
    short = enumeration.Settings((0.3, 0.1), enumeration.two_point(0.1, 0.2), steps=1)
    yield from ((short, factor) for factor in (1.0, 1.001))


@row.equal(_steps)
def _(s: enumeration.Settings, factor: float) -> Sides:
    """the masked, clipped step keeps at least the masked S, that at least every split, by enumeration"""

    def holds() -> bool:
        found = enumeration.run(s)
        deviations = np.array([v for _, v in s.deviations])
        kept = float(_descents(np.array(s.start), deviations, s.clip, np.array(s.masks, dtype=np.float64)).mean())
        splits = [enumeration.run(dataclasses.replace(s, z=z)).masked_measure for z in (0.1, 0.25, 0.5, 0.75)]
        return found.alignment >= factor * kept - 1e-12 and kept >= factor * max(splits) - 1e-12

    return factor == 1, holds, factor != 1
