"""Writing pages: what is written is named, and nothing is written in a folder that is not that of the pages."""

from pathlib import Path

import pytest

from dptheory import claims


def _folder(tmp_path: Path) -> Path:
    for paper in claims.PAPERS:
        (tmp_path / paper).mkdir()
    return tmp_path


def test_what_was_written_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    page, erratum = folder / "gip" / "eq18.md", folder / "gip" / "erratum.md"
    page.write_text("by hand")
    erratum.write_text("[gip.mse_t0](mse_t0.md)\n<!-- verdicts:begin -->\nold\n<!-- verdicts:end -->\n")
    found = claims.write_pages(folder)
    assert found.ledger.read_text() == claims.ledger_markdown(claims.all_claims())
    assert "[exact value of kappa](rs/kappa.md)" in found.own_results.read_text()
    assert found.errata == (erratum,)
    treated, rest = erratum.read_text().split("\n\n| the others |")
    assert "[Proposition 2 (eq. 7, 14 to 16)](mse_t0.md) FALSE" in treated and "](cor1.md)" in rest
    written = {path for path in folder.rglob("*") if path.is_file()}
    assert written == {found.ledger, found.own_results, erratum, page} and page.read_text() == "by hand"


def test_nothing_is_written_where_an_erratum_lacks_its_markers(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "rf" / "erratum.md").write_text("no markers")
    with pytest.raises(ValueError, match="must hold the markers"):
        claims.write_pages(folder)
    assert not (folder / "README.md").exists()


@pytest.mark.parametrize(
    "value", [None, 3, b"gip", "no such folder", [], Path("no such folder"), Path(__file__).parent]
)
def test_a_directory_is_that_of_the_pages(value: object) -> None:
    with pytest.raises(ValueError, match=r"directory must be the folder of the proof pages, with rf, .* got"):
        claims.write_pages(value)  # type: ignore[arg-type]


def test_the_whole_page_shows_outcomes_where_there_are_some() -> None:
    claim = claims.get("gip.eq18")
    listed = claims.page_markdown(claim)
    assert "| number of zeros | counterexample |\n" in listed and "`dptheory check gip.eq18`" in listed
    evidence = claim.check(20.0, seed=3)
    shown = claims.page_markdown(claim, evidence)
    assert "Seed 3." in shown and "| number of zeros | counterexample | yes |" in shown


def test_the_whole_page_is_of_a_claim() -> None:
    for bad in ({"claim": "gip.eq18"}, {"evidence": None}, {"evidence": ["yes"]}, {"evidence": "yes"}):
        with pytest.raises((ValueError, TypeError), match=f"^{next(iter(bad))} must"):
            claims.page_markdown(**{"claim": claims.get("gip.eq18")} | bad)  # type: ignore[arg-type]
