"""Every quantity by hand, on measurements that are made up; each moves with what it is to measure."""

from typing import Any

import pytest

from dptheory.training.measure import QUANTITIES


def arms(**measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {arm.replace("_", "-"): {"measured": kinds} for arm, kinds in measured.items()}


def signals(step: int, *layers: tuple[float, float, float] | None) -> dict[str, Any]:
    keys = ("signal", "clipping_angle", "noise_angle")
    return {
        "step": step,
        "as_it_is": {key: [None if one is None else one[i] for one in layers] for i, key in enumerate(keys)},
    }


def histogram(*counts: int) -> list[dict[str, Any]]:
    return [{"times": [0]}, {"times": list(counts)}]


def errors(*rows: tuple[list[float], list[float]]) -> list[dict[str, Any]]:
    return [{"signal_loss": loss, "mse": mse} for loss, mse in rows]


def norms(*rows: tuple[float, float, list[int]]) -> list[dict[str, Any]]:
    return [{"quantiles": [0, low, 0, 0, 0, high, 0], "histogram": counts} for low, high, counts in rows]


MASKS = arms(
    dp_sgd={
        "errors": errors(([2.0, 3.0, 4.0], [4.0, 3.0, 2.0]), ([1.0, 1.1, 1.05], [1.0, 0.9, 1.2])),
        "norms": norms((1, 2, [5, 5]), (1, 10, []), (1, 10, [])),
    },
    freeze={"norms": norms((1, 2, [4, 6]), (10, 1, []), (0.1, 0.1, [])), "frozen": histogram(10, 20, 10)},
    ranked={"frozen": histogram(10, 10, 20)},
    ranked_without_noise={"frozen": histogram(30, 0, 10)},
)
LAYERS = arms(
    freezing={
        "signals": [
            signals(1, (1, 1, 1), (1.0, 1.0, 2.0), (1.0, 2.0, 1.0)),
            signals(2, (1, 1, 1), (1.0, 1.0, 2.0), (1.0, 2.0, 1.0)),
            signals(4, None, (2.718281828, 0.5, 1.0), (2.0, 2.0, 1.0)),
        ]
    },
    dp_sgd={
        "signals": [signals(step, (1, 1, 1), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)) for step in (1, 2)]
        + [signals(4, (1, 1, 1), (2.718281828, 1.0, 1.0), (1.0, 4.0, 1.0))],
        "status": [
            {"changed": 1, "examples": 10, "clipped_turn": 0.1, "unclipped_turn": None},
            {"changed": 2, "examples": 10, "clipped_turn": 0.3, "unclipped_turn": 0.2},
        ],
    },
)
INDEX = arms(
    dp_sgd={"cosines": [{"cosine": 0.4}, {"cosine": 0.2}], "entries": [{"ks_distance": 0.1}, {"ks_distance": 0.3}]},
    random_k={"cosines": [{"cosine": 0.3}, {"cosine": 0.1}]},
    index_pruning={"cosines": [{"cosine": 0.5}, {"cosine": 0.45}]},
)
GEP = arms(
    gep={
        "spectrum": [{"rank": {"all": 3.0, "one": 7.0}}, {"rank": {"all": 4.0, "one": 2.0}}],
        "projection": [
            {
                "dims": [10, 20, 40],
                "error": {"same": [0.5, 0.4, 0.3], "other": [0.9, 0.8, 0.85], "random": [0.99, 0.98, 0.97]},
            }
        ],
        "residuals": [{"original": 2.0, "residual": 10.0}, {"original": 1.0, "residual": 8.0}],
    }
)
CLIPS = arms(
    a={"alignment": [{"clipped_angle": 0.2, "unclipped_angle": 0.5}, {"clipped_angle": 0.2, "unclipped_angle": None}]},
    b={"alignment": [{"clipped_angle": 0.6, "unclipped_angle": 0.5}]},
    c={"alignment": [{"clipped_angle": 3.0, "unclipped_angle": None}]},
)
INVERSION = arms(untrained={"inversion": [{"mse": [9.0, 0.1, 0.2, 0.3]}]})
NOISE = arms(
    small_cnn={"noise": [{"gradient_norm": 0.5, "noise_norm": 1.0}]},
    resnet20={"noise": [{"gradient_norm": 0.5, "noise_norm": 2.0}]},
    wrn_16_4={"noise": [{"gradient_norm": 0.4, "noise_norm": 2.0}]},
    wrn_16_4_of_gip={"noise": [{"gradient_norm": 0.1, "noise_norm": 8.0}]},
)

WANTED = {
    "signal_loss_rise": (MASKS, 0.05),
    "least_mse_gain": (MASKS, -0.2),
    "large_norms": (MASKS, -1.0),
    "small_norms": (MASKS, -1.0),
    "first_epoch_distance": (MASKS, 0.1),
    "ranked_overlap": (MASKS, 0.75),
    "noiseless_gap": (MASKS, 0.25),
    "inversion_rise": (INVERSION, 0.5),
    "signal_change": (LAYERS, 0.693147),
    "signal_change_beside_dense": (LAYERS, 0.0),
    "clipping_angle_change": (LAYERS, 0.0),
    "clipping_angle_change_beside_dense": (LAYERS, -0.693147),
    "noise_angle_change": (LAYERS, 0.0),
    "noise_angle_change_beside_dense": (LAYERS, 0.0),
    "noise_over_clipping": (LAYERS, -1.0),
    "alignment_gap": (CLIPS, 0.1),
    "most_changed": (LAYERS, 0.2),
    "greatest_turn": (LAYERS, 0.3),
    "pruned_over_plain": (INDEX, 0.175),
    "plain_over_random": (INDEX, 0.1),
    "cosine_change": (INDEX, -0.05),
    "entries_distance": (INDEX, 0.3),
    "greatest_stable_rank": (GEP, 7.0),
    "projection_rise": (GEP, 0.05),
    "benefit_rise": (GEP, -0.005),
    "other_over_same": (GEP, 2.125),
    "noise_over_gradient": (NOISE, 2.0),
    "noise_growth": (NOISE, 1.25),
    "wide_gradient_over_noise": (NOISE, 0.0125),
    "random_projection": (GEP, 0.97),
    "residual_rank": (GEP, 5.0),
}


def test_quantities() -> None:
    assert set(WANTED) == set(QUANTITIES)
    found = {name: QUANTITIES[name](measured) for name, (measured, _) in WANTED.items()}
    assert found == pytest.approx({name: value for name, (_, value) in WANTED.items()}, abs=1e-5)
