"""When to freeze: limits, ties, what a schedule and parts mean, bad input."""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from dptheory import freezing
from tests.refused import refused

RUN: dict[str, Any] = {
    "curvature": [1.0, 0.5],
    "learning_rate": 0.1,
    "steps": 50,
    "clip_norm": 1.0,
    "noise_multiplier": 1.0,
    "batch_size": 16,
}


def test_without_noise_or_without_gradient() -> None:
    calm = freezing.best_layer_steps([9, 9], gradient_norms=[1.0, 0.0], **RUN | {"noise_multiplier": 0.0})
    assert calm.frozen_after_step == (50, 50)
    assert calm.value == calm.all_trained and calm.value[1] == 0
    arrived = freezing.best_layer_steps([9, 9], gradient_norms=[0.0, 0.0], **RUN)
    assert arrived.frozen_after_step == (0, 0) and arrived.value == (0.0, 0.0)
    nothing = freezing.best_freezing([9, 9], gradient_norms=[1.0, 0.0], **RUN | {"noise_multiplier": 0.0})
    assert (nothing.frozen_layers, nothing.frozen_after_step, nothing.gain) == (0, 50, 0.0)


def test_a_settled_layer_is_not_frozen() -> None:
    """Its loss falls to the floor within rounding, after which every step is as good as any."""
    found = freezing.best_layer_steps([9, 9], gradient_norms=[9.0, 9.0], **RUN | {"learning_rate": 0.9, "steps": 999})
    assert found.frozen_after_step == (999, 999)
    assert freezing.best_freezing([9], gradient_norms=[9.0], **RUN | {"curvature": [1.0]}).frozen_layers == 0


def test_a_schedule_of_equal_steps_and_parts_of_equal_curvature() -> None:
    plain = freezing.best_freezing([300, 40], gradient_norms=[0.5, 2.0], deviation_norm=[3.0, 4.0], **RUN)
    whole = RUN | {"learning_rate": np.full(50, 0.1), "curvature": [[1.0, 1.0], [0.5, 0.5]], "clip_norm": [1.0, 1.0]}
    split = freezing.best_freezing(
        [[100, 200], [39, 1]],
        gradient_norms=[[0.3, 0.4], [2.0, 0.0]],
        deviation_norm=[[3.0, 0.0], [0.0, 4.0]],
        layer_norms=[0.1, 0.1],
        **whole,
    )
    assert (plain.frozen_layers, plain.frozen_after_step) == (split.frozen_layers, split.frozen_after_step)
    assert split.value == pytest.approx(plain.value, rel=1e-12)


def test_what_fills_up_rows_counts_nothing() -> None:
    run = RUN | {"deviation_norm": 5.0, "curvature": [1.0, 0.5], "layer_sizes": [40, 9], "gradient_norms": [0.7, 0.1]}
    filled = run | {
        "curvature": [[1.0, 1e30], [0.5, 0.05]],
        "layer_sizes": [[40, 0], [9, 0]],
        "gradient_norms": [[0.7, 0.0], [0.1, 0.0]],
    }
    assert freezing.best_layer_steps(**filled) == freezing.best_layer_steps(**run)
    assert freezing.best_freezing(**filled) == freezing.best_freezing(**run)
    for name, value in (("gradient_norms", [[0.7, 0.1], [0.1, 0.0]]), ("deviation_norm", np.full((2, 2), 5.0))):
        with refused(name, "0"):
            freezing.best_freezing(**filled | {name: value})
    with refused("layer_sizes", "0"):
        freezing.best_layer_steps(**run | {"layer_sizes": [0, 0]})


def test_clipped_examples_and_a_smaller_step() -> None:
    """Examples of norm 5 clipped to 1 are a step of a fifth on noise that is five times as large."""
    run = RUN | {"gradient_norms": [1.0, 2.0], "steps": 20}
    clipped = freezing.best_freezing([30, 40], layer_norms=[3.0, 4.0], **run)
    larger = run | {"learning_rate": 0.02, "noise_multiplier": 5.0}
    assert clipped.all_trained == pytest.approx(freezing.best_freezing([30, 40], **larger).all_trained, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("layer_sizes", [1.5, 2], "layer_sizes"),
        ("layer_sizes", [[[1]]], "layer_sizes"),
        ("layer_sizes", np.ones(8000), "layer_sizes"),
        ("gradient_norms", [1.0], "gradient_norms"),
        ("curvature", [1.0, 0.0], "curvature"),
        ("learning_rate", 2.0, "learning_rate"),
        ("steps", 10**5 + 1, "steps 1..100000"),
        ("clip_norm", [1.0, 0.0], "clip_norm 2"),
        ("layer_norms", [1.0, 1.0, 1.0], "layer_norms 2"),
        ("deviation_norm", [1.0], "deviation_norm"),
    ],
)
def test_bad_input(name: str, value: Any, message: str) -> None:
    good = RUN | {"layer_sizes": [9, 9], "gradient_norms": [1.0, 1.0]}
    with refused(*message.split()):
        freezing.best_freezing(**good | {name: value})


def _losses_in_eighty_digits(
    frozen_layer: int, *, steps: int, square: str, curvature: list[str], clip: list[str]
) -> list[Decimal]:
    """The loss at the end by the step of freezing the first layers, as the module's head writes the recursion; nothing is clipped."""
    with localcontext() as context:
        context.prec = 80
        rate, sigma, batch = Decimal("0.1"), Decimal("1.5"), Decimal(1024)
        sizes = [Decimal(200_000), Decimal(150_000), Decimal(50_000)]
        curves, clips = [Decimal(one) for one in curvature], [Decimal(one) for one in clip]

        def after(found: Decimal, layer: int, clip_norm: Decimal) -> Decimal:
            moved = rate * curves[layer]
            return (1 - moved) ** 2 * found + moved**2 * sizes[layer] * (sigma * clip_norm / batch) ** 2

        losses, now = [], [Decimal(square)] * 3
        for step in range(steps + 1):
            end = list(now)
            for _ in range(steps - step):
                end = [after(q, i, clips[frozen_layer]) if i >= frozen_layer else q for i, q in enumerate(end)]
            losses.append(sum(q / (2 * curve) for q, curve in zip(end, curves, strict=True)))
            now = [after(q, i, clips[0]) for i, q in enumerate(now)]
        return losses


def test_where_the_least_is_flat_the_run_of_steps_that_rounding_cannot_tell_apart_holds_the_true_one() -> None:
    """The page's example: doubles put the least at one step, eighty digits at another one of the same run."""
    found = freezing.best_freezing(
        [200_000, 150_000, 50_000],
        gradient_norms=[0.5, 0.5, 0.5],
        curvature=[2.0, 1.0, 0.5],
        learning_rate=0.1,
        steps=500,
        clip_norm=[1.0, 0.8, 0.5],
        noise_multiplier=1.5,
        batch_size=1024,
    )
    losses = _losses_in_eighty_digits(
        found.frozen_layers, steps=500, square="0.25", curvature=["2", "1", "0.5"], clip=["1", "0.8", "0.5"]
    )
    true = losses.index(min(losses))
    assert found.first_step <= found.frozen_after_step <= found.last_step
    assert found.first_step <= true == 103 <= found.last_step < 500
    spread = max(losses[found.first_step : found.last_step + 1]) / min(losses) - 1
    assert 0 < spread < Decimal("1e-11")


def test_where_the_least_is_sharp_the_run_is_one_step() -> None:
    one = freezing.best_layer_steps(
        [[100, 900]],
        gradient_norms=[[3.0, 0.0]],
        curvature=[[1.0, 0.05]],
        learning_rate=0.2,
        steps=100,
        clip_norm=1.0,
        noise_multiplier=1.0,
        batch_size=20,
    )
    assert one.first_step == one.frozen_after_step == one.last_step == (16,)
    flat = freezing.best_layer_steps([9, 9], gradient_norms=[9.0, 9.0], **RUN | {"learning_rate": 0.9, "steps": 999})
    assert max(flat.first_step) < 500 and flat.last_step == (999, 999)
