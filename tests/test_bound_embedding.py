"""`dptheory bound embedding` and `preset embedding`: the calculators' numbers, as table and as JSON."""

import json
import re

import pytest
from typer.testing import CliRunner, Result

from dptheory import cli, embedding, papers
from dptheory.privacy import gaussian_mu

SIZES = ["--dim", "1000", "--subspace-dim", "10", "--clip-norm", "10", "--residual-clip", "2"]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


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


def test_presets() -> None:
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
def test_the_examples_of_the_help_work(group: str) -> None:
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
        ((*SIZES, "--mu", "0"), "mu "),
        ((*SIZES, "--mu", "nan"), "mu "),
        ((*SIZES, "--epsilon", "1", "--delta", "2"), "delta "),
        ((*SIZES[:2], "--subspace-dim", "1001", *SIZES[4:], "--mu", "1"), "subspace_dim "),
        ((*SIZES[:5], "0", *SIZES[6:], "--mu", "1"), "clip_norm "),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], says: str) -> None:
    result = _run("bound", "embedding", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.count("\n") == 1
    assert _run("preset", "embedding", "--mu", "-1").exit_code == 2
