"""Measures of gradients."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from opacus.grad_sample import GradSampleModule
from scipy import stats
from torch import nn

from dptheory import pruning
from dptheory.privacy.clipping import weighted_mean_sensitivity
from dptheory.training._files import JsonLines
from dptheory.training.measure import (
    GAUSSIAN,
    NONE,
    QUANTITIES,
    LinearGradient,
    MeasureSettings,
    Row,
    attack,
    measure_gradient,
)
from dptheory.training.measure import _loss_divisor as measuring
from dptheory.training.measure._linear_attack import attack_errors
from dptheory.training.measure._measurements import angle, gradients_of, module_slices
from dptheory.training.mechanisms import LayerFreezing, RandomSparsification
from dptheory.training.networks import mean_gradient, small_tanh_cnn
from tests.refused import refused
from tests.training.measure.looked_at import invented, run_after, view_of

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

# --- The measuring: right on Gaussian vectors, alarmed on others, exact where it says so ---


DIM = 8192


def settings(**changes: object) -> MeasureSettings:
    values = dict(keep_shares=(0.01, 0.1, 0.5, 0.9), draws=200, noise_multiplier=0.5, max_grad_norm=2.0)
    return MeasureSettings(**(values | changes))  # type: ignore[arg-type]


def measured(g: NDArray[np.float64], seed: int = 0, **changes: object) -> tuple[Row, ...]:
    return measure_gradient(g, settings(**changes), np.random.default_rng(seed))


def gaussian(seed: int = 1) -> NDArray[np.float64]:
    return 0.2 * np.random.default_rng(seed).standard_normal(DIM)


def heavy_tailed() -> NDArray[np.float64]:
    return 0.1 * np.random.default_rng(1).standard_t(4, DIM)


def rows(of: tuple[Row, ...], assumption: str) -> list[Row]:
    return [row for row in of if row.assumption == assumption]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gaussian_vector_agrees(seed: int) -> None:
    result = measured(gaussian(seed), seed)
    off = [row.standard_errors_off for row in result]
    assert None not in off
    assert max(abs(x) for x in off if x is not None) < 5


def test_heavy_tailed_vector_is_told_from_a_gaussian_one() -> None:
    off = {(r.quantity, r.setting): r.standard_errors_off or 0.0 for r in rows(measured(heavy_tailed()), GAUSSIAN)}
    for share in ("keep 0.01", "keep 0.1", "keep 0.5", "keep 0.9"):
        assert off["top_k_mse", share] < -5
        assert off["grouped_top_k_mse", share] < -5
    assert off["cosine_top_k", "keep 0.01"] > 5
    assert off["ks_distance", ""] > 5
    assert off["excess_kurtosis", ""] > 5


def test_exact_rows_hold_for_any_vector() -> None:
    for g in (heavy_tailed(), np.ones(DIM), np.where(np.arange(DIM) < 100, 3.0, 0.0)):
        off = [row.standard_errors_off for row in rows(measured(g), NONE)]
        assert max(abs(x) for x in off if x is not None) < 5
        assert sum(x is not None for x in off) >= 10


def test_keep_share_that_keeps_nothing() -> None:
    with refused("keep_shares", "8192", "1e-05"):
        measured(gaussian(), keep_shares=(1e-5,))


# --- The attack on a linear layer: exact without noise, as by hand with it; a validation holds the prediction against it ---


def made_up() -> LinearGradient:
    rng = np.random.default_rng(2)
    outputs, pixels = rng.standard_normal(3) / 10, rng.standard_normal(4)  # small: their squares are below 1
    return LinearGradient(np.outer(outputs, pixels), outputs, pixels)


def test_without_noise_every_seen_pixel_is_read_exactly() -> None:
    gradient = made_up()
    mask = np.random.default_rng(0).random(gradient.weights.shape) < 0.4
    found = attack(np.where(mask, gradient.weights, np.nan), mask, gradient.outputs)
    seen = mask.any(axis=0)
    assert 0 < seen.sum() < seen.size
    np.testing.assert_allclose(found[seen], gradient.pixels[seen], atol=1e-12)
    assert np.isnan(found[~seen]).all()


def by_hand(gradient: LinearGradient, keep: int, sigma: float, seed: int, n: int) -> np.ndarray:
    """Squared errors of n attacks, NaN where nothing is seen."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        mask = np.zeros(12)
        mask[rng.permutation(12)[:keep]] = 1.0
        mask = mask.reshape(3, 4)
        noisy = gradient.weights + sigma * rng.standard_normal((3, 4))
        seen = gradient.outputs**2 @ mask
        estimate = gradient.outputs @ (mask * noisy) / np.where(seen > 0, seen, np.nan)
        found.append((estimate - gradient.pixels) ** 2)
    return np.array(found)


def test_attacks_by_hand() -> None:
    gradient = made_up()
    gradient = dataclasses.replace(gradient, weights=1.1 * gradient.weights)  # not quite the outer product
    errors, rng = by_hand(gradient, 4, 0.3, 8, 6), np.random.default_rng(8)
    assert np.isnan(errors).any() and not np.isnan(errors).all()
    for one in errors:
        np.testing.assert_allclose(attack_errors(rng, gradient, 4, 0.3), one, rtol=1e-12)


def test_an_output_without_a_derivative_hides_its_pixels() -> None:
    outputs = np.array([0.0, 0.5])
    mask = np.array([[True, True], [False, True]])
    found = attack(np.array([[7.0, 7.0], [7.0, 1.0]]), mask, outputs)
    assert np.isnan(found[0]) and found[1] == 2.0
    with np.errstate(under="ignore"):
        assert np.isnan(attack(np.ones((1, 1)), np.array([[True]]), np.array([1e-200]))).all()  # its square is 0


# How far one record moves the clipped sum: against loops as users write them, and what was measured against the bound


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


# --- Every quantity by hand, on measurements that are made up; each moves with what it is to measure ---


def arms(**measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {arm.replace("_", "-"): {"measured": kinds} for arm, kinds in measured.items()}


def signals(step: int, *layers: tuple[float, float, float] | None) -> dict[str, Any]:
    keys = ("signal", "clipping_angle", "noise_angle")
    return {
        "step": step,
        "as_it_is": {key: [None if one is None else one[i] for one in layers] for i, key in enumerate(keys)},
    }


def histogram(*counts: int) -> list[dict[str, Any]]:
    return [{"times": [0]}, {"times": list(counts)}]


def errors(*rows: tuple[list[float], list[float]]) -> list[dict[str, Any]]:
    return [{"signal_loss": loss, "mse": mse} for loss, mse in rows]


def norms(*rows: tuple[float, float, list[int]]) -> list[dict[str, Any]]:
    return [{"quantiles": [0, low, 0, 0, 0, high, 0], "histogram": counts} for low, high, counts in rows]


MASKS = arms(
    dp_sgd={
        "errors": errors(([2.0, 3.0, 4.0], [4.0, 3.0, 2.0]), ([1.0, 1.1, 1.05], [1.0, 0.9, 1.2])),
        "norms": norms((1, 2, [5, 5]), (1, 10, []), (1, 10, [])),
    },
    freeze={"norms": norms((1, 2, [4, 6]), (10, 1, []), (0.1, 0.1, [])), "frozen": histogram(10, 20, 10)},
    ranked={"frozen": histogram(10, 10, 20)},
    ranked_without_noise={"frozen": histogram(30, 0, 10)},
)

LAYERS_OF_QUANTITIES = arms(
    freezing={
        "signals": [
            signals(1, (1, 1, 1), (1.0, 1.0, 2.0), (1.0, 2.0, 1.0)),
            signals(2, (1, 1, 1), (1.0, 1.0, 2.0), (1.0, 2.0, 1.0)),
            signals(4, None, (2.718281828, 0.5, 1.0), (2.0, 2.0, 1.0)),
        ]
    },
    dp_sgd={
        "signals": [signals(step, (1, 1, 1), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)) for step in (1, 2)]
        + [signals(4, (1, 1, 1), (2.718281828, 1.0, 1.0), (1.0, 4.0, 1.0))],
        "status": [
            {"changed": 1, "examples": 10, "clipped_turn": 0.1, "unclipped_turn": None},
            {"changed": 2, "examples": 10, "clipped_turn": 0.3, "unclipped_turn": 0.2},
        ],
    },
)

INDEX = arms(
    dp_sgd={"cosines": [{"cosine": 0.4}, {"cosine": 0.2}], "entries": [{"ks_distance": 0.1}, {"ks_distance": 0.3}]},
    random_k={"cosines": [{"cosine": 0.3}, {"cosine": 0.1}]},
    index_pruning={"cosines": [{"cosine": 0.5}, {"cosine": 0.45}]},
)

GEP = arms(
    gep={
        "spectrum": [{"rank": {"all": 3.0, "one": 7.0}}, {"rank": {"all": 4.0, "one": 2.0}}],
        "projection": [
            {
                "dims": [10, 20, 40],
                "error": {"same": [0.5, 0.4, 0.3], "other": [0.9, 0.8, 0.85], "random": [0.99, 0.98, 0.97]},
            }
        ],
        "residuals": [{"original": 2.0, "residual": 10.0}, {"original": 1.0, "residual": 8.0}],
    }
)

CLIPS = arms(
    a={"alignment": [{"clipped_angle": 0.2, "unclipped_angle": 0.5}, {"clipped_angle": 0.2, "unclipped_angle": None}]},
    b={"alignment": [{"clipped_angle": 0.6, "unclipped_angle": 0.5}]},
    c={"alignment": [{"clipped_angle": 3.0, "unclipped_angle": None}]},
)

INVERSION = arms(untrained={"inversion": [{"mse": [9.0, 0.1, 0.2, 0.3]}]})

NOISE = arms(
    small_cnn={"noise": [{"gradient_norm": 0.5, "noise_norm": 1.0}]},
    resnet20={"noise": [{"gradient_norm": 0.5, "noise_norm": 2.0}]},
    wrn_16_4={"noise": [{"gradient_norm": 0.4, "noise_norm": 2.0}]},
    wrn_16_4_of_gip={"noise": [{"gradient_norm": 0.1, "noise_norm": 8.0}]},
)

WANTED = {
    "signal_loss_rise": (MASKS, 0.05),
    "least_mse_gain": (MASKS, -0.2),
    "large_norms": (MASKS, -1.0),
    "small_norms": (MASKS, -1.0),
    "first_epoch_distance": (MASKS, 0.1),
    "ranked_overlap": (MASKS, 0.75),
    "noiseless_gap": (MASKS, 0.25),
    "inversion_rise": (INVERSION, 0.5),
    "signal_change": (LAYERS_OF_QUANTITIES, 0.693147),
    "signal_change_beside_dense": (LAYERS_OF_QUANTITIES, 0.0),
    "clipping_angle_change": (LAYERS_OF_QUANTITIES, 0.0),
    "clipping_angle_change_beside_dense": (LAYERS_OF_QUANTITIES, -0.693147),
    "noise_angle_change": (LAYERS_OF_QUANTITIES, 0.0),
    "noise_angle_change_beside_dense": (LAYERS_OF_QUANTITIES, 0.0),
    "noise_over_clipping": (LAYERS_OF_QUANTITIES, -1.0),
    "alignment_gap": (CLIPS, 0.1),
    "most_changed": (LAYERS_OF_QUANTITIES, 0.2),
    "greatest_turn": (LAYERS_OF_QUANTITIES, 0.3),
    "pruned_over_plain": (INDEX, 0.175),
    "plain_over_random": (INDEX, 0.1),
    "cosine_change": (INDEX, -0.05),
    "entries_distance": (INDEX, 0.3),
    "greatest_stable_rank": (GEP, 7.0),
    "projection_rise": (GEP, 0.05),
    "benefit_rise": (GEP, -0.005),
    "other_over_same": (GEP, 2.125),
    "noise_over_gradient": (NOISE, 2.0),
    "noise_growth": (NOISE, 1.25),
    "wide_gradient_over_noise": (NOISE, 0.0125),
    "random_projection": (GEP, 0.97),
    "residual_rank": (GEP, 5.0),
}


def test_quantities() -> None:
    assert set(WANTED) == set(QUANTITIES)
    found = {name: QUANTITIES[name](measured) for name, (measured, _) in WANTED.items()}
    assert found == pytest.approx({name: value for name, (_, value) in WANTED.items()}, abs=1e-5)


# --- What measurements see: gradients against torch's own, masks of the run, angles ---


@pytest.mark.numerics
def test_gradients_are_those_of_one_image_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch), 3)
    images = view.test(0, 3)
    for number in range(3):
        loss = nn.functional.cross_entropy(view.model(images.pixels[number : number + 1]), images.labels[number][None])
        alone = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(view.model.parameters()))])
        torch.testing.assert_close(view.gradients[number], alone, atol=1e-6, rtol=1e-4)
    whole = gradients_of(view.model, view.run.test).mean(0)
    torch.testing.assert_close(view.true, whole, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(
        mean_gradient(view.model, images.pixels, images.labels), view.gradients.mean(0), atol=1e-6, rtol=1e-4
    )
    run = {name: value for name, value in view.run.model.state_dict().items()}
    assert all(torch.equal(value, run[name]) for name, value in view.model.state_dict().items())


@pytest.mark.numerics
def test_layers_are_weights_and_bias_together() -> None:
    assert module_slices(small_tanh_cnn(0)) == {
        "conv1": slice(0, 1040), "conv2": slice(1040, 9264), "fc1": slice(9264, 25680), "fc2": slice(25680, 26010)
    }  # fmt: skip


@pytest.mark.numerics
def test_masks_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = run_after(1, monkeypatch, {"name": "random-sparsification", "drop_rate": 0.5})
    assert isinstance(sparse.optimizer.mechanism, RandomSparsification)
    mask = torch.cat([m.flatten() for m in sparse.optimizer.mechanism.mask])
    assert torch.equal(view_of(sparse).kept, mask) and int(mask.sum()) == 13005
    inside = {"name": "random-sparsification", "drop_rate": 0.5, "clipping": {"name": "adaptive"}}
    assert int(view_of(run_after(1, monkeypatch, inside)).kept.sum()) == 13005
    unmasked = run_after(1, monkeypatch, {"name": "random-k", "keep_share": 0.5})  # masked after the clipping
    assert view_of(unmasked).kept.all()
    frozen = run_after(2, monkeypatch, {"name": "layer-freezing", "frozen_layers": 2, "after": 0.15})
    assert isinstance(frozen.optimizer.mechanism, LayerFreezing)
    kept = view_of(frozen).kept
    assert not kept[:9264].any() and kept[9264:].all()
    assert torch.equal(view_of(unmasked).without_first(2), kept)
    assert view_of(run_after(1, monkeypatch, {"name": "layer-freezing", "frozen_layers": 2, "after": 0.5})).kept.all()


@pytest.mark.numerics
def test_masked_norms_and_clipped_means() -> None:
    view = invented(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), clip=1.0)
    both, first = torch.tensor([True, True]), torch.tensor([True, False])
    assert view.norms(both).tolist() == pytest.approx([5.0, 0.5])
    assert view.clipped_mean(both).tolist() == pytest.approx([(0.6 + 0.3) / 2, (0.8 + 0.4) / 2])
    assert view.clipped_mean(first).tolist() == pytest.approx([(1.0 + 0.3) / 2, 0.0])
    masks = torch.stack([both, first], dim=1)
    assert torch.allclose(view.clipped_mean(masks), torch.stack([view.clipped_mean(both), view.clipped_mean(first)]))
    assert view.sum_noise_std == 1.0 and view.dim == 2
    assert view.drawn_masks(0.5, 4).sum(0).tolist() == [1] * 4 and view.drawn_masks(0.0, 2).all()


@pytest.mark.numerics
def test_angles() -> None:
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])
    assert angle(one, other) == pytest.approx(math.pi / 4) and angle(one, -one) == pytest.approx(math.pi)
    assert angle(one, torch.zeros(2)) is None


# --- Every row of a measurement, against a direct computation on a small vector ---


DIM_OF_GRADIENT_LAWS, DRAWS, SIGMA, CLIP = 700, 9, 1.5, 0.4
RATIOS = (0.1, 0.003, 1.0, 0.5)
KEEPS = (70, 2, 700, 350)
G = np.random.default_rng(8).standard_t(4, DIM_OF_GRADIENT_LAWS) * 0.3
ENERGY = float(np.sum(G**2))
SETTINGS = MeasureSettings(RATIOS, draws=DRAWS, noise_multiplier=SIGMA, max_grad_norm=CLIP)
STD = SIGMA * CLIP
WHOLE = ("ks_distance", "excess_kurtosis", "noise_mse", "cosine_dp_sgd")
"""Of all entries."""
Expected = tuple[str, float, int, float, float, float, str]


def spread(values: np.ndarray) -> float:
    return float(np.sqrt(np.sum((values - values.mean()) ** 2) / (len(values) - 1)))


def smallest(v: np.ndarray, keep: int) -> float:
    """Energy of all but the ``keep`` largest."""
    return float(np.sum(np.sort(v**2)[: len(v) - keep]))


def smallest_of_groups(v: np.ndarray, keep: int) -> float:
    return sum(smallest(v[start : start + 256], keep) for start in (0, 256))


def distance(v: np.ndarray, sigma: float) -> float:
    return float(stats.kstest(v / sigma, "norm").statistic)


def kurtosis(v: np.ndarray, sigma: float) -> float:
    return float(np.mean((v / sigma) ** 4) - 3)


def cosine(retained: float, keep: int) -> float:
    """Expected cosine of g with the noisy kept part, from the energy that is kept."""
    norm = math.sqrt(ENERGY)
    return pruning.pruned_cosine(
        grad_norm=norm, retained_norm=min(math.sqrt(max(retained, 0.0)), norm), keep=keep, noise_std=STD
    )


def expected() -> list[Expected]:
    rng = np.random.default_rng(4)
    sigma = math.sqrt(ENERGY / DIM_OF_GRADIENT_LAWS)
    sphere = []
    for _ in range(DRAWS):
        v = rng.standard_normal(DIM_OF_GRADIENT_LAWS)
        sphere.append(v / np.linalg.norm(v) * math.sqrt(ENERGY))
    rows: list[Expected] = []
    spreads = []
    for ratio, keep in zip(RATIOS, KEEPS, strict=True):
        spreads.append(spread(np.array([smallest(v, keep) for v in sphere])))
        predicted = float(pruning.top_k_mse(DIM_OF_GRADIENT_LAWS, keep, sigma_g=sigma))
        rows.append(("top_k_mse", ratio, keep, predicted, smallest(G, keep), spreads[-1], GAUSSIAN))
    for ratio, keep in ((0.1, 26), (0.003, 1), (1.0, 256), (0.5, 128)):
        under = spread(np.array([smallest_of_groups(v, keep) for v in sphere]))
        predicted = 2 * float(pruning.top_k_mse(256, keep, sigma_g=sigma))
        rows.append(("grouped_top_k_mse", ratio, 2 * keep, predicted, smallest_of_groups(G, keep), under, GAUSSIAN))
    for name, statistic in (("ks_distance", distance), ("excess_kurtosis", kurtosis)):
        under = np.array([statistic(v, sigma) for v in sphere])
        rows.append((name, 1.0, DIM_OF_GRADIENT_LAWS, under.mean(), statistic(G, sigma), spread(under), GAUSSIAN))

    top = np.argsort(-np.abs(G), kind="stable")
    noises, orders = [], []
    for _ in range(DRAWS):
        noises.append(STD * rng.standard_normal(DIM_OF_GRADIENT_LAWS))
        orders.append(rng.permutation(G))

    def angle(g: np.ndarray, noise: np.ndarray, keep: int) -> float:
        released = (g + noise) * (np.arange(DIM_OF_GRADIENT_LAWS) < keep)
        return float(released @ g / (np.linalg.norm(released) * np.linalg.norm(g)))

    def row(name: str, ratio: float, keep: int, predicted: float, draws: np.ndarray, said: str = NONE) -> Expected:
        return name, ratio, keep, predicted, float(draws.mean()), spread(draws) / 3.0, said

    squares = np.array([np.sum(noise**2) for noise in noises])
    rows.append(row("noise_mse", 1.0, DIM_OF_GRADIENT_LAWS, DIM_OF_GRADIENT_LAWS * STD**2, squares))
    whole = np.array([angle(G[top], noise, DIM_OF_GRADIENT_LAWS) for noise in noises])
    rows.append(row("cosine_dp_sgd", 1.0, DIM_OF_GRADIENT_LAWS, cosine(ENERGY, DIM_OF_GRADIENT_LAWS), whole))
    for place, (ratio, keep) in enumerate(zip(RATIOS, KEEPS, strict=True)):
        lost = np.array([np.sum(order[keep:] ** 2) for order in orders])
        largest = np.array([angle(G[top], noise, keep) for noise in noises])
        random = np.array([angle(order, noise, keep) for order, noise in zip(orders, noises, strict=True)])
        given = np.array([cosine(ENERGY - part, keep) for part in lost])
        fitted = float(pruning.top_k_energy(DIM_OF_GRADIENT_LAWS, keep, sigma_g=sigma))
        swing = cosine(fitted + spreads[place], keep) - cosine(fitted - spreads[place], keep)
        both = math.hypot(spread(largest) / 3.0, swing / 2)
        random_mse = (1 - keep / DIM_OF_GRADIENT_LAWS) * ENERGY
        rows += [
            row("random_k_mse", ratio, keep, random_mse, lost),
            row("cosine_top_k", ratio, keep, cosine(ENERGY - smallest(G, keep), keep), largest),
            ("cosine_top_k", ratio, keep, cosine(fitted, keep), float(largest.mean()), both, GAUSSIAN),
            ("cosine_random_k", ratio, keep, float(given.mean()), float(random.mean()), spread(random - given) / 3.0, NONE),
            row("cosine_random_k", ratio, keep, cosine(ENERGY - random_mse, keep), random, GAUSSIAN),
        ]  # fmt: skip
    return rows


def test_every_row() -> None:
    rows = measure_gradient(G, SETTINGS, np.random.default_rng(4))
    wanted = expected()
    settings = [f"keep {one[1]:g}" if one[0] not in WHOLE else "" for one in wanted]
    assert [(row.quantity, row.setting, row.keep, row.assumption) for row in rows] == [
        (one[0], setting, one[2], one[6]) for one, setting in zip(wanted, settings, strict=True)
    ]
    for row, one in zip(rows, wanted, strict=True):
        np.testing.assert_allclose(
            [row.predicted, row.measured, row.standard_error], one[3:6], rtol=1e-9, atol=1e-9, err_msg=str(one)
        )


def of_one_layer(g: Any, *shares: float, draws: int = 2) -> tuple[Row, ...]:
    """Measured without noise."""
    settings = MeasureSettings(shares, draws=draws, noise_multiplier=0.0, max_grad_norm=CLIP)
    return measure_gradient(g, settings, np.random.default_rng(0))


def test_fewer_entries_than_a_group_and_ratios_that_keep_none_of_one() -> None:
    def kept(dim: int, *shares: float) -> list[int | None]:
        return [
            row.keep for row in of_one_layer(np.arange(1.0, dim + 1), *shares) if row.quantity == "grouped_top_k_mse"
        ]

    assert kept(255, 0.5) == [] and kept(256, 0.5) == [128] and kept(511, 0.5) == [128]
    assert kept(700, 0.0015, 0.0025) == [2]  # .38 and .64 of 256


def test_without_noise() -> None:
    (noise,) = (row for row in of_one_layer(G, 0.5, draws=3) if row.quantity == "noise_mse")
    assert noise.predicted == 0.0 and noise.measured == 0.0
    sparse = np.zeros(300)
    sparse[0] = 1.0
    rows = of_one_layer(sparse, 0.3, draws=40)
    random = [row for row in rows if row.quantity == "cosine_random_k" and row.assumption == NONE]
    assert 0.1 < random[0].measured < 0.6 and random[0].measured == pytest.approx(random[0].predicted, abs=1e-6)


def test_a_gradient_that_can_be_measured() -> None:
    def take(value: float) -> None:
        g = np.zeros(16)
        g[3] = value
        of_one_layer(g, 1.0)

    take(4.001e-70), take(-1e70)  # a quarter of it is the root mean square
    for bad, end in ((3.999e-70, "1e-70"), (0.0, "1e-70"), (1.01e70, "1e+70")):
        with refused("gradient", end):
            take(bad)
    of_one_layer(np.full(16, 1e-70), 1.0)
    for wrong in (np.ones((2, 5)), []):
        with refused("gradient"):
            of_one_layer(wrong, 1.0)
    assert SETTINGS.sum_noise_std == STD


def test_ratios_of_rows() -> None:
    row = Row(group="g", quantity="q", claims="c", keep=3, predicted=2.0, measured=3.0, standard_error=0.25)
    assert (row.ratio, row.standard_errors_off) == (1.5, 4.0)
    for predicted, ratio in ((0.0, None), (0.25, None), (-0.25, None), (0.251, 3 / 0.251), (-0.251, -3 / 0.251)):
        assert dataclasses.replace(row, predicted=predicted).ratio == ratio
    for error, off in ((3e-12, None), (3.1e-12, 1 / 3.1e-12), (0.0, None)):
        found = dataclasses.replace(row, standard_error=error).standard_errors_off
        assert found is None if off is None else found == pytest.approx(off)
    assert dataclasses.replace(row, standard_error=3.2e-12, measured=-3.0).standard_errors_off is not None
