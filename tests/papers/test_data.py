"""The reader of the printed numbers against the files read a second time, and the numbers against each other."""

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

import dptheory
from dptheory import claims, papers
from dptheory.claims import Verdict
from dptheory.papers import Cell, Setting
from tests.refused import refused

HOME = Path(dptheory.__file__).parent / "papers"
PAPERS = ("rf", "rs", "lf", "gep", "gip")
RAW = {name: tomllib.loads((HOME / f"{name}.toml").read_text(encoding="utf-8")) for name in (*PAPERS, "data_sets")}
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
                train_size=value("train_size", RAW["data_sets"].get(value("dataset"))),
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
        paper, name = id.split(".")
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
