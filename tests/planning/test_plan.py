"""The plan: every number again from the measured ones, limits, order, and that nothing is decided that is not."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from dptheory import claims, embedding, gradients, planning, privacy, pruning
from dptheory.planning import GradientStats, Interval, MethodForecast, Plan, TrainingSetup, _measured, _plan, plan
from dptheory.planning._plan import ranked
from tests.planning.made import LAYERS, STATS

FEW = {"num_examples": 2000, "epsilon": 3.0, "delta": 1e-5}
FIXED = {"batch_size": 1000, "epochs": 10, "clip_norm": 1.0, "learning_rate": 0.7, "max_epochs": 50}


@functools.cache
def noise(epsilon: float, rate: float, steps: int) -> float:
    return privacy.least_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=rate, steps=steps)


@functools.cache
def rough(epsilon: float, rate: float, steps: int) -> float:
    return privacy.estimated_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=rate, steps=steps)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, word and None of a record, by its place."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        yield f"{path}.length", len(value)
        for i, one in enumerate(value):
            yield from leaves(one, f"{path}[{i}]")
    else:
        yield path, value


def differences(found: Any, expected: Any) -> dict[str, tuple[Any, Any]]:
    ours, theirs = dict(leaves(found)), dict(leaves(expected))
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
        return bool(a == b)

    return {path: (ours[path], theirs[path]) for path in ours if not same(ours[path], theirs[path])}


# --- with everything fixed, from statistics made by hand ------------------------------------------------------------------


def between(low: float, high: float, clip: float) -> float:
    """Linear in log C between the clips 1/2 and 2."""
    share = math.log(clip / 0.5) / math.log(4.0)
    return (1 - share) * low + share * high


def at_clip(
    stats: GradientStats, method: str, setting: float, clip: float, scale: float
) -> list[dict[str, np.ndarray]]:
    """The measured rows of each moment, between the two clips."""
    found = []
    for moment in stats.moments:
        low, high = (m for m in moment.methods if (m.method, m.setting) == (method, setting))
        row = {
            name: np.array([between(a, b, clip) for a, b in zip(getattr(low, name), getattr(high, name), strict=True)])
            for name in ("alignments", "mean_squares", "second_moments")
        }
        if low.curvatures is not None and high.curvatures is not None:
            row["curvatures"] = np.array(
                [between(a, b, clip) for a, b in zip(low.curvatures, high.curvatures, strict=True)]
            )
        row["noise_dim"] = np.array(low.noise_dim if method == "biased-gep" else low.noise_dim * scale)
        found.append(row)
    return found


def squares(row: dict[str, np.ndarray], batch: int, rate: float, sigma: float, clip: float) -> np.ndarray:
    released: np.ndarray = row["mean_squares"] + (1 - rate) * row["second_moments"] / batch
    return released + row["noise_dim"] * (sigma * clip / batch) ** 2


def interval(values: np.ndarray) -> tuple[float, float]:
    """Jackknife with five folds."""
    left = values[1:]
    reach = student.ppf(0.975, 4) * math.sqrt(4 / 5 * ((left - left.mean()) ** 2).sum())
    return max(0.0, values[0] - reach), values[0] + reach


@functools.cache
def expected_methods(
    stats: GradientStats, batch: int, epochs: int, clip: float, dim: int, layers: bool
) -> tuple[Any, ...]:
    """name -> (parts, noise, error, cosine, descent, curved, index epsilon, memory, bytes)."""
    rate = batch / 2000
    steps = round(epochs / rate)
    sigma = noise(3.0, rate, steps)
    scale = dim / 200
    base = at_clip(stats, "dp-sgd", 0.0, clip, scale)
    unit = (sigma / batch) ** 2
    rows: list[Any] = []

    def measured(method: str, setting: float, parts: Any, noised: float, sent: int, memory: int, flat: bool) -> Any:
        own = at_clip(stats, method, setting, clip, scale)
        gains = []
        for row, plain in zip(own, base, strict=True):
            ratio = (row["alignments"] / plain["alignments"]) ** 2
            gains.append(
                interval(ratio * squares(plain, batch, rate, sigma, clip) / squares(row, batch, rate, sigma, clip))
            )
        errors = [noised * unit + (1 - rate) * row["second_moments"][0] / batch / clip**2 for row in own]
        cosines = [(0.0), 1.0]
        if flat:
            snrs = [math.sqrt(row["mean_squares"][0]) * batch / (sigma * clip) for row in own]
            cosines = [gradients.DistortionAngle(round(noised), snr=snr).expected_cos() for snr in snrs]
        curved = None
        if "curvatures" in own[0]:
            weights = np.array([1.0, (1 - rate) / batch, unit])
            worth = [
                row["alignments"][0] ** 2
                / (weights @ row["curvatures"])
                / (plain["alignments"][0] ** 2 / (weights @ plain["curvatures"]))
                for row, plain in zip(own, base, strict=True)
            ]
            curved = (min(worth), max(worth))
        descent = (min(low for low, _ in gains), max(high for _, high in gains))
        return (
            method,
            parts,
            noised * unit,
            (min(errors), max(errors)),
            (min(cosines), max(cosines)),
            descent,
            curved,
            0.0,
            memory,
            sent,
        )

    def unmeasured(
        method: str, parts: Any, kept: int, descent: Any, index: float, more: float, memory: int, sent: int
    ) -> Any:
        own = sigma * more
        energy = kept * (own / batch) ** 2
        cosine = gradients.DistortionAngle(kept, snr=batch / own).expected_cos()
        return (
            method,
            parts,
            energy,
            (energy, energy + (1 - rate) / batch),
            (0.0, cosine),
            descent,
            None,
            index,
            memory,
            sent,
        )

    seed, half = 16, dim // 2
    rows.append(measured("dp-sgd", 0.0, (), dim, 4 * dim, 0, True))
    rows.append(
        measured("random-sparsification", 0.5, (("drop_rate", 0.5, ("rf.eq7",)),), half, 4 * half + seed, 0, True)
    )
    rows.append(
        unmeasured(
            "ranked-sparsification",
            (("drop_rate", 0.5, ("rf.alg2",)),),
            half,
            (0.0, math.inf),
            0.0,
            1.0,
            dim,
            4 * half + seed,
        )
    )
    rows.append(
        unmeasured(
            "random-k", (("keep_share", 0.5, ("rf.posterior",)),), half, (0.5, 0.5), 0.0, 1.0, 0, 4 * half + seed
        )
    )
    froze = (("frozen_layers", 1.0, ("lf.freeze_bound",)),)
    if not layers:
        rows.append(unmeasured("layer-freezing", froze, 100, (0.0, math.inf), 0.0, 1.0, 0, 400))
    if layers:
        rows.append(measured("layer-freezing", 1.0, froze, 50, 200, 0, True))
    best = embedding.joint_clip(dim=dim, subspace_dim=10, clip_norm=clip, residual_share=0.2, mu=1 / sigma)
    memory = embedding.extra_floats(dim=dim, subspace_dim=10, anchors=20, gradient_count=batch)
    joint = [("subspace_dim", 10.0, ("gep.split",))]
    for name, value in (
        ("residual_clip", 0.2 * clip),
        ("embedding_std", best.embedding_std),
        ("residual_std", best.residual_std),
    ):
        joint.append((name, value, ("gep.joint_clip",)))
    rows.append(measured("gep-joint", 10.0, tuple(joint), 30.0 * scale, 4 * dim, memory, False))
    rows.append(measured("biased-gep", 10.0, tuple(joint[:1]), 10.0, 40, memory, True))
    group, groups = min(256, dim), -(-dim // 256)
    bought = pruning.index_budget(epsilon=0.03, dim=group, keep=group // 2, steps=steps, groups=groups)
    more = rough(3.0 - 0.03, rate, steps) / rough(3.0, rate, steps)
    told = -(-dim // 8) + 4 * half
    pruned = (
        ("keep_share", 0.5, ("gip.alg1",)),
        ("theta", bought.theta, ("gip.budget",)),
        ("retained_gain", bought.retained_gain, ("gip.retained_gain",)),
        ("total_variation", bought.total_variation, ("gip.budget",)),
    )
    gain = (0.5 / more**2, (0.5 + 0.5 * bought.retained_gain) ** 2 / 0.5)
    rows.append(unmeasured("index-pruning", pruned, half, gain, 0.03, more, 0, told))
    return tuple(rows)


SOURCES = {
    "dp-sgd": ("rf.eq6",),
    "random-sparsification": ("rf.eq7",),
    "ranked-sparsification": ("rf.alg2",),
    "random-k": ("rf.posterior",),
    "layer-freezing": ("lf.freeze_bound", "lf.privacy"),
    "gep-joint": ("gep.joint_clip",),
    "biased-gep": ("gep.rem1",),
    "index-pruning": ("gip.eq6", "gip.thm2"),
}
DESCENTS = {
    "ranked-sparsification": ("rf.mse_criterion",),
    "random-k": ("rf.posterior", "rf.mse_criterion"),
    "index-pruning": ("gip.retained_gain", "gip.budget"),
}


def _both(descent: tuple[float, float], curved: tuple[float, float] | None) -> tuple[float, float]:
    """From the lower of the two descents to the higher; anything without the second."""
    if curved is None:
        return 0.0, math.inf
    spans = [descent, curved]
    return min(low for low, _ in spans), max(high for _, high in spans)


def judge(found: Plan, stats: GradientStats, batch: int, epochs: int, clip: float) -> None:
    """Every number of the methods and of the noise, for a plan with statistics at this point."""
    rate = batch / 2000
    steps = round(epochs / rate)
    sigma = noise(3.0, rate, steps)
    dim = found.setup.entries
    assert (found.steps, found.sampling_rate, found.noise_multiplier) == (steps, rate, sigma)
    assert found.noise_share == pytest.approx(dim * sigma**2 / batch**2, rel=1e-12)
    rows = expected_methods(stats, batch, epochs, clip, dim, dim == 200)
    spans = [(1.0, 1.0) if row[0] == "dp-sgd" else _both(row[5], row[6]) for row in rows]
    expected = []
    for row in rows:
        name, parts, energy, error, cosine, descent, curved, index, memory, sent = row
        known = DESCENTS.get(name, ("rf.mse_criterion", "rs.lem3.1"))
        if math.isinf(descent[1]):
            known = ("rf.mse_criterion",)
        low, high = (1.0, 1.0) if name == "dp-sgd" else _both(descent, curved)
        verdict = "gain" if low > 1 else "loss" if high <= 1 else "undecided"
        expected.append(
            MethodForecast(
                method=name,
                parts=tuple(planning.Part(name=n, value=v, claims=c) for n, v, c in parts),
                noise_energy=Interval(lower=energy, upper=energy, claims=SOURCES[name]),
                error=Interval(lower=error[0], upper=error[1], claims=(*SOURCES[name], "rs.lem3.1")),
                cosine=Interval(lower=cosine[0], upper=cosine[1], claims=("lf.angle_law",)),
                descent=Interval(lower=descent[0], upper=descent[1], claims=known),
                curved_descent=None
                if curved is None
                else Interval(lower=curved[0], upper=curved[1], claims=("rf.mse_criterion",)),
                index_epsilon=index,
                memory=memory,
                communication=sent,
                best_rank=1 + sum(other > high for other, _ in spans),
                worst_rank=len(rows) - sum(other < low for _, other in spans),
                verdict="reference" if name == "dp-sgd" else verdict,
            )
        )
    assert not differences(found.methods, tuple(expected))


@functools.cache
def expected_rules(stats: GradientStats, batch: int, epochs: int, clip: float, dim: int) -> tuple[planning.Rule, ...]:
    """The tuned rate is proportional to 1 / sqrt(T E|g|^2)."""
    rate = batch / 2000
    steps = round(epochs / rate)
    sigma = noise(3.0, rate, steps)
    rows = at_clip(stats, "dp-sgd", 0.0, clip, dim / 200)
    now = [squares(row, batch, rate, sigma, clip)[0] for row in rows]
    louder = [math.sqrt(a / squares(row, batch, rate, 2 * sigma, clip)[0]) for row, a in zip(rows, now, strict=True)]
    fewer = round(epochs / (2 * rate))
    other = sigma * rough(3.0, 2 * rate, fewer) / rough(3.0, rate, steps)
    larger = [
        math.sqrt(steps * a / (fewer * squares(row, 2 * batch, 2 * rate, other, clip)[0]))
        for row, a in zip(rows, now, strict=True)
    ]
    known = ("rs.tuned", "rs.lem3.1")
    return (
        planning.Rule(change="noise_multiplier x 2", lower=min(louder), upper=max(louder), claims=known),
        planning.Rule(change="clip_norm x 2", lower=0.5, upper=1.0, claims=("rf.scaling", "rs.tuned")),
        planning.Rule(
            change="batch_size x 2, same epochs and budget", lower=min(larger), upper=max(larger), claims=known
        ),
    )


@functools.cache
def expected_rates(stats: GradientStats, batch: int, epochs: int, clip: float, dim: int) -> tuple[float, float]:
    rate = batch / 2000
    sigma = noise(3.0, rate, round(epochs / rate))
    weights = np.array([1.0, (1 - rate) / batch, (sigma / batch) ** 2])
    rates = [
        row["alignments"][0] / (weights @ row["curvatures"]) for row in at_clip(stats, "dp-sgd", 0.0, clip, dim / 200)
    ]
    return min(rates), max(rates)


def choice(name: str, value: float, lower: float, upper: float, fixed: bool, known: tuple[str, ...]) -> planning.Choice:
    return planning.Choice(name=name, value=value, lower=lower, upper=upper, fixed=fixed, claims=known)


@functools.cache
def setup_of(**given: Any) -> TrainingSetup:
    return TrainingSetup(**FEW, **given)


@pytest.mark.parametrize("borrowed", [False, True])
def test_every_field_of_a_fixed_setting(borrowed: bool) -> None:
    dim = 400 if borrowed else 200
    layers = (300, 100) if borrowed else LAYERS
    setup = setup_of(dim=dim, layer_sizes=layers, **FIXED)
    found = plan(setup, stats=STATS, borrowed=borrowed)
    assert not differences(found.setup, setup)
    assert (found.statistics, found.borrowed, found.moments) == ("made/by-hand", borrowed, ("start", "end"))
    assert (found.measured_dim, found.left_out, found.measured_clips) == (200, (), (0.5, 2.0))
    assert found.worst_regret == 1.0
    judge_all(found, dim)


def judge_all(found: Plan, dim: int) -> None:
    judge(found, STATS, 1000, 10, 1.0)
    assert not differences(found.rules, expected_rules(STATS, 1000, 10, 1.0, dim))
    low, high = expected_rates(STATS, 1000, 10, 1.0, dim)
    known = ("rs.tuned", "rs.lem3.1")
    chosen = (found.batch_size, found.epochs, found.clip_norm, found.learning_rate)
    expected = (
        choice("batch_size", 1000, 1000, 1000, True, known),
        choice("epochs", 10, 10, 10, True, known),
        choice("clip_norm", 1.0, 1.0, 1.0, True, ("rf.mse_criterion",)),
        choice("learning_rate", 0.7, low, high, True, ("rf.mse_criterion",)),
    )
    assert not differences(chosen, expected)


@functools.cache
def best_by_hand(max_epochs: int) -> tuple[Any, ...]:
    """The rule again: all points, their worst ratio to the best, the fewest epochs within 5 %, ranges within 10 %."""
    points = []
    for batch, epochs, clip in itertools.product([4, 8, 16, 32, 64, 128, 256, 512], [1, 3, 10, max_epochs], [0.5, 2.0]):
        rate, steps = batch / 2000, round(epochs * 2000 / batch)
        sigma = rough(3.0, rate, steps)
        losses = []
        for moment in STATS.moments:
            row = next(m for m in moment.methods if m.method == "dp-sgd" and m.clip_norm == clip)
            square = (
                row.mean_squares[0] + (1 - rate) * row.second_moments[0] / batch + 200 * (sigma * clip / batch) ** 2
            )
            losses.append(math.sqrt(square / steps) / row.alignments[0])
            assert row.curvatures is not None
            bent = row.curvatures[0] + (1 - rate) * row.curvatures[1] / batch + row.curvatures[2] * (sigma / batch) ** 2
            losses.append(math.sqrt(bent / steps) / row.alignments[0])
        points.append(((batch, epochs, clip), losses))
    least = [min(losses[i] for _, losses in points) for i in range(4)]
    worst = {point: max(a / b for a, b in zip(losses, least, strict=True)) for point, losses in points}
    best = min(worst.values())
    taken = min((p for p in worst if worst[p] <= 1.05 * best), key=lambda p: (p[1], worst[p]))
    far = [p for p in worst if worst[p] <= 1.10 * best]
    return taken, worst[taken], [(min(p[i] for p in far), max(p[i] for p in far)) for i in range(3)]


def test_free_choices_are_the_cheapest_near_the_best() -> None:
    found = plan(setup_of(dim=200, max_epochs=20), stats=STATS)
    (batch, epochs, clip), regret, ranges = best_by_hand(20)
    assert found.worst_regret == pytest.approx(regret, rel=1e-9)
    known = ("rs.tuned", "rs.lem3.1")
    chosen = (found.batch_size, found.epochs, found.clip_norm)
    expected = (
        choice("batch_size", batch, *ranges[0], False, known),
        choice("epochs", epochs, *ranges[1], False, known),
        choice("clip_norm", clip, *ranges[2], False, ("rf.mse_criterion",)),
    )
    assert not differences(chosen, expected)
    assert found.learning_rate.value is not None and not found.learning_rate.fixed
    low, high = found.learning_rate.lower, found.learning_rate.upper
    assert low is not None and high is not None and low < high
    assert found.learning_rate.value == pytest.approx(2 / (1 / low + 1 / high), rel=1e-9)


def test_the_learning_rate_gains_most_where_it_gains_least() -> None:
    """Of the best descent a rate gains 2 u - u^2 at u times the best one: no rate has a larger share at its worst moment."""
    found = plan(setup_of(dim=200, max_epochs=20), stats=STATS).learning_rate
    assert found.value is not None and found.lower is not None and found.upper is not None

    def least_share(rate: float) -> float:
        return min(2 * rate / best - (rate / best) ** 2 for best in (found.lower, found.upper) if best is not None)

    assert least_share(found.value) > 0.0
    for rate in np.geomspace(found.lower / 2, 2 * found.upper, 201):
        assert least_share(rate) <= least_share(found.value) + 1e-12


def test_moments_without_descent_do_not_count() -> None:
    """Uphill with one fold left out: forecasts are those of the start alone; without any moment, those of no statistics."""
    start, end = STATS.moments
    rows = [
        dataclasses.replace(one, alignments=(*one.alignments[:-1], -0.001)) if one.method == "dp-sgd" else one
        for one in end.methods
    ]
    uphill = dataclasses.replace(end, methods=tuple(rows))
    setup = setup_of(dim=200, **(FIXED | {"learning_rate": None}))
    found = plan(setup, stats=dataclasses.replace(STATS, moments=(start, uphill)))
    alone = plan(setup, stats=dataclasses.replace(STATS, moments=(start,)))
    assert found.moments == alone.moments == ("start",)
    assert (found.left_out, alone.left_out) == (("end",), ())
    assert found.methods == alone.methods and found.learning_rate == alone.learning_rate
    lost = plan(setup, stats=dataclasses.replace(STATS, moments=(uphill,)))
    assert lost.moments == () and lost.learning_rate.value is None
    assert lost.methods == plan(dataclasses.replace(setup, layer_sizes=LAYERS)).methods


def _at(moment: Any, clip: float, **changes: Any) -> Any:
    """The moment with DP-SGD changed at one clip."""
    rows = [
        dataclasses.replace(one, **changes) if (one.method, one.clip_norm) == ("dp-sgd", clip) else one
        for one in moment.methods
    ]
    return dataclasses.replace(moment, methods=tuple(rows))


def test_a_clip_is_chosen_by_moments_that_are_seen_to_descend() -> None:
    """An alignment that one fold left out turns is no descent: at one clip it speaks against it, at all for none."""
    start, end = STATS.moments
    setup = setup_of(dim=200, batch_size=1000, epochs=10)
    clips = {one.clip_norm: one.alignments for one in end.methods if one.method == "dp-sgd"}
    taken = plan(setup, stats=STATS).clip_norm.value
    assert taken is not None
    other = next(clip for clip in clips if clip != taken)
    unsure = {clip: (*clips[clip][:-1], -0.001) for clip in clips}
    lost = _at(end, taken, alignments=unsure[taken])
    against = plan(setup, stats=dataclasses.replace(STATS, moments=(start, lost)))
    assert (against.clip_norm.value, against.moments) == (other, ("start", "end"))
    lost = _at(lost, other, alignments=unsure[other])
    without = plan(setup, stats=dataclasses.replace(STATS, moments=(start, lost)))
    alone = plan(setup, stats=dataclasses.replace(STATS, moments=(start,)))
    assert (without.clip_norm, without.worst_regret) == (alone.clip_norm, alone.worst_regret)
    nothing = plan(setup_of(dim=200, max_epochs=20), stats=dataclasses.replace(STATS, moments=(lost,)))
    free = plan(setup_of(dim=200, max_epochs=20))
    assert (nothing.batch_size, nothing.epochs, nothing.moments) == (free.batch_size, free.epochs, ())
    assert (nothing.clip_norm.lower, nothing.clip_norm.upper) == (0.5, 2.0)


def test_of_settings_that_begin_alike_the_better_one_is_forecast() -> None:
    """Lower ends are cut off at 0: there a tie went to the first setting that was measured."""
    zero = Interval(lower=0.0, upper=10.0, claims=())

    def forecast(upper: float, curved: tuple[float, float] | None) -> MethodForecast:
        span = None if curved is None else Interval(lower=curved[0], upper=curved[1], claims=())
        return dataclasses.replace(
            bare().methods[0], descent=dataclasses.replace(zero, upper=upper), curved_descent=span
        )

    rising = [
        forecast(9.0, None),
        forecast(10.0, None),
        forecast(10.0, (0.1, 0.9)),
        forecast(10.0, (0.5, 0.8)),
        forecast(11.0, (0.5, 0.8)),
    ]
    assert sorted(reversed(rising), key=_measured._worth) == rising


# --- without statistics -------------------------------------------------------------------------------------------------


@functools.cache
def bare(**changes: Any) -> Plan:
    return plan(TrainingSetup(**(FEW | {"dim": 5000, "batch_size": 2000, "epochs": 10} | changes)))


def test_without_statistics_only_what_any_gradient_allows() -> None:
    found = bare(batch_size=1000, layer_sizes=(4000, 1000))
    by_name = {one.method: one for one in found.methods}
    noisy = found.noise_share
    assert by_name["random-k"].descent == Interval(lower=0.5, upper=0.5, claims=("rf.posterior", "rf.mse_criterion"))
    # kappa = x and no noise that matters; kappa = 1 and nothing but noise.
    rest = 1 + 0.5 / 1000
    low = 0.25 * (rest + noisy) / (rest + 0.5 * noisy)
    assert by_name["random-sparsification"].descent.lower == pytest.approx(low, rel=1e-12)
    assert by_name["random-sparsification"].descent.upper == pytest.approx(2.0, rel=1e-12)
    for name in ("ranked-sparsification", "layer-freezing", "gep-joint", "biased-gep"):
        assert (by_name[name].descent.lower, by_name[name].descent.upper, by_name[name].verdict) == (
            0,
            math.inf,
            "undecided",
        )
    # A loss that is not convex can turn its ratio, as any other.
    assert by_name["random-k"].curved_descent is None
    assert (by_name["index-pruning"].verdict, by_name["random-k"].verdict) == ("undecided", "undecided")
    assert (
        found.learning_rate.value is None
        and found.clip_norm.value is None
        and found.statistics is found.measured_dim is None
    )
    assert by_name["dp-sgd"].noise_energy.lower == pytest.approx(noisy, rel=1e-12)
    for one in found.methods:
        assert one.noise_energy.lower == one.noise_energy.upper <= noisy * 1.01
        assert one.error.upper - one.error.lower == pytest.approx(0.5 / 1000, rel=1e-9)


@pytest.mark.parametrize("dim", [100, 50_000])
def test_masks_that_gain_without_statistics_do_so_within_the_interval(dim: int) -> None:
    """RS's bound at its tuned rate for kappa from x to 1: the square of its gain lies inside."""
    found = next(one for one in bare(dim=dim).methods if one.method == "random-sparsification").descent
    noisy = bare(dim=dim).noise_share
    for kappa in (0.5, 0.7, 1.0):
        gain = kappa**2 * (1 + noisy) / (1 + 0.5 * noisy)
        assert found.lower * (1 - 1e-12) <= gain <= found.upper


# --- limits ---------------------------------------------------------------------------------------------------------------


def test_the_noise_is_the_least_and_keeps_the_budget() -> None:
    for changes in ({}, {"batch_size": 1000, "epochs": 3}, {"epsilon": 0.5}):
        found = bare(**changes)
        run = {"sampling_rate": found.sampling_rate, "steps": found.steps, "delta": 1e-5}
        least = privacy.least_noise_multiplier(epsilon=found.setup.epsilon, **run)  # type: ignore[arg-type]
        assert found.noise_multiplier == least
        spent = privacy.epsilon_bounds(noise_multiplier=least, **run)  # type: ignore[arg-type]
        assert spent.upper <= found.setup.epsilon


def _schedule_noise(*, epsilon: float, delta: float, sampling_rate: float, steps: int) -> float:
    """The estimate, which the choice was made by: a tenth of the time."""
    return rough(epsilon, sampling_rate, steps)


def best_loss(epsilon: float, stats: GradientStats | None) -> float:
    """Of the chosen point, in the case that is worst for it: 1 / sqrt(T rho) of DP-SGD's first moment."""
    found = plan(TrainingSetup(**(FEW | {"epsilon": epsilon}), dim=200, max_epochs=20), stats=stats)
    row = STATS.moments[0].methods[0]
    batch, clip = found.batch_size.value, row.clip_norm
    assert batch is not None
    square = row.mean_squares[0] + (1 - found.sampling_rate) * row.second_moments[0] / batch
    square += found.noise_share * clip**2
    return math.sqrt(square / found.steps)


def test_more_budget_never_forecasts_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plan, "least_noise_multiplier", _schedule_noise)
    losses = [min(best_loss(epsilon, None), 1e9) for epsilon in (0.5, 3.0, 8.0)]
    assert losses == sorted(losses, reverse=True)
    cosines = [bare(epsilon=epsilon).methods[0].cosine.upper for epsilon in (0.3, 1.0, 3.0, 10.0)]
    assert cosines == sorted(cosines)


def test_more_epochs_that_can_be_afforded_never_forecast_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plan, "least_noise_multiplier", _schedule_noise)
    losses = []
    for most in (1, 20):
        found = plan(TrainingSetup(**FEW, dim=200, max_epochs=most))
        losses.append(found.noise_share / found.steps)
        assert found.epochs.value is not None and found.epochs.value <= most
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_a_larger_limit_of_epochs_never_costs_more(epsilon: float) -> None:
    """The grid kept the five largest numbers below the limit; a choice that no noise makes private stopped the plan."""
    taken = []
    for most in (100, 1000, 10_000):
        found = plan(TrainingSetup(num_examples=60_000, epsilon=epsilon, delta=1e-5, dim=26_010, max_epochs=most))
        assert found.noise_multiplier < 1000
        taken.append(found.epochs.value)
    if epsilon < 1.0:  # one pass more or less is worth nothing there
        assert taken == [10, 10, 10]


def test_a_batch_of_one_has_its_epoch() -> None:
    found = plan(TrainingSetup(num_examples=10**6, epsilon=3.0, delta=1e-6, dim=2000, batch_size=1))
    assert (found.epochs.value, found.steps) == (1, 10**6)


def test_every_claim_exists_and_every_number_has_one() -> None:
    known = {claim.id for claim in claims.all_claims()}
    for found in (bare(layer_sizes=(4000, 1000)), plan(setup_of(dim=200, max_epochs=20), stats=STATS)):
        named = [value for path, value in leaves(found) if ".claims[" in path]
        assert named and set(named) <= known
        empty = [path for path, value in leaves(found) if path.endswith(".claims.length") and value == 0]
        assert not empty
        sentences = planning.advice(found)
        assert {id for one in sentences for id in one.claims} <= known


# --- the ranking ------------------------------------------------------------------------------------------------------------


def made(*spans: tuple[str, float, float], curved: bool = True) -> tuple[MethodForecast, ...]:
    """Forecasts that differ in name and interval alone, ranked."""
    base = bare().methods[0]
    return ranked(
        [
            dataclasses.replace(base, method=name, descent=span, curved_descent=span if curved else None)
            for name, span in ((name, Interval(lower=low, upper=high, claims=())) for name, low, high in spans)
        ]
    )


def test_overlapping_intervals_are_undecided() -> None:
    found = made(
        ("dp-sgd", 1.0, 1.0), ("a", 0.9, 1.1), ("b", 1.2, 1.4), ("c", 1.3, 1.5), ("d", 0.2, 0.5), ("e", 1.0, 2.0)
    )
    assert [(one.method, one.verdict) for one in found] == [
        ("dp-sgd", "reference"), ("a", "undecided"), ("b", "gain"), ("c", "gain"), ("d", "loss"), ("e", "undecided"),
    ]  # fmt: skip
    places = {one.method: (one.best_rank, one.worst_rank) for one in found}
    assert places == {"dp-sgd": (3, 5), "a": (3, 5), "b": (1, 3), "c": (1, 3), "d": (6, 6), "e": (1, 5)}


def test_a_method_is_recommended_only_if_it_is_sure_to_gain() -> None:
    whole = bare()
    for spans, expected in (
        ([("dp-sgd", 1.0, 1.0), ("a", 1.04, 5.0)], "dp-sgd"),
        ([("dp-sgd", 1.0, 1.0), ("a", 1.06, 5.0)], "a"),
        ([("dp-sgd", 1.0, 1.0), ("a", 1.06, 5.0), ("b", 1.2, 1.3)], "b"),
        ([("dp-sgd", 1.0, 1.0), ("a", 1.01, 1.1), ("b", 1.2, 1.3)], "b"),
    ):
        assert planning.recommended(dataclasses.replace(whole, methods=made(*spans))) == expected
        assert planning.recommended(dataclasses.replace(whole, methods=made(*spans, curved=False))) == "dp-sgd"


def test_where_curvature_disagrees_nothing_is_decided() -> None:
    """B-GEP without noise in flat directions: 25 times DP-SGD's guaranteed descent, and no more than DP-SGD's real one."""
    base = bare().methods[0]
    far, near = Interval(lower=25.0, upper=200.0, claims=()), Interval(lower=0.8, upper=1.1, claims=())
    plain, biased = ranked([base, dataclasses.replace(base, method="biased-gep", descent=far, curved_descent=near)])
    assert (biased.verdict, biased.lower, biased.upper, biased.best_rank, biased.worst_rank) == (
        "undecided",
        0.8,
        200.0,
        1,
        2,
    )
    assert (plain.verdict, plain.lower, plain.upper) == ("reference", 1.0, 1.0)


def test_without_curvature_nothing_is_decided() -> None:
    """Real curvature was seen to turn guaranteed ratios of 7 into 0.6, and of 0.9 into 1.4."""
    for span in ((12.0, 17.0), (0.1, 0.2)):
        (plain, one) = made(("dp-sgd", 1.0, 1.0), ("a", *span), curved=False)
        assert (one.verdict, one.best_rank, one.worst_rank) == ("undecided", 1, 2)
        assert (plain.best_rank, plain.worst_rank) == (1, 2)


def test_random_k_never_gains_on_a_convex_loss() -> None:
    """All masks of 2 of 4 entries, by hand: <w, E M g>^2 / E (M g)' H M g is at most <w, g>^2 / g' H g."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        root, g, w = rng.normal(size=(4, rng.integers(1, 5))), rng.normal(size=4), rng.normal(size=4)
        hessian = root @ root.T
        masks = [np.array([i in kept for i in range(4)]) for kept in itertools.combinations(range(4), 2)]
        bend = np.mean([(mask * g) @ hessian @ (mask * g) for mask in masks])
        mean = np.mean([w @ (mask * g) for mask in masks])
        assert mean**2 / bend <= (w @ g) ** 2 / (g @ hessian @ g) * (1 + 1e-9)


# --- what is refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": None}, "dim must be given, or layer_sizes"),
        ({"dim": 10, "layer_sizes": (4, 5)}, "dim must be the sum of layer_sizes, 9, got 10"),
        ({"batch_size": 2001}, r"batch_size must be an integer in 1..2000, got 2001"),
        ({"epochs": 0}, "epochs must be an integer in 1..10000, got 0"),
        ({"epsilon": 0.0}, "epsilon must be a number"),
        ({"num_examples": 10**9, "batch_size": 9}, "batch_size must be an integer in 10..1000000000, got 9"),
        ({"num_examples": 10**6, "batch_size": 1, "epochs": 2}, "epochs must make at most 1000000 steps"),
    ],
)
def test_setups_that_do_not_go_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingSetup(**(FEW | {"dim": 100} | changes))


def test_statistics_have_to_fit() -> None:
    with pytest.raises(ValueError, match="stats must be of a network of 300 parameters as dim says, got 200"):
        plan(TrainingSetup(**FEW, dim=300), stats=STATS)
    with pytest.raises(ValueError, match="stats must be of a network of 300 parameters as layer_sizes say, got 200"):
        plan(TrainingSetup(**FEW, layer_sizes=(200, 100)), stats=STATS)
    with pytest.raises(ValueError, match=r"clip_norm must lie in 0.5..2, where stats were measured, got 3.0"):
        plan(TrainingSetup(**FEW, dim=200, clip_norm=3.0), stats=STATS)
