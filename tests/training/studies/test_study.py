"""Studies: what a file may say, what its configurations become, and how each mistake is answered."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from dptheory.training.runs import _config
from dptheory.training.studies import _study, read_study, study_from_dict
from dptheory.training.studies._study import Comparison, Phase, merged
from tests.refused import refused
from tests.training.studies.invented import MOMENTUM, RATE, TABLE, changed, study

NAMED = {"name": "random-k", "keep_share": 0.5}


def test_a_study_holds_what_its_table_says() -> None:
    found = study({**TABLE, "title": "  Invented\n", "answers": ["a", "b"], "device": "cuda"})
    assert (found.name, found.title, found.question) == ("invented", "Invented", "Is it counted right?")
    assert (found.forecast, found.cost, found.answers, found.device) == ("Yes.", "Nothing.", ("a", "b"), "cuda")
    assert found.phases == (
        Phase("tuning", ("plain", "masked"), (100, 101), vary={RATE: (0.5, 1.0, 2.0), MOMENTUM: (0.0, 0.5)}),
        Phase("final", ("plain", "masked", "twin"), tuple(range(16)), {"epochs": 3}, tuned_by="tuning",
              tuned_as={"twin": "plain"}),
        Phase("again", ("plain",), tuple(range(50, 58)), per_arm={"twin": {"epochs": 7}}, winner_of="final",
              winner_among=("masked", "twin")),
    )  # fmt: skip
    assert found.comparisons == (
        Comparison(("final",), "masked", "plain", main=True),
        Comparison(("final",), "twin", "plain", "equivalence", 0.5),
        Comparison(("again",), "winner", "plain"),
    )
    assert [c.main for c in found.comparisons] == [True, False, False] and found.comparisons[0].kind == "difference"
    assert found.phase("final") is found.phases[1]
    plain = study()
    assert (plain.answers, plain.device) == ((), "any")


def test_defaults_of_parts() -> None:
    defaults = {name: p.default for name, p in inspect.signature(Comparison).parameters.items()}
    assert defaults["main"] is False and defaults["margin"] is None and defaults["kind"] == "difference"


def test_the_winner_may_be_any_arm_that_does_not_run_anyway() -> None:
    assert study(changed("phases/again/winner_among", None)).phase("again").winner_among == ("masked", "twin")


def test_changes_come_one_after_the_other() -> None:
    """Base, arm, phase, arm in the phase, point: the later ones count."""
    table = changed("phases/tuning/changes", {"epochs": 5, "delta": 1e-6})
    table["arms"]["plain"] = {"epochs": 4, "seed": 9, "optimizer": {"weight_decay": 0.5}}
    table["phases"]["tuning"]["per_arm"] = {"plain": {"delta": 1e-7, "optimizer": {"momentum": 0.125}}}
    made = study(table)
    found = made.config(made.phase("tuning"), arm="plain", point={RATE: 2.0, "max_grad_norm": 3}, seed=77)
    assert (found.epochs, found.delta, found.max_grad_norm, found.seed) == (5, 1e-7, 3.0, 77)
    assert (found.optimizer.learning_rate, found.optimizer.momentum, found.optimizer.weight_decay) == (2.0, 0.125, 0.5)
    other = made.config(made.phase("tuning"), arm="masked", point={}, seed=77)
    assert (other.delta, other.optimizer.momentum) == (1e-6, 0.25) and other.mechanism == NAMED


def test_merged() -> None:
    table = {"a": 1, "t": {"x": 1, "y": {"z": 2}}, "m": {"name": "old", "k": 1}, "gone": 3}
    assert merged(table, {}) == table
    assert merged(table, {"a": 2, "b": 5}) == table | {"a": 2, "b": 5}
    assert merged(table, {"t": {"y": {"w": 3}}})["t"] == {"x": 1, "y": {"z": 2, "w": 3}}
    assert merged(table, {"m": {"k": 2}})["m"] == {"name": "old", "k": 2}
    assert merged(table, {"m": {"name": "new", "j": 2}})["m"] == {"name": "new", "j": 2}
    assert merged(table, {"t": 4})["t"] == 4 and merged(table, {"a": {"x": 1}})["a"] == {"x": 1}
    assert merged(table, {"unset": ["gone", "m"]}) == {"a": 1, "t": table["t"]}
    assert merged(table, {"m": {"unset": ["k"]}})["m"] == {"name": "old"}
    assert table["t"] == {"x": 1, "y": {"z": 2}}


TEXT = """
title = "A"
question = "B"
forecast = "C"
cost = "D"
base = {data = "excerpt", model = "linear-probe", epochs = 1, batch_size = 9, max_grad_norm = 1.0, noise_multiplier = 1.0}
arms = {one = {}, other = {}}
phases.only.seeds = {first = 3, count = 8}
comparisons = [{phases = ["only"], arm = "one", against = "other", main = true}]
"""


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One's own, by any path, come before those of the package; these are found from anywhere."""
    package = tmp_path / "package"
    for folder, title in ((tmp_path, "mine"), (package, "packaged")):
        (folder / "configs" / "studies").mkdir(parents=True)
        (folder / "configs" / "studies" / "a.toml").write_text(TEXT.replace('"A"', f'"{title} ü"'), encoding="utf-8")
    (package / "configs" / "studies" / "b.toml").write_text(TEXT)
    (package / "configs" / "c.toml").write_text(TEXT)
    monkeypatch.setattr(_study, "_FOLDER", package)
    monkeypatch.chdir(tmp_path)
    a, b = Path("configs/studies/a.toml"), Path("configs/studies/b.toml")
    assert (read_study(a).title, read_study(a).name) == ("mine ü", "a") == (read_study(tmp_path / a).title, "a")
    assert read_study(package / a).title == "packaged ü" and read_study(b).title == "A"
    assert read_study(b).phases[0].seeds == tuple(range(3, 11))
    for missing in (Path("none.toml"), tmp_path / b):
        with pytest.raises(FileNotFoundError) as refused:
            read_study(missing)
        assert str(refused.value) == (
            f"no file {missing}; the package brings configs/studies/a.toml, configs/studies/b.toml"
        )
    (tmp_path / "broken.toml").write_text("title = ")
    with pytest.raises(ValueError, match=r"^broken\.toml is not TOML: Invalid value"):
        read_study(Path("broken.toml"))
    (tmp_path / "broken.toml").write_text("title = 3")
    with pytest.raises(ValueError, match=r"^broken\.toml: title must say something, got 3$"):
        read_study(Path("broken.toml"))


def test_the_package_is_where_its_configurations_are() -> None:
    for folder in (_study._FOLDER, _config._HERE):
        assert (folder / "configs" / "studies").is_dir() and (folder / "_commands.py").is_file()


GRID = "phases/tuning/vary"


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("colour", 1, "the study has no key colour; there are title, question, forecast, cost, answers, device"),
        ("cost", 3, "cost must say something, got 3"),
        ("title", None, "title must say something"),
        ("device", "tpu", "device must be one of"),
        ("base/epochs", 0, "epochs must be an integer"),
        ("base/lr", 1, "no key lr"),
        ("arms/winner", {}, "arms must be named by"),
        ("phases/tuning/seeds", [1, 1], r"phases\.tuning\.seeds must be different seeds"),
        ("phases/tuning/seeds", None, r"phases\.tuning\.seeds must be different seeds"),
        ("phases/tuning/arms", ["none"], r"phases\.tuning\.arms must be one of 'plain'"),
        ("phases/tuning/tuned_by", "final", r"phases\.tuning\.tuned_by must be one of"),
        ("phases/final/seeds", [100, *range(15)], r"phases\.final\.seeds must be new ones, got some of phase 'tuning'"),
        ("phases/final/tuned_as", {}, r"phases\.final\.tuned_by must be a phase with the same arms"),
        ("phases/final/vary", {"epochs": [1]}, r"phases\.final\.vary must be left out"),
        ("phases/again/seeds", {"first": 7, "count": 8}, r"phases\.again\.seeds must be new ones, got some of phase 'final'"),
        ("phases/again/seeds", {"first": 50, "count": 7}, "at least 8 pairs for difference, got 7"),
        ("phases/again/per_arm", {"none": {}}, r"phases\.again\.per_arm must be one of"),
        ("phases/final/seeds", {"count": 15}, "at least 16 pairs for equivalence, got 15"),
        ("comparisons/0/main", False, "comparisons must have one with main = true, got 0"),
        ("comparisons/0/arm", "winner", r"comparisons\.arm must be one of"),
        ("comparisons/0/phases", ["tuning"], r"comparisons\.phases must be phases without a grid"),
        ("comparisons/0/phases", ["final", "final"], "must have different seeds"),
        ("question", "\n", "question must say something, got '"),
        ("arms", [], r"arms must be a table such as \[arms\], got \[\]"),
        ("phases", {}, r"phases must be a table such as \[phases\]"),
        ("base", None, r"base must be a table such as \[base\], got None"),
        ("arms/plain", [], r"arms\.plain must be a table of changes, got \[\]"),
        ("arms/a b", {}, r"arms must be named by letters, digits, '-' and '\.', not 'winner'; got 'a b'"),
        ("arms/.hidden", {}, "arms must be named by"),
        ("arms/-.", {}, "arms must be named by"),
        ("phases/winner", {}, "phases must be named by letters"),
        ("phases/a_b", {}, "phases must be named by letters"),
        ("phases/tuning/seed", [1], r"the study has no key phases\.tuning\.seed; there are arms, seeds, changes"),
        ("phases/tuning/seeds", {"first": 1, "number": 2}, r"no key phases\.tuning\.seeds\.number; there are first, count"),
        ("phases/tuning/seeds", {"first": -1, "count": 2}, r"phases\.tuning\.seeds\.first must be an integer in 0\.\."),
        ("phases/tuning/seeds", {"count": 10_001}, r"phases\.tuning\.seeds\.count must be an integer in 1\.\.10000, got 10001"),
        ("phases/tuning/seeds", {"first": 5}, r"phases\.tuning\.seeds\.count must be an integer in 1\.\.10000, got 0"),
        ("phases/tuning/seeds", [], r"phases\.tuning\.seeds must be different seeds, or first and count, got \[\]"),
        ("phases/tuning/seeds", 7, r"phases\.tuning\.seeds must be different seeds, or first and count, got 7"),
        ("phases/tuning/seeds", [-1, 2], r"phases\.tuning\.seeds must be an integer in 0\.\.9223372036854775807, got -1"),
        (GRID, {RATE: []}, rf"phases\.tuning\.vary\.{RATE} must be values in rising order, got \(\)"),
        (GRID, {RATE: [1.0, 1.0]}, "must be values in rising order"),
        (GRID, {RATE: [0.0, 1.0]}, r"learning_rate must be a number in \[1e-15, 1e\+06\], got 0\.0"),
        (GRID, {"optimizer.lr": [1.0]}, r"no key optimizer\.lr"),
        ("phases/final/tuned_by", None, r"phases\.final\.tuned_by must be given where tuned_as is, got none"),
        ("phases/final/tuned_as", {"none": "plain"}, r"phases\.final\.tuned_as must be one of 'plain', 'masked', 'twin'"),
        ("phases/final/tuned_as", {"twin": "none"}, r"phases\.final\.tuned_by must be a phase with the same arms, got 'tuning'"),
        ("phases/again/winner_of", "none", r"phases\.again\.winner_of must be one of 'tuning', 'final'"),
        ("phases/again/winner_of", "again", r"phases\.again\.winner_of must be one of 'tuning', 'final'"),
        ("phases/again/winner_among", ["none"], r"phases\.again\.winner_among must be one of 'plain'"),
        ("phases/again/winner_among", [], r"phases\.again\.winner_among must be arms of 'final' that are not in"),
        ("phases/again/winner_among", ["plain", "twin"], r"phases\.again\.winner_among must be arms of 'final'"),
        ("comparisons/0/arms", [], r"the study has no key comparisons\.arms; there are phases, arm, against, kind"),
        ("comparisons/0/phases", [], r"comparisons\.phases must be names of phases, got \[\]"),
        ("comparisons/0/phases", "final", r"comparisons\.phases must be names of phases, got 'final'"),
        ("comparisons/0/phases", None, r"comparisons\.phases must be names of phases, got None"),
        ("comparisons/0/phases", ["none"], r"comparisons\.phases must be one of 'tuning', 'final', 'again'"),
        ("comparisons/0/arm", None, r"comparisons\.arm must be one of 'plain', 'masked', 'twin', got ''"),
        ("comparisons/0/against", None, r"comparisons\.against must be one of 'plain', 'masked', 'twin', got ''"),
        ("comparisons/2/against", "twin", r"comparisons\.against must be one of 'plain', 'winner', got 'twin'"),
        ("comparisons/0/kind", "order", r"comparisons\.kind must be one of 'difference', 'equivalence'"),
        ("comparisons/0/main", 1, r"comparisons\.main must be True or False, got 1"),
        ("comparisons/1/main", True, "comparisons must have one with main = true, got 2"),
        ("comparisons", None, "comparisons must have one with main = true, got 0"),
        ("comparisons/1/margin", None, r"comparisons\.margin must be a number in \(0, 100\], got None"),
        ("comparisons/1/margin", 0.0, r"comparisons\.margin must be a number in \(0, 100\], got 0"),
        ("comparisons/1/margin", 100.1, r"comparisons\.margin must be a number in \(0, 100\]"),
        ("comparisons/0/margin", 0.0, r"comparisons\.margin must be a number in \(0, 100\]"),
    ],
)  # fmt: skip
def test_refuses(path: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        study_from_dict("invented", changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("phases/tuning/vary/epochs", [1, 2]),
        ("phases/tuning/seeds", {"first": 10**9, "count": 10_000}),
        ("phases/tuning/seeds", [2**63 - 1]),
        ("comparisons/1/margin", 100.0),
        ("comparisons/0/margin", 0.001),
        ("phases/again/seeds", {"first": 50, "count": 8}),
        ("comparisons/1/phases", ["final"]),
    ],
)
def test_ends_of_ranges(path: str, value: Any) -> None:
    study_from_dict("invented", changed(path, value))


def test_names_of_arms_become_parts_of_file_names() -> None:
    table = changed("arms/a.b-1", {})
    table["phases"]["tuning"]["arms"].append("a.b-1")
    assert "a.b-1" in study_from_dict("invented", table).phase("final").arms


def test_new_seeds_and_all_errors_now() -> None:
    """Of phases that choose; and every arm's configuration is built once."""
    for seeds, phase in (([100], "tuning"), ([5], "final")):
        table = changed("phases/again/seeds", [*range(60, 67), *seeds])
        table["phases"]["again"]["tuned_by"] = "tuning"
        table["phases"]["again"]["winner_among"] = ["masked"]
        with refused("phases.again.seeds", phase):
            study_from_dict("invented", table)
    with refused("batch_size"):
        study_from_dict("invented", changed("arms/twin/batch_size", 0))
    with refused("comparisons.phases", "16", "15"):
        study_from_dict("invented", changed("phases/final/seeds", {"count": 15}))


def test_a_winner_is_tuned_by_a_phase_that_has_it() -> None:
    """twin was never tuned itself: were it the winner, its runs would wait for ever."""
    with refused("phases.again.tuned_by", "'tuning'"):
        study_from_dict("invented", changed("phases/again/tuned_by", "tuning"))
    table = changed("phases/again/tuned_by", "tuning")
    table["phases"]["again"]["winner_among"] = ["masked"]
    assert study_from_dict("invented", table).phase("again").tuned_by == "tuning"


def winners(among: list[str], winner_of: str = "final") -> dict[str, Any]:
    """The last phase has the winner of another one, tuned by a phase that has it too."""
    table = changed("phases/more", {"arms": ["plain"], "seeds": [90], "winner_of": "final", "vary": {RATE: [0.5, 1.0]},
                                    "winner_among": ["masked", "twin"]})  # fmt: skip
    again = table["phases"].pop("again")
    table["phases"]["again"] = again | {"tuned_by": "more", "winner_of": winner_of, "winner_among": among}
    return table


def test_a_winner_is_tuned_as_the_winner_of_the_same_phase_among_the_same_arms() -> None:
    assert study_from_dict("invented", winners(["masked", "twin"])).phase("again").tuned_by == "more"
    for among, of in ((["masked"], "final"), (["masked"], "tuning")):
        with refused("phases.again.tuned_by", "'more'"):
            study_from_dict("invented", winners(among, of))
