"""Every row of the ledger: it is complete, its checks pass, and none of them passes a wrong calculator."""

import dataclasses
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from dptheory import claims
from dptheory.checks import CertificateCheck, EqualityCheck, Kind, LawCheck, MeanCheck, SearchCheck, _search
from dptheory.claims import Claim, Source, Verdict, _claim
from dptheory.claims._registry import ledger_key
from tests.every import every
from tests.mutants import bench, holders
from tests.refused import refused

CHECKED = [claim for claim in claims.all_claims() if claim.checks]


@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.id)
def test_checks_pass(claim: Claim, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With seed 0, and recorded: ``test_mutations`` need not run them again for its control.

    Searches make one of their four runs, which must refute the wrong statement on its own; all of them where mutants or deeper
    tests are asked for, and in ``dptheory check``.
    """
    if not (request.config.getoption("--slow") or request.config.getoption("--mutants")):
        monkeypatch.setattr(_search, "_SHARDS", 1)
    for evidence in (holders.evidence(claim, position) for position in range(len(claim.checks))):
        assert evidence.passed, f"{evidence.check}: {evidence.detail}"
        assert evidence.samples > 0
        assert "reject" in evidence.detail or "refutes" in evidence.detail, (
            "every check says which wrong statement it rejected"
        )


@pytest.mark.slow
@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim.id)
def test_checks_pass_under_other_seeds(claim: Claim) -> None:
    for seed in range(1, 6):
        for evidence in claim.check(bench.BUDGET, seed=seed):
            assert evidence.passed, f"{evidence.check}, seed {seed}: {evidence.detail}"


@every(claims.all_claims())
def test_rows_are_complete(claim: Claim) -> None:
    assert claim.id.startswith(f"{claim.source.paper}.")
    assert claim.title and claim.statement and claim.source.label
    names = [check.name for check in claim.checks]
    assert len(names) == len(set(names))
    if claim.verdict is Verdict.EMPIRICAL:
        assert claim.reported and not claim.proved
        assert claim.answer is not None and claim.state == claim.answer.state
        assert claim.state in ("seen", "trend only", "not seen", "opposite", "open", "not run")
        assert claim.state == "not run" or claim.answer.compared, "how far the setting is from the paper's"
        return
    assert claim.checks
    assert (claim.severity is not None) is (claim.verdict is Verdict.FALSE)
    if claim.verdict in (Verdict.FALSE, Verdict.CONDITIONAL):
        assert claim.correction and (claim.verdict is Verdict.FALSE or claim.conditions)
    if claim.part_of:
        assert claim.verdict is Verdict.FALSE and claims.get(claim.part_of).verdict is Verdict.FALSE
        assert claims.get(claim.part_of).part_of is None


def test_calculators_are_reachable_and_documented() -> None:
    for claim in claims.all_claims():
        for calculator in claim.calculators:
            assert "Source:" in (calculator.__doc__ or ""), calculator
            assert claim.id.split(".")[0] in calculator.__doc__.lower()  # type: ignore[union-attr]


def test_calculators_are_named_as_a_reader_would_type_them() -> None:
    for claim in claims.all_claims():
        for name, calculator in zip(claim.calculator_names, claim.calculators, strict=True):
            assert pkgutil.resolve_name(name) is calculator and "._" not in name


def test_a_check_that_breaks_is_a_check_that_fails() -> None:
    broken = EqualityCheck("broken", lambda: [(0,)], lambda n: (1 / n, 1.0, 2.0))
    (evidence,) = dataclasses.replace(claims.get("gip.eq18"), checks=(broken,)).check(10.0, seed=4)
    assert not evidence.passed and evidence.seed == 4
    assert evidence.detail == "ZeroDivisionError: division by zero"


def test_what_runs_in_worker_processes_can_be_sent_there() -> None:
    for claim in claims.all_claims():
        for check in claim.checks:
            for part in ("sampler", "slack", "wrong") if check.kind is Kind.SEARCH else ("sampler",):
                pickle.dumps(getattr(check, part, None))


def test_check_names_are_unique_so_that_checks_draw_different_numbers() -> None:
    names = [check.name for claim in claims.all_claims() for check in claim.checks if check.kind is Kind.MONTE_CARLO]
    assert len(names) == len(set(names))


LOOSE_CERTIFICATES = {
    ("gep.eq12", "worst case of one and two noisy steps"): 2.0,
    ("rs.least_gradient", "at most 7 % above the worst case of two and three steps with mask or noise"): 0.07,
    (
        "rs.held_steps",
        "above the worst case of two epochs of two steps; as if every step drew a mask and held it is below",
    ): 0.8,
    (
        "rs.cooled_masks",
        "a mask or a step that is tightened: above the worst case, where the quadratic is below it",
    ): 0.6,
    ("gep.clipped_residuals", "item 1: U against the worst case of a few steps"): 1.7,
    (
        "rs.clipped_masks",
        "above the worst case over smooth functions of runs that clip, hold and tighten masks, with momentum",
    ): 3.0,
}
"""Bounds of several steps that are not the worst case, and how far above it they may lie; other checks of the claim are finer."""

COARSE = {
    (
        "rs.kappa_error",
        "rows: mean square of (value - exact) / standard error over 300 draws",
    ): 0.12,  # an error bar: its coverage
    (
        "rs.one_run_curve",
        "the lines of a Gaussian release lie below its curve, and near it",
    ): 0.085,  # how near the lines come
    ("rs.larger_clip", "the same by trying rates, 2,000 and 100,000 entries: share kept"): 0.04,
}
"""What can be told no finer; other checks of the same fields are."""


def test_exceptions_are_those_of_checks_that_there_are() -> None:
    assert {*LOOSE_CERTIFICATES, *COARSE} <= {(claim.id, check.name) for claim in CHECKED for check in claim.checks}


@every(CHECKED)
def test_every_check_resolves_one_per_cent(claim: Claim) -> None:
    for check in claim.checks:
        resolution = check.resolution if isinstance(check, MeanCheck | LawCheck) else check.tolerance  # type: ignore[attr-defined]
        assert resolution <= COARSE.get((claim.id, check.name), 0.01), check.name
        if isinstance(check, CertificateCheck):
            assert check.looseness <= LOOSE_CERTIFICATES.get((claim.id, check.name), 0.01), check.name


def test_lookup() -> None:
    assert claims.get("gip.mse_t0").verdict is Verdict.FALSE
    assert {c.verdict for c in claims.all_claims(verdict="false")} == {Verdict.FALSE}
    assert claims.all_claims("gip") == tuple(c for c in claims.all_claims() if c.source.paper == "gip")
    assert [c.id for c in claims.select(["gip.eq*", "gip.norm"])] == [
        "gip.eq5",
        "gip.norm",
        "gip.eq6",
        "gip.eq18",
        "gip.eq21",
    ]
    assert claims.select([]) == claims.all_claims()


def test_the_file_of_a_claim_is_found_and_loads_alone() -> None:
    code = (
        "import sys; from dptheory import claims; assert claims.get('gip.mse_t0').id == 'gip.mse_t0';"
        "assert [c.id for c in claims.select(['lf.lem2.1'])] == ['lf.lem2.1'];"
        "print(sorted(m for m in sys.modules if m.startswith('dptheory.claims.') and '._' not in m and m.count('.') == 3))"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert loaded == str(["dptheory.claims.gip.prop2", "dptheory.claims.lf.lem3_1"])


def test_every_file_of_a_paper_holds_a_claim() -> None:
    for paper in claims.PAPERS:
        folder = Path(claims.__file__).parent / paper
        files = {file.name for file in folder.glob("*.py") if not file.name.startswith("_")}
        held = {Path(c.file).name for c in claims.all_claims(paper) if c.verdict is not Verdict.EMPIRICAL}
        assert files == held


def test_an_id_that_stands_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").mkdir()
    for name in ("one", "other"):
        (tmp_path / "new" / f"{name}.py").write_text('row = new_row(\n    id="new.claim",\n)\n')
    monkeypatch.setattr(_claim, "__file__", str(tmp_path / "_claim.py"))
    with refused("id", "'new.claim'"):
        _claim.places_of_rows("new")


def test_own_results_say_so() -> None:
    for claim in claims.all_claims():
        assert claim.ours == ("new" in claim.source.label), claim.id


def test_a_search_travels_to_another_process() -> None:
    """Its sides are found there by the claim: a lambda does not travel."""
    (check,) = [one for one in claims.get("rs.fixed_rate").checks if isinstance(one, SearchCheck)][:1]
    point = {name: one.value(0.3) for name, one in check.box.items()}
    for side in (check.slack, check.wrong):
        assert pickle.loads(pickle.dumps(side))(**point) == side(**point)


def test_order_of_the_ledger() -> None:
    """Papers, then what they argue, what they measured, our own; each by kind and number of the label, numbers as numbers."""
    assert [c.source.paper for c in claims.all_claims()] == sorted(
        (c.source.paper for c in claims.all_claims()), key=list(claims.PAPERS).index
    )
    assert [c.id for c in claims.all_claims("lf")][:4] == ["lf.def3.1", "lf.def3.2", "lf.lem2.1", "lf.lem3.1"]
    for paper in claims.PAPERS:
        rows = claims.all_claims(paper)
        parts = [2 if c.ours else 1 if c.verdict is Verdict.EMPIRICAL else 0 for c in rows]
        assert parts == sorted(parts)
    labels = (
        "Lemma 3.2", "Lemma 3.10", "section 3.3, after Lemma 3.10", "Lemma D.1", "Theorem 2", "Theorem 10",
        "Appendix C, Algorithm 2", "equation 5", "abstract, Table 1", "section 2", "section 10", "Appendix A", "Appendix A.3",
        "Tables 5 to 7", "Fig. 2", "Fig. 11",
    )  # fmt: skip
    row = dataclasses.replace(claims.get("gip.norm"))
    rows = [dataclasses.replace(row, source=Source("gip", label)) for label in labels]
    assert [c.source.label for c in sorted(rows[::-1], key=ledger_key)] == list(labels)
    equations = [(5, 6), (12,), ()]
    rows = [dataclasses.replace(row, source=Source("gip", "Lemma 1", one)) for one in equations]
    assert [c.source.equations for c in sorted(rows[::-1], key=ledger_key)] == equations


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: claims.get("gip.mse_to"), ("id", "gip.mse_t0")),
        (lambda: claims.get("beta"), ("id", "gip.beta_values")),
        (lambda: claims.select(["gip.msee*"]), ("patterns", "gip.msee*")),
        (lambda: claims.all_claims("xyz"), ("paper", "gip")),
        (lambda: claims.all_claims(verdict="maybe"), ("verdict", "FALSE")),
    ],
)
def test_unknown_names_get_a_hint(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(*says):
        call()


def test_ledger_loads_without_the_test_packages() -> None:
    code = "import sys; from dptheory import claims; claims.all_claims(); print('hypothesis' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
