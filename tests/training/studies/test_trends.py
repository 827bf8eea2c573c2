"""Trends by invented measurements whose trend is known: the most extreme step does not decide."""

import math
from typing import Any

import pytest

from dptheory.training.studies._measured import TRENDS, rank_correlation


def _arm(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"measured": {kind: rows}}


def _signals(frozen: list[float], plain: list[float]) -> dict[str, Any]:
    """Two steps of two layers, the first of which would be frozen."""
    rows = [
        {"as_it_is": {key: [1.0, a] for key in _KEYS}, "if_frozen": {key: [None, b] for key in _KEYS}}
        for a, b in zip(plain, frozen, strict=True)
    ]
    return {"dp-sgd": _arm("signals", rows)}


_KEYS = ("signal", "clipping_angle", "noise_angle")
_ERRORS = {"drop_rates": [0.0, 0.3, 0.6, 0.9], "signal_loss": [2.0, 2.2, 2.1, 2.6], "mse": [4.0, 3.0, 5.0, 2.0]}
_NORMS = {
    "dp-sgd": _arm("norms", [{"log10_std": x} for x in (9.0, 2.0, 2.0)]),
    "freeze": _arm("norms", [{"log10_std": x} for x in (1.0, 1.5, 2.1)]),
}
_NOISE = {
    name: _arm("noise", [{"dim": dim, "gradient_norm": 1.0, "noise_norm": dim**0.5}])
    for name, dim in (("small-cnn", 10), ("resnet20", 1000), ("wrn-16-4", 10**6))
}

WANTED: dict[str, tuple[dict[str, Any], float]] = {
    # of the differences -.1, -.05, -.3 two pairs of three fall
    "signal_loss_order": ({"dp-sgd": _arm("errors", [_ERRORS])}, -1 / 3),
    "mean_mse_gain": ({"dp-sgd": _arm("errors", [_ERRORS])}, (0.25 - 0.25 + 0.5) / 3),
    "norm_spread": (_NORMS, (-0.5 + 0.1) / 2),
    "inversion_order": (
        {"untrained": _arm("inversion", [{"drop_rates": [0.0, 0.3, 0.6], "mse": [0.0, 1.0, 3.0, 2.0]}])},
        1 / 3,
    ),
    "frozen_signal": (_signals([4.0, 1.0], [2.0, 1.0]), math.log(2) / 2),
    "frozen_clipping_angle": (_signals([1.0, 1.0], [2.0, 2.0]), -math.log(2)),
    "frozen_noise_angle": (_signals([1.0, 3.0], [2.0, 3.0]), -math.log(2) / 2),
    "noise_slope": (_NOISE, 0.5),
}


def test_trends() -> None:
    assert set(WANTED) == set(TRENDS)
    found = {name: TRENDS[name](measured) for name, (measured, _) in WANTED.items()}
    assert found == pytest.approx({name: value for name, (_, value) in WANTED.items()}, rel=1e-12)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [5, 6, 9]) == 1.0
    assert rank_correlation([1, 2, 3], [9, 6, 5]) == -1.0
    assert rank_correlation([1, 2], [4, 4]) == 0.0
