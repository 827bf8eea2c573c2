"""Measured claims: a row for each table of a TOML file."""

import tomllib
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.claims import PAPERS, Verdict, _measured

HOME = Path(claims.__file__).parent


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_is_a_claim_and_every_measured_claim_a_table(paper: str) -> None:
    tables = tomllib.loads((HOME / paper / "measured.toml").read_text(encoding="utf-8"))
    found = claims.all_claims(paper, Verdict.EMPIRICAL)
    assert {f"{paper}.{name}" for name in tables} == {claim.id for claim in found}
    for claim in found:
        row = tables[claim.id.partition(".")[2]]
        assert (claim.title, claim.source.label, claim.statement) == (row["title"], row["label"], row["statement"])
        said = [(what, value) for what, value in row.get("reported", ())]
        assert said == list(claim.reported[len(claim.reported) - len(said) :])
        assert claims.get(claim.id) == claim


def test_numbers_that_are_told_otherwise_than_cell_by_cell() -> None:
    def first(id: str) -> tuple[str, str]:
        return claims.get(id).reported[0]

    assert first("gep.table1") == ("MNIST, GP, epsilon 2", "94.7 % (+0.0)")
    assert first("gep.appA.par")[0] == "GP, epsilon 0.1" and len(claims.get("gep.appA.par").reported) == 3
    assert first("gip.table2")[1].endswith(" a batch")
    rates = [what for what, _ in claims.get("rf.table1").reported if what.endswith(", final freeze rate")]
    assert len(rates) == 5, "a row of the table each"
    assert set(_measured._TOLD) == {"gep.table1", "gep.appA.par", "gip.table2", "rf.table1"}


def test_a_key_that_no_row_has_is_refused() -> None:
    row = {"title": "a", "label": "Table 1", "statement": "b", "repotred": []}
    with pytest.raises(ValueError, match=r"must have keys among figure, .* got \['repotred'\]"):
        _measured._claim("rs", "rs.x", row)
