"""`dptheory privacy`: the accounting as commands."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, privacy


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["privacy", *arguments])


def test_epsilon() -> None:
    result = _run(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5", "--json"
    )
    values = json.loads(result.stdout)
    found = privacy.epsilon_bounds(noise_multiplier=2, sampling_rate=0.01, steps=100, delta=1e-5)
    assert values["upper"] == found.upper and values["lower"] == found.lower and values["method"] == "saddle line"
    assert values["upper bound by Renyi privacy"] > found.upper
    table = _run(
        "epsilon", "--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "100", "--delta", "1e-5"
    ).stdout
    assert f"{found.upper:.6g}" in table


def test_epsilon_without_replacement() -> None:
    options = ["--noise-multiplier", "2", "--sampling-rate", "0.01", "--steps", "10", "--delta", "1e-5", "--json"]
    result = _run("epsilon", *options, "--adjacency", "replace-one", "--sampling", "without replacement")
    assert json.loads(result.stdout)["method"] == "saddle line, dominating pair"


def test_sigma() -> None:
    result = _run("sigma", "--epsilon", "3", "--delta", "1e-5", "--sampling-rate", "0.01", "--steps", "100", "--json")
    values = json.loads(result.stdout)
    assert values["noise multiplier"] == privacy.least_noise_multiplier(
        epsilon=3, delta=1e-5, sampling_rate=0.01, steps=100
    )
    assert 2.99999 < values["lower"] <= values["upper"] <= 3


def test_steps() -> None:
    result = _run(
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
    assert most in _run("steps", *budget, "--noise-multiplier", "100", *words).stdout
    assert most not in _run("steps", *budget, "--noise-multiplier", "1", *words).stdout
    some = ("sigma", "--epsilon", "300", "--delta", "0.5", "--sampling-rate", "0.01", "--steps", "1")
    assert least in _run(*some, *words).stdout
    assert least not in _run("sigma", *budget, "--steps", "100", *words).stdout


@pytest.mark.parametrize("command", ["epsilon", "delta", "sigma", "tradeoff", "statement"])
def test_the_neighbours_of_a_file_are_those_that_are_asked_for(command: str, tmp_path: Path) -> None:
    rest = {"epsilon": ["--delta", "1e-5"], "delta": ["--epsilon", "1"], "sigma": ["--epsilon", "1", "--delta", "1e-5"],
            "tradeoff": [], "statement": ["--delta", "1e-5"]}[command]  # fmt: skip
    for own, other in (("replace-one", "add-remove"), ("add-remove", "replace-one")):
        file = tmp_path / "run.toml"
        file.write_text(f'adjacency = "{own}"\n[[step]]\nnoise_multiplier = 4\nsampling_rate = 1\ncount = 2\n')
        given = (command, *rest, "--composition", str(file))
        found = _run(*given, "--adjacency", own)
        assert found.exit_code == 0 and found.stdout == _run(*given).stdout
        for wrong in (other, ""):
            result = _run(*given, "--adjacency", wrong)
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
        result = _run(command, "--composition", str(path), "--delta", "1e-5")
        assert result.exit_code == 2 and result.stderr.startswith(f"Error: {said}")


@pytest.mark.parametrize("command", ["epsilon", "delta", "sigma", "steps", "tradeoff", "statement"])
def test_errors_are_one_line(command: str) -> None:
    given = {"--noise-multiplier": "1", "--sampling-rate": "2", "--steps": "10", "--delta": "1e-5", "--epsilon": "1"}
    unused = {
        "epsilon": {"--epsilon"}, "delta": {"--delta"}, "sigma": {"--noise-multiplier"}, "steps": {"--steps"},
        "tradeoff": {"--delta", "--epsilon"}, "statement": {"--epsilon"},
    }[command]  # fmt: skip
    result = _run(command, *(part for name, value in given.items() if name not in unused for part in (name, value)))
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: sampling_rate [^\n]*\[1e-(08|12), 1\][^\n]* 2\.0[^\n]*\n", result.stderr)


# --- steps that differ, other samplers and units ----------------------------------------------------------------------

PARTS = ("--step", "4,1,2", "--step", "2,1,1")
RUN = privacy.Composition(
    [privacy.Step(noise_multiplier=s, sampling_rate=1.0, count=n) for s, n in ((4.0, 2), (2.0, 1))]
)
ONE = ("--noise-multiplier", "2", "--sampling-rate", "0.5", "--steps", "4", "--delta", "1e-5")
SETTING = {"noise_multiplier": 2.0, "sampling_rate": 0.5, "steps": 4, "delta": 1e-5}


def _json(*arguments: str) -> dict[str, object]:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_steps_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "".join(f"[[step]]\nnoise_multiplier = {s}\nsampling_rate = 1\ncount = {n}\n" for s, n in ((4, 2), (2, 1)))
    )
    for given in (PARTS, ("--composition", str(file))):
        assert _json("epsilon", *given, "--delta", "1e-5")["upper"] == RUN.epsilon(1e-5).upper
        assert _json("delta", *given, "--epsilon", "1")["upper"] == RUN.delta(1.0).upper
        found, factor = (
            _json("sigma", *given, "--epsilon", "1", "--delta", "1e-5"),
            RUN.noise_scale(epsilon=1.0, delta=1e-5),
        )
        assert found["factor on the noise multipliers"] == factor
        assert found["noise multipliers"] == [4 * factor, 2 * factor]
        assert found["upper"] == RUN.scaled(factor).epsilon(1e-5).upper
        found = _json("tradeoff", *given, "--false-positive-rate", "0.1")
        assert found["true_positive_rate_upper"] == RUN.attack(false_positive_rate=0.1).true_positive_rate_upper


def test_delta_of_steps_that_are_alike() -> None:
    found = _json("delta", "--noise-multiplier", "2", "--sampling-rate", "1", "--steps", "4", "--epsilon", "1")
    assert found["upper"] == privacy.delta_bounds(noise_multiplier=2.0, sampling_rate=1.0, steps=4, epsilon=1.0).upper


def test_other_samplers_and_units() -> None:
    assert _json("epsilon", *ONE, "--records-per-user", "2") == {
        "upper": privacy.samplers.user_epsilon_upper_bound(**SETTING, records_per_user=2)  # type: ignore[arg-type]
    }
    assert _json("epsilon", *ONE, "--max-batch-size", "2", "--train-size", "4") == {
        "upper": privacy.samplers.truncated_epsilon_upper_bound(**SETTING, max_batch_size=2, train_size=4)  # type: ignore[arg-type]
    }
    for more, law in (([], "geometric"), (["--runs-law", "poisson"], "poisson")):
        assert _json("epsilon", *ONE, "--mean-runs", "3", *more) == {
            "upper": privacy.samplers.selection_epsilon_upper_bound(**SETTING, mean_runs=3.0, runs_law=law)  # type: ignore[arg-type]
        }
    shuffled = _json("epsilon", *ONE, "--sampling", "shuffled", "--adjacency", "replace-one")
    assert list(shuffled.values()) == [
        privacy.samplers.shuffled_epsilon_lower_bound(
            noise_multiplier=2.0, batches=2, epochs=2, delta=1e-5, adjacency="replace-one"
        ),
        privacy.epsilon_bounds(**SETTING, adjacency="replace-one").upper,  # type: ignore[arg-type]
    ]


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
        (("epsilon", *ONE, "--train-size", "2"), "max_batch_size "),
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
    result = _run(*words)
    assert result.exit_code == 2 and result.stderr.startswith(f"Error: {said}") and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


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
        result = _run(*words, "--plot", str(tmp_path / name))
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
    result = _run("statement", *PARTS, *given, "--json")
    found = privacy.privacy_statement(
        composition=RUN, delta=1e-5, unit="one user", public=("N", "C"), secure=False, adjacency="zero-out"
    )
    values = json.loads(result.stdout)
    assert values | {"software": []} == json.loads(found.json()) and values["software"][0].startswith("dptheory ")
    assert _run("statement", *PARTS, *given).stdout.splitlines()[:5] == found.markdown().splitlines()[:5]
    (tmp_path / "statement.json").write_text(found.json())
    assert _run("statement", str(tmp_path)).stdout == found.markdown()
    assert _run("statement", str(tmp_path), "--json").stdout == found.json()


def test_ball_arithmetic() -> None:
    pytest.importorskip("flint")
    run = ("--noise-multiplier", "10", "--sampling-rate", "1", "--steps", "100")
    assert _json("epsilon", *run, "--delta", "1e-5", "--certified")["method"] == "certified"
    assert _json("epsilon", "--step", "10,1,100", "--delta", "1e-5", "--certified")["method"] == "certified"
    statement = _run("statement", *run, "--delta", "1e-5", "--certified", "--json")
    assert json.loads(statement.stdout)["accountant"].startswith("dptheory, certified")


_EPOCHS = ("--sampling", "random allocation", "--steps-per-epoch", "10", "--delta", "1e-5", "--json")


def test_random_allocation_in_all_commands() -> None:
    law = {"sampling": "random allocation", "steps_per_epoch": 10, "delta": 1e-5}
    run = ("--noise-multiplier", "2", "--steps", "45")
    found = privacy.epsilon_bounds(noise_multiplier=2.0, steps=45, **law)
    assert json.loads(_run("epsilon", *run, *_EPOCHS).stdout) == pytest.approx(vars(found), nan_ok=False)
    steps = json.loads(_run("steps", "--noise-multiplier", "2", "--epsilon", "3", *_EPOCHS).stdout)
    assert steps["steps"] == privacy.max_steps(noise_multiplier=2.0, epsilon=3.0, **law)
    assert steps["epochs"] == steps["steps"] / 10
    sigma = json.loads(_run("sigma", "--steps", "10", "--epsilon", "3", *_EPOCHS).stdout)
    assert sigma["upper"] <= 3.0 < 1.01 * sigma["upper"]
    stated = json.loads(_run("statement", *run, *_EPOCHS).stdout)
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
    result = _run(command, "--noise-multiplier", "2", "--steps", "45", *options, *change)
    assert result.exit_code == 2 and name.replace("_", "-") in result.output.replace("_", "-")
