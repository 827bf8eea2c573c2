"""How far one record moves the clipped sum: against loops as users write them, and what was measured against the bound."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn

from dptheory.privacy import weighted_mean_sensitivity
from dptheory.training._json_lines import JsonLines
from dptheory.training.measure import _loss_divisor as measuring

ROOT = Path(__file__).parents[3]
RESULTS = {line["run"]: line for line in JsonLines(ROOT / measuring.RESULTS).lines()}
_BATCH = 4
_ROUNDING = 1 + 1e-5
"""Of six digits, twice."""


def _classes() -> tuple[nn.Module, measuring.Records, Any, Any]:
    """A table, and the loss that a user takes for it."""
    weight = torch.tensor([1.0, 20.0], dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 0, 1, 0])
    records = measuring.Records(torch.randn(7, 5, dtype=torch.float64), labels, weight[labels].numpy())
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    return model, records, nn.CrossEntropyLoss(weight=weight), measuring._own_losses


def _tokens() -> tuple[nn.Module, measuring.Records, Any, Any]:
    """Texts, and the loss of a language model."""
    texts = [
        "a short one",
        "one of some more words than that",
        "x = 12",
        "and more",
        "y" * 70,
        "not this",
        "nor that one",
    ]

    def loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=measuring.IGNORED)

    return measuring.LanguageModel(8, 1).double(), measuring.as_records(texts), loss, measuring.own_token_means


def _clipped_sum(model: nn.Module, records: measuring.Records, loss: Any, clip: float) -> torch.Tensor:
    """Per-sample gradients of the loop's own backward pass, clipped and summed."""
    wrapped = GradSampleModule(model, loss_reduction="mean")
    loss(wrapped(records.inputs), records.labels).backward()
    rows = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], dim=1).double()
    wrapped.zero_grad(set_to_none=True)
    wrapped.to_standard_module()
    return ((clip / rows.norm(dim=1)).clamp(max=1.0)[:, None] * rows).sum(0)


@pytest.mark.parametrize("case", [_classes, _tokens])
def test_moves_are_those_of_a_loop_with_a_mean_loss(case: Any) -> None:
    torch.manual_seed(0)
    model, records, loss, losses = case()
    gram = measuring.gram_matrix(model, records, losses)
    inside, pool = list(range(_BATCH)), range(_BATCH, len(records.weights))
    for clip in (0.1, 1.0, 10.0):
        clip *= float(np.median(np.sqrt(np.diag(gram))))

        def summed(rows: list[int], clip: float = clip) -> torch.Tensor:
            return _clipped_sum(model, records.at(rows), loss, clip)

        whole = summed(inside)
        shared = [[one for one in inside if one != row] for row in inside]
        replaced = [summed(sorted([*rest, one])) for rest in shared for one in pool]
        others = [*(summed(rest) for rest in shared), *(summed([*inside, one]) for one in pool)]
        found = measuring.moves(gram, records.weights, clip, batch=_BATCH)
        # in double precision a summand of norm C is off by thousands of units in its last place at most: as many as terms in its sums
        for move, sums in ((found.replaced, replaced), (found.joined_or_left, others)):
            assert move == pytest.approx(
                max(float((one - whole).norm()) for one in sums) / clip, abs=5 * 10_000 * 2**-52
            )


def test_the_mean_of_own_losses_moves_by_no_more_than_is_counted_on() -> None:
    torch.manual_seed(0)
    model, records, _, losses = _classes()
    gram = measuring.gram_matrix(model, records, losses)
    smallest = float(np.sqrt(np.diag(gram).min()))
    own = measuring.moves(gram, np.ones(len(gram)), smallest, batch=_BATCH)
    weighted = measuring.moves(gram, records.weights, smallest, batch=_BATCH)
    assert own.replaced <= 2 + 1e-12 and own.joined_or_left == pytest.approx(1.0, abs=1e-12)
    assert weighted.joined_or_left > 1.05


def _rows(found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (case, found[case][when][batch])
        for case in ("language_model", "table")
        for when in ("before", "after")
        for batch in ("drawn", "lightest")
    ]


@pytest.mark.parametrize("run", RESULTS)
def test_what_was_measured_is_within_the_bound_and_beyond_what_is_counted_on(run: str) -> None:
    found = RESULTS[run]
    broken = set()
    for case, part in _rows(found):
        ends = [end for of in ("batch", "pool") for end in part["weights"][of]]
        ratio = max(ends) / min(ends)
        for row in part["moves"]:
            for kind, own, size in (("replaced", 2, found["batch"]), ("joined_or_left", 1, found["batch"] + 1)):
                adjacency = "replace-one" if own == 2 else "add-remove"
                bound = weighted_mean_sensitivity(
                    batch_size=size, clip_norm=1.0, weight_ratio=ratio, adjacency=adjacency
                )
                assert row["own"][kind] <= own * _ROUNDING
                assert row["weighted"][kind] <= bound * _ROUNDING
                if row["weighted"][kind] > own * _ROUNDING:
                    broken.add((case, kind))
        if case == "table":
            assert max(part["moves"], key=lambda row: row["weighted"]["joined_or_left"])["clip_over_median"] == 1.0
    assert broken == {("table", "replaced"), ("table", "joined_or_left"), ("language_model", "joined_or_left")}


def test_the_page_has_what_was_measured() -> None:
    page = (ROOT / "proofs" / "rs" / "loss_divisor.md").read_text(encoding="utf-8")
    table = measuring.page_table(list(RESULTS.values()))
    assert "\n".join(table) in page and len(table) == 2 + 8


def test_every_seed_has_its_line() -> None:
    assert list(RESULTS) == [f"seed={seed}" for seed in measuring.SEEDS]


def test_a_measurement_repeats_and_has_the_form_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CONTEXT", 16)
    monkeypatch.setattr(measuring, "BATCH", 4)
    monkeypatch.setattr(measuring, "POOL", 6)
    monkeypatch.setattr(measuring, "_MODULES", ("json", "textwrap"))
    found, again = (measuring.measure_loss_divisor(1, steps=1, tuning_steps=1) for _ in range(2))
    assert json.dumps(found) == json.dumps(again)
    held = RESULTS["seed=0"]
    assert {*found, "code", "run"} == set(held)
    assert [(case, sorted(part)) for case, part in _rows(found)] == [(case, sorted(part)) for case, part in _rows(held)]
