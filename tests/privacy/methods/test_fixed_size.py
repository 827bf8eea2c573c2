"""Batches of a fixed size: brute force over small populations, and the two orders in which the bounds dominate."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dptheory import privacy
from dptheory.privacy import FixedSizeStep
from dptheory.privacy import epsilon as methods
from dptheory.privacy._parts import alike
from dptheory.privacy.methods import _fixed_size
from dptheory.privacy.methods._closed_forms import Participations
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses, tilted_sum

GAMMAS = np.exp(np.linspace(-3.0, 6.0, 31))
OPTIONS = {"adjacency": "replace-one", "sampling": "without replacement"}


def _remove_profile(shift: float, rate: float, gammas: np.ndarray) -> np.ndarray:
    """sup P(S) - gamma Q(S) of remove, S a half-line."""
    odds = (gammas - 1 + rate) / rate
    z = np.where(odds > 0, np.log(np.maximum(odds, 1e-300)) / shift + shift / 2, -np.inf)
    return (1 - rate) * norm.sf(z) + rate * norm.sf(z - shift) - gammas * norm.sf(z)


def _profile(shift: float, rate: float, gammas: np.ndarray) -> np.ndarray:
    """Of the dominating pair."""
    mirrored = 1 - gammas + gammas * _remove_profile(shift, rate, 1 / gammas)
    return np.where(gammas >= 1, _remove_profile(shift, rate, gammas), mirrored)


def _lattice_profile(law: LatticeMasses, gammas: np.ndarray) -> np.ndarray:
    return np.array([law.masses @ np.maximum(1 - g * np.exp(-law.losses), 0.0) for g in gammas])


def _batch_law(records: np.ndarray, batch: int, sigma: float, grid: np.ndarray) -> np.ndarray:
    """Density of the noisy sum of a batch, all batches enumerated; one or two coordinates."""
    sums = [records[list(chosen)].sum(axis=0) for chosen in itertools.combinations(range(len(records)), batch)]
    cell = np.prod([axis[1] - axis[0] for axis in (np.unique(grid[:, j]) for j in range(grid.shape[1]))])
    return sum(np.exp(-((grid - s) ** 2).sum(axis=1) / (2 * sigma**2)) for s in sums) * (
        cell / (len(sums) * (sigma * math.sqrt(2 * math.pi)) ** grid.shape[1])
    )


def _divergences(p: np.ndarray, q: np.ndarray, gammas: np.ndarray) -> np.ndarray:
    return np.array([np.maximum(p - g * q, 0.0).sum() for g in gammas])


@pytest.mark.parametrize("dim", [1, 2])
def test_no_small_population_is_worse_than_the_dominating_pair(dim: int) -> None:
    """All batches of b of n records, a record replaced, at every gamma; records alike attain it."""
    rng = np.random.default_rng(dim)
    slack = np.inf
    for n, batch, sigma in ((3, 1, 1.0), (4, 2, 0.7), (5, 2, 1.5)):
        axis = np.linspace(-batch - 6 * sigma, batch + 6 * sigma, 1501 if dim == 1 else 301)
        grid = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)
        bound = _profile(2 / sigma, batch / n, GAMMAS)
        for draw in range(4):
            records = rng.standard_normal((n + 1, dim))
            records /= np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1.0 if draw % 2 else 1e-9)
            if draw == 0:
                records[:] = np.eye(1, dim)
                records[0] *= -1
            first, second = records[:-1], np.concatenate([records[-1:], records[1:-1]])
            p, q = (_batch_law(each, batch, sigma, grid) for each in (first, second))
            for one, other in ((p, q), (q, p)):
                excess = _divergences(one, other, GAMMAS) - bound
                assert excess.max() <= 1e-4
                if draw == 0:
                    above = (GAMMAS >= 1) == (one is p)
                    slack = min(slack, float(np.abs(excess[above]).max()))
    assert slack <= 1e-4


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (0.3, 0.5), (20.0, 0.3)])
def test_the_lattice_law_of_the_dominating_pair(sigma: float, rate: float) -> None:
    """No divergence is below the exact one, none is far above."""
    step = Loss("remove", sigma / 2, rate)
    largest = _fixed_size._largest(step, 1e-9)
    cells = _fixed_size._cells(step, largest / 2000, largest)
    law = _fixed_size._dominating(cells)
    gammas = np.exp(np.linspace(-0.9, 0.9, 61) * largest)
    gap = _lattice_profile(law, gammas) - _profile(2 / sigma, rate, gammas)
    assert gap.min() >= -1e-12 and gap.max() <= 1e-3 * largest
    assert law.masses.sum() == pytest.approx(1.0, abs=1e-8)
    below = _fixed_size._with_divergence(cells, _fixed_size.largest_divergence(sigma / 2, rate))
    assert below is not None and below.masses.sum() == pytest.approx(1.0, abs=1e-8)
    above = gammas >= 1
    assert (_lattice_profile(below, gammas[above]) >= _remove_profile(2 / sigma, rate, gammas[above]) - 1e-12).all()


def _triple(shift: float, rate: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masses on a grid of (1-q) N(0) + q N(g) and the same with g', three places in the unit disc; ``shift``: of its radius."""
    points = shift * (places - places[0])
    low, high = points.min(axis=0) - 8.0, points.max(axis=0) + 8.0
    axes = [np.arange(a, b, 0.05) for a, b in zip(low, high, strict=True)]
    u, v = np.meshgrid(*axes, indexing="ij")
    normal = [np.exp(-((u - x) ** 2 + (v - y) ** 2) / 2) * 0.0025 / (2 * math.pi) for x, y in points]
    return (1 - rate) * normal[0] + rate * normal[1], (1 - rate) * normal[0] + rate * normal[2]


def _truncated_divergence(p: np.ndarray, q: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """G of step 7: the integral of the divergence's excess from log s on is E_P[log(l/s) - 1 + s/l; l > s], less at s < 1."""
    ratio = np.log(p / q)
    found = []
    for level in levels:
        over = np.maximum(ratio - level, 0.0)
        found.append(float((p * (over + np.expm1(-over))).sum()) - (math.expm1(level) - level if level < 0 else 0.0))
    return np.array(found)


PLACES = [np.array([[math.cos(a), math.sin(a)] for a in angles]) for angles in (
    (0.0, math.pi, 0.0), (0.0, 0.0, math.pi), (0.3, 0.0, math.pi), (math.pi / 2, 0.0, math.pi), (0.0, 2.1, 4.2),
    (0.0, math.pi, 1.0), (0.0, 2.8, 6.0), (1.0, 1.0, 4.0),
)]  # fmt: skip


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (0.5, 0.3), (4.0, 0.1), (1.0, 0.9)])
def test_no_triple_exceeds_the_pair_with_the_largest_divergence(sigma: float, rate: float) -> None:
    rng = np.random.default_rng(0)
    inside = [rng.uniform(-0.7, 0.7, (3, 2)) for _ in range(4)]
    step = Loss("remove", sigma / 2, rate)
    largest = _fixed_size._largest(step, 1e-12)
    divergence = _fixed_size.largest_divergence(sigma / 2, rate)
    law = _fixed_size._with_divergence(_fixed_size._cells(step, largest / 20_000, largest), divergence)
    assert law is not None
    levels = np.linspace(-6.0, 0.5 * largest, 16)
    q_masses = law.masses * np.exp(-law.losses)
    bound = _truncated_divergence(law.masses[law.masses > 0], q_masses[law.masses > 0], levels)
    reached = 0.0
    for places in PLACES + inside:
        found = _truncated_divergence(*_triple(1 / sigma, rate, places), levels)
        assert (found <= bound * (1 + 5e-4) + 1e-12).all()  # the grid's own error is half of that
        reached = max(reached, float((found / bound)[levels < -5].max()))
    assert reached > 0.98


def _worst_choice(sigma: float, rate: float, steps: int, epsilon: float, directions: tuple[str, ...]) -> float:
    """A lower bound of delta for a chooser among these pairs by the outputs so far: losses are rounded down."""
    h = 4e-3
    x = np.arange(-4000, 4001) * h
    value = np.maximum(-np.expm1(x), 0.0)
    laws = []
    for direction in directions:
        z = np.linspace(-9.0, 9.0 + 2 / sigma, 40_001)
        loss = Loss(direction, sigma / 2, rate)
        weights = (
            sum(w * np.exp(-((z - m) ** 2) / 2) for w, m in loss.components) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
        )
        places = np.clip(np.floor(loss.at(z) / h), -1500, 1500).astype(int)
        laws.append(np.bincount(places + 1500, weights, 3001))
    for _ in range(steps):
        padded = np.concatenate([-np.expm1(x[0] + h * np.arange(-1500, 0)), value, np.zeros(1500)])
        value = np.max([np.convolve(padded, law, mode="valid") for law in laws], axis=0)
    return float(np.interp(epsilon, x, value))


def test_who_chooses_by_the_outputs_stays_below() -> None:
    """The choice gains over remove alone, so that a bound that forgot it would be refused."""
    sigma, rate, steps = 2.0, 0.3, 6
    for epsilon in (0.2, 1.0):
        chosen = _worst_choice(sigma, rate, steps, epsilon, ("remove", "add"))
        assert chosen > 1.01 * _worst_choice(sigma, rate, steps, epsilon, ("remove",))
        step = FixedSizeStep(noise_multiplier=sigma, sampling_rate=rate, count=steps)
        upper = _fixed_size.fixed_size_epsilon(alike(step), chosen).upper
        assert upper >= epsilon


@pytest.mark.parametrize(
    ("setting", "method"),
    [
        ((1.0, 0.02, 1000, 1e-5), "divergence"),
        ((4.0, 0.1, 1000, 1e-5), "divergence"),
        ((1.0, 0.5, 5, 1e-5), "dominating pair"),
        ((4.0, 0.01, 2000, 1e-10), "divergence"),
    ],
)
def test_both_ends_are_near(setting, method: str) -> None:
    noise, rate, steps, delta = setting
    found = privacy.epsilon_bounds(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=delta, **OPTIONS)
    assert 1.002 * found.lower < found.upper < 1.04 * found.lower
    assert found.method.endswith(method)


def test_an_upper_bound_of_poisson_batches_is_none_of_batches_of_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is attained where the other records are alike bounds from below alone, whichever method bounded it."""
    monkeypatch.setattr(methods, "METHODS", (Participations(),))
    run = (FixedSizeStep(noise_multiplier=4.0, sampling_rate=0.1, count=100),)
    found = methods.epsilon_of(run, ("remove", "add"), 1e-5)
    assert found.lower == 0.0 and found.above in ("divergence", "dominating pair")
    assert methods.delta_of(run, ("remove", "add"), found.upper).above in ("divergence", "dominating pair")


PAGE = Path(__file__).parents[3] / "proofs" / "privacy" / "fixed_size_batches.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("apart, % |")[2].partition("\n\n")[0].splitlines()[2:]


@pytest.mark.parametrize("row", TABLE)
def test_how_far_the_ends_are_apart(row: str) -> None:
    """The page's table, small epsilon by rare sampling and large delta among its rows."""
    noise, rate, steps, delta, lower, upper, apart = (cell.strip() for cell in row.strip("|").split("|"))
    found = privacy.epsilon_bounds(
        noise_multiplier=float(noise), sampling_rate=float(rate), steps=int(steps), delta=float(delta), **OPTIONS
    )
    assert found.lower == pytest.approx(float(lower), rel=5e-4)
    assert found.upper == pytest.approx(float(upper), rel=5e-4)
    if apart:
        assert 100 * (found.upper / found.lower - 1) == pytest.approx(float(apart), abs=0.06)
    else:
        assert found.lower == 0.0 < found.upper


def test_the_table_covers_where_the_ends_are_far() -> None:
    assert len(TABLE) == 13


def test_one_step_is_exact() -> None:
    found = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.2, steps=1, delta=1e-5, **OPTIONS)
    assert found.method == "one step" and found.upper - found.lower < 1e-6
    at = _profile(2.0, 0.2, np.exp(np.array([found.estimate])))
    assert at[0] == pytest.approx(1e-5, rel=1e-5)


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (4.0, 0.5)])
def test_a_box_of_triangles_has_a_divergence_of_at_most_its_bound(sigma: float, rate: float) -> None:
    """A box that is a point has the divergence of that triangle, a wider one no less."""
    step = _fixed_size._Step(2 / sigma, rate)
    angles = np.array([[1.2, 0.9], [0.8, 1.5], [math.pi / 2, 0.3], [1.0, 1.1], [0.2, 1.45]])  # at x' and at x

    def bound_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return step.bound(np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1))

    points = bound_of(angles, angles)
    for side in ([0.05, 0.0], [0.0, 0.05], [0.05, 0.05]):
        far = np.minimum(angles + side, math.pi / 2)
        assert (bound_of(angles, far) >= np.maximum(points, bound_of(far, far))).all()
    for (at_other, at_first), bound in zip(angles, points, strict=True):
        arcs = (0.0, 2 * at_other, -2 * at_first)  # a chord is seen from the circle under half its arc
        places = np.array([[math.cos(arc), math.sin(arc)] for arc in arcs])
        p, q = _triple(1 / sigma, rate, places)
        assert (p * np.log(p / q)).sum() == pytest.approx(bound, rel=1e-5)


def test_the_tilted_sum_of_two_losses() -> None:
    """By hand: masses 1/4 and 3/4 at -1 and 2, three times; the excess over 1 at the sums 3 and 6."""
    masses = np.array([0.25, 0.0, 0.0, 0.75])
    total = tilted_sum(LatticeMasses(1.0, -1, masses), 3, 0.4)
    value, wrong = total.expectation(lambda over: np.maximum(over, 0.0), 0.0, 1.0)
    assert value == pytest.approx(2 * 3 * 0.75**2 * 0.25 + 5 * 0.75**3, rel=1e-10)
    assert wrong < 1e-9


def test_little_noise_has_bounds() -> None:
    """Probabilities that a double does not hold beside their likelihood ratio are left where they are."""
    asked = {
        "adjacency": "replace-one",
        "sampling": "without replacement",
        "delta": 1e-5,
        "sampling_rate": 0.01,
        "steps": 2,
    }
    before = math.inf
    for noise in (0.05, 0.055, 0.06, 0.065, 0.1):
        found = privacy.epsilon_bounds(noise_multiplier=noise, **asked)
        assert 0.0 < found.lower <= found.upper < min(before, found.lower * 1.01)
        before = found.upper


def test_delta_of_one_step_is_the_integral() -> None:
    asked = {
        "adjacency": "replace-one",
        "sampling": "without replacement",
        "noise_multiplier": 1.0,
        "sampling_rate": 0.02,
    }
    spent = privacy.epsilon_bounds(delta=1e-5, steps=1, **asked).upper
    found = privacy.delta_bounds(epsilon=spent, steps=1, **asked)
    assert found.upper == pytest.approx(1e-5, rel=1e-9)
