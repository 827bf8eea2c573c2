"""Every field of the results of calculators that no claim names, against a second copy or a second method, to 1 % or better.

``mutants/holders.py`` lists which of these tests hold which calculator.
"""

# ruff: noqa: E501 -- tables

import functools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import beta, hypergeom, norm

from dptheory import gradients, papers, privacy
from dptheory import papers as embedding_presets
from dptheory.embedding import _sizes
from dptheory.gradients import QuadraticForm, _masks
from dptheory.papers import EmbeddingPreset, PaperSetting, Preset, paper_settings

# --- printed settings, typed a second time ----------------------------------------------------------------------------

_TABLES = "RF, Tables 1, 2 and "
_E2E, _DTL, _HAND = "End-to-end CNN", "DP-Transfer Learning", "Handcrafted CNN"
_TRANSFER = (("Source model", "SIMCLR v2"), ("Aux. dataset", "ImageNet"))
_NORMS = (("Input norm", "BN"), ("BN norm", "8"), ("Architecture", "ScatterNet + CNN"))
_CLIPS = (
    ("Clip0", "5"),
    ("Clip1", "2"),
    ("Subspace", "1000"),
    ("Sample gradients", "2000"),
    ("Aux. dataset", "ImageNet"),
)
_C, _A = "CIFAR10", "RF, Tables 1 (d) and 9"
_F, _FR = "RS, Figure 2 and Table 2 (d)", "DP-CNN"

# name, source, framework, data, d, N, epsilon, delta, sigma, rate, B, epochs, momentum, C, r*, ramp, density, others
ROWS = (
    ("rf.end-to-end-cnn.eps3", f"{_TABLES}5", _E2E, _C, 550_000, 50_000, 3, 1e-5, 1.54, 1, 1000, 40, 0.9, 0.1, 0.7, 40, 0.65, ()),
    ("rf.end-to-end-cnn.eps7.53", f"{_TABLES}5", _E2E, _C, 550_000, 50_000, 7.53, 1e-5, 1.1, 1, 1000, 80, 0.9, 0.1, 0.7, 80, 0.65, ()),
    ("rf.dp-transfer-learning.eps2", f"{_TABLES}6", _DTL, _C, 41_000, 50_000, 2, 1e-5, 2.3, 4, 1000, 50, 0.9, 0.1, 0.7, 50, 0.65, _TRANSFER),
    ("rf.handcrafted-cnn.eps3", f"{_TABLES}7", _HAND, _C, 187_000, 50_000, 3, 1e-5, 5.65, 4, 8000, 80, 0.9, 0.1, 0.6, 80, 0.7, _NORMS),
    ("rf.gep.eps8", f"{_TABLES}8", "GEP", _C, 268_000, 50_000, 8, 1e-5, None, 0.1, 1000, 200, 0.9, None, 0.4, 200, 0.8, _CLIPS),
    ("rf.adjusted-end-to-end-cnn.eps3", _A, f"Adjusted {_E2E}", _C, 550_000, 50_000, 3, 1e-5, 1.81, 1, 1000, 60, 0, 1, 0.9, 40, 0.6, ()),
    ("rf.adjusted-end-to-end-cnn.eps7.53", _A, f"Adjusted {_E2E}", _C, 550_000, 50_000, 7.53, 1e-5, 1.18, 1, 1000, 100, 0, 1, 0.9, 80, 0.58, ()),
    *(
        (f"rs.{name}.{data.lower()}.eps{epsilon}", "RS, Table 2", framework, data, dim, size, epsilon, *[None] * 10, ())
        for data, size, networks in (
            ("CIFAR10", 50_000, (("h-cnn", "H-CNN", 187_000), ("dp-cnn", "DP-CNN", 550_000))),
            ("SVHN", None, (("h-cnn", "H-CNN", 187_000), ("dp-cnn", "DP-CNN", 550_000))),
            ("FMNIST", 60_000, (("h-cnn-s", "H-CNN/S", 33_000), ("dp-cnn-s", "DP-CNN/S", 26_000))),
        )
        for name, framework, dim in networks
        for epsilon in (3, 1)
    ),
    *(
        (f"rs.fig2{name}", _F, _FR, None, 550_000, None, None, None, sigma, None, 1000, 100, None, clip, None, None, None, ())
        for name, sigma, clip in (
            ("a", 1, 0.25), ("b", 2, 0.25), ("c", 4, 0.25), ("d", 1, 0.5), ("e", 2, 0.5), ("f", 4, 0.5),
            ("g", 1, 1), ("h", 2, 1), ("i", 4, 1),
        )
    ),
)  # fmt: skip


def test_presets_digit_for_digit() -> None:
    assert papers.all_presets() == tuple(Preset(*row) for row in ROWS)
    for row in ROWS:
        assert papers.preset(row[0]) == Preset(*row)


def test_what_presets_say_of_the_noise() -> None:
    for row in ROWS:
        dim, sigma, batch = row[4], row[8], row[10]
        share = None if None in (dim, sigma, batch) else Fraction(sigma) ** 2 * dim / batch**2
        preset = Preset(*row)
        if share is None:
            assert preset.noise_share is preset.largest_rate is None
        else:
            assert preset.noise_share == pytest.approx(float(share), rel=1e-12)
            assert preset.largest_rate == pytest.approx(max(0.0, float(1 - 1 / share)), rel=1e-12)


GEP_ROWS = (
    *(
        (f"gep.{data}.k{k}", "GEP, section 4", 269_722, k, 10.0, 2.0, 1000, delta, budgets)
        for data, delta, budgets in (
            ("cifar10", 1e-5, ((2.0, 50), (5.0, 100), (8.0, 200))),
            ("svhn", 1e-6, ((2.0, 5), (5.0, 10), (8.0, 20))),
        )
        for k in (500, 1000, 1500, 2000)
    ),
    ("gep.code.k1000", "GEP, released example; RF, Table 8", 269_722, 1000, 5.0, 2.0, 1000, None, ()),
)  # fmt: skip


def test_embedding_presets_digit_for_digit() -> None:
    assert embedding_presets.embedding_presets() == tuple(EmbeddingPreset(*row) for row in GEP_ROWS)


def test_noise_of_embedding_presets() -> None:
    r"""Each part has its own clip S_i: plain S^2 p; two parts with sensitivity sqrt 2; the best split by Cauchy-Schwarz."""
    small = EmbeddingPreset("small", "here", 50, 4, 3.0, 2.0)
    for preset in (small, *embedding_presets.embedding_presets()):
        p, k, s, t = preset.dim, preset.subspace_dim, preset.clip, preset.residual_clip
        for mu in (1.0, 0.4):
            found = preset.noise(mu)
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


def _joint_energy(p: int, k: int, s: float, t: float) -> float:
    """Least a k + b (p - k) for which x / a + y / b <= 1 at both extreme pairs of squares, (s^2, 0) and (s^2 - t^2, t^2)."""
    small = min(s, t) ** 2

    def energy(log_a: float) -> float:
        a = s**2 * math.exp(log_a)
        return a * k + small / (1 - (s**2 - small) / a) * (p - k)

    return float(minimize_scalar(energy, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-10}).fun)


# name, share of the budget that is left for the values, delta, B, N, epochs, sigma, releases
_LF = (("MNIST", 60_000, 2048, 1.923, (1, 2, 3)), ("FashionMNIST", 60_000, 2048, 2.15, (1, 2, 3)),
       ("CIFAR10", 50_000, 512, 1.0, (3,)), ("CIFAR10", 50_000, 2048, 1.47, (7,)))  # fmt: skip
_GIP = (
    ("WRN-16-4, CIFAR10", 1e-5, 4096, 50_000, ((0.5, 13), (1, 10), (2, 6), (4, 4))),
    ("WRN-28-10, CIFAR10", 1e-5, 16384, 50_000, ((0.25, 30), (0.5, 22), (1, 21.1), (2, 15.8))),
    ("ImageNet", 8e-7, 16384, 1_281_167, ((0.2, 2.5), (0.4, 2.5), (0.6, 2.5), (0.8, 2.5))),
)
_GEP = (
    ("MNIST", 1e-5, 60_000, (50, 100, 200)),
    ("SVHN", 1e-6, 604_388, (5, 10, 20)),
    ("CIFAR10", 1e-5, 50_000, (50, 100, 200)),
)


def test_paper_settings_digit_for_digit() -> None:
    expected = [
        *((f"{row[1]}: {row[2]}", row[6], row[7], row[10], row[5], row[11], row[8], 1) for row in ROWS[:7] if row[8]),
        *((f"LF, Appendix D: {d}", e, 1e-5, b, n, None, s, 1) for d, n, b, s, es in _LF for e in es),
        *((f"GIP, Table 4: {x}", 0.99 * e, d, b, n, None, s, 1) for x, d, b, n, rows in _GIP for e, s in rows),
        *(
            (f"GEP, section 4: {x}", e, d, 1000, n, t, None, 2)
            for x, d, n, ts in _GEP
            for e, t in zip((2, 5, 8), ts, strict=True)
        ),
    ]
    found = paper_settings()
    assert [
        (r.name, r.epsilon, r.delta, r.batch_size, r.train_size, r.epochs, r.sigma, r.releases) for r in found
    ] == expected
    assert [r.sampling_rate for r in found] == [row[3] / row[4] for row in expected]
    assert [r.steps for r in found] == [None if row[5] is None else -(-row[5] * row[4] // row[3]) for row in expected]


def test_what_paper_settings_ask_for() -> None:
    printed = PaperSetting("x", 3.0, 1e-5, 200, 1000, 2, 1.0)  # 10 steps of rate 1/5
    assert (printed.sampling_rate, printed.steps) == (0.2, 10)
    assert printed.needed_sigma() == pytest.approx(privacy.noise_multiplier(3.0, 1e-5, 0.2, 10), rel=1e-9)
    assert printed.spent() == privacy.epsilon(1.0, 0.2, 10, 1e-5)
    assert printed.allowed_steps() == privacy.steps(3.0, 1e-5, 1.0, 0.2)
    twice = replace(printed, releases=2)
    assert twice.needed_sigma() == pytest.approx(math.sqrt(2) * privacy.noise_multiplier(3.0, 1e-5, 0.2, 10), rel=1e-9)


# --- accounting, against an accountant of our own ---------------------------------------------------------------------


@functools.cache
@functools.cache  # every mutant of the accountant is compared with the same
def _composed_epsilon(sigma: float, rate: float, steps: int, delta: float, direction: str = "remove") -> float:
    """Epsilon by the Fourier transform of the loss, whose mean the grid keeps: off by about 1e-6 here.

    A loss between two grid points is split so that its mean stays; its variance grows by h^2 / 4 a step at most.
    """
    h, reach = 5e-4, 40.0
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
    ((1.0, 0.02, 1000, 1e-5), {}, "remove", "PRV"),
    ((1.0, 0.2, 10, 1e-5), {}, "remove", "PRV"),
    ((1.0, 0.2, 10, 1e-5), {"width": 1e-3}, "remove", "PRV"),
    ((1.0, 0.2, 10, 1e-5), {"direction": "add"}, "add", "PRV"),
    ((1.0, 0.2, 10, 1e-5), {"adjacency": "replace-one"}, "replace", "PRV"),
    ((1.0, 0.5, 1, 1e-5), {}, "remove", "one step"),
    ((8.0, 1.0, 50, 1e-6), {}, "remove", "Gaussian"),
)


def test_bounds_of_epsilon_field_by_field() -> None:
    for arguments, options, direction, accountant in SETTINGS:
        found = privacy.epsilon(*arguments, **options)
        truth = _composed_epsilon(*arguments, direction)
        width = options.get("width", 0.005) * max(1.0, truth)
        assert found.lower <= truth + 1e-5 and truth - 1e-5 <= found.upper
        assert found.upper - found.lower <= width * 1.01
        assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12)
        assert found.accountant == accountant


def test_bounds_without_replacement() -> None:
    """The lower bound is attained by data whose other gradients are 0; at rate 1 both are the exact Gaussian."""
    found = privacy.epsilon(1.0, 0.2, 10, 1e-5, adjacency="replace-one", sampling="without replacement")
    truth = _composed_epsilon(1.0, 0.2, 10, 1e-5, "replace")
    assert truth - 0.005 * 1.01 * truth <= found.lower <= truth + 1e-5
    rdp = privacy.rdp_epsilon(1.0, 0.2, 10, 1e-5, adjacency="replace-one", sampling="without replacement")
    assert found.upper == pytest.approx(rdp, rel=1e-9)
    assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12)
    assert found.accountant == "PRV, RDP"


def test_noise_multiplier_is_the_least() -> None:
    cases = (
        ((3.0, 1e-5, 0.2, 10), {}, "remove"),
        ((3.0, 1e-5, 0.2, 10), {"tolerance": 3e-3}, "remove"),
        ((3.0, 1e-5, 0.2, 10), {"direction": "remove"}, "remove"),
        ((3.0, 1e-5, 0.2, 10), {"adjacency": "replace-one"}, "replace"),
        ((3.0, 1e-5, 0.2, 1), {}, "remove"),
        ((2.0, 1e-5, 0.2, 1000), {"tolerance": 4e-3}, "remove"),
    )
    for (budget, delta, rate, steps), options, direction in cases:
        sigma = privacy.noise_multiplier(budget, delta, rate, steps, **options)
        tolerance = options.get("tolerance", 1e-3)
        assert _composed_epsilon(sigma, rate, steps, delta, direction) <= budget + 1e-5
        assert _composed_epsilon(sigma / (1 + 2 * tolerance), rate, steps, delta, direction) > budget


def test_noise_multiplier_without_replacement() -> None:
    options = {"adjacency": "replace-one", "sampling": "without replacement"}
    sigma = privacy.noise_multiplier(3.0, 1e-5, 0.5, 2, tolerance=3e-3, **options)
    assert privacy.rdp_epsilon(sigma, 0.5, 2, 1e-5, **options) <= 3.0 * (1 + 1e-9)
    assert privacy.rdp_epsilon(sigma / 1.004, 0.5, 2, 1e-5, **options) > 3.0


def test_steps_are_the_most() -> None:
    for options, direction in (
        ({}, "remove"),
        ({"direction": "add"}, "add"),
        ({"adjacency": "replace-one"}, "replace"),
    ):
        count = privacy.steps(4.7, 1e-5, 1.0, 0.2, **options)
        assert _composed_epsilon(1.0, 0.2, count, 1e-5, direction) < 4.7 - 0.005
        assert _composed_epsilon(1.0, 0.2, count + 1, 1e-5, direction) > 4.7 + 0.005
    options = {"adjacency": "replace-one", "sampling": "without replacement"}
    count = privacy.steps(4.0, 1e-5, 8.0, 0.5, **options)
    assert privacy.epsilon(8.0, 0.5, count, 1e-5, width=1e-3, **options).upper <= 4.0
    assert privacy.epsilon(8.0, 0.5, count + 1, 1e-5, width=1e-3, **options).upper > 4.0


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
    assert least * (1 - 1e-4) <= privacy.rdp_epsilon(1.0, 0.2, 10, 1e-5) <= 1.003 * least
    # Every record in every batch, one of them replaced: Gaussian with twice the shift.
    full = _renyi_epsilon(10 * orders * (2 / 8.0) ** 2 / 2, orders, 1e-5)
    options = {"adjacency": "replace-one", "sampling": "without replacement"}
    assert full * (1 - 1e-4) <= privacy.rdp_epsilon(8.0, 1.0, 10, 1e-5, **options) <= 1.003 * full


def test_cross_check_field_by_field() -> None:
    for options, direction in (({}, "remove"), ({"width": 1e-3}, "remove"), ({"adjacency": "replace-one"}, "replace")):
        found = privacy.cross_check(1.0, 0.2, 2, 1e-5, **options)
        truth = _composed_epsilon(1.0, 0.2, 2, 1e-5, direction)
        for low, high in (found.prv, found.pld):
            assert low <= truth + 1e-5 and truth - 1e-5 <= high
            assert high - low <= 0.006 * truth
        expected = math.inf if "adjacency" in options else privacy.rdp_epsilon(1.0, 0.2, 2, 1e-5)
        assert found.rdp == pytest.approx(expected, rel=1e-9)


# --- audits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "confidence"), [("events", 0.99), ("events", 0.9), ("gaussian", 0.99), ("gaussian", 0.8)]
)
def test_audit_field_by_field(method: str, confidence: float) -> None:
    """Scores of 0 and 1 in known numbers: every field by Clopper and Pearson's limits."""
    hits, misses = np.r_[np.ones(160), np.zeros(40)], np.r_[np.ones(30), np.zeros(270)]
    options = {} if (method, confidence) == ("events", 0.99) else {"method": method, "confidence": confidence}
    found = privacy.audit(np.r_[hits, hits], np.r_[misses, misses], 1e-3, **options)
    level = (1 - confidence) / 2
    candidates = {
        ("above", "with"): (beta.ppf(level, 160, 41), beta.isf(level, 31, 270)),
        ("below", "without"): (beta.ppf(level, 270, 31), beta.isf(level, 41, 160)),
    }
    evidence = {
        key: math.log((p - 1e-3) / q) if method == "events" else norm.ppf(p) - norm.ppf(q)
        for key, (p, q) in candidates.items()
    }
    best = max(evidence, key=evidence.__getitem__)
    assert (found.event, found.likelier) == best
    assert (found.method, found.confidence, found.threshold, found.trials) == (method, confidence, 0.5, (200, 300))
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
    """200 of 200 against 0 of 200: the limits are level^(1/200) and 1 - level^(1/200)."""
    options = {} if (method, confidence) == ("events", 0.99) else {"method": method, "confidence": confidence}
    p = ((1 - confidence) / 2) ** (1 / 200)
    expected = math.log((p - 1e-5) / (1 - p))
    if method == "gaussian":
        mu = norm.ppf(p) - norm.ppf(1 - p)
        expected = brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e + log_ndtr(-mu / 2 - e / mu)) - 1e-5, 0, 200)
    assert privacy.largest_bound(400, 1e-5, **options) == pytest.approx(expected, rel=1e-6)


# --- masks and rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "keep"), [(5, 2), (20, 20), (10_000, 10_000), (10_000, 1), (400_000, 100_000)])
def test_masks_keep_what_they_say(dim: int, keep: int) -> None:
    assert gradients.kept_entries(dim, 1 - keep / dim) == keep
    drawn = gradients.random_masks(np.random.default_rng(0), 3, dim, keep)
    assert drawn.shape == (3, dim) and np.isin(drawn, (0.0, 1.0)).all() and (drawn.sum(axis=1) == keep).all()
    if math.comb(dim, keep) < 100:
        every = gradients.all_masks(dim, keep)
        assert np.isin(every, (0.0, 1.0)).all() and (every.sum(axis=1) == keep).all()
        assert len({tuple(row) for row in every}) == len(every) == math.comb(dim, keep)


def test_vectors_are_read_as_they_are() -> None:
    assert _masks.vector("u", [3, 4]).tolist() == [3.0, 4.0]
    assert _masks.norm(np.array([3.0, 4.0])) == 5.0


@pytest.mark.parametrize("width", [2, 10_000])
def test_pairs_are_read_as_they_are(width: int) -> None:
    w, r = np.arange(2.0 * width).reshape(2, width), np.ones((2, 3))
    read_w, read_r = _sizes.pairs(w, r)
    assert np.array_equal(read_w, w) and np.array_equal(read_r, r)


# --- quadratic forms and sums over masks ------------------------------------------------------------------------------


def test_mean_and_chernoff_point_of_a_quadratic_form() -> None:
    """For 2 chi^2_3 the Chernoff exponent at x = 6 + 6 y is -(3/2) (y - log(1 + y)); a coarse search ends above the point."""
    form = QuadraticForm(np.array([2.0]), np.array([3.0]), np.array([0.0]))
    assert form.mean == pytest.approx(6.0, rel=1e-12)
    assert QuadraticForm(np.array([2.0, 0.5]), np.array([3.0, 4.0]), np.array([1.0, 0.0])).mean == pytest.approx(10.0)
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
    assert gradients.mean_reciprocal(values, keep, shift) == pytest.approx(expected, rel=1e-9)
