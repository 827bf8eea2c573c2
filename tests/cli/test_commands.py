"""Commands of calculators: the numbers of the calculators, as table and as JSON."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, embedding, papers, privacy, pruning, sparsification
from dptheory.freezing import freezing_bounds, freezing_effect
from dptheory.gradients import DistortionAngle, clipped_gradient_mse
from dptheory.privacy import gaussian_mu

# --- `dptheory bound` and `dptheory preset`: the same numbers as the calculators, as table and as JSON ---


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
        (("reconstruction", "--vector", "0,0", "--drop-rate", "0.5", "--noise-std", "1"), ("vector ",)),
        (("freeze", "--layer-sizes", "1,2.5,3", *FREEZE[2:]), ("layer_sizes",)),
        (("freeze", "--layer-sizes", "1,2", *FREEZE[2:]), ("layer_norms",)),
        (("freeze", *FREEZE[:5], "3", *FREEZE[6:]), ("frozen",)),
        (("freeze", *FREEZE, "--sampling", "shuffle"), ("sampling",)),
        (("freeze", *FREEZE, "--sampling", "fixed", "--sampling-rate", "0.1"), ("sampling_rate",)),
        (("freeze", *FREEZE, "--sampling-rate", "2"), ("sampling_rate",)),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: tuple[str, ...]) -> None:
    result = _run("bound", *arguments)
    assert result.exit_code == 2
    assert all(one in result.stderr for one in says) and result.stderr.count("\n") == 1


# --- `dptheory bound embedding` and `preset embedding`: the calculators' numbers, as table and as JSON ---


SIZES = ["--dim", "1000", "--subspace-dim", "10", "--clip-norm", "10", "--residual-clip", "2"]


def test_values_are_those_of_the_calculators() -> None:
    result = _run("bound", "embedding", *SIZES, "--mu", "0.5", "--residual-norm", "30", "--json")
    values = json.loads(result.stdout)
    errors = embedding.gep_mse(dim=1000, subspace_dim=10, clip_norm=10, residual_clip=2, mu=0.5, residual_norm=30)
    assert values["squared error of the sum, GP"] == errors.plain
    assert values["squared error of the sum, B-GEP"] == errors.embedding_only
    assert values["squared error of the sum, GEP, best split"] == errors.optimal
    assert values["noise std of the residual, gradient clipped first"] == pytest.approx(
        embedding.joint_clip(dim=1000, subspace_dim=10, clip_norm=10, residual_share=0.2, mu=0.5).residual_std
    )
    assert (
        values["|r|^2 above which it beats B-GEP, GEP as published"]
        == embedding.least_residual_energy(dim=1000, subspace_dim=10, clip_norm=10, residual_clip=2, mu=0.5).published
    )


def test_epsilon_and_delta_stand_for_mu() -> None:
    first = json.loads(_run("bound", "embedding", *SIZES, "--epsilon", "2", "--delta", "1e-5", "--json").stdout)
    second = _run("bound", "embedding", *SIZES, "--mu", repr(gaussian_mu(2, 1e-5)), "--json")
    assert first == json.loads(second.stdout)


def test_presets_of_bound_embedding() -> None:
    rows = json.loads(_run("preset", "embedding", "--json").stdout)
    assert [row["name"] for row in rows] == [one.name for one in papers.embedding_presets()]
    assert [row["noise, GEP as published"] for row in rows] == [
        one.noise().published for one in papers.embedding_presets()
    ]
    assert [row["noise, GEP as published, accounted for by its sum"] for row in rows] == [
        one.noise().published_sum for one in papers.embedding_presets()
    ]
    assert "gep.cifar10.k1000" in _run("preset", "embedding").stdout


@pytest.mark.parametrize("group", ["bound", "preset"])
def test_the_examples_of_the_help_work_of_bound_embedding(group: str) -> None:
    text = re.sub(r"[\s│]+", " ", _run(group, "embedding", "--help").stdout)
    words = re.search(rf"Example: dptheory ({group} [^╰]*?) ?(?:╰|$)", text)
    assert words is not None
    result = _run(*words[1].split())
    assert result.exit_code == 0, result.output
    assert "published" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*SIZES,), "mu "),
        ((*SIZES, "--mu", "1", "--epsilon", "1", "--delta", "1e-5"), "mu "),
        ((*SIZES, "--epsilon", "1"), "mu "),
        ((*SIZES, "--epsilon", "1", "--delta", "2"), "delta "),
        ((*SIZES[:2], "--subspace-dim", "1001", *SIZES[4:], "--mu", "1"), "subspace_dim "),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], says: str) -> None:
    result = _run("bound", "embedding", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count("\n") == 1
    assert _run("preset", "embedding", "--mu", "-1").exit_code == 2


# --- `dptheory privacy`: the accounting as commands ---


def _run_of_privacy(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["privacy", *arguments])


def test_epsilon() -> None:
    result = _run_of_privacy(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5", "--json"
    )
    values = json.loads(result.stdout)
    found = privacy.epsilon_bounds(noise_multiplier=2, sampling_rate=0.01, steps=100, delta=1e-5)
    assert values["upper"] == found.upper and values["lower"] == found.lower and values["method"] == "saddle line"
    assert values["upper bound by Renyi privacy"] > found.upper
    table = _run_of_privacy(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5"
    ).stdout
    assert f"{found.upper:.6g}" in table


def test_epsilon_without_replacement() -> None:
    options = ["--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "10", "--delta", "1e-5", "--json"]
    result = _run_of_privacy("epsilon", *options, "--adjacency", "replace-one", "--sampling", "without replacement")
    assert json.loads(result.stdout)["method"] == "saddle line, dominating pair"


def test_sigma() -> None:
    result = _run_of_privacy(
        "sigma", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.01", "--steps", "100", "--json"
    )
    values = json.loads(result.stdout)
    assert values["noise multiplier"] == privacy.least_noise_multiplier(
        epsilon=3, delta=1e-5, sampling_rate=0.01, steps=100
    )
    assert 2.99999 < values["lower"] <= values["upper"] <= 3


def test_steps() -> None:
    result = _run_of_privacy(
        "steps", "--epsilon", "1", "--delta", "1e-5", "--noise-multiplier", "2", "--sampling-rate", "0.1", "--json"
    )
    values = json.loads(result.stdout)
    assert values["steps"] == privacy.max_steps(epsilon=1, delta=1e-5, noise_multiplier=2, sampling_rate=0.1)
    assert values["epochs"] == values["steps"] * 0.1


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["table", "json"])
def test_the_ends_of_what_is_accounted_for_are_said_to_be_such(words: list[str]) -> None:
    budget = ("--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.001")
    most = "so many are the most that is accounted for: they keep the budget, and more may"
    least = "0.05 is the least that is accounted for: it keeps the budget, and less may"
    assert most in _run_of_privacy("steps", *budget, "--noise-multiplier", "100", *words).stdout
    assert most not in _run_of_privacy("steps", *budget, "--noise-multiplier", "1", *words).stdout
    some = ("sigma", "--epsilon", "300", "--delta", "0.5", "--sampling-rate", "0.01", "--steps", "1")
    assert least in _run_of_privacy(*some, *words).stdout
    assert least not in _run_of_privacy("sigma", *budget, "--steps", "100", *words).stdout


@pytest.mark.parametrize("command", ["epsilon", "delta", "sigma", "tradeoff", "statement"])
def test_the_neighbours_of_a_file_are_those_that_are_asked_for(command: str, tmp_path: Path) -> None:
    rest = {"epsilon": ["--delta", "1e-5"], "delta": ["--epsilon", "1"], "sigma": ["--epsilon", "1", "--delta", "1e-5"],
            "tradeoff": [], "statement": ["--delta", "1e-5"]}[command]  # fmt: skip
    for own, other in (("replace-one", "add-remove"), ("add-remove", "replace-one")):
        file = tmp_path / "run.toml"
        file.write_text(f'adjacency = "{own}"\n[[step]]\nnoise_multiplier = 4\nsampling_rate = 1\ncount = 2\n')
        given = (command, *rest, "--composition", str(file))
        found = _run_of_privacy(*given, "--adjacency", own)
        assert found.exit_code == 0 and found.stdout == _run_of_privacy(*given).stdout
        for wrong in (other, ""):
            result = _run_of_privacy(*given, "--adjacency", wrong)
            assert result.exit_code == 2
            assert result.stderr.startswith("Error: adjacency ") and result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["epsilon", "statement"])
def test_a_composition_that_is_none_is_refused_by_its_option(command: str, tmp_path: Path) -> None:
    gone, broken = tmp_path / "gone.toml", tmp_path / "broken.toml"
    broken.write_text("[[step]]\ncount = 3\n")
    for path, said in (
        (gone, "--composition "),
        (broken, "--composition "),
    ):
        result = _run_of_privacy(command, "--composition", str(path), "--delta", "1e-5")
        assert result.exit_code == 2 and result.stderr.startswith(f"Error: {said}")


@pytest.mark.parametrize("command", ["epsilon", "delta", "sigma", "steps", "tradeoff", "statement"])
def test_errors_are_one_line_of_privacy(command: str) -> None:
    given = {"--noise-multiplier": "1", "--sampling-rate": "2", "--steps": "10", "--delta": "1e-5", "--epsilon": "1"}
    unused = {
        "epsilon": {"--epsilon"}, "delta": {"--delta"}, "sigma": {"--noise-multiplier"}, "steps": {"--steps"},
        "tradeoff": {"--delta", "--epsilon"}, "statement": {"--epsilon"},
    }[command]  # fmt: skip
    result = _run_of_privacy(
        command, *(part for name, value in given.items() if name not in unused for part in (name, value))
    )
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: sampling_rate [^\n]*\[1e-(08|12), 1\][^\n]* 2\.0[^\n]*\n", result.stderr)


# --- steps that differ, other samplers and units ----------------------------------------------------------------------
PARTS = ("--step", "4,1,2", "--step", "2,1,1")

RUN = privacy.Composition(
    [privacy.Step(noise_multiplier=s, sampling_rate=1.0, count=n) for s, n in ((4.0, 2), (2.0, 1))]
)

ONE = ("--noise-multiplier", "2", "--sampling-rate", "0.5", "--steps", "4", "--delta", "1e-5")
SETTING = {"noise_multiplier": 2.0, "sampling_rate": 0.5, "steps": 4, "delta": 1e-5}


def _json_of_privacy(*arguments: str) -> dict[str, object]:
    result = _run_of_privacy(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_steps_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "".join(f"[[step]]\nnoise_multiplier = {s}\nsampling_rate = 1\ncount = {n}\n" for s, n in ((4, 2), (2, 1)))
    )
    for given in (PARTS, ("--composition", str(file))):
        assert _json_of_privacy("epsilon", *given, "--delta", "1e-5")["upper"] == RUN.epsilon(1e-5).upper
        assert _json_of_privacy("delta", *given, "--epsilon", "1")["upper"] == RUN.delta(1.0).upper
        found, factor = (
            _json_of_privacy("sigma", *given, "--epsilon", "1", "--delta", "1e-5"),
            RUN.noise_scale(epsilon=1.0, delta=1e-5),
        )
        assert found["factor on the noise multipliers"] == factor
        assert found["noise multipliers"] == [4 * factor, 2 * factor]
        assert found["upper"] == RUN.scaled(factor).epsilon(1e-5).upper
        found = _json_of_privacy("tradeoff", *given, "--false-positive-rate", "0.1")
        assert found["true_positive_rate_upper"] == RUN.attack(false_positive_rate=0.1).true_positive_rate_upper


def test_delta_of_steps_that_are_alike() -> None:
    found = _json_of_privacy(
        "delta", "--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "4", "--epsilon", "1"
    )
    assert found["upper"] == privacy.delta_bounds(noise_multiplier=2.0, sampling_rate=1.0, steps=4, epsilon=1.0).upper


def test_other_samplers_and_units() -> None:
    assert _json_of_privacy("epsilon", *ONE, "--records-per-user", "2") == {
        "upper": privacy.samplers.user_epsilon_upper_bound(**SETTING, records_per_user=2)  # type: ignore[arg-type]
    }
    assert _json_of_privacy("epsilon", *ONE, "--max-batch-size", "2", "--train-size", "4") == {
        "upper": privacy.samplers.truncated_epsilon_upper_bound(**SETTING, max_batch_size=2, train_size=4)  # type: ignore[arg-type]
    }
    for more, law in (([], "geometric"), (["--runs-law", "poisson"], "poisson")):
        assert _json_of_privacy("epsilon", *ONE, "--mean-runs", "3", *more) == {
            "upper": privacy.samplers.selection_epsilon_upper_bound(**SETTING, mean_runs=3.0, runs_law=law)  # type: ignore[arg-type]
        }
    shuffled = _json_of_privacy("epsilon", *ONE, "--sampling", "shuffled", "--adjacency", "replace-one")
    assert list(shuffled.values()) == [
        privacy.samplers.shuffled_epsilon_lower_bound(
            noise_multiplier=2.0, batches=2, epochs=2, delta=1e-5, adjacency="replace-one"
        ),
        privacy.samplers.shuffled_epsilon_upper_bound(
            noise_multiplier=2.0, epochs=2, delta=1e-5, adjacency="replace-one"
        ),
        privacy.epsilon_bounds(**SETTING, adjacency="replace-one").upper,  # type: ignore[arg-type]
    ]


def test_passes_over_shuffled_batches_the_last_of_which_is_short() -> None:
    """A rate of 300 / 1000 was refused, which nobody had typed."""
    words = ("--noise-multiplier", "2", "--delta", "1e-5", "--sampling", "shuffled", "--batch-size", "300")
    found = _json_of_privacy("epsilon", *words, "--train-size", "1000", "--epochs", "3")
    run: dict[str, Any] = {"noise_multiplier": 2.0, "epochs": 3, "delta": 1e-5}
    assert found["lower"] == privacy.samplers.shuffled_epsilon_lower_bound(**run, batches=4)
    assert found["upper"] == privacy.samplers.shuffled_epsilon_upper_bound(**run)


@pytest.mark.parametrize(
    ("words", "exact"),
    [
        (
            ("epsilon", *(["--step", "1.2,0.01024,29", "--step", "0.7,0.01024,30"]), "--delta", "1e-6"),
            lambda: (
                privacy.Composition(
                    [
                        privacy.Step(noise_multiplier=noise, sampling_rate=0.01024, count=count)
                        for noise, count in ((1.2, 29), (0.7, 30))
                    ]
                )
                .epsilon(1e-6)
                .upper
            ),
        ),
        *(
            (
                (
                    "sigma",
                    "--epsilon",
                    str(epsilon),
                    *["--delta", "1e-6", "--sampling-rate", "0.01024", "--steps", "2940"],
                ),
                partial(privacy.least_noise_multiplier, epsilon=epsilon, delta=1e-6, sampling_rate=0.01024, steps=2940),
            )
            for epsilon in (1, 4)
        ),
    ],
)
def test_what_is_read_from_a_table_keeps_what_is_proved(words: tuple[str, ...], exact: Callable[[], float]) -> None:
    """Rounded to the nearest sixth digit, an upper bound stood below the lower one, and noise did not keep its budget."""
    rows = [line.split("│")[1:3] for line in _run_of_privacy(*words).stdout.splitlines() if line.startswith("│")]
    shown = next(float(value) for name, value in rows if name.strip() in ("upper", "noise multiplier"))
    assert exact() <= shown <= exact() * (1 + 1e-8)


PASSES = ("--batch-size", "300", "--train-size", "1000", "--epochs", "2.5")
"""Four steps a pass: ten in all, at the rate .3."""


def test_passes_stand_for_rate_and_steps() -> None:
    alike = {"noise_multiplier": 2.0, "sampling_rate": 0.3, "delta": 1e-5}
    found = _json_of_privacy("epsilon", "--noise-multiplier", "2", "--delta", "1e-5", *PASSES)
    assert (found["sampling rate"], found["steps"]) == (0.3, 10)
    assert found["upper"] == privacy.epsilon_bounds(**alike, steps=10).upper
    sigma = _json_of_privacy("sigma", "--epsilon", "3", "--delta", "1e-5", *PASSES)
    assert sigma["noise multiplier"] == privacy.least_noise_multiplier(
        epsilon=3, delta=1e-5, sampling_rate=0.3, steps=10
    )
    steps = _json_of_privacy("steps", "--noise-multiplier", "2", "--epsilon", "3", "--delta", "1e-5", *PASSES[:4])
    assert steps["steps"] == privacy.max_steps(**alike, epsilon=3)
    allocated = _json_of_privacy(
        "epsilon", "--noise-multiplier", "2", "--delta", "1e-5", *PASSES, "--sampling", "random allocation"
    )
    law = {"steps": 10, "sampling": "random allocation", "steps_per_epoch": 4}
    assert allocated["upper"] == privacy.epsilon_bounds(noise_multiplier=2.0, delta=1e-5, **law).upper


def test_noise_that_falls_linearly() -> None:
    run = ("--noise-multiplier", "4", "--last-noise-multiplier", "2", "--sampling-rate", "0.5", "--steps", "3")
    same = ("--step", "4,0.5,1", "--step", "3,0.5,1", "--step", "2,0.5,1")
    for command in (("epsilon", "--delta", "1e-5"), ("delta", "--epsilon", "1"), ("tradeoff",)):
        assert _json_of_privacy(*command, *run) == _json_of_privacy(*command, *same)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("epsilon", "--delta", "1e-5"), "noise_multiplier "),
        (("epsilon", *ONE, "--step", "1,1,1"), "noise_multiplier "),
        (("epsilon", "--step", "1,1", "--delta", "1e-5"), "step "),
        (("epsilon", "--step", "1,2,1", "--delta", "1e-5"), "step '1,2,1': sampling_rate "),
        (("epsilon", "--step", "1,1,1", "--composition", "f", "--delta", "1e-5"), "composition "),
        (("epsilon", "--step", "1,1,1", "--mean-runs", "2", "--delta", "1e-5"), "mean_runs "),
        (("epsilon", *ONE, "--mean-runs", "2", "--records-per-user", "2"), "mean_runs "),
        (("epsilon", *ONE, "--mean-runs", "2", "--certified"), "certified "),
        (("epsilon", *ONE, "--mean-runs", "2", "--plot", "a.png"), "plot "),
        (("epsilon", *ONE, "--mean-runs", "2", "--adjacency", "replace-one"), "adjacency "),
        (("epsilon", *ONE, "--max-batch-size", "2"), "train_size "),
        (("epsilon", *ONE, "--train-size", "2"), "batch_size "),
        (("epsilon", *ONE, "--batch-size", "2"), "train_size "),
        (("epsilon", *ONE, "--epochs", "2"), "batch_size "),
        (("epsilon", *ONE, *PASSES[:4]), "sampling_rate "),
        (("epsilon", *ONE[:2], *ONE[4:], *PASSES), "steps "),
        (("epsilon", *PARTS, "--delta", "1e-5", *PASSES), "step "),
        (("epsilon", *ONE[:2], "--delta", "1e-5", "--batch-size", "9", "--train-size", "8", "--epochs", "1"), "batch_size "),
        (("epsilon", *ONE, "--last-noise-multiplier", "1", "--sampling", "shuffled"), "sampling "),
        (("epsilon", "--step", "1,1,1", "--delta", "1e-5", "--last-noise-multiplier", "1"), "last_noise_multiplier "),
        (("tradeoff", *ONE[:4], "--steps", "1", "--last-noise-multiplier", "1"), "steps "),
        (("epsilon", *ONE, "--runs-law", "poisson"), "runs_law "),
        (("epsilon", *ONE[:4], "--steps", "3", *ONE[6:], "--sampling", "shuffled"), "steps "),
        (("epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.3", *ONE[4:], "--sampling", "shuffled"),
         "sampling_rate "),
        (("epsilon", *ONE, "--plot", "a.txt"), "plot "),
        (("statement",), "delta "),
        (("statement", ".", "--delta", "1"), "delta "),
        (("statement", "."), "folder "),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_do_not_go_together(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = _run_of_privacy(*words)
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: {said}") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_noise_of_many_steps_is_shown_by_its_ends() -> None:
    parts = [word for number in range(12) for word in ("--step", f"{30 + number},1,1")]
    table = _run_of_privacy("sigma", *parts, "--epsilon", "1", "--delta", "1e-5").stdout
    assert max(map(len, table.splitlines())) <= 80 and "..." in table


def test_pictures(tmp_path: Path) -> None:
    alike = ("--noise-multiplier", "4", "--sampling-rate", "1")
    for name, words in {
        "epsilon.png": ("epsilon", *alike, "--steps", "2", "--delta", "1e-5"),
        "parts.svg": ("epsilon", *PARTS, "--delta", "1e-5"),
        "delta.pdf": ("delta", *alike, "--steps", "2", "--epsilon", "1"),
        "sigma.png": ("sigma", *alike[2:], "--steps", "2", "--delta", "1e-5", "--epsilon", "1"),
        "factor.png": ("sigma", *PARTS, "--delta", "1e-5", "--epsilon", "1"),
        "steps.png": ("steps", *alike, "--delta", "1e-5", "--epsilon", "3"),
        "tradeoff.png": ("tradeoff", *alike, "--steps", "2"),
    }.items():
        result = _run_of_privacy(*words, "--plot", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        start = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[(tmp_path / name).suffix]
        assert (tmp_path / name).read_bytes().startswith(start)


def test_statement_of_settings_and_of_a_folder(tmp_path: Path) -> None:
    given = (
        "--delta",
        "1e-5",
        "--unit",
        "one user",
        "--public",
        "N",
        "--public",
        "C",
        "--seeded",
        "--adjacency",
        "zero-out",
    )
    result = _run_of_privacy("statement", *PARTS, *given, "--json")
    found = privacy.privacy_statement(
        composition=RUN, delta=1e-5, unit="one user", public=("N", "C"), secure=False, adjacency="zero-out"
    )
    values = json.loads(result.stdout)
    assert values | {"software": []} == json.loads(found.json()) and values["software"][0].startswith("dptheory ")
    assert _run_of_privacy("statement", *PARTS, *given).stdout.splitlines()[:5] == found.markdown().splitlines()[:5]
    (tmp_path / "statement.json").write_text(found.json())
    assert _run_of_privacy("statement", str(tmp_path)).stdout == found.markdown()
    assert _run_of_privacy("statement", str(tmp_path), "--json").stdout == found.json()


def test_a_statement_says_where_the_number_of_records_is_public() -> None:
    run = ("statement", "--noise-multiplier", "10", "--batch-size", "100", "--train-size", "100", "--epochs", "2")
    for adjacency, public in ((None, 1), ("replace-one", 1), ("add-remove", 0)):
        given = () if adjacency is None else ("--adjacency", adjacency)
        found = json.loads(_run_of_privacy(*run, *given, "--delta", "1e-5", "--json").stdout)
        assert found["adjacency"] == (adjacency or "zero-out")
        assert ["100" in what for what in found["public"]] == [True] * public


def test_ball_arithmetic() -> None:
    run = ("--noise-multiplier", "10", "--sampling-rate", "1", "--steps", "100")
    assert _json_of_privacy("epsilon", *run, "--delta", "1e-5", "--certified")["method"] == "certified"
    assert _json_of_privacy("epsilon", "--step", "10,1,100", "--delta", "1e-5", "--certified")["method"] == "certified"
    statement = _run_of_privacy("statement", *run, "--delta", "1e-5", "--certified", "--json")
    assert json.loads(statement.stdout)["accountant"].startswith("dptheory, certified")


_EPOCHS = ("--sampling", "random allocation", "--steps-per-epoch", "10", "--delta", "1e-5", "--json")


def test_random_allocation_in_all_commands() -> None:
    law = {"sampling": "random allocation", "steps_per_epoch": 10, "delta": 1e-5}
    run = ("--noise-multiplier", "2", "--steps", "45")
    found = privacy.epsilon_bounds(noise_multiplier=2.0, steps=45, **law)
    assert json.loads(_run_of_privacy("epsilon", *run, *_EPOCHS).stdout) == pytest.approx(vars(found), nan_ok=False)
    steps = json.loads(_run_of_privacy("steps", "--noise-multiplier", "2", "--epsilon", "3", *_EPOCHS).stdout)
    assert steps["steps"] == privacy.max_steps(noise_multiplier=2.0, epsilon=3.0, **law)
    assert steps["epochs"] == steps["steps"] / 10
    sigma = json.loads(_run_of_privacy("sigma", "--steps", "10", "--epsilon", "3", *_EPOCHS).stdout)
    assert sigma["upper"] <= 3.0 < 1.01 * sigma["upper"]
    stated = json.loads(_run_of_privacy("statement", *run, *_EPOCHS).stdout)
    assert stated["epsilon"] == found.upper and stated["sampler"] == "random allocation" and stated["steps"] == 45


@pytest.mark.parametrize(
    ("command", "change", "name"),
    [
        ("epsilon", ("--sampling-rate", "0.1"), "sampling_rate"),
        ("epsilon", ("--participations", "11"), "participations"),
        ("epsilon", ("--certified",), "certified"),
        ("epsilon", ("--sampling", "poisson", "--sampling-rate", "0.1"), "steps_per_epoch"),
        ("tradeoff", ("--sampling", "without replacement"), "sampling"),
    ],
)
def test_what_does_not_go_with_random_allocation(command: str, change: tuple[str, ...], name: str) -> None:
    options = [word for word in _EPOCHS if command == "epsilon" or word not in ("--delta", "1e-5")]
    result = _run_of_privacy(command, "--noise-multiplier", "2", "--steps", "45", *options, *change)
    assert result.exit_code == 2 and name.replace("_", "-") in result.output.replace("_", "-")


# --- `dptheory refute`: exit codes, one line for what is wrong, a counterexample that can be called ---


EXAMPLES = Path(__file__).parents[2] / "proofs" / "refute"


def _run_of_refute(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["refute", *arguments])


def test_exit_codes_and_a_call_that_shows_it() -> None:
    file = str(EXAMPLES / "layer_freezing.py")
    both = _run_of_refute(file)
    assert both.exit_code == 1
    assert both.stdout.splitlines() == [
        "printed: REFUTED",
        "  printed_bound(clip=1, noise_multiplier=1, dim=1, batch_size=1) = 1, but the truth is 2: a relative error of 0.5",
        "corrected: not refuted",
        "  it holds at all 108 points of the ranges; a relative error of 1e-09 at any of them would have been seen",
    ]
    names: dict[str, object] = {}
    exec((EXAMPLES / "layer_freezing.py").read_text(), names)
    assert eval("printed_bound(clip=1, noise_multiplier=1, dim=1, batch_size=1)", names) == 1
    assert eval("truth(clip=1, noise_multiplier=1, dim=1, batch_size=1)", names) == 2
    assert (_run_of_refute(file, "printed").exit_code, _run_of_refute(file, "corrected").exit_code) == (1, 0)


def test_as_json() -> None:
    result = _run_of_refute(str(EXAMPLES / "layer_freezing.py"), "--json", "--seed", "3")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and list(found) == ["printed", "corrected"]
    assert found["printed"]["refuted"] is True and found["printed"]["kind"] == "EXACT"
    assert found["printed"]["parameters"] == {"clip": 1, "noise_multiplier": 1, "dim": 1, "batch_size": 1}
    assert found["corrected"]["detectable"] == 1e-9 and found["corrected"]["seed"] == 3


def test_parameters_and_infinities_as_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import math\nfrom dptheory.checks import Conjecture\n"
        "c = Conjecture(claimed=lambda x, y: math.inf, truth=lambda x, y: 1, ranges={'x': [math.inf], 'y': [(1, 2)]})\n"
    )
    found = json.loads(_run_of_refute(str(file), "--json").stdout)["c"]
    assert found["parameters"] == {"x": "inf", "y": "(1, 2)"}
    assert (found["claimed"], found["observed"], found["error"]) == (None, 1.0, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (\n", "mine.py, line 1: '(' was never closed"),
        ("x = 1\n", "mine.py "),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        (
            "from dptheory.checks import Conjecture\n\ndef truth(n):\n    return 1 / n\n\n"
            "claim = Conjecture(claimed=lambda n: n, truth=truth, ranges={'n': [0]})\n",
            "mine.py, line 4: ZeroDivisionError",
        ),
        (
            "import sys\nfrom dptheory.checks import Conjecture\n"
            "claim = Conjecture(claimed=lambda n: sys.exit(0), truth=lambda n: 1, ranges={'n': [0]})\n",
            "mine.py, line 3: SystemExit: 0, in claimed(n=0)",
        ),
    ],
)
def test_mistakes_in_the_file_are_one_line_and_code_two(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    result = _run_of_refute(str(file))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert says in result.stderr and "Traceback" not in result.stderr


def test_a_missing_file_and_an_unknown_name(tmp_path: Path) -> None:
    for path in (tmp_path / "none.py", tmp_path):
        result = _run_of_refute(str(path))
        assert result.exit_code == 2 and "'file'" in result.stderr.lower() and result.stderr.count("\n") == 1
    result = _run_of_refute(str(EXAMPLES / "layer_freezing.py"), "nothing")
    assert re.fullmatch(r"Error: names .*printed, corrected.*'nothing'\n", result.stderr)
