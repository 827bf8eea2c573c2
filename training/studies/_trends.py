"""Trends of instrumented runs, asked after the results and computed from what these keep.

Whether a curve falls is told by its whole course, not by the most extreme of its noisy steps, which the numbers of
:data:`dptheory.training.measure.QUANTITIES` are for some figures. Each trend is one number a seed, so that seeds are paired.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

Arms = Mapping[str, Mapping[str, Any]]


def _rows(arms: Arms, arm: str, kind: str) -> list[Mapping[str, Any]]:
    return list(arms[arm]["measured"][kind])


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Kendall's: pairs in the same order less pairs in the other one, as a share of all pairs."""
    pairs = list(combinations(zip(x, y, strict=True), 2))
    signs = [(a - c) * (b - d) for (a, b), (c, d) in pairs]
    return sum((one > 0) - (one < 0) for one in signs) / len(pairs)


# --- random freeze and sparsification ---------------------------------------------------------------------------------


def _rates(arms: Arms) -> list[float]:
    return list(_rows(arms, "dp-sgd", "errors")[0]["drop_rates"])[1:]


def _differences(arms: Arms, key: str) -> Iterator[list[float]]:
    """Dense minus frozen, over the rates, relative to the dense value, at every step."""
    for row in _rows(arms, "dp-sgd", "errors"):
        dense, *others = row[key]
        yield [(dense - other) / dense for other in others]


def signal_loss_order(arms: Arms) -> float:
    """Rank correlation of the rate with dense minus frozen signal loss, the mean over the steps: -1 where it falls all along."""
    return statistics.fmean(rank_correlation(_rates(arms), one) for one in _differences(arms, "signal_loss"))


def mean_mse_gain(arms: Arms) -> float:
    """Mean (dense minus frozen) / dense MSE over rates and steps."""
    return statistics.fmean(value for values in _differences(arms, "mse") for value in values)


def norm_spread(arms: Arms) -> float:
    """Mean change of the standard deviation of log10 of the norm by random freeze, after the first epoch."""
    frozen, dense = (_rows(arms, arm, "norms")[1:] for arm in ("freeze", "dp-sgd"))
    return statistics.fmean(a["log10_std"] - b["log10_std"] for a, b in zip(frozen, dense, strict=True))


def inversion_order(arms: Arms) -> float:
    """Rank correlation of the rate with the error of the reconstruction, the noisy gradient without a mask first."""
    row = _rows(arms, "untrained", "inversion")[0]
    return rank_correlation(row["drop_rates"], row["mse"][1:])


# --- layer freezing ---------------------------------------------------------------------------------------------------


def _of_the_same_gradients(arms: Arms, key: str) -> list[float]:
    """Of each layer that stays, log of the value if the others were frozen over that as it is: the mean over the steps."""
    rows = _rows(arms, "dp-sgd", "signals")
    stays = [number for number, value in enumerate(rows[0]["if_frozen"][key]) if value is not None]
    return [
        statistics.fmean(math.log(row["if_frozen"][key][number] / row["as_it_is"][key][number]) for row in rows)
        for number in stays
    ]


def frozen_signal(arms: Arms) -> float:
    """Least change of log |s^B| over the layers that stay, of the same gradients."""
    return min(_of_the_same_gradients(arms, "signal"))


def frozen_clipping_angle(arms: Arms) -> float:
    """Greatest change of log gamma^UB over the layers that stay, of the same gradients."""
    return max(_of_the_same_gradients(arms, "clipping_angle"))


def frozen_noise_angle(arms: Arms) -> float:
    """Greatest change of log gamma^BP over the layers that stay, of the same gradients."""
    return max(_of_the_same_gradients(arms, "noise_angle"))


# --- gradient embedding -----------------------------------------------------------------------------------------------


def noise_slope(arms: Arms) -> float:
    """Slope of log(noise / gradient) over log d, by least squares over the three networks of growing size."""
    rows = [_rows(arms, arm, "noise")[0] for arm in ("small-cnn", "resnet20", "wrn-16-4")]
    sizes = [math.log(row["dim"]) for row in rows]
    ratios = [math.log(row["noise_norm"] / row["gradient_norm"]) for row in rows]
    return statistics.linear_regression(sizes, ratios).slope


TRENDS: dict[str, Callable[[Arms], float]] = {
    one.__name__: one
    for one in (
        signal_loss_order,
        mean_mse_gain,
        norm_spread,
        inversion_order,
        frozen_signal,
        frozen_clipping_angle,
        frozen_noise_angle,
        noise_slope,
    )
}
"""The trends by name."""
