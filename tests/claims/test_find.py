"""Finding things by words: what a reader has in hand leads to the row, the function and the page."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import pytest

from dptheory import claims
from dptheory.claims import Verdict, find
from dptheory.claims import _find as module


def _names(query: str, count: int = 3) -> list[str]:
    return [one.name for one in find(query).matches[:count]]


def test_every_label_finds_its_claim() -> None:
    """With the paper's short name in front, as a reader of the paper would ask."""
    lost = []
    for claim in claims.all_claims():
        found = find(f"{claim.source.paper} {claim.source.label}", max_matches=1000).matches
        if claim.id not in [one.name for one in found]:
            lost.append((claim.id, claim.source.label))
        elif claim.source.label not in [one.label for one in found[:3]]:
            lost.append((claim.id, found[0].label))
    assert lost == []


def test_every_id_every_function_and_every_argument_finds_itself_first() -> None:
    names = [one.match for one in module._index()]
    assert {one.kind for one in names} == {"command", "claim", "function", "argument", "letter"}
    lost = [one.name for one in names if one.kind == "claim" and _names(one.name, 1) != [one.name]]
    lost += [one.name for one in names if one.kind == "function" and _names(one.name, 1) != [one.name]]
    for one in names:
        if one.kind == "argument":
            lost += [name for name in one.name.split(", ") if not any(name in found for found in _names(name, 4))]
    assert lost == []


@pytest.mark.parametrize(
    ("query", "among"),
    [
        ("GIP Proposition 2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("gip prop. 2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("gip.prop2", {"gip.mse_r", "gip.mse_t0", "gip.mse_t"}),
        ("LF lem 3.1", {"lf.lem3.1"}),
        ("equation 12", {"gep.eq12", "rs.thm3.4"}),
        ("eq 15 gip", {"gip.mse_t0"}),
        ("kappa", {"dptheory.sparsification.kappa"}),
        ("κ", {"dptheory.sparsification.kappa"}),
        ("top-k", {"dptheory.pruning.top_k_mse", "dptheory.pruning.top_k_mask"}),
        ("clip_norm", {"clip_norm, max_grad_norm"}),
        ("sampling rate", {"sampling_rate"}),
        ("fine-tune bert", {"dptheory.training.make_private_with_epsilon"}),
        ("lora", {"dptheory.training.make_private_with_epsilon"}),
        ("excess risk", {"gep.thm3.3"}),
    ],
)
def test_what_people_ask_for_is_near_the_top(query: str, among: set[str]) -> None:
    assert among <= set(_names(query, 8 if query == "sampling rate" else 4))


def test_a_label_and_its_number_are_one_word() -> None:
    """Not one here and the other there: "proposition" and "2" alone stand in dozens of rows."""
    found = [claims.get(one.name) for one in find("Proposition 2", max_matches=1000).matches if one.kind == "claim"]
    texts = {row.id: " ".join((row.source.label, row.statement, *row.conditions, str(row.correction))) for row in found}
    assert texts and [id for id, text in texts.items() if not re.search(r"[Pp]roposition 2(?!\.?\d)", text)] == []
    assert "gip.mse_t0" not in [one.name for one in find("Proposition 20", max_matches=1000).matches]


def test_all_words_have_to_fit() -> None:
    both = {one.name for one in find("kappa freezing", max_matches=1000).matches}
    one, other = ({m.name for m in find(word, max_matches=1000).matches} for word in ("kappa", "freezing"))
    assert both == one & other != one


def test_a_match_says_what_to_type_next() -> None:
    best = next(one for one in find("gip.mse_t0").matches)
    assert (best.kind, best.verdict, best.label, best.title) == (
        "claim", Verdict.FALSE, "Proposition 2", "top-k pruning MSE",
    )  # fmt: skip
    assert best.next_steps == (
        "dptheory claim gip.mse_t0",
        "from dptheory.pruning import top_k_mse",
        "proofs/gip/mse_t0.md",
    )


def test_every_next_step_can_be_taken() -> None:
    known = {claim.id for claim in claims.all_claims()}
    root = Path(__file__).parents[2]
    wrong, imports = [], set()
    for step in {step for one in module._index() for step in one.match.next_steps}:
        if step.endswith(" --help") or step == "dptheory claim ID --cite":
            continue  # tests/cli/test_find.py asks for them
        if step.startswith("dptheory claim "):
            wrong += [step] if step.removeprefix("dptheory claim ") not in known else []
        elif step.startswith("from "):
            imports.add(step)
        elif not (root / step).is_file():
            wrong.append(step)
    exec("\n".join(sorted(imports)), {})
    assert wrong == [] and len(imports) > 100


def test_nothing_found_names_what_is_near() -> None:
    found = find("kapa")
    assert (found.matches, found.found, found.near) == ((), 0, ("kappa",))
    assert "proposition 2" in find("GIP Proposition 9").near
    assert find("kappa").near == ()


def test_as_many_as_asked_for_the_best_first() -> None:
    few, all_of_them = find("freezing", max_matches=2), find("freezing", max_matches=1000)
    assert len(few.matches) == 2 and few.found == all_of_them.found == len(all_of_them.matches) > 20
    assert few.matches == all_of_them.matches[:2]
    scores = [one.score for one in all_of_them.matches]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0


def test_without_the_repository_the_glossary_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find("kappa").glossary
    monkeypatch.setattr(module, "_GLOSSARY", tmp_path / "glossary.md")
    module._index.cache_clear()
    try:
        found = find("kappa", max_matches=1000)
    finally:
        module._index.cache_clear()
    assert not found.glossary and found.matches
    assert {one.kind for one in found.matches} <= {"command", "claim", "function"}


def test_bad_input_is_named() -> None:
    bad: list[tuple[str, Any]] = [("query", value) for value in ("", " ", "?!", None, 3, "x" * 201, b"kappa")]
    bad += [("max_matches", value) for value in (0, 1001, 1.5, math.nan, True)]
    for name, value in bad:
        with pytest.raises(ValueError, match=rf"^{name} must be .*, got "):
            find(**{"query": "kappa"} | {name: value})


def test_results_are_plain_data() -> None:
    found = find("kappa")
    assert dataclasses.replace(found) == found == find("kappa")
