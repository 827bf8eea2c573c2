"""`dptheory bound` and `dptheory preset`: the same numbers as the calculators, as table and as JSON."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, papers, pruning, sparsification
from dptheory.freezing import freezing_bounds, freezing_effect
from dptheory.gradients import DistortionAngle, clipped_gradient_mse

MSE = ["--grad-norm", "1", "--dim", "100", "--deviation", "0.1", "--clip-norm", "1"]
MSE += ["--noise-multiplier", "1", "--batch-size", "8", "--drop-rate", "0.5"]

FULL = "bound on E<gradient, clipped gradient>, all layers trained"
FROZEN = "bound on E<gradient, clipped gradient>, frozen"
FREEZE = ["--layer-sizes", "100,200,300", "--layer-norms", "1,2,3", "--frozen-layers", "1"]
FREEZE += ["--clip-norm", "1", "--noise-multiplier", "1.5", "--batch-size", "256"]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def _json(*arguments: str) -> dict[str, float | None]:
    result = _run("bound", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_prune() -> None:
    values = _json("prune", "--dim", "1000", "--keep", "100")
    assert values["pruning MSE of top-k"] == float(pruning.top_k_mse(1000, 100, sigma_g=1.0))
    assert values["MSE of top-k with noise"] == float(pruning.top_k_mse(1000, 100, sigma_g=1.0)) + 100
    assert values["retained gain needed to beat DP-SGD's direction"] == pruning.least_retained_gain(1000, 100)


def test_mse() -> None:
    found = clipped_gradient_mse(
        grad_norm=1, dim=100, deviation=0.1, clip_norm=1, noise_multiplier=1, batch_size=8, drop_rate=0.5
    )
    values = _json("mse", *MSE)
    assert values["MSE, masked"] == found.masked.mse
    assert values["descent ratio, DP-SGD"] == found.full.descent_ratio
    assert values["Delta_MSE"] == found.delta_mse


def test_kappa() -> None:
    values = _json(
        "kappa", "--grad-norm", "2", "--dim", "100", "--clip-norm", "4", "--drop-rate", "0.5", "--deviation", "0.05"
    )
    assert values["kappa"] == pytest.approx(
        sparsification.kappa([0.2] * 100, clip_norm=4.0, drop_rate=0.5, deviation=0.05).value, rel=1e-12
    )
    assert values["lower end, 1 - r"] == 0.5


def test_rate() -> None:
    assert _json("rate", "--delta-c", "0.1", "--step-noise", "1")["best rate for a = 0.5"] == pytest.approx(0.9)


def test_reconstruction_says_why_it_is_infinite() -> None:
    values = _json("reconstruction", "--vector", "1,0,0,0", "--drop-rate", "0.5", "--noise-std", "0.1")
    assert values["expected error"] is None and values["why infinite"]
    assert values["lower bound where it works"] == sparsification.error_lower_bound(
        [1, 0, 0, 0], drop_rate=0.5, noise_std=0.1
    )


def test_presets() -> None:
    rows = json.loads(_run("preset", "list", "--json").stdout)
    assert [row["name"] for row in rows] == [one.name for one in papers.all_presets()]
    assert "rf.gep.eps8" in _run("preset", "list").stdout


def test_kappa_is_said_to_compare_bounds() -> None:
    text = " ".join(_run("bound", "kappa", "--help").stdout.replace("│", " ").split())
    assert "kappa, the ratio of the papers' lower bounds on the descent with and without the mask" in text


@pytest.mark.parametrize(("dim", "snr"), [(2, 0.0), (1000, 20.0), (10**9, 30.0), (1000, 1e30)])
def test_angle(dim: int, snr: float) -> None:
    law = DistortionAngle(dim, snr=snr)
    values = _json("angle", "--dim", str(dim), "--snr", str(snr))
    assert values["expected cosine"] == law.expected_cos()
    assert values["mean angle, radians"] == law.mean()
    for share in (5, 50, 95):
        quantile = values[f"{share}% quantile, radians"]
        assert quantile is not None
        assert float(law.cdf(quantile)) == pytest.approx(share / 100, abs=1e-9)


def test_angle_without_noise_is_zero() -> None:
    values = _json("angle", "--dim", "10", "--snr", "inf")
    assert values["expected cosine"] == 1.0 and values["95% quantile, radians"] == 0.0


def test_freeze() -> None:
    values = _json("freeze", *FREEZE)
    effect = freezing_effect(
        [100, 200, 300],
        layer_norms=[1.0, 2.0, 3.0],
        frozen_layers=1,
        clip_norm=1.0,
        noise_multiplier=1.5,
        batch_size=256,
    )
    bounds = freezing_bounds(
        [100, 200, 300],
        frozen_layers=1,
        objective_gap=1.0,
        learning_rate=0.1,
        steps=1000,
        smoothness=1.0,
        clip_norm=1.0,
        noise_multiplier=1.5,
        batch_size=256,
    )
    assert values["signal-to-noise ratio, before"] == effect.before.snr
    assert values["signal-to-noise ratio, after"] == effect.after.snr
    assert values[FULL] == bounds.full.value
    assert values[FROZEN] == bounds.frozen.value
    assert values["what freezing takes off the bound"] == bounds.largest_frozen_gradient


def _simulated_alignment(
    rng: np.random.Generator, start: np.ndarray, frozen: int, poisson: bool, setting: dict[str, float]
) -> tuple[float, float]:
    """Mean over 400 runs and all steps of <grad, clipped mean gradient> on |theta|^2 / 2, and its standard error.

    All examples have the gradient theta: f = |theta|^2 / 2 is their loss. The first ``frozen`` entries do not move.
    """
    runs, n, batch = 400, 50, int(setting["batch-size"])
    theta = np.tile(start, (runs, 1))
    total = np.zeros(runs)
    for _ in range(int(setting["steps"])):
        gradient = theta.copy()
        gradient[:, :frozen] = 0.0
        norm = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)
        clipped = gradient * np.minimum(1.0, setting["clip-norm"] / norm)[:, None]
        total += np.sum(theta * clipped, axis=1)  # the mean batch is of size B
        drawn = rng.binomial(n, batch / n, runs) if poisson else np.full(runs, batch)
        noise = rng.standard_normal(theta.shape) * setting["noise-multiplier"] * setting["clip-norm"] / batch
        noise[:, :frozen] = 0.0
        theta = theta - setting["learning-rate"] * (clipped * drawn[:, None] / batch + noise)
    means = total / setting["steps"]
    return float(means.mean()), float(means.std() / np.sqrt(runs))


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_that_are_printed_are_bounds(seed: int) -> None:
    """Runs in all regimes: nothing clipped to all clipped, little noise to much, fixed and Poisson batches, one layer frozen."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 2)
    start = rng.standard_normal(int(sizes.sum())) * 10 ** rng.uniform(-1, 2)
    batch = 1 if seed % 2 else 5
    setting = {
        "clip-norm": 10 ** rng.uniform(-1, 1),
        "noise-multiplier": 10 ** rng.uniform(-3, 1),
        "batch-size": batch,
        "learning-rate": rng.uniform(0.05, 1.95),
        "steps": int(rng.integers(1, 40)),
        "smoothness": 1.0,
        "objective-gap": float(start @ start) / 2,
    }
    norms = [float(np.linalg.norm(part)) for part in np.split(start, [int(sizes[0])])]
    words = [
        "--layer-sizes",
        ",".join(map(str, sizes)),
        "--layer-norms",
        ",".join(map(repr, norms)),
        "--frozen-layers",
        "1",
    ]
    words += [word for name, value in setting.items() for word in (f"--{name}", repr(value))]
    for poisson, how in ((True, ["--sampling-rate", repr(batch / 50)]), (False, ["--sampling", "fixed"])):
        values = _json("freeze", *words, *how)
        for label, frozen in ((FULL, 0), (FROZEN, int(sizes[0]))):
            mean, error = _simulated_alignment(rng, start, frozen, poisson, setting)
            printed = values[label]
            assert printed is not None
            assert mean <= printed + 5 * error + 1e-9 * abs(printed)


def test_nothing_is_said_of_the_squared_gradient() -> None:
    """Clipped from norm 100 to 1: the mean of |gradient|^2 over 50 steps is 5908, that of <gradient, clipped> 75.5."""
    words = [
        "--layer-sizes",
        "1,1",
        "--layer-norms",
        "0.000001,75",
        "--frozen-layers",
        "1",
        "--clip-norm",
        "1",
        "--noise-multiplier",
        "1e-9",
    ]
    words += ["--batch-size", "1000", "--learning-rate", "1", "--steps", "50"]
    words += ["--smoothness", "1", "--objective-gap", "5000"]
    values = _json("freeze", *words)
    assert values[FULL] == pytest.approx(100.5005)
    assert not any("gradient|^2" in name for name in values)


@pytest.mark.parametrize("command", ["prune", "mse", "kappa", "rate", "reconstruction", "angle", "freeze"])
def test_the_examples_of_the_help_work(command: str) -> None:
    text = re.sub(r"[\s│]+", " ", _run("bound", command, "--help").stdout)
    words = re.search(r"Example: dptheory (bound [^╰]*?) ?(?:╰|$)", text)
    assert words is not None
    result = _run(*words[1].split())
    assert result.exit_code == 0, result.output
    assert "quantity" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("prune", "--dim", "10", "--keep", "11"), ("keep ",)),
        (("mse", *MSE[:-1], "0.555"), ("rate",)),
        (("kappa", "--grad-norm", "0", "--dim", "10", "--clip-norm", "1", "--drop-rate", "0.5"), ("grad_norm ",)),
        (("rate", "--delta-c", "-1", "--step-noise", "1"), ("delta_c ",)),
        (("reconstruction", "--vector", "a", "--drop-rate", "0.5", "--noise-std", "1"), ("vector ",)),
        (("reconstruction", "--vector", "0,0", "--drop-rate", "0.5", "--noise-std", "1"), ("vector ",)),
        (("angle", "--dim", "0", "--snr", "1"), ("dim",)),
        (("angle", "--dim", "10", "--snr", "-1"), ("snr",)),
        (("freeze", "--layer-sizes", "a", *FREEZE[2:]), ("layer_sizes",)),
        (("freeze", "--layer-sizes", "1,2.5,3", *FREEZE[2:]), ("layer_sizes",)),
        (("freeze", "--layer-sizes", "1,2", *FREEZE[2:]), ("layer_norms",)),
        (("freeze", *FREEZE[:5], "3", *FREEZE[6:]), ("frozen",)),
        (("freeze", *FREEZE, "--learning-rate", "0"), ("learning_rate",)),
        (
            ("freeze", *FREEZE[:8], "--noise-multiplier", "nan", *FREEZE[10:]),
            ("noise_multiplier", "[1e-35,", "1e+35]", "nan"),
        ),
        (("freeze", *FREEZE, "--sampling", "shuffle"), ("sampling",)),
        (("freeze", *FREEZE, "--sampling", "fixed", "--sampling-rate", "0.1"), ("sampling_rate",)),
        (("freeze", *FREEZE, "--sampling-rate", "2"), ("sampling_rate",)),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    result = _run("bound", *arguments)
    assert result.exit_code == 2
    assert all(one in result.stderr for one in says) and result.stderr.count("\n") == 1
