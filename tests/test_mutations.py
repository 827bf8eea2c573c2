"""A wrong number in any field of any calculator's result makes a check of a claim that names the calculator fail.

The mutants are generated: every public calculator, every field of its result, every region of its domain (small and users'
sizes, every choice of a method, every argument with a default, the branches of ``mutants/regions.py``), moved up and down by 1 %,
by one, to another word. So a new calculator or a new field without a check fails here. A check that ran out of time
notices nothing.
"""

import dataclasses
import random

import pytest

from dptheory import claims, pruning
from dptheory.checks import EqualityCheck
from dptheory.claims import Verdict
from tests.mutants import bench, holders, moves
from tests.mutants.moves import MOVES, moved, same
from tests.mutants.regions import regions
from tests.mutants.surface import Leaf, Target, leaves, targets

TARGETS = {target.name: target for target in targets()}


@pytest.mark.mutants
@pytest.mark.parametrize("name", TARGETS)
def test_every_wrong_field_is_refused(name: str) -> None:
    found = holders.outcomes(TARGETS[name])
    alive = {str(one.mutant): one.reason for one in found if one.noticed is None}
    assert not alive


def _target(calculator: object) -> Target:
    return next(target for target in TARGETS.values() if target.calculator is calculator)


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("calculator", "mutation"), moves.SPECIAL, ids=[f"{i}-{c.__name__}" for i, (c, _) in enumerate(moves.SPECIAL)]
)
def test_a_wrong_calculator_is_refused(calculator, mutation) -> None:  # type: ignore[no-untyped-def]
    assert holders.is_refused(_target(calculator), mutation)


@pytest.mark.parametrize("calculator", [pruning.random_k_mse, pruning.SubsetMallows.mean_swaps])
def test_an_unchanged_calculator_is_not_refused(calculator) -> None:  # type: ignore[no-untyped-def]
    assert not holders.is_refused(_target(calculator), lambda function: function)


def test_every_calculator_of_the_ledger_is_found() -> None:
    named = {c for claim in claims.all_claims() if claim.verdict is not Verdict.EMPIRICAL for c in claim.calculators}
    found = {target.calculator for target in TARGETS.values()}
    assert named <= found, f"without a mutant: {named - found}"


@pytest.mark.mutants
def test_the_bench_agrees_with_the_checks_themselves() -> None:
    """Parts recomputed under a mutant say what the whole check says."""
    cheap = [
        (t, claim) for t in TARGETS.values() for claim in holders.holders(t) if claim.id in ("gip.mse_r", "rf.lem2")
    ]
    mutants = [(m, claim) for t, claim in cheap for m in holders.mutants(t)]
    assert len(mutants) > 10
    for mutant, claim in random.Random(0).sample(mutants, 10):
        for position, check in enumerate(claim.checks):
            recorded = holders.recorded(claim.id, position)
            with bench.in_force(mutant, bench.Memory(mutant.target), []):
                whole = check.run(60.0, bench.SEED)
                parts = recorded.refuses(mutant.target, mutant.region.name)
            assert whole.finished
            assert parts == (not whole.passed), (str(mutant), check.name, whole.detail)


def _error(dim: int, keep: int) -> float:
    return float(pruning.random_k_mse(dim, keep, sigma_g=1.0))


CIRCLES = {
    "one function, truth apart": EqualityCheck(
        "circle", lambda: [(10, 3)], lambda dim, keep: (_error(dim, keep), lambda: _error(dim, keep), 0.0)
    ),
    "one function": EqualityCheck("circle", lambda: [(10, 3)], lambda dim, keep: (*[_error(dim, keep)] * 2, 0.0)),
}


@pytest.mark.parametrize("form", CIRCLES)
def test_a_circular_check_notices_nothing(form: str) -> None:
    target = _target(pruning.random_k_mse)
    recorded = bench.record(CIRCLES[form], [target])
    assert recorded.passed and recorded.is_circular(target) == (form != "one function")
    for mutant in holders.mutants(target):
        with bench.in_force(mutant, bench.Memory(target), []):
            assert not recorded.refuses(target)


@dataclasses.dataclass(frozen=True)
class _Inner:
    flag: bool
    word: str | None


@dataclasses.dataclass(frozen=True)
class _Result:
    number: float
    pair: tuple[int, float]
    parts: tuple[_Inner, ...]


def test_a_new_field_is_found_and_moved() -> None:
    found = {str(leaf): leaf for leaf in leaves(_Result)}
    assert {name: leaf.kind for name, leaf in found.items()} == {
        "number": "float",
        "pair.0": "int",
        "pair.1": "float",
        "parts.*.flag": "bool",
        "parts.*.word": "str",
    }
    right = _Result(2.0, (3, 4.0), (_Inner(True, None), _Inner(False, "a")))
    wrong = {name: moved(right, leaf.path, MOVES[leaf.kind][0].change) for name, leaf in found.items()}
    assert wrong["number"].number == 2.02 and wrong["pair.0"].pair == (4, 4.0)
    assert [part.flag for part in wrong["parts.*.flag"].parts] == [False, True]
    assert [part.word for part in wrong["parts.*.word"].parts] == [None, "a?"]
    assert not any(same(right, one) for one in wrong.values()) and same(right, dataclasses.replace(right))


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="no mutant is known"):
        leaves(dict[str, float])


def test_regions_are_those_of_signature_and_table() -> None:
    names = [region.name for region in regions(_target(pruning.cosine_ratio))]
    assert names == [
        "size < 1000", "size >= 10000", "method = exact", "method = asymptotic", "groups given", "some dispersion", "top-k",
    ]  # fmt: skip
    assert str(
        bench.Mutant(_target(pruning.beta), Leaf((), "float"), regions(_target(pruning.beta))[0], MOVES["float"][0])
    ) == ("value x 1.01 where size < 1000")
