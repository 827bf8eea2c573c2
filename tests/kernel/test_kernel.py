"""The Coq files: rows and files name each other, Coq accepts every file, and refuses each with another statement."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dptheory.claims import Verdict, all_claims, get
from dptheory.claims._markdown import kernel_statements
from dptheory.cli._tables import claims_json
from proofs.kernel import __main__ as command
from proofs.kernel import _coq

ROWS = {str(claim.kernel_module): claim for claim in all_claims() if claim.kernel}
MUTANTS = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text("utf-8"))
FILES = sorted({module.partition(".")[0] for module in ROWS})
HEAD = "\n".join(
    ["From kernel Require Import definitions lemmas.", *(f"From kernel Require {file}." for file in FILES)]
)


def test_rows_and_files_name_each_other() -> None:
    stated = [
        f"{path.stem}.{name}"
        for path in _coq.FOLDER.glob("*.v")
        for name in re.findall(r"^Module (\w+)\.$", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(ROWS) == sorted(stated) and len(stated) >= 45
    for module, claim in ROWS.items():
        paper, name = claim.id.split(".", 1)
        assert (claim.kernel, module) == (f"{paper}.v", f"{paper}.{re.sub('[.-]', '_', name)}")
        assert _coq.text_of(module).startswith(f"(* {claim.id}: "), module
        assert claim.kernel_theorems == _coq.theorems_of(_coq.text_of(module))


def test_a_row_says_what_its_verdict_allows() -> None:
    for claim in ROWS.values():
        proved = set(claim.kernel_theorems)
        assert not {"printed_is_false", "printed_holds"} <= proved, claim.id
        if "printed_is_false" in proved:
            assert claim.verdict in (Verdict.FALSE, Verdict.CONDITIONAL), claim.id
        if proved & {"printed_holds", "part_holds"}:
            assert claim.verdict is not Verdict.FALSE, claim.id
        if claim.verdict is Verdict.FALSE:
            assert "printed_is_false" in proved, claim.id
        if claim.verdict is Verdict.NOT_SHOWN:
            assert not proved & {"printed_is_false", "printed_holds"}, claim.id
        if claim.verdict is Verdict.CONDITIONAL:
            assert proved & {"correction_holds", "printed_holds"}, claim.id
        assert claim.kernel_says is not None and claim.kernel_says.startswith("kernel-checked: ")
    assert get("gip.mse_t0").kernel is None and get("gip.mse_t0").kernel_says is None


def test_a_page_says_no_more_than_the_file_proves() -> None:
    """Words about the printed statement come from a theorem about it alone."""
    for claim in ROWS.values():
        says = str(claim.kernel_says)
        assert ("the negation of the printed statement" in says) is ("printed_is_false" in claim.kernel_theorems)
        assert ("one reading" in says) is ("reading_is_false" in claim.kernel_theorems)


def test_the_list_of_claims_names_file_and_theorems() -> None:
    listed = {row["id"]: row for row in claims_json(all_claims())}
    for claim in all_claims():
        assert listed[claim.id]["kernel"] == claim.kernel
        assert tuple(listed[claim.id]["kernel_theorems"]) == claim.kernel_theorems


def test_a_doubt_of_a_file_is_on_the_page() -> None:
    shown = kernel_statements(all_claims(), _coq.FOLDER.parent)
    assert "- `rs.thm5.1`: the proof does not say which of the three it means.\n" in shown


def test_what_was_checked_is_what_the_rows_name() -> None:
    record = json.loads((_coq.FOLDER / "checked.json").read_text("utf-8"))
    assert record["coqchk"] is True and set(record["axioms"]) <= _coq.AXIOMS
    assert record["claims"] == {claim.id: list(claim.kernel_theorems) for claim in ROWS.values()}


def test_nothing_is_admitted_or_assumed() -> None:
    for path in _coq.FOLDER.rglob("*.v"):
        code = re.sub(r"\(\*.*?\*\)", "", path.read_text("utf-8"), flags=re.DOTALL)
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Abort|Unset Guard Checking)\b", code), (
            path.name
        )


def test_axioms_are_read_from_an_answer() -> None:
    answer = "Axioms:\nClassicalDedekindReals.sig_not_dec\n  : forall P : Prop,\n    {~ ~ P} + {~ P}\nmine : False\n"
    assert _coq.axioms_in(answer) == ("ClassicalDedekindReals.sig_not_dec", "mine")
    assert _coq.axioms_in("Closed under the global context\n") == ()


def test_files_are_compiled_after_what_they_need() -> None:
    texts = {"a": "From kernel Require Import b c.\n", "b": "", "c": "From kernel Require b.\n"}
    assert _coq.ordered(["a"], texts) == ("b", "c", "a")


def test_without_coq_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert command.main([]) == 1
    assert "coqc" in (said := capsys.readouterr().err) and "apt-get install" in said


def test_an_unknown_claim_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["rs.lem9"]) == 2
    assert "'rs.lem9'" in (said := capsys.readouterr().err) and "rs.lem3.3" in said


# --- with Coq ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A compiled copy."""
    with _coq.workshop() as found:
        _coq.compile_all(FILES, found)
        yield found


@pytest.mark.kernel
def test_the_theorems_say_what_their_names_promise(place: Path) -> None:
    theorems, axioms = _coq.check(list(ROWS), place)
    assert theorems == {module: claim.kernel_theorems for module, claim in ROWS.items()}
    assert set(axioms) <= _coq.AXIOMS


@pytest.mark.kernel
def test_an_axiom_of_ours_and_another_statement_are_noticed(place: Path) -> None:
    mine = "Axiom mine : False.\nDefinition printed := True.\nTheorem printed_holds : printed.\nProof. destruct mine. Qed.\n"
    other = "Definition printed := False.\nTheorem printed_holds : True.\nProof. exact I. Qed.\n"
    for source, what in ((mine, "mine"), (other, "printed")):
        (place / "forged.v").write_text(source, "utf-8")
        subprocess.run(["coqc", "-q", "-Q", ".", "kernel", "forged.v"], cwd=place, check=True, capture_output=True)
        with pytest.raises(_coq.CoqError, match=what):
            _coq.check(["forged"], place)


def test_every_module_has_a_mutant() -> None:
    assert {name.split("#")[0] for name in MUTANTS} == set(ROWS)
    for name, one in MUTANTS.items():
        assert statement(_coq.text_of(name.split("#")[0])).count(one["printed"]) == 1, name


def statement(text: str) -> str:
    """What stands before the first proof."""
    return re.split(r"\n(?=Lemma|Theorem|Section|Ltac)", text)[0] + "\n"


def changed(mutant: str) -> str:
    """The text of a module with another statement."""
    text = _coq.text_of(mutant.split("#")[0])
    found = text.replace(MUTANTS[mutant]["printed"], MUTANTS[mutant]["mutated"], 1)
    assert found != text
    return found


def compiled(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    (place / "mutant.v").write_text(f"{HEAD}\n{text}", "utf-8")
    return subprocess.run(["coqc", "-q", "-Q", ".", "kernel", "mutant.v"], cwd=place, capture_output=True, text=True)


@pytest.mark.kernel
def test_other_statements_are_well_formed(place: Path) -> None:
    """All in one file, each in a module of its own: Coq starts once."""
    modules = (f"Module m{i}.\n{statement(changed(mutant))}End m{i}.\n" for i, mutant in enumerate(sorted(MUTANTS)))
    done = compiled(place, "".join(modules))
    assert done.returncode == 0, done.stderr


@pytest.mark.kernel
@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_the_proof_does_not_prove_another_statement(mutant: str, place: Path) -> None:
    assert compiled(place, changed(mutant)).returncode != 0
