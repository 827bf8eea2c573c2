"""Instrumented runs decide by bounds that were declared before: holds, fails, open, and not run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from dptheory.claims import Answer, Measured
from dptheory.training.studies import _measured, _verdicts, read_instrument, write_measured
from dptheory.training.studies._instruments import FILE
from dptheory.training.studies._measured import AskedOfInstrument, Bound, committed, path_of, read_asked
from dptheory.training.studies._rules import Rule

MASKS = dataclasses.replace(read_instrument("masks"), seeds=(0, 1))
TABLE: dict[str, Any] = {
    "instrument": "masks",
    "question": "Does it?",
    "differs": "invented",
    "reported": ["MSE, dense minus frozen"],
    "bounds": [{"quantity": "least_mse_gain", "words": "gain", "above": 0.0}],
}


def asked(**bounds: float) -> AskedOfInstrument:
    return AskedOfInstrument(
        MASKS, "Does it?", "invented", ("MSE, dense minus frozen",), (Bound("least_mse_gain", "gain", **bounds),)
    )


def written(folder: Path, *values: float | None, code: dict[str, Any] | None = None) -> Path:
    for seed, value in enumerate(values):
        result = {
            "instrument": "masks",
            "seed": seed,
            "quantities": {"least_mse_gain": value},
            "code": code or {"commit": "c0ffee", "dirty": False},
            "arms": {},
        }
        write_measured(folder, result)
    return folder


@pytest.mark.parametrize(
    ("values", "bounds", "relation", "outcome", "state"),
    [
        ((0.1, 0.2), {"above": 0.0}, "above 0", "holds", "confirmed"),
        ((0.1, -0.2), {"above": 0.0}, "above 0", "open", "not confirmed"),
        ((-0.1, -0.2), {"above": 0.0}, "above 0", "fails", "not confirmed"),
        ((0.1, 0.2), {"below": 0.15}, "below 0.15", "open", "not confirmed"),
        ((0.1, 0.2), {"above": 0.05, "below": 0.25}, "between 0.05 and 0.25", "holds", "confirmed"),
        ((0.0, 0.0), {"above": 0.0}, "above 0", "fails", "not confirmed"),
        ((0.1, None), {"above": 0.0}, "above 0", "open", "not confirmed"),
    ],
)  # fmt: skip
def test_states(tmp_path: Path, values, bounds: dict[str, float], relation: str, outcome: str, state: str) -> None:
    rule = Rule(measured=asked(**bounds))
    found = _verdicts.claim_answer("rf.fig1", rule, {}, committed(written(tmp_path, *values)))
    assert found.measured == (Measured(quantity="gain", values=values, relation=relation, outcome=outcome),)
    assert (found.state, found.instrument, found.study, found.reason) == (state, "masks", None, "")
    assert found.files == (
        "proofs/results/instruments.jsonl: masks_seed=0",
        "proofs/results/instruments.jsonl: masks_seed=1",
    )
    assert found.reported == (("MSE, dense minus frozen", "positive"),)
    assert found.command == "dptheory instrument masks" and found.cost == MASKS.cost
    assert found.summary.startswith(f"{state}: gain ")
    assert found.summary.endswith("" if outcome == "holds" else f" ({outcome})")
    assert f"asked of instrument masks: {found.question}" in found.lines()


def test_a_seed_less_and_code_that_nobody_can_find_are_no_answer(tmp_path: Path) -> None:
    rule = Rule(measured=asked(above=0.0))
    for folder in (written(tmp_path, 0.1), written(tmp_path, 0.1, 0.2, code={"commit": "x", "dirty": True})):
        found = _verdicts.claim_answer("rf.fig1", rule, {}, committed(folder))
        assert (found.state, found.measured, found.files) == ("not run", (), ())
        assert found.reason == "instrument masks has seeds to go" and found.command
    assert _verdicts.claim_answer("rf.fig1", rule, {}).state == "not run"
    path_of(tmp_path).write_text('{"run": "masks_seed=0", "code": {}, "arms": {}}\n')
    with pytest.raises(ValueError, match=r"instruments\.jsonl must hold results of an instrument, .*quantities"):
        committed(tmp_path)


def test_what_was_asked_after_the_results_stands_beside_them_alone(tmp_path: Path) -> None:
    said = dataclasses.replace(asked(above=0.0), beside="that too")
    assert read_asked(TABLE | {"beside": " that\ntoo "}, {"masks": MASKS}) == said
    for values, words in (((0.1,), ""), ((0.1, 0.2), "that too")):
        found = _verdicts.claim_answer("rf.fig1", Rule(measured=said), {}, committed(written(tmp_path, *values)))
        assert found.beside == words and ("asked after the results: that too" in found.lines()) == (words != "")


def test_how_many_of_the_other_numbers_hold() -> None:
    def number(outcome: str) -> Measured:
        return Measured(quantity="gain", values=(0.1,), relation="above 0", outcome=outcome)

    first, *others = (number(one) for one in ("fails", "holds", "open", "holds"))
    for rest, said in (
        ((), ""),
        (others[:1], "; 1 of 1 others holds"),
        (others[1:2], "; 0 of 1 others hold"),
        (others, "; 2 of 3 others hold"),
    ):
        found = Answer(
            state="not confirmed", measured=(*rest[:1], first, *rest[1:]) if rest[:1] == others[:1] else (first, *rest)
        )
        assert found.summary == f"not confirmed: gain 0.1 (fails){said}"
    assert (
        Answer(state="confirmed", measured=(others[0], others[2])).summary == "confirmed: gain 0.1; 1 of 1 others holds"
    )


def test_wrong_rules_are_refused() -> None:
    assert read_asked(TABLE, {"masks": MASKS}) == asked(above=0.0)
    bound = TABLE["bounds"][0]
    wrong = [
        ({"instrument": "mask"}, "instrument must be one of"),
        ({"differs": ""}, "differs must say something"),
        ({"beside": ""}, "beside must say something"),
        ({"reported": []}, "reported must say something"),
        ({"bounds": []}, "bounds must say something"),
        ({"bounds": [bound | {"quantity": "alignment_gap"}]}, "quantity must be one of"),
        ({"bounds": [{"quantity": "least_mse_gain", "words": "gain"}]}, "bounds must have words, and above or below"),
        ({"bounds": [bound | {"words": ""}]}, "bounds must have words"),
        ({"bounds": [bound | {"beneath": 0.0}]}, "there is no key beneath"),
        ({"conditions": []}, "there is no key conditions"),
    ]
    for change, says in wrong:
        with pytest.raises(ValueError, match=says):
            read_asked(TABLE | change, {"masks": MASKS})


def test_committed_results_are_those_of_their_instruments() -> None:
    """Each line holds what its instrument measures, at its steps and with its options' names."""
    folder = Path(__file__).parents[3] / "proofs" / "results"
    find = committed(folder)
    for run in _measured.read(path_of(folder)):
        name, seed = run.split("_seed=")
        instrument, result = read_instrument(name), find(name, int(seed))
        assert result is not None and int(seed) in instrument.seeds, run
        assert tuple(result["quantities"]) == instrument.quantities
        assert set(result["arms"]) == set(instrument.arms)
        for one in instrument.measurings:
            for arm in one.arms:
                assert [row["step"] for row in result["arms"][arm]["measured"][one.kind]] == list(one.steps)
                wanted, config = instrument.config(arm, seed=int(seed)).as_dict(), dict(result["arms"][arm]["config"])
                wanted["grad_sample_mode"] = config["grad_sample_mode"]  # they differ in rounding alone
                sigma = wanted.pop("noise_multiplier"), config.pop("noise_multiplier")
                assert config == json.loads(json.dumps(wanted))
                assert sigma == (None, None) or sigma[0] == pytest.approx(sigma[1], rel=1e-5)
    assert FILE.is_file()
