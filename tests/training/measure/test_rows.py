"""Every predicted and measured number of a validation, against a direct computation on small made-up gradients."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from dptheory import embedding, freezing, gradients, sparsification
from dptheory.training import mechanisms as m
from dptheory.training._randomness import subset
from dptheory.training.measure import (
    LinearGradient,
    MeasureSettings,
    Row,
    Snapshot,
    ValidateSettings,
    _validation,
    measure_gradient,
)
from dptheory.training.measure._rows import Labels
from dptheory.training.mechanisms import power_iteration
from dptheory.training.runs import DpSgdSettings
from tests.calls import by_name
from tests.training.made_rows import Anchors
from tests.training.made_rows import row as made_row

DIM, POOL, BATCH, ANCHORS = 24, 13, 7, 16
SIGMA, CLIP = 0.7, 1.3
SETTINGS = ValidateSettings(
    DpSgdSettings(steps=8, batch_size=6, noise_multiplier=SIGMA, max_grad_norm=CLIP, learning_rate=0.5, seed=11),
    drop_rate=0.4,
    keep_shares=(0.05, 0.3),
    subspace_dims=(2, 9, 5, 7),
    pool=POOL,
    anchors=ANCHORS,
    window=3,
    draws=21,
)

pytestmark = pytest.mark.usefixtures("simulated")
LAYERS = {
    "a.weight": slice(0, 5),
    "a.bias": slice(5, 6),
    "b.weight": slice(6, 10),
    "c.weight": slice(10, 18),
    "c.bias": slice(18, 20),
    "d.weight": slice(20, 24),
}
FIRST = 10
"""Of the entries of the second half of the layers, c and d."""


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made_up() -> Snapshot:
    """Gradients with a common part, of norms from 0 to three times the clip."""
    rng = np.random.default_rng(5)

    def tensor(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.from_numpy(scale * rng.standard_normal(shape)).float()

    common = tensor(DIM, scale=0.15)
    batch = (common + tensor(BATCH, DIM, scale=0.2)) * torch.tensor([0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0])[:, None]
    outputs, inputs = rng.standard_normal(3), rng.standard_normal(5)
    head = LinearGradient(np.outer(outputs, inputs) * 1.01, outputs, inputs)
    pool = common + tensor(POOL, DIM) * torch.linspace(0.05, 0.6, POOL)[:, None]
    return Snapshot(
        name="middle",
        step=3,
        true=pool.double().mean(0).numpy() + 0.01 * rng.standard_normal(DIM),
        pool=pool,
        batch=batch,
        anchors=tensor(ANCHORS, DIM) * torch.linspace(0.2, 2.0, DIM),
        layers=LAYERS,
        window_sum=tensor(DIM, scale=2.0),
        next_sum=tensor(DIM, scale=2.0),
        head=head,
    )


SNAPSHOT = made_up()
Expected = tuple[str, str, str, str, float, float, float, str, str]


def same(found: Sequence[Row], expected: Sequence[Expected], tolerance: float = 1e-5) -> None:
    """Row by row, words exactly and numbers to the rounding of float32."""
    assert len(found) == len(expected)
    for row, (group, quantity, setting, claims, predicted, measured, error, assumption, relation) in zip(
        found, expected, strict=True
    ):
        assert (row.group, row.quantity, row.setting, row.claims, row.assumption, row.relation) == (
            group,
            quantity,
            setting,
            claims,
            assumption,
            relation,
        )
        numbers = np.array([row.predicted, row.measured, row.standard_error])
        np.testing.assert_allclose(
            numbers, [predicted, measured, error], rtol=tolerance, atol=1e-9, err_msg=f"{quantity} {setting}"
        )


def error_of(differences: np.ndarray) -> float:
    return float(np.sqrt(np.sum((differences - differences.mean()) ** 2) / (differences.size - 1) / differences.size))


def drawn(predicted: object, draws: object) -> tuple[float, float, float]:
    """Predicted, measured and standard error of a mean of draws."""
    values, given = np.asarray(draws, float), np.asarray(predicted, float)
    return float(given.mean()), float(values.mean()), error_of(values - given)


def clipped(rows: np.ndarray, clip: float) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.where(norms > clip, clip / np.where(norms > 0, norms, 1.0), 1.0)


def normal(generator: torch.Generator, std: float, dtype: torch.dtype = torch.float32) -> np.ndarray:
    return torch.normal(0.0, std, (DIM,), generator=generator, dtype=dtype).double().numpy()


# --- rows ---------------------------------------------------------------------------------------------------------------


def test_a_row_is_within_five_standard_errors_and_rounding() -> None:
    row = made_row(2.0, 2.5, 0.1)
    assert row.within and not dataclasses.replace(row, measured=2.501).within
    assert dataclasses.replace(row, measured=1.5).within and not dataclasses.replace(row, measured=1.499).within
    exact = dataclasses.replace(row, standard_error=0.0)
    for sign in (1.0, -1.0):
        for size in (1e-3, 1e3):  # relative to the larger of both
            near = dataclasses.replace(exact, predicted=sign * size, measured=sign * size * (1 + 1.99e-5))
            far = dataclasses.replace(exact, predicted=sign * size, measured=sign * size * (1 + 2.01e-5))
            assert near.within and not far.within
    assert not dataclasses.replace(exact, predicted=0.0, measured=1e-9).within
    assert dataclasses.replace(exact, predicted=1.0 - 2e-5 * (1 - 1e-5), measured=1.0).within  # of the larger of both
    assert dataclasses.replace(exact, predicted=1.0, measured=0.0, standard_error=0.2).within  # slack of the prediction
    assert not dataclasses.replace(exact, predicted=1.0, measured=0.0, standard_error=0.199).within


def test_a_bound_may_be_missed_by_the_slack_alone() -> None:
    row = made_row(2.0, 2.0, 0.1, relation="at least")
    for measured, least, most in ((1.49, False, True), (1.51, True, True), (2.49, True, True), (2.51, True, False)):
        assert dataclasses.replace(row, measured=measured).within == least
        assert dataclasses.replace(row, measured=measured, relation="at most").within == most
    for relation in ("equal", "at least", "at most"):  # with no slack at all, the bound itself keeps to it
        assert made_row(0.0, 0.0, relation=relation).within


def test_the_error_of_a_prediction_widens_the_reach() -> None:
    row = made_row(2.0, 2.75, 0.1, error=0.25)
    assert row.reach == 0.75 and row.within and not dataclasses.replace(row, measured=2.751).within
    assert made_row(2.0, 2.5, 0.1).reach == 0.5
    assert Labels(group="g", claims="c").mean("q", "s", 1.0, [1.0, 2.0], error=0.25).error == 0.25
    assert Labels(group="g", claims="c").mean("q", "s", 1.0, [1.0, 2.0]).error == 0.0


def test_what_is_broken() -> None:
    row = made_row(2.0, 3.0)
    assert row.broken and not dataclasses.replace(row, assumption="a").broken
    assert not dataclasses.replace(row, measured=2.0).broken


def test_labels_fill_the_rows() -> None:
    labels = Labels(group="g", claims="c")
    assert labels.fixed("q", "s", 1, 2, "a", "at most") == made_row(
        1.0, 2.0, setting="s", assumption="a", relation="at most"
    )
    draws = [1.0, 2.0, 4.0, 9.0]
    row = labels.mean("q", "s", [1.0, 1.0, 2.0, 2.0], draws, "a", "at least")
    same([row], [("g", "q", "s", "c", 1.5, 4.0, error_of(np.array([0.0, 1.0, 2.0, 7.0])), "a", "at least")], 1e-12)
    same(
        [labels.mean("q", "s", 3.0, draws)],
        [("g", "q", "s", "c", 3.0, 4.0, error_of(np.array(draws)), "none", "equal")],
    )


# --- error of a step ----------------------------------------------------------------------------------------------------


def test_rates_drop_a_whole_number_of_entries() -> None:
    assert _validation.whole_rate(0.4, 24) == 1 - 14 / 24
    assert _validation.whole_rate(1e-9, 10) == pytest.approx(0.1)
    assert _validation.whole_rate(1 - 1e-9, 10) == 0.9


def test_error_of_a_step() -> None:
    generator, pool = seeded(), SNAPSHOT.pool.double().numpy()
    mean = pool.mean(0)
    rate, size = 1 - 14 / 24, 6

    def runs(masks: torch.Generator | None) -> dict[str, np.ndarray]:
        columns = []
        for _ in range(21):
            mask = np.ones(DIM)
            if masks is not None:
                mask = subset(DIM, 14, masks).double().numpy()
            chosen = torch.randint(POOL, (size,), generator=generator).numpy()
            total = clipped(pool[chosen] * mask, CLIP).sum(0)
            released = mask * (total + normal(generator, SIGMA * CLIP))
            every = clipped(pool * mask, CLIP)
            centre = every.mean(0)
            law = np.sum((mean - centre) ** 2) + np.mean(np.sum((every - centre) ** 2, axis=1)) / size
            columns.append([
                np.sum((mean - total / size) ** 2),
                np.sum((released - total) ** 2) / size**2,
                np.sum((mean - released / size) ** 2),
                law,
                np.linalg.norm(mean * mask),
                np.mean(np.linalg.norm(pool * mask, axis=1) > CLIP),
            ])  # fmt: skip
        return dict(zip(("loss", "noise", "mse", "law", "norm", "share"), np.array(columns).T, strict=True))

    full = runs(None)
    masked = runs(seeded(int(torch.randint(2**31, (), generator=generator))))
    spread = float(np.sqrt(np.mean((pool - mean) ** 2)))
    assert _validation.deviation(SNAPSHOT) == pytest.approx(spread, rel=1e-6)
    given = (float(np.linalg.norm(mean)), DIM, spread, CLIP, SIGMA, size, rate)
    gaussian, flat = (
        gradients.clipped_gradient_mse(
            **by_name(
                "grad_norm dim deviation clip_norm noise_multiplier batch_size drop_rate masked_norms", (*given, norms)
            )
        )
        for norms in (masked["norm"], None)
    )
    expected: list[Expected] = []
    for setting, found, law in (("DP-SGD", full, gaussian.full), (f"freeze {rate:.3g}", masked, gaussian.masked)):
        kept = 1.0 if found is full else 14 / 24
        energy = kept * DIM * (SIGMA * CLIP / size) ** 2
        for quantity, numbers, assumption in (
            ("noise_energy", drawn(energy, found["noise"]), "none"),
            ("signal_loss", drawn(found["law"], found["loss"]), "none"),
            ("mse", drawn(found["law"] + energy, found["mse"]), "none"),
            ("signal_loss", drawn(law.signal_loss, found["loss"]), "rf.eq6: deviations N(0, s^2 I)"),
            ("mse", drawn(law.mse, found["mse"]), "rf.eq6: deviations N(0, s^2 I)"),
            ("clipped_share", (law.clip_probability, found["share"].mean(), 0.0), "rf.eq6: deviations N(0, s^2 I)"),
        ):
            expected.append(("mse", quantity, setting, "rf.eq6, rf.eq7", *numbers, assumption, "equal"))
    last = drawn(flat.masked.signal_loss, masked["loss"])
    said = "rf.eq7: deviations N(0, s^2 I), true gradient flat"
    expected.append(("mse", "signal_loss", f"freeze {rate:.3g}", "rf.eq6, rf.eq7", *last, said, "equal"))
    same(_validation.mse_rows(SNAPSHOT, SETTINGS, seeded()), expected)
    assert 0 < masked["share"].mean() < full["share"].mean() < 1


def test_a_zero_gradient_is_not_clipped() -> None:
    zeros = dataclasses.replace(SNAPSHOT, pool=torch.zeros(POOL, DIM))
    true = torch.ones(DIM, dtype=torch.float64)
    loss, share = _validation._law(zeros, true, torch.zeros(POOL, dtype=torch.float64), true > 0, SETTINGS)
    assert (loss, share) == (DIM, 0.0)
    level = dataclasses.replace(SNAPSHOT, pool=torch.full((POOL, 1), CLIP))
    one = torch.ones(1, dtype=torch.float64)
    squares = torch.full((POOL,), CLIP, dtype=torch.float64).square()
    assert _validation._law(level, one, squares, one > 0, SETTINGS)[1] == 0.0  # of norm C: not clipped


# --- clipping and kappa ---------------------------------------------------------------------------------------------------


def clips() -> dict[str, float]:
    pool = SNAPSHOT.pool.double().numpy()
    return {"C": CLIP, "C' = 2 median": 2 * float(np.median(np.linalg.norm(pool - pool.mean(0), axis=1)))}


def test_clipped_descent() -> None:
    pool = SNAPSHOT.pool.double().numpy()
    mean = pool.mean(0)
    norms, size = np.linalg.norm(pool - mean, axis=1), float(np.linalg.norm(mean))
    expected: list[Expected] = []
    for name, clip in clips().items():
        kept = np.mean(clipped(pool, clip) @ mean)
        mirrored = np.mean(clipped(2 * mean - pool, clip) @ mean)
        wide, narrow = (
            gradients.symmetric_clip_lower_bound(
                grad_norm=size, clip_norm=clip, deviation_norms=norms, deviation_share=z
            )
            for z in (0.75, 0.25)
        )
        for how, bound in (("integral", wide.integral), ("split 0.75", wide.split), ("split 0.25", narrow.split)):
            words = (f"{how}, {name}", "rs.lem3.2, rf.eq70")
            both = (bound, (kept + mirrored) / 2, 0.0)
            expected += [
                ("clipping", "descent, symmetrised", *words, *both, "none", "at least"),
                ("clipping", "descent", *words, bound, kept, 0.0, "rs.lem3.2: deviations symmetric", "at least"),
            ]
    same(_validation.clipping_rows(SNAPSHOT, SETTINGS), expected)


def test_kappa() -> None:
    generator, pool = seeded(), SNAPSHOT.pool.double().numpy()
    mean, keep = pool.mean(0), 14
    rate, deviations = 1 - keep / DIM, pool - mean
    masks = np.stack([subset(DIM, keep, generator).double().numpy() for _ in range(200)])
    seed = int(torch.randint(2**31, (), generator=generator))
    size = float(np.linalg.norm(mean))
    expected: list[Expected] = []
    errors: list[float] = []
    clip_of = {"C": 2.5, "C' = 2 median": clips()["C' = 2 median"]}
    training = dataclasses.replace(SETTINGS.training, max_grad_norm=2.5)
    settings = dataclasses.replace(SETTINGS, training=training)
    for name, clip in clip_of.items():
        room = 0.25 * clip
        below = np.mean(np.linalg.norm(deviations, axis=1) < 0.75 * clip)
        samples = []
        for mask in masks:
            hit = np.mean(np.linalg.norm(deviations * mask, axis=1) < 0.75 * clip)
            own = float(np.linalg.norm(mean * mask))
            samples.append(hit * min(own**2, room * own) / (below * min(size**2, room * size)))
        exact = sparsification.kappa(mean, clip_norm=clip, drop_rate=rate, deviation=deviations, seed=seed)
        gaussian = sparsification.kappa(
            mean, clip_norm=clip, drop_rate=rate, deviation=_validation.deviation(SNAPSHOT), seed=seed
        )
        whole = clipped(pool, clip).sum(0) @ mean
        ratios = [clipped(pool * mask, clip).sum(0) @ mean / whole for mask in masks[:20]]
        value, measured, error = drawn(exact.value, samples)
        words = (f"rate {rate:.3g}, {name}", "rs.lem3.3, rs.kappa")
        said = "rs.lem3.3: the lower bounds are the descents"
        expected += [
            ("kappa", "kappa", *words, value, measured, error, "none", "equal"),
            ("kappa", "kappa, lower end", *words, exact.lower, measured, error, "none", "at least"),
            ("kappa", "kappa, upper end", *words, exact.upper, measured, error, "none", "at most"),
            ("kappa", "descent ratio", *words, *drawn(value, ratios), said, "equal"),
            ("kappa", "kappa", *words, *drawn(gaussian.value, samples), "rs.kappa: deviations N(0, s^2 I)", "equal"),
        ]
        errors += [exact.error, 0.0, 0.0, exact.error, gaussian.error]
        assert 0 < below < 1
    rows, notes = _validation.kappa_rows(SNAPSHOT, settings, seeded())
    own = [row for row in rows if row.claims == "rs.mask_is_clip"]
    rows = [row for row in rows if row not in own]
    same(rows, expected)
    assert [row.error for row in rows] == errors and max(errors) > 0
    assert {row.relation for row in own} == {"at least", "at most", "equal"} and len(own) == 6
    assert notes == ()


def test_what_kappa_cannot_say_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deviations of length 1 exactly, which is 3/4 of the clip: none is shorter."""
    pool = torch.zeros(2, DIM)
    pool[0, 0], pool[1, 0] = 1.0, 3.0
    training = dataclasses.replace(SETTINGS.training, max_grad_norm=4 / 3)
    settings = dataclasses.replace(SETTINGS, training=training)
    rows, notes = _validation.kappa_rows(dataclasses.replace(SNAPSHOT, pool=pool), settings, seeded())
    assert notes[0] == "kappa at C is undefined: no deviation of 2 is shorter than 0.75 C"
    assert {row.setting.split(", ")[1] for row in rows if row.claims != "rs.mask_is_clip"} <= {"C' = 2 median"}

    plain = sparsification.kappa

    def endless(true, *, deviation, **named):
        found = plain(true, deviation=deviation, **named)
        return found if np.ndim(deviation) else dataclasses.replace(found, value=np.inf)

    monkeypatch.setattr(sparsification, "kappa", endless)
    training = dataclasses.replace(SETTINGS.training, max_grad_norm=2.5)
    rows, notes = _validation.kappa_rows(SNAPSHOT, dataclasses.replace(SETTINGS, training=training), seeded())
    assert len([row for row in rows if row.claims != "rs.mask_is_clip"]) == 8
    assert notes == tuple(f"kappa at {name} for Gaussian deviations exceeds the largest float" for name in clips())


def test_definition_of_kappa_at_its_corners() -> None:
    """f(X) = min(X, c sqrt X) on both sides of c^2; a deviation of length zC exactly is not below."""
    found = _validation._definition(2.0, np.array([0.04, 9.0]), np.array([[1.0, 0.5], [0.5, 0.5]]), 4 / 3)
    room = 1 / 3
    np.testing.assert_allclose(found, [0.5 * 0.04 / (room * 2), room * 3 / (room * 2)], rtol=1e-12)
    small = _validation._definition(0.1, np.array([0.01]), np.array([[0.0]]), 4 / 3)
    np.testing.assert_allclose(small, [1.0], rtol=1e-12)


# --- pruning and ranking ----------------------------------------------------------------------------------------------------


def test_pruning() -> None:
    gradient = clipped(SNAPSHOT.batch.double().numpy(), CLIP).sum(0)
    wanted = MeasureSettings((0.05, 0.3), draws=21, noise_multiplier=SIGMA, max_grad_norm=CLIP)
    every = measure_gradient(gradient.astype(np.float32), wanted, np.random.default_rng(2))
    gaussian = "gip.assumption1: Gaussian entries"
    claims = {"random_k_mse": "gip.mse_r", "top_k_mse": "gip.mse_t0, gip.assumption1", "noise_mse": "gip.noise_ratio"}
    places = {"noise_mse": "", "cosine_dp_sgd": "", "ks_distance": "", "excess_kurtosis": ""}
    expected: list[Expected] = []
    for row in every:
        numbers = (row.predicted, row.measured, row.standard_error)
        group = {"cosine": "cosines", "ks_dis": "entries", "excess": "entries"}.get(row.quantity[:6], "pruning")
        claim = claims.get(row.quantity, {"cosines": "gip.criterion", "entries": "gip.assumption1"}.get(group, ""))
        keep = places.get(row.quantity, {1: "keep 0.05", 7: "keep 0.3"}.get(row.keep or 0, ""))
        expected.append((group, row.quantity, keep, claim, *numbers, row.assumption, "equal"))
    same(_validation.pruning_rows(SNAPSHOT, SETTINGS, np.random.default_rng(2)), expected)
    assert {row.assumption for row in every} == {"none", gaussian}
    assert {row.assumption for row in every if row.quantity in ("top_k_mse", "ks_distance")} == {gaussian}
    assert {row.assumption for row in every if row.quantity in ("random_k_mse", "cosine_dp_sgd")} == {"none"}


def test_ranking() -> None:
    generator, std = seeded(), SIGMA * CLIP * 3**0.5
    summed, after = (t.double().numpy() for t in (SNAPSHOT.window_sum, SNAPSHOT.next_sum))
    noisy = [summed + normal(generator, std) for _ in range(21)]
    snr = float(np.sqrt(np.mean(summed**2))) / std
    expected: list[Expected] = []
    for ratio, keep in ((0.05, 1), (0.3, 7)):
        predicted = sparsification.captured_energy(DIM, keep, snr=snr)
        for quantity, signal, said in (
            ("captured_energy", summed, "rf.ranked: Gaussian entries"),
            ("captured_energy_next", after, "rf.ranked: Gaussian entries, the same signal in the next step"),
        ):
            shares = [np.sum(signal[np.argsort(-np.abs(n))[:keep]] ** 2) / np.sum(signal**2) for n in noisy]
            words = ("ranking", quantity, f"keep {ratio:g}", "rf.ranked")
            expected.append((*words, *drawn(predicted, shares), said, "equal"))
    same(_validation.ranking_rows(SNAPSHOT, SETTINGS, seeded()), expected)


# --- angles and freezing ------------------------------------------------------------------------------------------------


def parts() -> tuple[tuple[str, np.ndarray, np.ndarray], ...]:
    """Name, true gradient and clipped sum of the whole network and of its trainable half."""
    batch = SNAPSHOT.batch.double().numpy()
    whole, after = clipped(batch, CLIP).sum(0), clipped(batch[:, FIRST:], CLIP).sum(0)
    true = SNAPSHOT.true
    return (
        ("all layers", true, whole),
        ("trainable, before", true[FIRST:], whole[FIRST:]),
        ("trainable, after", true[FIRST:], after),
    )


def angle(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.arccos(one @ other / (np.linalg.norm(one) * np.linalg.norm(other))))


def test_angles() -> None:
    generator, std = seeded(), SIGMA * CLIP
    expected: list[Expected] = []
    for name, true, signal in parts():
        shape = (len(signal),)
        noisy = [
            signal + torch.normal(0.0, std, shape, generator=generator, dtype=torch.float64).numpy() for _ in range(21)
        ]
        turned, off = [angle(n, signal) for n in noisy], [angle(n, true) for n in noisy]
        bias = angle(true, signal)
        law = gradients.DistortionAngle(len(signal), snr=float(np.linalg.norm(signal)) / std)
        cosine = gradients.batch_expected_cos(cos_bias=np.cos(bias), dim=law.dim, snr=law.snr)
        for quantity, numbers in (
            ("cos gamma_BP", drawn(law.expected_cos(), np.cos(turned))),
            ("gamma_BP", drawn(law.mean(), turned)),
            ("cos gamma", drawn(cosine, np.cos(off))),
            ("gamma", drawn(freezing.expected_angle(law.dim, snr=law.snr, bias_angle=bias), off)),
        ):
            expected.append(("angles", quantity, name, "lf.def3.2, lf.angle_law", *numbers, "none", "equal"))
    same(_validation.angle_rows(SNAPSHOT, SETTINGS, seeded())[:12], expected)


def freezing_expected(snapshot: Snapshot, growth_said: str, turn_said: str) -> list[Expected]:
    batch, true = snapshot.batch.double().numpy(), snapshot.true
    frozen, kept = (np.linalg.norm(part, axis=1) for part in (batch[:, :FIRST], batch[:, FIRST:]))
    before = clipped(batch, CLIP)[:, FIRST:]
    after = clipped(batch[:, FIRST:], CLIP)
    old, new = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
    one, other = (float(np.linalg.norm(rows.sum(0))) for rows in (before, after))
    norms = np.stack([np.linalg.norm(batch[:, part], axis=1) for part in LAYERS.values()], axis=1)
    sizes = [5, 1, 4, 8, 2, 4]
    effect = freezing.freezing_effect(
        sizes,
        layer_norms=norms,
        frozen_layers=3,
        clip_norm=CLIP,
        noise_multiplier=SIGMA,
        batch_size=len(batch),
        alignment=min(1.0, one / old.sum()),
    )
    sure = freezing.signal_growth(batch[:, FIRST:], frozen_norms=frozen, clip_norm=CLIP)
    lemma, turn = ("freezing", "lf.lem3.2a, lf.lem3.2b"), ("freezing", "lf.prop3.1.1")
    grown = float((old * freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=CLIP)).mean())
    aligned = "lf.prop3.1.3: alignment unchanged by freezing"
    angle_before, angle_after = (angle(true[FIRST:], rows.sum(0)) for rows in (before, after))
    noise = "lf.prop3.1.3"
    std = SIGMA * CLIP
    return [
        ("freezing", "mean clipped norm", "after", lemma[1], grown, float(new.mean()), 0.0, "none", "equal"),
        ("freezing", "norm growth", "least", lemma[1], 1.0, np.min(new[kept > 0] / old[kept > 0]), 0.0, "none", "at least"),
        ("freezing", "|signal| after / before", "grows", lemma[1], 1.0, sure.after / sure.before, 0.0, growth_said, "at least"),
        ("freezing", "gamma_B", "falls", turn[1], angle_before, angle_after, 0.0, turn_said, "at most"),
        ("freezing", "signal-to-noise", "before", noise, effect.before.snr, one / std, 0.0, "none", "equal"),
        ("freezing", "signal-to-noise", "after", noise, effect.after.snr, other / std, 0.0, aligned, "equal"),
    ]  # fmt: skip


def test_freezing() -> None:
    assert _validation.trainable_from(LAYERS) == FIRST
    positive = "lf.lem3.2b: inner products of the gradients >= 0"
    found = _validation.angle_rows(SNAPSHOT, SETTINGS, seeded())[12:]
    sure = freezing.signal_growth(
        SNAPSHOT.batch[:, FIRST:].double().numpy(),
        frozen_norms=SNAPSHOT.batch[:, :FIRST].norm(dim=1).numpy(),
        clip_norm=CLIP,
    )
    turning = "lf.prop3.1.1: what freezing adds lies on the true gradient's side"
    whole, after = parts()[1][2], parts()[2][2]
    turn = freezing.bias_turn(direction=SNAPSHOT.true[FIRST:], signal=whole, added=after - whole)
    growth_said, turn_said = (
        "none" if limit >= 1.0 else said for limit, said in ((sure.lower, positive), (turn.limit, turning))
    )
    same(found, freezing_expected(SNAPSHOT, growth_said, turn_said), 1e-4)


@pytest.mark.parametrize(("lower", "limit"), [(1.0, 1.0), (0.99, 0.99), (1.05, 0.99), (0.99, 1.05)])
def test_what_freezing_rests_on(lower: float, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    growth, turn = freezing.signal_growth, freezing.bias_turn
    monkeypatch.setattr(
        freezing, "signal_growth", lambda *a, **named: dataclasses.replace(growth(*a, **named), lower=lower)
    )
    monkeypatch.setattr(freezing, "bias_turn", lambda **named: dataclasses.replace(turn(**named), limit=limit))
    found = _validation.angle_rows(SNAPSHOT, SETTINGS, seeded())
    assert found[14].assumption == ("none" if lower >= 1 else "lf.lem3.2b: inner products of the gradients >= 0")
    assert found[15].assumption == (
        "none" if limit >= 1 else "lf.prop3.1.1: what freezing adds lies on the true gradient's side"
    )


def test_freezing_that_adds_nothing_turns_as_little() -> None:
    """All gradients are shorter than the clip: the sum is the same before and after."""
    short = dataclasses.replace(SNAPSHOT, batch=SNAPSHOT.batch / 100)
    found = _validation.angle_rows(short, SETTINGS, seeded())[15]
    assert found.predicted == pytest.approx(found.measured, rel=1e-9)
    assert found.assumption in ("none", _validation.TURN)


def test_angles_of_cosines_that_rounding_moved() -> None:
    found = _validation._angles(np.array([1.0 + 1e-15, -1.0 - 1e-15, 0.5]))
    np.testing.assert_allclose(found, [0.0, np.pi, np.pi / 3], atol=1e-12)


def test_what_the_theorems_on_freezing_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples and norms of the first 1024 examples; the true gradient, the signal, and what freezing adds to it."""
    growth, turn, asked = freezing.signal_growth, freezing.bias_turn, {}
    monkeypatch.setattr(
        freezing, "signal_growth", lambda *a, **named: asked.update(growth=(*a, *named.values())) or growth(*a, **named)
    )
    monkeypatch.setattr(freezing, "bias_turn", lambda **named: asked.update(turn=named.values()) or turn(**named))
    batch = SNAPSHOT.batch.repeat(150, 1)
    batch[:, -1] = 0.0  # there freezing adds nothing, whatever it does elsewhere
    _validation.angle_rows(dataclasses.replace(SNAPSHOT, batch=batch), SETTINGS, seeded())
    samples, frozen, clip = asked["growth"]
    np.testing.assert_array_equal(samples, batch[:1024, FIRST:].double().numpy())
    np.testing.assert_allclose(frozen, np.linalg.norm(batch[:1024, :FIRST].numpy(), axis=1), rtol=1e-5)
    assert clip == CLIP
    plain = batch.double().numpy()
    before, after = clipped(plain, CLIP)[:, FIRST:].sum(0), clipped(plain[:, FIRST:], CLIP).sum(0)
    for found, wanted in zip(asked["turn"], (SNAPSHOT.true[FIRST:], before, after - before), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert np.abs(after - before).max() > 1


def test_one_gradient_is_aligned_with_itself() -> None:
    """Rounding may put its alignment above 1."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        batch = torch.from_numpy(rng.standard_normal((1, DIM))).float()
        rows = _validation.angle_rows(dataclasses.replace(SNAPSHOT, batch=batch), SETTINGS, seeded())
        assert rows[16].quantity == "signal-to-noise" and rows[16].within


# --- projection and embedding -------------------------------------------------------------------------------------------


def test_projection() -> None:
    generator, batch = seeded(), SNAPSHOT.batch.double().numpy()
    norms = np.linalg.norm(batch, axis=1)
    units = batch[norms > 0] / norms[norms > 0][:, None]
    assert len(units) == BATCH - 1 and norms.min() == 0 < 1 < norms.max() and np.sort(norms)[1] < 1
    energies = []
    for _ in range(20):
        gaussian = torch.randn(9, DIM, generator=generator).double().numpy()
        basis = np.linalg.qr(gaussian.T)[0].T  # its first rows span those of the Gaussian ones
        energies.append(np.mean((units @ basis.T) ** 2, axis=0))
    expected: list[Expected] = []
    for k in (2, 9, 5, 7):
        shares = np.array([energy[:k].sum() for energy in energies])
        error = embedding.random_basis_error(dim=DIM, subspace_dim=k)
        rows = power_iteration(SNAPSHOT.anchors, dim=k, iterations=1, generator=generator).double().numpy()
        measured = np.sqrt(1 - np.mean(np.sum((units @ rows.T) ** 2, axis=1)))
        words = (f"k = {k}", "gep.jl")
        expected += [
            ("projection", "captured, random basis", *words, *drawn(1 - error**2, shares), "none", "equal"),
            ("projection", "error, random basis", *words, *drawn(error, np.sqrt(1 - shares)), "none", "equal"),
            ("projection", "error, GEP's basis", *words, error, measured, 0.0, "gep.jl: basis uniformly random", "equal"),
        ]  # fmt: skip
    same(_validation.projection_rows(SNAPSHOT, SETTINGS, seeded()), expected, 1e-4)


def test_embedding() -> None:
    generator, batch = seeded(), SNAPSHOT.batch.double().numpy()
    k, residual = 7, 0.2 * CLIP  # the upper middle one of 2, 5, 7 and 9
    expected: list[Expected] = []

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        return torch.normal(0.0, std, like.shape, generator=generator) if std else torch.zeros_like(like)

    for name, kind in (
        ("published", m.Gep),
        ("optimal", m.GepOptimal),
        ("joint", m.GepJoint),
        ("embedding_only", m.BiasedGep),
    ):
        mechanism = kind(Anchors(SNAPSHOT.anchors), subspace_dim=k, residual_clip=residual, groups=[[0]], seed=11)
        mechanism.begin_step([torch.zeros(DIM)])
        total = mechanism.contribute([SNAPSHOT.batch], CLIP).total
        basis = mechanism.bases[0].double().numpy()
        clean = mechanism.release(total, noise_multiplier=0.0, clip_norm=CLIP, noise=noise)[0].double().numpy()
        released = [
            mechanism.release(total, noise_multiplier=SIGMA, clip_norm=CLIP, noise=noise)[0].double().numpy()
            for _ in range(21)
        ]
        energies = [np.sum((r - clean) ** 2) for r in released]
        errors = [np.sum((r - batch.sum(0)) ** 2) for r in released]
        inside = batch @ basis.T
        outside = batch - inside @ basis
        lost = float(np.linalg.norm(outside.sum(0)))
        quiet, lossy = (
            embedding.gep_mse(
                **by_name(
                    "dim subspace_dim clip_norm residual_clip mu residual_norm embedding_clip",
                    (DIM, k, CLIP, residual, 1 / SIGMA, *rest),
                )
            )
            for rest in ((), (lost,))
        )
        if name == "joint":
            bias = embedding.joint_clipping_bias(inside, residuals=outside, clip_norm=CLIP, residual_share=0.2).square
        elif name == "embedding_only":
            bias = np.sum((clipped(inside, CLIP) - inside).sum(0) ** 2)
        else:
            within, off = clipped(inside, CLIP) - inside, clipped(outside, residual) - outside
            bias = np.sum(within.sum(0) ** 2) + np.sum(off.sum(0) ** 2)
        words = (f"{name}, k = {k}", "gep.versus, gep.rem1")
        expected += [
            ("embedding", "noise energy", *words, *drawn(getattr(quiet, name), energies), "none", "equal"),
            ("embedding", "mse", *words, *drawn(getattr(lossy, name) + bias, errors), "none", "equal"),
        ]
    same(_validation.embedding_rows(SNAPSHOT, SETTINGS, seeded()), expected, 1e-4)
    given = _validation._Given(SNAPSHOT.anchors)
    assert given.state_dict() == {}


# --- attack -------------------------------------------------------------------------------------------------------------


def test_attack() -> None:
    rng, head = np.random.default_rng(4), SNAPSHOT.head
    size, keep, std = 15, 3, SIGMA * CLIP  # 0.2 of 3 * 5 weights
    rate = 1 - keep / size
    predicted = sparsification.expected_error(np.r_[head.outputs, np.zeros(12)], drop_rate=rate, noise_std=std)
    errors, hidden = [], []
    for _ in range(20 * 21):
        mask = np.zeros(size)
        mask[rng.permutation(size)[:keep]] = 1.0
        mask = mask.reshape(3, 5)
        noisy = head.weights + std * rng.standard_normal((3, 5))
        seen = head.outputs**2 @ mask
        lost = seen == 0
        found = (head.outputs @ (mask * noisy)) / np.where(lost, 1.0, seen)
        hidden.append(lost.mean())
        errors.append(np.where(lost, 0.0, (found - head.pixels) ** 2).mean())
    outer = np.outer(head.outputs, head.pixels)
    energy = (np.sum(outer**2), np.sum(head.weights * outer), 0.0)
    visible = (1 - predicted.lost_probability) * predicted.given_recoverable
    same(
        _validation.attack_rows(SNAPSHOT, SETTINGS, np.random.default_rng(4)),
        [
            ("attack", "|gradient|^2", "last layer", "rs.thm5.1", *energy, "none", "equal"),
            ("attack", "error where not hidden", "rate 0.8", "rs.thm5.1", *drawn(visible, errors), "none", "equal"),
            ("attack", "share hidden", "rate 0.8", "rs.thm5.1", *drawn(predicted.lost_probability, hidden), "none", "equal"),
        ],
        1e-9,
    )  # fmt: skip
