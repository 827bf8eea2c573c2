"""What the papers print: the reader, the presets, and the settings, against the text typed a second time."""

import ast
import dataclasses
import re
import tomllib
import types
import typing
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dptheory
from dptheory import claims, papers
from dptheory import papers as embedding
from dptheory.claims import Verdict
from dptheory.papers import Cell, Setting, paper_settings
from tests.refused import refused

# --- The reader of the printed numbers against the files read a second time, and the numbers against each other ---


HOME = Path(dptheory.__file__).parent / "papers"
PAPERS = ("rf", "rs", "lf", "gep", "gip")
RAW = {name: tomllib.loads((HOME / f"{name}.toml").read_text(encoding="utf-8")) for name in PAPERS}
TRAIN_SIZES = {
    "CIFAR10": 50_000,
    "MNIST": 60_000,
    "FMNIST": 60_000,
    "FashionMNIST": 60_000,
    "SVHN extended": 73_257 + 531_131,
}
FIELDS = {field.name for field in dataclasses.fields(Setting)}


# --- the reader ---------------------------------------------------------------------------------------------------------
def expected_settings(paper: str) -> Iterator[Setting]:
    """Field by field: the first of run, group, the group that it is like and the paper's common keys that has it."""
    groups = {group["id"]: group for group in RAW[paper]["settings"]}
    for group in groups.values():
        like = groups.get(group.get("like"), {})
        for run in group.get("runs", like.get("runs", [{}])):
            layers = (run, group, like, RAW[paper].get("common", {}))

            def value(name: str, default: Any = None, layers: tuple[dict[str, Any], ...] = layers) -> Any:
                return next((layer[name] for layer in layers if name in layer), default)

            plain = {name: value(name) for name in FIELDS - {"id", "source", "subspace_dims", "others", "train_size"}}
            yield Setting(
                id=f"{paper}.{group['id']}" + (f".{run['id']}" if run else ""),
                source=f"{paper.upper()}, {value('source')}",
                subspace_dims=tuple(value("subspace_dims", [])),
                others=tuple(value("others", {}).items()),
                train_size=value("train_size", TRAIN_SIZES.get(value("dataset"))),
                **plain,
            )


def test_every_setting_is_read() -> None:
    ids = []
    for paper in PAPERS:
        expected = tuple(expected_settings(paper))
        assert papers.settings(paper) == expected
        for one in expected:
            assert papers.setting(one.id) == one
            assert one in papers.settings(".".join(one.id.split(".")[:2]))
            ids.append(one.id)
    assert len(set(ids)) == len(ids) == 57


def test_values_have_the_type_of_their_field() -> None:
    hints = typing.get_type_hints(Setting)
    for one in (one for paper in PAPERS for one in papers.settings(paper)):
        for name, hint in hints.items():
            kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (typing.get_origin(hint) or hint,)
            allowed = (*kinds, int) if float in kinds else kinds
            assert isinstance(getattr(one, name), allowed), f"{one.id}: {name}"


def test_every_table_is_read() -> None:
    found = {table.id: table for table in papers.tables()}
    assert list(found) == [f"{paper}.{name}" for paper in PAPERS for name in RAW[paper].get("tables", {})]
    for id, table in found.items():
        paper, _, name = id.partition(".")
        raw = RAW[paper]["tables"][name]
        assert papers.table(id) == table
        assert (table.label, table.caption) == (f"{paper.upper()}, {raw['label']}", raw["caption"])
        assert table.spread == raw.get("spread")
        width = len(raw["keys"])
        assert [one.text for one in table.cells] == [text for row in raw["rows"] for text in row[width:]]
        units = raw.get("units") or [raw.get("unit", "")] * len(raw["columns"])
        assert [one.unit for one in table.cells] == units * len(raw["rows"])
        keys = [(*row[:width], column) for row in raw["rows"] for column in raw["columns"]]
        names = (*raw["keys"], raw.get("across", "column"))
        assert [one.keys for one in table.cells] == [tuple(zip(names, values, strict=True)) for values in keys]
        assert len({one.name for one in table.cells}) == len(table.cells)
        assert table.quoted() == tuple((one.name, one.quoted) for one in table.cells)
        for one in table.cells:
            assert table.cell(one.name) == one
            assert {key: one.key(key) for key, _ in one.keys} == dict(one.keys)
            assert raw["name"].format(**dict(one.keys)) == one.name


def test_the_parts_of_a_cell_by_hand() -> None:
    for text, unit, value, spread, quoted in (
        ("66.9 ± 0.4", "%", "66.9", "0.4", "66.9 ± 0.4 %"),
        ("88.2 (± 0.16)", "%", "88.2", "0.16", "88.2 % (± 0.16)"),
        ("0.956 (0.002)", "", "0.956", "0.002", "0.956 (0.002)"),
        ("0.981 (< 0.001)", "", "0.981", "< 0.001", "0.981 (< 0.001)"),
        ("-10.3", "points", "-10.3", None, "-10.3 points"),
        ("+0.3", "points", "0.3", None, "+0.3 points"),
        ("57", "%", "57", None, "57 %"),
    ):
        cell = Cell(name="a, b", keys=(("row", "a"), ("column", "b")), text=text, unit=unit)
        assert (cell.number(), cell.spread(), cell.quoted) == (Fraction(value), spread, quoted)
        assert (cell.key("row"), cell.key("column")) == ("a", "b")


def test_numbers_of_a_setting() -> None:
    for one in (one for paper in PAPERS for one in papers.settings(paper)):
        for name, value in vars(one).items():
            if isinstance(value, int | float):
                assert one.number(name) == value
            if isinstance(value, int):
                assert one.whole(name) == value
    one = papers.setting("rf.end-to-end-cnn.eps3")
    assert (one.number("noise_multiplier"), one.number("batch_size"), one.whole("dim")) == (1.54, 1000, 550_000)


def test_what_is_not_printed_is_refused() -> None:
    with refused("id", "'rs.table2'", "'rs.table1'"):
        papers.table("rs.table1")
    with refused("id", "'rf.gep'"):
        papers.setting("rf.gep")
    with refused("group", "'gip.vgg'"):
        papers.settings("gip.vgg")
    table = papers.table("rf.table3")
    with refused("name", "3.0"):
        table.cell("epsilon 3.0")
    with refused("name", "'delta'"):
        table.cells[0].key("delta")
    one = papers.setting("rf.gep.eps8")
    with refused("name", "'batch_size'", "'clip_norm'"):
        one.number("clip_norm")
    for name in ("model", "number", "__class__"):
        with refused("name"):
            one.number(name)
    with refused("name", "'drop_rate'"):
        one.whole("drop_rate")
    for cell in (papers.table("gip.table2").cell("RGP, per batch"), papers.table("gep.table4").cells[0]):
        for part in (cell.number, cell.spread):
            with refused("text"):
                part()


# --- the numbers --------------------------------------------------------------------------------------------------------
def test_differences_are_those_of_the_accuracies() -> None:
    """RS, Tables 2 and 3, and the first of the second table are those of the first; GEP's are a check of gep.text."""
    for id in ("rs.table2", "rs.table3"):
        cells = papers.table(id).cells
        for before, after, gain in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
            assert gain.number() == after.number() - before.number(), gain.name
    table_2, table_3 = papers.table("rs.table2"), papers.table("rs.table3")
    again = [one for one in table_2.cells if one.name.startswith("CIFAR10, DP-CNN ")]
    assert [one.text for one in again] == [one.text for one in table_3.cells if one.key("sampling") == "partition"]


def test_tables_of_rf_that_repeat_each_other_agree() -> None:
    first, third, fourth = (papers.table(f"rf.table{number}") for number in (1, 3, 4))
    for epsilon in ("7.53", "3.0"):
        name = f"baseline, epsilon {epsilon}"
        assert first.cell(f"End-to-end CNN, epsilon {epsilon}, baseline").text == third.cell(name).text
        assert third.cell(name).text == fourth.cell(name).text
        name = f"adjusted {name}"
        assert third.cell(name).text == fourth.cell(name).text


def test_dimensions_of_rs_agree() -> None:
    """Figure 2 prints none: those of its network in Table 2."""
    sizes = {one.key("approach"): one.key("dim") for one in papers.table("rs.table2").cells}
    for one in papers.settings("rs.fig2"):
        assert f"{one.whole('dim') // 1000}K" == sizes[str(one.model)]


def test_accuracies_are_shares() -> None:
    for table in papers.tables():
        for one in table.cells:
            if one.unit == "%":
                assert 0 < one.number() < 100, one.name


def test_a_claim_about_a_table_reports_all_of_it() -> None:
    ledger = {claim.id: claim for claim in claims.all_claims(verdict=Verdict.EMPIRICAL)}
    found = [table for table in papers.tables() if table.id in ledger]
    assert len(found) == 16
    for table in found:
        reported = "\n".join(f"{what}: {value}" for what, value in ledger[table.id].reported)
        missing = [one.name for one in table.cells if one.text.split(" (")[0] not in reported]
        assert missing == []


# --- once ---------------------------------------------------------------------------------------------------------------
CHANCE = {1.18}  # the height of a line in figures/kappa_rate.py
"""Numbers that mean something else where they stand."""


def printed_numbers() -> set[str | float]:
    """Cells, as text, and noise multipliers, of three significant digits and more, so that none is a common number."""
    cells = [one.text for table in papers.tables() for one in table.cells]
    noises = [one.noise_multiplier for paper in PAPERS for one in papers.settings(paper) if one.noise_multiplier]
    found: list[str | float] = [*cells, *noises, *map(str, noises)]
    return {one for one in found if len(re.sub(r"\D", "", str(one)).strip("0")) >= 3} - CHANCE


def twice(source: str, numbers: set[str | float]) -> Iterator[str]:
    """The literals of a module that are a printed number."""
    if any(str(number) in source for number in numbers):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and node.value in numbers:
                yield f"{node.lineno}: {node.value}"


def test_no_printed_number_stands_in_a_module() -> None:
    numbers = printed_numbers()
    assert {5.65, "5.65", "66.9 ± 0.4", 21.1, "0.571 (0.120)", "80.39"} <= numbers
    again = 'SIGMA = 5.65\nTABLE = ("66.9 ± 0.4", "up to 66.9 ± 0.4")'
    assert list(twice(again, numbers)) == ["1: 5.65", "2: 66.9 ± 0.4"]
    modules = (*HOME.parent.rglob("*.py"), *(HOME.parents[1] / "figures").rglob("*.py"))
    found = {str(path): list(twice(path.read_text(encoding="utf-8"), numbers)) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}


# The presets against the rows of the papers' tables, typed a second time, and against what the papers say of them


# epsilon, sigma, lr, batch size, epoch, momentum, clip, d, r*, total density
TABLES = {
    "rf.end-to-end-cnn.eps3": "3 1.54 1 1000 40 0.9 0.1 550K 0.7 0.65",
    "rf.end-to-end-cnn.eps7.53": "7.53 1.10 1 1000 80 0.9 0.1 550K 0.7 0.65",
    "rf.dp-transfer-learning.eps2": "2 2.30 4 1000 50 0.9 0.1 41K 0.7 0.65",
    "rf.handcrafted-cnn.eps3": "3 5.65 4 8000 80 0.9 0.1 187K 0.6 0.7",
    "rf.gep.eps8": "8 - 0.1 1000 200 0.9 - 268K 0.4 0.8",
    "rf.adjusted-end-to-end-cnn.eps3": "3 1.81 1 1000 60 0 1 550K 0.9 0.6",
    "rf.adjusted-end-to-end-cnn.eps7.53": "7.53 1.18 1 1000 100 0 1 550K 0.9 0.58",
}

FIELDS_OF_HYPERPARAMETERS = (
    "epsilon", "noise_multiplier", "learning_rate", "batch_size", "epochs", "momentum", "clip_norm", "dim", "drop_rate",
    "total_density",
)  # fmt: skip


def _number(cell: str) -> float | None:
    if cell == "-":
        return None
    return float(cell.removesuffix("K")) * (1000 if cell.endswith("K") else 1)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_rf(name: str) -> None:
    preset = papers.preset(name)
    assert [getattr(preset, field) for field in FIELDS_OF_HYPERPARAMETERS] == [
        _number(cell) for cell in TABLES[name].split()
    ]
    assert (preset.dataset, preset.train_size, preset.delta) == ("CIFAR10", 50_000, 1e-5)


def test_total_density_is_that_of_the_ramp() -> None:
    """1 - r*/2 for the plain ramp; Table 9 counts its extra epochs, but divides by the epochs of the ramp."""
    for preset in papers.all_presets():
        if preset.total_density is None:
            continue
        assert preset.drop_rate is not None and preset.epochs is not None and preset.ramp_epochs is not None
        extra = preset.epochs - preset.ramp_epochs
        kept = preset.ramp_epochs * (1 - preset.drop_rate / 2) + extra * (1 - preset.drop_rate)
        assert preset.total_density == pytest.approx(kept / preset.ramp_epochs, abs=0.0051)
        assert extra == (20 if "adjusted" in preset.name else 0)


def test_scaling_rule_keeps_clip_over_one_minus_momentum() -> None:
    for preset in papers.all_presets():
        if "end-to-end" in preset.name:
            assert preset.clip_norm is not None and preset.momentum is not None
            assert preset.clip_norm / (1 - preset.momentum) == pytest.approx(1.0)


def test_rows_of_rs() -> None:
    shares = {"cifar10": (187_000, 550_000), "svhn": (187_000, 550_000), "fmnist": (33_000, 26_000)}
    for dataset, dims in shares.items():
        suffix = "-s" if dataset == "fmnist" else ""
        for epsilon in (1, 3):
            for framework, dim in zip(("h-cnn", "dp-cnn"), dims, strict=True):
                preset = papers.preset(f"rs.{framework}{suffix}.{dataset}.eps{epsilon}")
                assert (preset.dim, preset.epsilon) == (dim, epsilon)
                assert preset.noise_multiplier is preset.drop_rate is preset.noise_share is None
    found = {name: papers.preset(f"rs.fig2{name}") for name in "abcdefghi"}
    printed = "a 1 0.25, b 2 0.25, c 4 0.25, d 1 0.5, e 2 0.5, f 4 0.5, g 1 1, h 2 1, i 4 1"
    assert ", ".join(f"{name} {p.noise_multiplier:g} {p.clip_norm:g}" for name, p in found.items()) == printed
    assert {(p.batch_size, p.epochs, p.dim) for p in found.values()} == {(1000, 100, 550_000)}


def test_unknown_name_is_answered_with_near_ones() -> None:
    with refused("name", "'rf.gep'"):
        papers.preset("rf.gep")
    with refused("name"):
        papers.preset("")


# What the papers print of their runs, typed a second time from their text, against the settings and presets of the
# library


CIFAR10, MNIST, FASHION, SVHN = 50_000, 60_000, 60_000, 604_388
"""Published sizes of the training sets; SVHN with its extra images (73,257 + 531,131)."""
_GIP = "GIP, section 6.1, Tables 3"
_LF = "LF, Appendix D"


# name: (epsilon, sigma, epochs) of every row, then (delta, batch size, training images, vectors released per step)
PRINTED = {
    "RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10": ([(3, 1.54, 40), (7.53, 1.10, 80)], (1e-5, 1000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 6: DP-Transfer Learning, CIFAR10": ([(2, 2.30, 50)], (1e-5, 1000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 7: Handcrafted CNN, CIFAR10": ([(3, 5.65, 80)], (1e-5, 8000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 8: GEP, CIFAR10": ([(8, None, 200)], (1e-5, 1000, CIFAR10, 2)),
    "RF, Tables 1 (d) and 9: Adjusted End-to-end CNN, CIFAR10": (
        [(3, 1.81, 60), (7.53, 1.18, 100)],
        (1e-5, 1000, CIFAR10, 1),
    ),
    f"{_LF} (1): 2-layered CNN, MNIST": ([(e, 1.923, None) for e in (1, 2, 3)], (1e-5, 2048, MNIST, 1)),
    f"{_LF} (2): 5-layered CNN, FashionMNIST": ([(e, 2.15, None) for e in (1, 2, 3)], (1e-5, 2048, FASHION, 1)),
    # GIP, section 6.1: 45K training images of CIFAR-10, 1.27M of ImageNet
    f"{_GIP} and 4: WRN-16-4, CIFAR10": (
        [(0.99 * 0.5, 13.0, None), (0.99 * 1.0, 10.0, None), (0.99 * 2.0, 6.0, None), (0.99 * 4.0, 4.0, None)],
        (1e-5, 4096, 45_000, 1),
    ),
    f"{_GIP} to 5: WRN-28-10, CIFAR10": (
        [(0.99 * 0.25, 30.0, None), (0.99 * 0.5, 22.0, None), (0.99 * 1.0, 21.1, None), (0.99 * 2.0, 15.8, None)],
        (1e-5, 16384, 45_000, 1),
    ),
    f"{_GIP} and 4: NF-ResNet-50, ImageNet": (
        [(0.99 * e, 2.5, None) for e in (0.2, 0.4, 0.6, 0.8)],
        (8e-7, 16384, 1_270_000, 1),
    ),
    "GEP, section 4: CNN, MNIST": ([(2, None, 50), (5, None, 100), (8, None, 200)], (1e-5, 1000, MNIST, 2)),
    "GEP, section 4: ResNet20, SVHN extended": ([(2, None, 5), (5, None, 10), (8, None, 20)], (1e-6, 1000, SVHN, 2)),
    "GEP, section 4: ResNet20, CIFAR10": ([(2, None, 50), (5, None, 100), (8, None, 200)], (1e-5, 1000, CIFAR10, 2)),
}

LF_CIFAR10 = [(3, 1.0, 512), (7, 1.47, 2048)]
"""Epsilon, sigma and B of LF, Appendix D (3)."""


def test_every_setting_is_as_printed() -> None:
    expected = [
        (name, epsilon, sigma, epochs, *common)
        for name, (rows, common) in PRINTED.items()
        for epsilon, sigma, epochs in rows
    ] + [
        (f"{_LF} (3): 5-layered CNN, CIFAR10", e, sigma, None, 1e-5, batch, CIFAR10, 1)
        for e, sigma, batch in LF_CIFAR10
    ]
    found = [
        (s.name, s.epsilon, s.noise_multiplier, s.epochs, s.delta, s.batch_size, s.train_size, s.releases)
        for s in paper_settings()
    ]
    assert sorted(map(repr, map(numbers, found))) == sorted(map(repr, map(numbers, expected)))
    assert len(found) == 36


def numbers(row: tuple[object, ...]) -> tuple[object, ...]:
    """Whole numbers as floats, so that 3 and 3.0 are one."""
    return tuple(float(cell) if isinstance(cell, int) else cell for cell in row)


@pytest.mark.parametrize(
    ("dataset", "delta", "budgets"),
    [("cifar10", 1e-5, ((2, 50), (5, 100), (8, 200))), ("svhn", 1e-6, ((2, 5), (5, 10), (8, 20)))],
)
def test_settings_of_gep(dataset: str, delta: float, budgets: tuple[tuple[float, int], ...]) -> None:
    """Section 4: k from 500, 1000, 1500, 2000; clips 10 and 2; batches of 1000; epochs by epsilon."""
    found = {one.name: one for one in embedding.embedding_presets()}
    for k in (500, 1000, 1500, 2000):
        one = found[f"gep.{dataset}.k{k}"]
        assert (one.subspace_dim, one.clip_norm, one.residual_clip, one.batch_size) == (k, 10, 2, 1000)
        assert (one.delta, one.budgets, one.source) == (delta, budgets, "GEP, section 4")
    assert len(found) == len(embedding.embedding_presets()) == 9


def test_the_released_example_of_gep() -> None:
    """RF, Table 8: Clip0 5, Clip1 2, subspace 1000, batches of 1000."""
    one = next(one for one in embedding.embedding_presets() if one.name == "gep.code.k1000")
    assert (one.clip_norm, one.residual_clip, one.subspace_dim, one.batch_size) == (5, 2, 1000, 1000)
    assert one.delta is None and one.budgets == ()


def test_resnet20_is_counted_from_its_architecture() -> None:
    """3 x 3 convolutions 3-16, six 16-16, 16-32 and five 32-32, 32-64 and five 64-64, scale and shift behind each; 64-10."""

    def convolution(channels: int, width: int) -> int:
        return 9 * channels * width + 2 * width

    stages = (
        [convolution(16, 16)] * 6,
        [convolution(16, 32)] + [convolution(32, 32)] * 5,
        [convolution(32, 64)] + [convolution(64, 64)] * 5,
    )
    groups = (convolution(3, 16), *(sum(stage) for stage in stages), 64 * 10 + 10)
    assert groups == embedding.RESNET20_GROUPS
    assert sum(groups) == embedding.RESNET20_DIM
    assert {one.dim for one in embedding.embedding_presets()} == {sum(groups)}


def test_what_else_rf_prints() -> None:
    """Epochs of the ramp (section 4: those of the run; Table 9: cooling time), and the last columns of Tables 6, 7 and 8."""
    ramps = {
        "rf.end-to-end-cnn.eps3": 40,
        "rf.end-to-end-cnn.eps7.53": 80,
        "rf.dp-transfer-learning.eps2": 50,
        "rf.handcrafted-cnn.eps3": 80,
        "rf.gep.eps8": 200,
        "rf.adjusted-end-to-end-cnn.eps3": 40,
        "rf.adjusted-end-to-end-cnn.eps7.53": 80,
    }
    assert {name: papers.preset(name).ramp_epochs for name in ramps} == ramps
    assert dict(papers.preset("rf.gep.eps8").others) == {
        "Clip0": "5", "Clip1": "2", "Subspace": "1000", "Sample gradients": "2000", "Aux. dataset": "ImageNet",
    }  # fmt: skip
    assert dict(papers.preset("rf.handcrafted-cnn.eps3").others) == {
        "Input norm": "BN", "BN norm": "8", "Architecture": "ScatterNet + CNN",
    }  # fmt: skip
    assert dict(papers.preset("rf.dp-transfer-learning.eps2").others) == {
        "Source model": "SIMCLR v2", "Aux. dataset": "ImageNet",
    }  # fmt: skip
