"""Writing pages: what is written is named, and nothing is changed where a page cannot take its evidence."""

from pathlib import Path

import pytest

from dptheory import claims
from dptheory.checks import Evidence

_EVIDENCE = "<!-- evidence:begin -->\nold\n<!-- evidence:end -->\n"
_HEAD = "<!-- row:begin -->\nold\n<!-- row:end -->\n"


def _folder(tmp_path: Path, first: str, second: str) -> Path:
    (tmp_path / "gip").mkdir()
    (tmp_path / "gip" / "eq18.md").write_text(first)
    (tmp_path / "gip" / "order.md").write_text(second)
    return tmp_path


def _found(claim: claims.Claim, budget: float, seed: int, executor: None) -> tuple[Evidence, ...]:
    """In place of the checks, which run in ``test_claims``."""
    return tuple(Evidence(c.name, c.kind, True, 1.0, 1.0, None, None, 1, 0.0, seed, "") for c in claim.checks)


def test_what_was_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.Claim, "check", _found)
    folder = _folder(tmp_path, _HEAD + _EVIDENCE, _EVIDENCE)
    erratum = folder / "gip" / "erratum.md"
    erratum.write_text("[gip.mse_t0](mse_t0.md)\n<!-- verdicts:begin -->\nold\n<!-- verdicts:end -->\n")
    found = claims.write_pages(folder, patterns=["gip.eq18", "gip.order"], budget=60.0, seed=2)
    assert found.ledger.read_text() == claims.ledger_markdown(claims.all_claims())
    assert sorted(found.measured) == sorted(folder / paper / "empirical.md" for paper in claims.PAPERS)
    assert "[exact value of kappa](rs/kappa.md)" in found.own_results.read_text()
    assert found.errata == (erratum,)
    treated, rest = erratum.read_text().split("\n\n| the others |")
    assert "[Proposition 2 (eq. 7, 14 to 16)](mse_t0.md) FALSE" in treated and "](cor1.md)" in rest
    assert found.heads == (folder / "gip" / "eq18.md",)
    assert found.report is not None and found.report.seed == 2 and found.report.passed
    assert [one.claim.id for one in found.report.checked] == [
        claim.id for claim in claims.select(["gip.eq18", "gip.order"])
    ]
    for page in (folder / "gip").glob("*.md"):
        assert "\nold\n" not in page.read_text().split("<!-- evidence")[-1]
    assert all("Seed 2." in (folder / "gip" / name).read_text() for name in ("eq18.md", "order.md"))


def test_without_evidence_no_check_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims.Claim, "check", lambda *_: pytest.fail("a check ran"))
    folder = _folder(tmp_path, _HEAD + _EVIDENCE, _EVIDENCE)
    assert claims.write_pages(folder, patterns=["gip.eq18"], evidence=False).report is None
    assert (folder / "gip" / "eq18.md").read_text().endswith(_EVIDENCE)


def test_nothing_is_changed_where_a_page_lacks_its_markers(tmp_path: Path) -> None:
    folder = _folder(tmp_path, _HEAD + _EVIDENCE, "no markers")
    with pytest.raises(ValueError, match="must hold the markers"):
        claims.write_pages(folder, patterns=["gip.eq18", "gip.order"])
    assert (folder / "gip" / "eq18.md").read_text() == _HEAD + _EVIDENCE and not (folder / "README.md").exists()


@pytest.mark.parametrize("value", [None, 3, b"gip", "no such folder", [], Path("no such folder")])
def test_a_directory_is_a_folder(value: object) -> None:
    with pytest.raises(ValueError, match="directory must be the folder of the proof pages, got"):
        claims.write_pages(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("patterns", "gip.eq18"),
        ("patterns", ["nothing.*"]),
        ("evidence", "no"),
        ("evidence", None),
        ("budget", 0.0),
        ("budget", "10s"),
        ("seed", -1),
        ("seed", 0.5),
        ("executor", 3),
        ("watcher", print),
    ],
)
def test_arguments_are_judged_before_anything_is_written(tmp_path: Path, name: str, value: object) -> None:
    folder = _folder(tmp_path, _HEAD + _EVIDENCE, _EVIDENCE)
    with pytest.raises(ValueError, match=f"{name} must"):
        claims.write_pages(folder, **({"patterns": ["gip.eq18"]} | {name: value}))  # type: ignore[arg-type]
    assert not (folder / "README.md").exists()
