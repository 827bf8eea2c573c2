"""Every field of the results of calculators that no claim names, against a second copy or a second method, to 1 % or better.

``mutants/holders.py`` lists which of these tests hold which calculator.
"""

import functools
import math
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import beta, hypergeom, norm

from dptheory import _arrays, _validate, embedding, gradients, papers, privacy, sparsification
from dptheory.embedding import _release
from dptheory.gradients import QuadraticForm
from dptheory.papers import EmbeddingPreset, PaperSetting, Preset, paper_settings
from dptheory.privacy.methods import references
from tests.calls import by_name

# --- presets, against the printed settings that they read (tests/papers holds those) --------------------------------------

_FIELDS = {"framework": "model", "clip_norm": "clip_norm", "drop_rate": "drop_rate", "ramp_epochs": "cooling_epochs"}
"""Fields of a preset that a setting has under another name."""


def _expected_presets() -> list[Preset]:
    names = [field.name for field in fields(Preset) if field.name != "name"]
    runs = (*papers.settings("rf"), *papers.settings("rs.fig2"))
    found = [
        Preset(name=one.id.replace("fig2.", "fig2"), **{name: getattr(one, _FIELDS.get(name, name)) for name in names})
        for one in runs
    ]
    sizes = {"CIFAR10": papers.settings("rf")[0].train_size, "FMNIST": papers.setting("lf.mnist.eps1").train_size}
    table = [
        Preset(
            name=f"rs.{cell.key('approach').lower().replace('/', '-')}.{data.lower()}.eps{cell.key('epsilon')[0]}",
            source="RS, Table 2",
            framework=cell.key("approach"),
            dataset=data,
            dim=int(cell.key("dim").replace("K", "000")),
            train_size=sizes.get(data),
            epsilon=int(cell.key("epsilon")[0]),
        )
        for cell in papers.table("rs.table2").cells[::3]
        for data in (cell.key("dataset"),)
    ]
    return [*found[:7], *table, *found[7:]]


PRESETS = _expected_presets()


def test_presets_digit_for_digit() -> None:
    assert papers.all_presets() == tuple(PRESETS)
    assert len(PRESETS) == 7 + 12 + 9
    for one in PRESETS:
        assert papers.preset(one.name) == one


def test_what_presets_say_of_the_noise() -> None:
    for preset in PRESETS:
        dim, sigma, batch = preset.dim, preset.noise_multiplier, preset.batch_size
        if dim is None or sigma is None or batch is None:
            assert preset.noise_share is preset.largest_drop_rate is None
        else:
            share = Fraction(sigma) ** 2 * dim / batch**2
            assert preset.noise_share == pytest.approx(float(share), rel=1e-12)
            assert preset.largest_drop_rate == pytest.approx(max(0.0, float(1 - 1 / share)), rel=1e-12)


def test_embedding_presets_digit_for_digit() -> None:
    expected = [
        EmbeddingPreset(
            name=f"gep.{data}.k{k}", source="GEP, section 4", dim=269_722, subspace_dim=k, clip_norm=runs[0].clip_norm,
            residual_clip=runs[0].residual_clip,
            batch_size=runs[0].batch_size, delta=runs[0].delta, budgets=tuple((run.epsilon, run.epochs) for run in runs),
        )
        for data, runs in (("cifar10", papers.settings("gep.cifar10")), ("svhn", papers.settings("gep.svhn")))
        for k in runs[0].subspace_dims
    ]  # fmt: skip
    example = papers.setting("rf.gep.eps8")
    k, clip, residual_clip = (float(dict(example.others)[name]) for name in ("Subspace", "Clip0", "Clip1"))
    source = "GEP, released example; RF, Table 8"
    expected.append(
        EmbeddingPreset(
            name="gep.code.k1000",
            source=source,
            dim=269_722,
            subspace_dim=int(k),
            clip_norm=clip,
            residual_clip=residual_clip,
            batch_size=example.batch_size,
        )
    )
    assert papers.embedding_presets() == tuple(expected)
    assert len(expected) == 9


def test_noise_of_embedding_presets() -> None:
    r"""Each part has its own clip S_i: plain S^2 p; two parts with sensitivity sqrt 2; the best split by Cauchy-Schwarz."""
    small = EmbeddingPreset(name="small", source="here", dim=50, subspace_dim=4, clip_norm=3.0, residual_clip=2.0)
    for preset in (small, *papers.embedding_presets()):
        p, k, s, t = preset.dim, preset.subspace_dim, preset.clip_norm, preset.residual_clip
        for mu in (1.0, 0.4):
            found = preset.noise(mu=mu)
            assert found.plain == pytest.approx(s**2 * p / mu**2, rel=1e-12)
            assert found.embedding_only == pytest.approx(s**2 * k / mu**2, rel=1e-12)
            assert found.published == pytest.approx(2 * (s**2 * k + t**2 * p) / mu**2, rel=1e-12)
            # Of the sum alone, noises c S and c T: variances c^2 (S^2 + T^2) in the subspace and c^2 T^2 off it, so that
            # mu^2 = (S^2 / (S^2 + T^2) + 1) / c^2; the energy is c^2 (k S^2 + p T^2).
            one = s**2 / (s**2 + t**2)
            assert found.published_sum == pytest.approx((1 + one) * (s**2 * k + t**2 * p) / mu**2, rel=1e-12)
            best = (s * math.sqrt(k) + t * math.sqrt(p - k)) ** 2 / mu**2
            assert found.optimal == pytest.approx(best, rel=1e-12)
            assert found.joint == pytest.approx(_joint_energy(p, k, s, t) / mu**2, rel=1e-9)


def test_noise_of_all_embedding_presets() -> None:
    for mu in (1.0, 0.4):
        found = papers.embedding_noise(mu=mu)
        assert tuple(one.preset for one in found) == papers.embedding_presets()
        assert [one.noise for one in found] == [preset.noise(mu=mu) for preset in papers.embedding_presets()]


def _joint_energy(p: int, k: int, s: float, t: float) -> float:
    """Least a k + b (p - k) for which x / a + y / b <= 1 at both extreme pairs of squares, (s^2, 0) and (s^2 - t^2, t^2)."""
    small = min(s, t) ** 2

    def energy(log_a: float) -> float:
        a = s**2 * math.exp(log_a)
        return a * k + small / (1 - (s**2 - small) / a) * (p - k)

    return float(minimize_scalar(energy, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-10}).fun)


def test_paper_settings_digit_for_digit() -> None:
    """Those of which B / N, a budget and noise or epochs are printed; of GIP 99 % of epsilon is left for the values."""
    complete = [
        one
        for paper in ("rf", "lf", "gip", "gep")
        for one in papers.settings(paper)
        if one.batch_size and one.train_size and one.epsilon and (one.noise_multiplier or one.epochs)
    ]
    found = paper_settings()
    assert [
        (r.name, r.epsilon, r.delta, r.batch_size, r.train_size, r.epochs, r.noise_multiplier, r.releases) for r in found
    ] == [
        (
            f"{one.source}: {one.model}, {one.dataset}", (0.99 if one.id.startswith("gip") else 1) * one.epsilon,
            one.delta, one.batch_size, one.train_size, one.epochs, one.noise_multiplier, 2 if "gep" in one.id else 1,
        )
        for one in complete
    ]  # fmt: skip
    assert [r.sampling_rate for r in found] == [one.batch_size / one.train_size for one in complete]
    assert [r.steps for r in found] == [
        None if one.epochs is None else -(-one.epochs * one.train_size // one.batch_size) for one in complete
    ]


def test_what_paper_settings_ask_for() -> None:
    printed = PaperSetting(
        name="x", epsilon=3.0, delta=1e-5, batch_size=200, train_size=1000, epochs=2, noise_multiplier=1.0
    )  # 10 steps of rate 1/5
    assert (printed.sampling_rate, printed.steps) == (0.2, 10)
    assert printed.needed_noise_multiplier() == pytest.approx(
        privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.2, steps=10), rel=1e-9
    )
    assert printed.spent() == privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.2, steps=10, delta=1e-5)
    assert printed.allowed_steps() == privacy.max_steps(
        epsilon=3.0, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.2
    )
    twice = replace(printed, releases=2)
    assert twice.needed_noise_multiplier() == pytest.approx(
        math.sqrt(2) * privacy.least_noise_multiplier(epsilon=3.0, delta=1e-5, sampling_rate=0.2, steps=10), rel=1e-9
    )


# --- accounting, against an accountant of our own ---------------------------------------------------------------------


@functools.cache  # every mutant of the accountant is compared with the same
def _composed_epsilon(sigma: float, rate: float, steps: int, delta: float, direction: str = "remove") -> float:
    """Epsilon by the Fourier transform of the loss, whose mean the grid keeps: off by about 1e-6 here.

    A loss between two grid points is split so that its mean stays; its variance grows by at most h^2 / 4 per step.
    """
    h, reach = 1e-4, 40.0
    x = np.linspace(-12 * sigma - 1, 12 * sigma + 1, 100_001)

    def density(centre: float) -> np.ndarray:
        return np.exp(-((x - centre) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    drawn = (1 - rate) * density(0) + rate * density(1)
    other = (1 - rate) * density(0) + rate * density(-1) if direction == "replace" else density(0)
    above, below = (other, drawn) if direction == "add" else (drawn, other)
    place = np.log(above / below) / h
    base = np.floor(place).astype(int)
    mass, share, n = above * (x[1] - x[0]), place - base, 2 * int(reach / h)
    pmf = np.bincount(base % n, mass * (1 - share), n) + np.bincount((base + 1) % n, mass * share, n)
    total = np.fft.irfft(np.fft.rfft(pmf) ** steps, n)[: n // 2]  # the losses >= 0
    loss = np.arange(n // 2) * h

    def excess(epsilon: float) -> float:
        first = int(epsilon / h) + 1
        return float(total[first:] @ -np.expm1(epsilon - loss[first:])) - delta

    return float(brentq(excess, 0.0, reach / 2 - 1))


SETTINGS = (
    ((1.0, 0.02, 1000, 1e-5), {}, "remove", "saddle line"),
    ((1.0, 0.2, 10, 1e-5), {}, "remove", "saddle line"),
    ((1.0, 0.2, 10, 1e-5), {"direction": "add"}, "add", "saddle line"),
    ((1.0, 0.2, 10, 1e-5), {"adjacency": "replace-one"}, "replace", "saddle line"),
    ((1.0, 0.5, 1, 1e-5), {}, "remove", "one step"),
    ((8.0, 1.0, 50, 1e-6), {}, "remove", "Gaussian"),
)


def test_bounds_of_epsilon_field_by_field() -> None:
    for arguments, options, direction, accountant in SETTINGS:
        found = privacy.epsilon_bounds(**by_name("noise_multiplier sampling_rate steps delta", arguments), **options)
        truth = _composed_epsilon(*arguments, direction)
        assert found.lower <= truth + 1e-5 and truth - 1e-5 <= found.upper
        assert found.upper - found.lower <= 1e-9 * truth
        assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12)
        assert found.method == accountant


def test_bounds_of_delta_field_by_field() -> None:
    """delta at the epsilon of a delta is that delta; certified, one step, without sampling and without replacement."""
    missed = []
    for arguments, options, direction, method in SETTINGS:
        truth = _composed_epsilon(*arguments, direction)
        run = by_name("noise_multiplier sampling_rate steps", arguments[:3])
        found = privacy.delta_bounds(**run, epsilon=truth, **options)
        narrow = 0 <= found.upper - found.lower <= 1e-9
        if not (found.lower == pytest.approx(arguments[3], rel=1e-4) and narrow and found.method == method):
            missed.append((arguments, found))
    assert not missed
    fixed = {"adjacency": "replace-one", "sampling": "without replacement"}
    run = by_name("noise_multiplier sampling_rate steps", (4.0, 0.5, 2))
    found = privacy.delta_bounds(**run, epsilon=4.0, **fixed)
    twice = privacy.delta_bounds(**(run | {"noise_multiplier": 2.0}), epsilon=4.0)
    assert found.lower == twice.lower and found.method == "saddle line, dominating pair"
    assert twice.upper < found.upper
    inverse = privacy.epsilon_bounds(**run, delta=found.upper, **fixed)
    assert inverse.lower < 4.0 and inverse.upper == pytest.approx(4.0, rel=1e-4)


def test_bounds_without_replacement() -> None:
    """The lower bound is attained by data whose other records are the one that comes in place of the record."""
    found = privacy.epsilon_bounds(
        noise_multiplier=1.0,
        sampling_rate=0.2,
        steps=10,
        delta=1e-5,
        adjacency="replace-one",
        sampling="without replacement",
    )
    truth = _composed_epsilon(0.5, 0.2, 10, 1e-5, "remove")
    assert found.lower == pytest.approx(truth, abs=1e-5)
    assert truth < found.upper <= 1.025 * truth
    assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12)
    assert found.method == "saddle line, dominating pair"


def test_noise_multiplier_is_the_least() -> None:
    cases = (
        ((3.0, 1e-5, 0.2, 10), {}, "remove"),
        ((3.0, 1e-5, 0.2, 10), {"direction": "remove"}, "remove"),
        ((3.0, 1e-5, 0.2, 10), {"adjacency": "replace-one"}, "replace"),
        ((3.0, 1e-5, 0.2, 1), {}, "remove"),
        ((2.0, 1e-5, 0.2, 1000), {}, "remove"),
    )
    for (budget, delta, rate, steps), options, direction in cases:
        sigma = privacy.least_noise_multiplier(epsilon=budget, delta=delta, sampling_rate=rate, steps=steps, **options)
        assert _composed_epsilon(sigma, rate, steps, delta, direction) <= budget + 1e-5
        assert _composed_epsilon(sigma / (1 + 2e-5), rate, steps, delta, direction) > budget


def test_noise_multiplier_without_replacement() -> None:
    options = {"adjacency": "replace-one", "sampling": "without replacement"}
    setting = {"sampling_rate": 0.5, "steps": 2, "delta": 1e-5}
    sigma = privacy.least_noise_multiplier(epsilon=3.0, **setting, **options)
    assert privacy.epsilon_bounds(noise_multiplier=sigma, **setting, **options).upper <= 3.0
    assert privacy.epsilon_bounds(noise_multiplier=sigma / 1.004, **setting, **options).upper > 3.0


def test_steps_are_the_most() -> None:
    for options, direction in (
        ({}, "remove"),
        ({"direction": "add"}, "add"),
        ({"adjacency": "replace-one"}, "replace"),
    ):
        count = privacy.max_steps(epsilon=4.7, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.2, **options)
        assert _composed_epsilon(1.0, 0.2, count, 1e-5, direction) < 4.7 - 0.005
        assert _composed_epsilon(1.0, 0.2, count + 1, 1e-5, direction) > 4.7 + 0.005
    options = {"adjacency": "replace-one", "sampling": "without replacement"}
    count = privacy.max_steps(epsilon=4.0, delta=1e-5, noise_multiplier=8.0, sampling_rate=0.5, **options)
    assert (
        privacy.epsilon_bounds(noise_multiplier=8.0, sampling_rate=0.5, steps=count, delta=1e-5, **options).upper <= 4.0
    )
    assert (
        privacy.epsilon_bounds(noise_multiplier=8.0, sampling_rate=0.5, steps=count + 1, delta=1e-5, **options).upper
        > 4.0
    )


def test_bounds_and_budgets_in_ball_arithmetic() -> None:
    rate, steps, delta = 0.2, 100, 1e-5
    run = {"sampling_rate": rate, "delta": delta, "certified": True}
    truth = _composed_epsilon(1.0, rate, steps, delta)
    found = privacy.epsilon_bounds(noise_multiplier=1.0, steps=steps, **run)
    assert found.lower <= truth + 1e-5 and truth - 1e-5 <= found.upper <= found.lower + 1e-9 * truth
    assert found.estimate == pytest.approx(found.upper, rel=1e-9) and found.method == "certified"
    chance = privacy.delta_bounds(noise_multiplier=1.0, sampling_rate=rate, steps=steps, epsilon=truth, certified=True)
    assert chance.method == "certified"
    assert chance.lower == pytest.approx(delta, rel=1e-4) and 0 <= chance.upper - chance.lower <= 1e-9 * delta
    sigma = privacy.least_noise_multiplier(epsilon=9.0, steps=steps, **run)
    assert _composed_epsilon(sigma, rate, steps, delta) <= 9.0 + 1e-5
    assert _composed_epsilon(sigma / (1 + 2e-5), rate, steps, delta) > 9.0
    count = privacy.max_steps(epsilon=1.5, delta=delta, noise_multiplier=1.0, sampling_rate=0.02, certified=True)
    assert _composed_epsilon(1.0, 0.02, count, delta) < 1.5 - 1e-5
    assert _composed_epsilon(1.0, 0.02, count + 1, delta) > 1.5 + 1e-5


def _renyi_epsilon(curve: np.ndarray, orders: np.ndarray, delta: float) -> float:
    """Balle et al., Theorem 21, at the best order."""
    return float(np.min(curve + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)))


def test_renyi_epsilon() -> None:
    orders = np.linspace(1.5, 12.0, 400)
    x = np.linspace(-20.0, 40.0, 20_001)
    ratio = np.log1p(0.2 * np.expm1((2 * x - 1) / 2))
    curve = np.array(
        [np.log(np.exp(a * ratio - x**2 / 2).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)) for a in orders]
    )
    least = _renyi_epsilon(10 * curve / (orders - 1), orders, 1e-5)
    assert (
        least * (1 - 1e-4)
        <= privacy.rdp_epsilon(noise_multiplier=1.0, sampling_rate=0.2, steps=10, delta=1e-5)
        <= 1.003 * least
    )
    # Every record in every batch, one of them replaced: Gaussian with twice the shift.
    full = _renyi_epsilon(10 * orders * (2 / 8.0) ** 2 / 2, orders, 1e-5)
    found = references.fixed_size_rdp_epsilon(noise_multiplier=8.0, sampling_rate=1.0, steps=10, delta=1e-5)
    assert full * (1 - 1e-4) <= found <= 1.003 * full


def test_cross_check_field_by_field() -> None:
    for options, direction in (({}, "remove"), ({"width": 1e-3}, "remove"), ({"adjacency": "replace-one"}, "replace")):
        found = references.cross_check(noise_multiplier=1.0, sampling_rate=0.2, steps=2, delta=1e-5, **options)
        truth = _composed_epsilon(1.0, 0.2, 2, 1e-5, direction)
        for low, high in (found.prv, found.pld):
            assert low <= truth + 1e-5 and truth - 1e-5 <= high
            assert high - low <= 0.006 * truth
        adjacency = {name: value for name, value in options.items() if name == "adjacency"}
        expected = privacy.rdp_epsilon(noise_multiplier=1.0, sampling_rate=0.2, steps=2, delta=1e-5, **adjacency)
        assert found.rdp == pytest.approx(expected, rel=1e-9)


# --- audits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "confidence"), [("events", 0.99), ("events", 0.9), ("gaussian", 0.99), ("gaussian", 0.8)]
)
def test_audit_field_by_field(method: str, confidence: float) -> None:
    """Scores of 0 and 1 in known numbers: every field by Clopper and Pearson's limits."""
    hits, misses = np.r_[np.ones(160), np.zeros(40)], np.r_[np.ones(30), np.zeros(270)]
    options = {} if (method, confidence) == ("events", 0.99) else {"method": method, "confidence": confidence}
    found = privacy.auditing.audit(
        scores_with=np.r_[hits, hits], scores_without=np.r_[misses, misses], delta=1e-3, **options
    )
    level = 0.75 * (1 - confidence) / 4
    candidates = {
        ("above", "with"): (beta.ppf(level, 320, 81), beta.isf(level, 61, 540)),
        ("below", "without"): (beta.ppf(level, 540, 61), beta.isf(level, 81, 320)),
    }
    evidence = {
        key: math.log((p - 1e-3) / q) if method == "events" else norm.ppf(p) - norm.ppf(q)
        for key, (p, q) in candidates.items()
    }
    best = max(evidence, key=evidence.__getitem__)
    assert (found.event, found.likelier) == best
    assert (found.method, found.confidence, found.threshold, found.trials) == (method, confidence, 0.5, (400, 600))
    assert (found.likelier_rate, found.other_rate) == pytest.approx(candidates[best], rel=1e-9)
    expected = evidence[best]
    if method == "gaussian":
        mu = expected
        expected = brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e + log_ndtr(-mu / 2 - e / mu)) - 1e-3, 0, 50)
    assert found.epsilon_lower == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("method", "confidence"), [("events", 0.99), ("events", 0.9), ("gaussian", 0.99), ("gaussian", 0.8)]
)
def test_largest_bound(method: str, confidence: float) -> None:
    """400 of 400 against 0 of 400: the limits are level^(1/400) and 1 - level^(1/400)."""
    options = {} if (method, confidence) == ("events", 0.99) else {"method": method, "confidence": confidence}
    p = (0.75 * (1 - confidence) / 4) ** (1 / 400)
    expected = math.log((p - 1e-5) / (1 - p))
    if method == "gaussian":
        mu = norm.ppf(p) - norm.ppf(1 - p)
        expected = brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e + log_ndtr(-mu / 2 - e / mu)) - 1e-5, 0, 200)
    assert privacy.auditing.largest_bound(scores=400, delta=1e-5, **options) == pytest.approx(expected, rel=1e-6)


# --- masks and rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "keep"), [(5, 2), (20, 20), (10_000, 10_000), (10_000, 1), (400_000, 100_000)])
def test_masks_keep_what_they_say(dim: int, keep: int) -> None:
    assert gradients.kept_entries(dim=dim, drop_rate=1 - keep / dim) == keep
    drawn = gradients.random_masks(rng=np.random.default_rng(0), count=3, dim=dim, keep=keep)
    assert drawn.shape == (3, dim) and np.isin(drawn, (0.0, 1.0)).all() and (drawn.sum(axis=1) == keep).all()
    if math.comb(dim, keep) < 100:
        every = gradients.all_masks(dim, keep)
        assert np.isin(every, (0.0, 1.0)).all() and (every.sum(axis=1) == keep).all()
        assert len({tuple(row) for row in every}) == len(every) == math.comb(dim, keep)


def test_vectors_are_read_as_they_are() -> None:
    assert _validate.vector("u", [3, 4]).tolist() == [3.0, 4.0]
    assert _arrays.norm(np.array([3.0, 4.0])) == 5.0


@pytest.mark.parametrize("width", [2, 10_000])
def test_pairs_are_read_as_they_are(width: int) -> None:
    w, r = np.arange(2.0 * width).reshape(2, width), np.ones((2, 3))
    read_w, read_r = _release.pairs(w, r)
    assert np.array_equal(read_w, w) and np.array_equal(read_r, r)


# --- quadratic forms and sums over masks ------------------------------------------------------------------------------


def test_mean_and_chernoff_point_of_a_quadratic_form() -> None:
    """For 2 chi^2_3 the Chernoff exponent at x = 6 + 6 y is -(3/2) (y - log(1 + y)); a coarse search ends above the point."""
    form = QuadraticForm(weights=np.array([2.0]), freedoms=np.array([3.0]), noncentralities=np.array([0.0]))
    assert form.mean == pytest.approx(6.0, rel=1e-12)
    assert QuadraticForm(
        weights=np.array([2.0, 0.5]), freedoms=np.array([3.0, 4.0]), noncentralities=np.array([1.0, 0.0])
    ).mean == pytest.approx(10.0)
    for log_chance in (-5.0, -40.0):
        y = brentq(lambda y, c=log_chance: 1.5 * (y - math.log1p(y)) + c, 1e-6, 1e3)
        assert 6 + 6 * y <= form.chernoff(log_chance) <= 1.05 * (6 + 6 * y)


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_mean_reciprocal_of_many_numbers(shift: float) -> None:
    """Half the numbers are 1, the others 0: the sum is hypergeometric."""
    dim, keep = 20_000, 300
    count = np.arange(1 if shift == 0 else 0, keep + 1)
    expected = float(hypergeom.pmf(count, dim, dim // 2, keep) @ (1 / (shift + count)))
    values = np.repeat([0.0, 1.0], dim // 2)
    assert gradients.mean_reciprocal(values=values, keep=keep, shift=shift) == pytest.approx(expected, rel=1e-9)


# --- the run of choices around the best one, and calculators whose least is flat to rounding ---------------------------------


@pytest.mark.parametrize(
    ("alike", "best", "ends"),
    [
        ([True], 0, (0, 0)),
        ([True, True, True], 1, (0, 2)),
        ([True, False, True, True, False], 2, (2, 3)),
        ([False, False, False], 1, (1, 1)),
        ([False, True, True], 2, (1, 2)),
    ],
)
def test_ends_of_the_run(alike: list[bool], best: int, ends: tuple[int, int]) -> None:
    assert _arrays.run_around(np.array(alike), best) == ends


def test_dimensions_whose_eigenvalues_are_lost_in_rounding_are_as_good() -> None:
    """Each of the tiny eigenvalues lowers the tail, and the estimate costs nothing, so the least is at 30; doubles have it at 1."""
    found = embedding.residual_bound(
        eigenvalues=[1.0] + [1e-20] * 39,
        subspace_dim=30,
        anchors=100,
        squared_norm_bound=1.0 + 1e-15,
        failure_probability=0.05,
        fourth_moment=1.0,
    )
    assert (found.first_dim, found.subspace_dim, found.last_dim) == (1, 1, 30)
    sharp = embedding.residual_bound(
        eigenvalues=[1.0, 0.5, 0.1], subspace_dim=2, anchors=10**6, squared_norm_bound=4.0, failure_probability=0.05
    )
    assert sharp.first_dim == sharp.subspace_dim == sharp.last_dim == 2


def test_equal_choices_of_the_subspace_are_all_named() -> None:
    run = dict(dim=1_000_000, train_size=50_000, smoothness=1.0, initial_distance=1.0, mu=0.5)
    rows = [0.1] * 99 + [0.3]
    found = embedding.best_residual_clip(residual_norms=[rows, [0.9] * 100, rows], subspace_dims=[100, 100, 100], **run)
    assert found.subspace_dim == 100 and found.alike_dims == (100, 100)


def test_rates_that_the_error_of_kappa_leaves_open() -> None:
    """A flat least between many rates: the run holds the rates beside it, and none whose bound is surely larger."""
    w = np.random.default_rng(0).standard_t(3, 20_000)
    found = sparsification.best_rate(w / np.linalg.norm(w), clip_norm=0.4, delta_c=1.0, step_noise=20.0)
    assert found.first_rate < found.drop_rate < found.last_rate
    terms = [
        sparsification.relative_bound(
            drop_rate=rate,
            delta_c=1.0,
            step_noise=20.0,
            kappa=sparsification.kappa(w / np.linalg.norm(w), clip_norm=0.4, drop_rate=rate).value,
        )
        for rate in (found.first_rate, found.last_rate)
    ]
    assert max(terms) < found.bound * 1.001
    four = sparsification.best_rate([1.0] * 4, clip_norm=1.0, delta_c=0.01, step_noise=1.0)
    assert four.first_rate == four.drop_rate == four.last_rate == 0.75
