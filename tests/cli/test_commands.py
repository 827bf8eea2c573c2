"""Commands of calculators: the numbers of the calculators, as table and as JSON."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, embedding, papers, privacy, pruning, sparsification
from dptheory.freezing import freezing_bounds, freezing_effect
from dptheory.gradients import DistortionAngle, clipped_gradient_mse


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def _json(*arguments: str) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# --- `dptheory bound` and `dptheory preset`: the same numbers as the calculators, as table and as JSON ---


def _prune() -> dict[str, float]:
    lost = float(pruning.top_k_mse(1000, 100, sigma_g=1.0))
    needed = pruning.least_retained_gain(1000, 100)
    return {
        "pruning MSE of top-k": lost,
        "MSE of top-k with noise": lost + 100,
        "retained gain needed to beat DP-SGD's direction": needed,
    }


def _mse() -> dict[str, float]:
    found = clipped_gradient_mse(
        grad_norm=1, dim=100, deviation=0.1, clip_norm=1, noise_multiplier=1, batch_size=8, drop_rate=0.5
    )
    return {
        "MSE, masked": found.masked.mse,
        "descent ratio, DP-SGD": found.full.descent_ratio,
        "Delta_MSE": found.delta_mse,
    }


def _kappa() -> dict[str, float]:
    kappa = sparsification.kappa([0.2] * 100, clip_norm=4.0, drop_rate=0.5, deviation=0.05).value
    return {"kappa": pytest.approx(kappa, rel=1e-12), "lower end, 1 - r": 0.5}


def _freeze() -> dict[str, float]:
    run: dict[str, Any] = {"frozen_layers": 1, "clip_norm": 1.0, "noise_multiplier": 1.5, "batch_size": 256}
    effect = freezing_effect([100, 200, 300], layer_norms=[1.0, 2.0, 3.0], **run)
    bounds = freezing_bounds([100, 200, 300], objective_gap=1.0, learning_rate=0.1, steps=1000, smoothness=1.0, **run)
    return {
        "signal-to-noise ratio, before": effect.before.snr,
        "signal-to-noise ratio, after": effect.after.snr,
        "bound on E<gradient, clipped gradient>, all layers trained": bounds.full.value,
        "bound on E<gradient, clipped gradient>, frozen": bounds.frozen.value,
        "what freezing takes off the bound": bounds.largest_frozen_gradient,
    }


def _angle(dim: int, snr: float) -> dict[str, float]:
    law = DistortionAngle(dim, snr=snr)
    return {"expected cosine": law.expected_cos(), "mean angle, radians": law.mean()}


def _embedding() -> dict[str, float]:
    sizes: dict[str, Any] = {"dim": 1000, "subspace_dim": 10, "clip_norm": 10, "mu": 0.5}
    errors = embedding.gep_mse(**sizes, residual_clip=2, residual_norm=30)
    joint = embedding.joint_clip(**sizes, residual_share=0.2).residual_std
    return {
        "squared error of the sum, GP": errors.plain,
        "squared error of the sum, B-GEP": errors.embedding_only,
        "squared error of the sum, GEP, best split": errors.optimal,
        "noise std of the residual, gradient clipped first": pytest.approx(joint),
        "|r|^2 above which it beats B-GEP, GEP as published": embedding.least_residual_energy(
            **sizes, residual_clip=2
        ).published,
    }


MSE = "bound mse --grad-norm 1 --dim 100 --deviation 0.1 --clip-norm 1 --noise-multiplier 1 --batch-size 8 --drop-rate 0.5"
FREEZE = (
    "bound freeze --layer-sizes 100,200,300 --layer-norms 1,2,3 --frozen-layers 1 --clip-norm 1 --noise-multiplier 1.5"
)
SIZES = "bound embedding --dim 1000 --subspace-dim 10 --clip-norm 10 --residual-clip 2"
RATE = "--sampling-rate 0.01 --steps 100"
NUMBERS: dict[str, Callable[[], dict[str, Any]]] = {
    "bound prune --dim 1000 --keep 100": _prune,
    MSE: _mse,
    "bound kappa --grad-norm 2 --dim 100 --clip-norm 4 --drop-rate 0.5 --deviation 0.05": _kappa,
    "bound rate --delta-c 0.1 --step-noise 1": lambda: {"best rate for a = 0.5": pytest.approx(0.9)},
    "bound reconstruction --vector 1,0,0,0 --drop-rate 0.5 --noise-std 0.1": lambda: {
        "expected error": None,
        "lower bound where it works": sparsification.error_lower_bound([1, 0, 0, 0], drop_rate=0.5, noise_std=0.1),
    },
    f"{FREEZE} --batch-size 256": _freeze,
    **{
        f"bound angle --dim {dim} --snr {snr}": partial(_angle, dim, snr)
        for dim, snr in ((2, 0.0), (1000, 20.0), (10**9, 30.0), (1000, 1e30))
    },
    "bound angle --dim 10 --snr inf": lambda: {"expected cosine": 1.0, "95% quantile, radians": 0.0},
    f"{SIZES} --mu 0.5 --residual-norm 30": _embedding,
    f"privacy epsilon --noise-multiplier 2 {RATE} --delta 1e-5": lambda: vars(
        privacy.epsilon_bounds(noise_multiplier=2, sampling_rate=0.01, steps=100, delta=1e-5)
    ),
    f"privacy sigma --epsilon 3 --delta 1e-5 {RATE}": lambda: {
        "noise multiplier": privacy.least_noise_multiplier(epsilon=3, delta=1e-5, sampling_rate=0.01, steps=100)
    },
    "privacy delta --noise-multiplier 2 --sampling-rate 1 --steps 4 --epsilon 1": lambda: vars(
        privacy.delta_bounds(noise_multiplier=2.0, sampling_rate=1.0, steps=4, epsilon=1.0)
    ),
}
"""What a command says, beside the calculator's own."""


@pytest.mark.parametrize("words", NUMBERS)
def test_the_numbers_are_the_calculators(words: str) -> None:
    found, wanted = _json(*words.split()), NUMBERS[words]()
    assert {name: found[name] for name in wanted} == wanted


def test_quantiles_of_the_angle() -> None:
    values = _json(*["bound", "angle", "--dim", "1000", "--snr", "20"])
    for share in (5, 50, 95):
        quantile = values[f"{share}% quantile, radians"]
        assert float(DistortionAngle(1000, snr=20.0).cdf(quantile)) == pytest.approx(share / 100, abs=1e-9)


def test_reconstruction_says_why_it_is_infinite() -> None:
    assert _json(*["bound", "reconstruction", "--vector", "1,0,0,0", "--drop-rate", "0.5", "--noise-std", "0.1"])[
        "why infinite"
    ]


def test_kappa_is_said_to_compare_bounds() -> None:
    text = " ".join(_run("bound", "kappa", "--help").stdout.replace("│", " ").split())
    assert "kappa, the ratio of the papers' lower bounds on the descent with and without the mask" in text


def test_epsilon_and_delta_stand_for_mu() -> None:
    first = _json(*SIZES.split(), "--epsilon", "2", "--delta", "1e-5")
    assert first == _json(*SIZES.split(), "--mu", repr(privacy.gaussian_mu(2, 1e-5)))


def test_presets() -> None:
    assert [row["name"] for row in _json("preset", "list")] == [one.name for one in papers.all_presets()]
    noises = {one.name: one.noise() for one in papers.embedding_presets()}
    assert [
        (row["name"], row["noise, GEP as published"], row["noise, GEP as published, accounted for by its sum"])
        for row in _json("preset", "embedding")
    ] == [(name, noise.published, noise.published_sum) for name, noise in noises.items()]
    assert "rf.gep.eps8" in _run("preset", "list").stdout
    assert "gep.cifar10.k1000" in _run("preset", "embedding").stdout


# --- `dptheory privacy`: the accounting as commands ---


_run_of_privacy, _json_of_privacy = partial(_run, "privacy"), partial(_json, "privacy")


def test_epsilon() -> None:
    run = ("epsilon", "--noise-multiplier", "2", *RATE.split(), "--delta", "1e-5")
    values = _json_of_privacy(*run)
    assert values["method"] == "saddle line" and values["upper bound by Renyi privacy"] > values["upper"]
    assert f"{values['upper']:.6g}" in _run_of_privacy(*run).stdout
    fixed = _json_of_privacy(*run, "--steps", "10", "--adjacency", "replace-one", "--sampling", "without replacement")
    assert fixed["method"] == "saddle line, dominating pair"


def test_sigma() -> None:
    values = _json_of_privacy("sigma", "--epsilon", "3", "--delta", "1e-5", *RATE.split())
    assert 2.99999 < values["lower"] <= values["upper"] <= 3


def test_steps() -> None:
    values = _json_of_privacy(
        *["steps", "--epsilon", "1", "--delta", "1e-5", "--noise-multiplier", "2", "--sampling-rate", "0.1"]
    )
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
            assert result.stderr.startswith("Error: --adjacency ") and result.stderr.count("\n") == 1


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


# --- steps that differ, other samplers and units ----------------------------------------------------------------------
PARTS = ("--step", "4,1,2", "--step", "2,1,1")

RUN = privacy.Composition(
    [privacy.Step(noise_multiplier=s, sampling_rate=1.0, count=n) for s, n in ((4.0, 2), (2.0, 1))]
)

ONE = ("--noise-multiplier", "2", "--sampling-rate", "0.5", "--steps", "4", "--delta", "1e-5")
SETTING = {"noise_multiplier": 2.0, "sampling_rate": 0.5, "steps": 4, "delta": 1e-5}


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
    told = " ".join(_run_of_privacy("epsilon", *words, "--train-size", "1000", "--epochs", "3").stdout.split())
    assert "1/4" in told and "300/1000" in told and "zero-out" in told  # whose rate, and which neighbours


def test_a_near_word_is_named() -> None:
    said = _run_of_privacy("epsilon", *ONE, "--sampling", "shufled").stderr
    assert said.startswith("Error: --sampling ") and said.endswith("shuffled?\n")
    assert _run_of_privacy("epsilo").stderr.endswith("epsilon?\n")
    assert "mean" not in _run_of_privacy("epsilon", *ONE, "--sampling", "xyz").stderr


def test_steps_that_differ_stand_in_the_answer() -> None:
    words = (
        "epsilon",
        "--step",
        "1,10",
        "--step",
        "2,3",
        "--batch-size",
        "10",
        "--train-size",
        "100",
        "--delta",
        "1e-5",
    )
    kinds = ["100 at noise multiplier 1 and sampling rate 0.1", "30 at noise multiplier 2 and sampling rate 0.1"]
    assert "; ".join(kinds) in " ".join(_run_of_privacy(*words).stdout.split())
    assert _json_of_privacy(*words)["composition"] == kinds


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
    shown = next(float(value) for name, value in rows if name.strip() in ("epsilon, upper", "noise multiplier"))
    assert exact() <= shown <= exact() * (1 + 1e-8)


_EPOCHS = ("--sampling", "random allocation", "--steps-per-epoch", "10", "--delta", "1e-5")
ALLOCATED = ("--noise-multiplier", "2", "--steps", "45", *_EPOCHS)
PASSES = ("--batch-size", "300", "--train-size", "1000", "--epochs", "2.5")
"""Four steps a pass: ten in all, at the rate .3."""


def test_steps_that_differ_may_be_passes() -> None:
    """Two and a half passes of four steps each, then one."""
    rate = ("--delta", "1e-5", "--step", "2,0.3,10", "--step", "1,0.3,4")
    passes = ("--delta", "1e-5", *PASSES[:4], "--step", "2,2.5", "--step", "1,1")
    assert _json_of_privacy("epsilon", *passes) == _json_of_privacy("epsilon", *rate)


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
        (("epsilon", "--delta", "1e-5"), "--noise-multiplier "),
        (("epsilon", *ONE, "--step", "1,1,1"), "--noise-multiplier "),
        (("epsilon", "--step", "1,1", "--delta", "1e-5"), "--step "),
        (("epsilon", "--step", "1,2,1", "--delta", "1e-5"), "--step '1,2,1': --sampling-rate "),
        (("epsilon", "--step", "1,1,1", "--composition", "f", "--delta", "1e-5"), "--composition "),
        (("epsilon", "--step", "1,1,1", "--mean-runs", "2", "--delta", "1e-5"), "--mean-runs "),
        (("epsilon", *ONE, "--mean-runs", "2", "--records-per-user", "2"), "--mean-runs "),
        (("epsilon", *ONE, "--mean-runs", "2", "--certified"), "--certified "),
        (("epsilon", *ONE, "--mean-runs", "2", "--plot", "a.png"), "--plot "),
        (("epsilon", *ONE, "--mean-runs", "2", "--adjacency", "replace-one"), "--adjacency "),
        (("epsilon", *ONE, "--max-batch-size", "2"), "--train-size "),
        (("epsilon", *ONE, "--train-size", "2"), "--batch-size "),
        (("epsilon", *ONE, "--batch-size", "2"), "--train-size "),
        (("epsilon", *ONE, "--epochs", "2"), "--batch-size "),
        (("epsilon", *ONE, *PASSES[:4]), "--sampling-rate "),
        (("epsilon", *ONE[:2], *ONE[4:], *PASSES), "--steps "),
        (("epsilon", *PARTS, "--delta", "1e-5", *PASSES), "--epochs "),
        (("epsilon", *PARTS, "--delta", "1e-5", *PASSES[:4]), "--step "),
        (("epsilon", "--step", "2,1", "--delta", "1e-5"), "--step "),
        (("epsilon", "--step", "2,1", "--delta", "1e-5", *PASSES[:2]), "--train-size "),
        (("epsilon", *ONE[:2], "--delta", "1e-5", "--batch-size", "9", "--train-size", "8", "--epochs", "1"), "--batch-size "),
        (("epsilon", *ONE, "--last-noise-multiplier", "1", "--sampling", "shuffled"), "--sampling "),
        (("epsilon", "--step", "1,1,1", "--delta", "1e-5", "--last-noise-multiplier", "1"), "--last-noise-multiplier "),
        (("tradeoff", *ONE[:4], "--steps", "1", "--last-noise-multiplier", "1"), "--steps "),
        (("epsilon", *ONE, "--runs-law", "poisson"), "--runs-law "),
        (("epsilon", *ONE[:4], "--steps", "3", *ONE[6:], "--sampling", "shuffled"), "--steps "),
        (("epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.3", *ONE[4:], "--sampling", "shuffled"),
         "--sampling-rate "),
        (("epsilon", *ONE, "--plot", "a.txt"), "--plot "),
        (("statement",), "--delta "),
        (("statement", ".", "--delta", "1"), "--delta "),
        (("statement", "."), "FOLDER "),
        (("epsilon", *ALLOCATED, "--sampling-rate", "0.1"), "--sampling-rate "),
        (("epsilon", *ALLOCATED, "--participations", "11"), "--participations "),
        (("epsilon", *ALLOCATED, "--certified"), "--certified "),
        (("epsilon", *ALLOCATED, "--sampling", "poisson", "--sampling-rate", "0.1"), "--steps-per-epoch "),
        (("tradeoff", *ALLOCATED[:-2], "--sampling", "without replacement"), "--sampling "),
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


def test_the_noise_of_many_steps_is_shown_by_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
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
    found = privacy.privacy_statement(
        composition=RUN, delta=1e-5, unit="one user", public=("N", "C"), secure=False, adjacency="zero-out"
    )
    values = _json_of_privacy("statement", *PARTS, *given)
    assert values | {"software": []} == json.loads(found.json()) and values["software"][0].startswith("dptheory ")
    assert _run_of_privacy("statement", *PARTS, *given).stdout.splitlines()[:5] == found.markdown().splitlines()[:5]
    (tmp_path / "statement.json").write_text(found.json())
    assert _run_of_privacy("statement", str(tmp_path)).stdout == found.markdown()
    assert _run_of_privacy("statement", str(tmp_path), "--json").stdout == found.json()


def test_a_statement_says_where_the_number_of_records_is_public() -> None:
    run = ("statement", "--noise-multiplier", "10", "--batch-size", "100", "--train-size", "100", "--epochs", "2")
    for adjacency, public in ((None, 1), ("replace-one", 1), ("add-remove", 0)):
        given = () if adjacency is None else ("--adjacency", adjacency)
        found = _json_of_privacy(*run, *given, "--delta", "1e-5")
        assert found["adjacency"] == (adjacency or "zero-out")
        assert ["100" in what for what in found["public"]] == [True] * public


def test_ball_arithmetic() -> None:
    run = ("--noise-multiplier", "10", "--sampling-rate", "1", "--steps", "100")
    assert _json_of_privacy("epsilon", *run, "--delta", "1e-5", "--certified")["method"] == "certified"
    assert _json_of_privacy("epsilon", "--step", "10,1,100", "--delta", "1e-5", "--certified")["method"] == "certified"
    statement = _json_of_privacy("statement", *run, "--delta", "1e-5", "--certified")
    assert statement["accountant"].startswith("dptheory, certified")


def test_random_allocation_in_all_commands() -> None:
    law = {"sampling": "random allocation", "steps_per_epoch": 10, "delta": 1e-5}
    run = ("--noise-multiplier", "2", "--steps", "45")
    found = privacy.epsilon_bounds(noise_multiplier=2.0, steps=45, **law)
    assert _json_of_privacy("epsilon", *run, *_EPOCHS) == pytest.approx(vars(found), nan_ok=False)
    steps = _json_of_privacy("steps", "--noise-multiplier", "2", "--epsilon", "3", *_EPOCHS)
    assert steps["steps"] == privacy.max_steps(noise_multiplier=2.0, epsilon=3.0, **law)
    assert steps["epochs"] == steps["steps"] / 10
    sigma = _json_of_privacy("sigma", "--steps", "10", "--epsilon", "3", *_EPOCHS)
    assert sigma["upper"] <= 3.0 < 1.01 * sigma["upper"]
    stated = _json_of_privacy("statement", *run, *_EPOCHS)
    assert stated["epsilon"] == found.upper and stated["sampler"] == "random allocation" and stated["steps"] == 45


# --- `dptheory refute`: exit codes, one line for what is wrong, a counterexample that can be called ---


EXAMPLES = Path(__file__).parents[2] / "proofs" / "refute"


_run_of_refute = partial(_run, "refute")


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
    assert re.fullmatch(r"Error: NAMES .*printed, corrected.*'nothing'\n", result.stderr)


# --- a window of 80 columns: no title, note or sentence is broken within a table or cut -----------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (
            "epsilon",
            "--noise-multiplier",
            "1",
            "--batch-size",
            "256",
            "--train-size",
            "60000",
            "--epochs",
            "20",
            "--delta",
            "1e-5",
        ),
        ("sigma", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.02", "--steps", "2000"),
        ("sigma", "--epsilon", "3", "--delta", "1e-5", "--step", "2,0.02,1000", "--step", "1,0.02,1000"),
        ("steps", "--epsilon", "3", "--delta", "1e-5", "--noise-multiplier", "1.5", "--sampling-rate", "0.02"),
        ("tradeoff", "--noise-multiplier", "1", "--sampling-rate", "0.02", "--steps", "1000"),
        (
            "compare",
            "--noise-multiplier",
            "1",
            "--sampling-rate",
            "0.02",
            "--steps",
            "9",
            "--delta",
            "1e-5",
            "--tool",
            "dptheory",
        ),
    ],
    ids=lambda words: words[0],
)
def test_what_a_run_costs_fits_the_window_and_every_number_has_a_name(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = _run_of_privacy(*words).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert not {"lower", "estimate", "upper"} & set(cells)
    title = (
        [line for line in lines[: lines.index(next(line for line in lines if line.startswith("┏")))]] if cells else []
    )
    assert len(title) == (1 if cells else 0)


def test_an_error_names_every_option_as_it_is_typed() -> None:
    said = _run_of_privacy("sigma", "--epsilon", "3", "--sampling-rate", "0.02", "--steps", "20").stderr
    assert said.startswith("Error: --delta ") and "--true-positive-rate" in said
    said = _run_of_privacy("epsilon", "--composition", "no_such_file.toml", "--delta", "1e-5").stderr
    assert said.startswith("Error: --composition ") and "no_such_file.toml" in said
