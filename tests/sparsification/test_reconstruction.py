"""Reconstruction errors, schedules, and costs."""

import functools
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import sparsification
from dptheory.gradients import _subset_sums, kept_entries, mean_reciprocal
from dptheory.sparsification import AttackError, bayes_error, error_lower_bound, expected_error
from tests.refused import refused

# --- The reconstruction error against enumeration, exact counting in high dimension, and its own laws ---


ENTRIES = st.one_of(st.just(0.0), st.floats(-20, 20).map(lambda u: math.exp(u)), st.floats(-3, 3))
VECTORS = st.lists(ENTRIES, min_size=2, max_size=8).filter(lambda k: max(map(abs, k)) > 1e-6)


def _rate(dim: int, keep: int) -> float:
    return 1 - keep / dim


def _energies(k: list[float], keep: int) -> list[float]:
    return [math.fsum(x * x for x in kept) for kept in itertools.combinations(k, keep)]


@functools.cache
def _masks(k: tuple[int, ...]) -> Counter[tuple[int, int]]:
    """How many masks keep so many entries with such an energy: exact in any dimension."""
    masks: Counter[tuple[int, int]] = Counter({(0, 0): 1})
    for x in k:
        for (kept, energy), count in list(masks.items()):
            masks[kept + 1, energy + x * x] += count
    return masks


def _counted(k: tuple[int, ...], keep: int, shift: Fraction) -> float:
    """E[1 / (shift + X); shift + X > 0], a sum of positive terms from exact numbers of masks."""
    of_size = {energy: count for (kept, energy), count in _masks(k).items() if kept == keep and energy + shift > 0}
    masks = math.comb(len(k), keep)
    return math.fsum(count / masks / float(shift + energy) for energy, count in of_size.items())


@given(VECTORS, st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_all_masks(k: list[float], data: st.DataObject) -> None:
    keep = data.draw(st.integers(1, len(k)))
    k = [x if abs(x) > 1e-100 else 0.0 for x in k]
    energies = _energies(k, keep)
    positive = [x for x in energies if x > 0]
    found = expected_error(k, drop_rate=_rate(len(k), keep), noise_std=1.0)
    assert found.given_recoverable == pytest.approx(math.fsum(1 / x for x in positive) / len(positive), rel=1e-10)
    assert found.lost_probability == pytest.approx(1 - len(positive) / len(energies), abs=1e-12)
    assert (found.value == math.inf) == (len(positive) < len(energies)) == (found.reason is not None)
    assert found.value in (math.inf, found.given_recoverable)


@pytest.mark.parametrize("shift", [Fraction(0), Fraction(1, 1000), Fraction(50)])
@pytest.mark.parametrize("keep", [1, 2, 7, 30, 59, 60])
@pytest.mark.parametrize("zeros", [0, 5, 40, 58])
def test_exact_counting_in_60_dimensions(zeros: int, keep: int, shift: Fraction) -> None:
    k = tuple(0 if j < zeros else 1 + j % 7 for j in range(60))
    squares = np.square(np.array(k, dtype=np.float64))
    assert mean_reciprocal(values=squares, keep=keep, shift=float(shift)) == pytest.approx(
        _counted(k, keep, shift), rel=1e-12
    )


@pytest.mark.parametrize(
    ("zeros", "ones", "larges", "large", "keep", "shift"),
    [
        (275, 2, 4, 10**7, 275, Fraction(1, 10**12)),  # the mean is that of a rare mask
        (341, 38, 0, 1, 335, Fraction(0)),  # X > 0 almost surely, but not surely
        (473, 72, 32, 10**11, 147, Fraction(1, 10**12)),
        (127, 289, 147, 10**4, 555, Fraction(0)),
        (8, 73, 214, 1000, 209, Fraction(0)),
        (900, 1, 1, 10**12, 2, Fraction(0)),
    ],
)
def test_three_far_levels(zeros: int, ones: int, larges: int, large: int, keep: int, shift: Fraction) -> None:
    expected = []
    for i, j in itertools.product(range(min(ones, keep) + 1), range(min(larges, keep) + 1)):
        masks = math.comb(ones, i) * math.comb(larges, j) * (math.comb(zeros, keep - i - j) if i + j <= keep else 0)
        if masks and i + large * j + shift > 0:
            chance = Fraction(masks, math.comb(zeros + ones + larges, keep))
            expected.append(float(chance) / float(i + large * j + shift))
    squares = np.repeat([0.0, 1.0, float(large)], [zeros, ones, larges])
    assert mean_reciprocal(values=squares, keep=keep, shift=float(shift)) == pytest.approx(
        math.fsum(expected), rel=1e-11
    )


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("values", "shift"),
    [
        ([1e140, 1.0, 0.0, 0.0, 0.0], 0.0),
        ([1e140, 1.0, 0.0, 0.0, 0.0], 1e-140),
        ([1e-280, 0.0, 0.0, 0.0, 0.0], 1e-280),  # powers of t overflowed
        ([1e-280, 1.0, 0.0, 0.0, 0.0], 1e-289),
        ([1e-280, 1.0, 1e-140, 0.0, 0.0], 1e140),
        ([1e-280] * 5, 1e-290),
    ],
)
def test_sizes_at_both_ends(values: list[float], shift: float, keep: int) -> None:
    sums = [sum(map(Fraction, chosen)) + Fraction(shift) for chosen in itertools.combinations(values, keep)]
    expected = sum(1 / one for one in sums if one) / len(sums)
    assert mean_reciprocal(values=np.array(values), keep=keep, shift=shift) == pytest.approx(float(expected), rel=1e-11)


def test_equal_entries_in_a_million_dimensions() -> None:
    found = expected_error(np.full(10**6, 2.0), drop_rate=0.7, noise_std=3.0)
    assert found.value == pytest.approx(9 / (4 * 300_000), rel=1e-11)


def test_nearly_normal_energy_in_high_dimension() -> None:
    """Var X / E[X]^2 is small, so E[1/X] E[X] is 1 + it up to its 3/2-th power."""
    a = np.square(np.random.default_rng(0).standard_normal(3000))
    keep = 1000
    mean = keep / a.size * a.sum()
    variance = keep * (1 - keep / a.size) * a.var(ddof=1)
    assert mean * mean_reciprocal(values=a, keep=keep) == pytest.approx(
        1 + variance / mean**2, abs=3 * (variance / mean**2) ** 1.5
    )


@given(VECTORS, st.data(), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_scaling_and_symmetry(k: list[float], data: st.DataObject, factor: float, sigma: float) -> None:
    k = [x if abs(x) > 1e-100 else 0.0 for x in k]
    rate = _rate(len(k), data.draw(st.integers(1, len(k))))
    base = expected_error(k, drop_rate=rate, noise_std=sigma)
    other = expected_error([-factor * x for x in reversed(k)], drop_rate=rate, noise_std=2 * sigma)
    ratio = 4 / factor**2
    assert other.given_recoverable == pytest.approx(ratio * base.given_recoverable, rel=1e-11)
    assert error_lower_bound([factor * x for x in k], drop_rate=rate, noise_std=2 * sigma) == pytest.approx(
        ratio * error_lower_bound(k, drop_rate=rate, noise_std=sigma), rel=1e-11
    )
    tau = 0.5
    assert bayes_error(
        [factor * x for x in k], drop_rate=rate, noise_std=2 * sigma, prior_std=2 * tau / factor
    ) == pytest.approx(ratio * bayes_error(k, drop_rate=rate, noise_std=sigma, prior_std=tau), rel=1e-9)


@given(VECTORS, st.data(), st.floats(0.01, 100))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_order_of_the_errors(k: list[float], data: st.DataObject, tau: float) -> None:
    k = [x if abs(x) > 1e-100 else 0.0 for x in k]
    rate = _rate(len(k), data.draw(st.integers(1, len(k))))
    found, bound = expected_error(k, drop_rate=rate, noise_std=1.0), error_lower_bound(k, drop_rate=rate, noise_std=1.0)
    bayes = bayes_error(k, drop_rate=rate, noise_std=1.0, prior_std=tau)
    assert bound <= found.given_recoverable * (1 + 1e-12)
    seen = 1 - found.lost_probability
    assert bayes <= (seen * found.given_recoverable + found.lost_probability * tau**2) * (1 + 1e-9)
    assert 1 / ((1 - rate) * sum(x * x for x in k) + 1 / tau**2) <= bayes * (1 + 1e-9)
    assert bayes <= tau**2 * (1 + 1e-9)


@given(st.lists(st.floats(0.01, 10), min_size=3, max_size=9), st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_without_zeros_masking_costs_at_least_its_share(k: list[float], data: st.DataObject) -> None:
    keep = data.draw(st.integers(2, len(k)))
    more, less = (expected_error(k, drop_rate=_rate(len(k), kept), noise_std=1.0).value for kept in (keep, keep - 1))
    assert (keep - 1) * less >= keep * more * (1 - 1e-11)


def test_limits() -> None:
    k = [1.0, 2.0, 2.0, 0.0]
    assert expected_error(k, drop_rate=0.0, noise_std=3.0) == AttackError(
        value=1.0, given_recoverable=1.0, lost_probability=0.0
    )
    assert error_lower_bound(k, drop_rate=0.0, noise_std=3.0) == pytest.approx(1.0)
    assert expected_error(k, drop_rate=0.5, noise_std=0.0) == AttackError(
        value=0.0, given_recoverable=0.0, lost_probability=0.0
    )
    lost = expected_error(k, drop_rate=0.75, noise_std=0.0)
    assert (lost.value, lost.given_recoverable, lost.lost_probability) == (math.inf, 0.0, 0.25)
    assert bayes_error([0.0, 0.0], drop_rate=0.5, noise_std=1.0, prior_std=3.0) == 9.0
    assert bayes_error(k, drop_rate=0.75, noise_std=1e-9, prior_std=3.0) == pytest.approx(9 / 4, rel=1e-6)
    assert bayes_error(k, drop_rate=0.5, noise_std=1.0, prior_std=1e6) == pytest.approx(
        expected_error(k, drop_rate=0.5, noise_std=1.0).value, rel=1e-9
    )
    assert bayes_error(k, drop_rate=0.5, noise_std=1e6, prior_std=2.0) == pytest.approx(4.0, rel=1e-9)


def test_rare_loss_is_not_rounded_away() -> None:
    k = np.zeros(100_000)
    k[0] = 1.0
    found = expected_error(k, drop_rate=0.99999, noise_std=1.0)
    assert 1 - found.lost_probability == pytest.approx(1e-5, rel=1e-9)
    assert found.given_recoverable == pytest.approx(1.0, rel=1e-9)
    assert error_lower_bound(k, drop_rate=0.5, noise_std=1.0) == pytest.approx(1.0, rel=1e-12)


def test_beyond_the_floating_point_range() -> None:
    found = expected_error([1e-200, 1e-200], drop_rate=0.5, noise_std=1.0)
    assert found.value == math.inf and found.reason is not None
    assert bayes_error([1e-200, 0.0], drop_rate=0.5, noise_std=1.0, prior_std=2.0 * 1e100) == pytest.approx(
        4e200, rel=1e-12
    )
    assert bayes_error([1e-200, 0.0], drop_rate=0.5, noise_std=1.0, prior_std=1e200) == math.inf
    k = np.zeros(1000)
    k[:500] = 1.0
    found = expected_error(k, drop_rate=0.5, noise_std=1.0)
    assert found.value == math.inf
    assert found.lost_probability == pytest.approx(1 / math.comb(1000, 500), rel=1e-11)


def test_one_unknown_is_a_matrix_of_one_column() -> None:
    k = [3.0, 1.0, 0.5, 2.0, 0.0, 1.5]
    for keep in range(1, 7):
        column = [[x] for x in k]
        by_matrix = sparsification.matrix_expected_error(column, drop_rate=_rate(6, keep), noise_std=0.3)
        by_vector = expected_error(k, drop_rate=_rate(6, keep), noise_std=0.3)
        assert by_matrix.given_recoverable == pytest.approx(by_vector.given_recoverable, rel=1e-12)
        assert by_matrix.lost_probability == pytest.approx(by_vector.lost_probability, abs=1e-12)
        bound = sparsification.matrix_error_lower_bound(column, drop_rate=_rate(6, keep), noise_std=0.3)
        seen = 1 - by_vector.lost_probability
        assert seen * float(bound[0, 0]) == pytest.approx(
            error_lower_bound(k, drop_rate=_rate(6, keep), noise_std=0.3), rel=1e-12
        )


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_matrix_bound_is_below_in_loewner_order(seed: int, unknowns: int, spare: int) -> None:
    K = np.random.default_rng(seed).standard_normal((7, unknowns))
    keep = unknowns + min(spare, 7 - unknowns)
    inverses = [np.linalg.inv(K[list(s)].T @ K[list(s)]) for s in itertools.combinations(range(7), keep)]
    mean = np.mean(inverses, axis=0)
    bound = sparsification.matrix_error_lower_bound(K, drop_rate=_rate(7, keep), noise_std=1.0)
    assert np.linalg.eigvalsh(mean - bound)[0] >= -1e-7 * np.trace(mean)
    found = sparsification.matrix_expected_error(K, drop_rate=_rate(7, keep), noise_std=2.0)
    assert found.value == pytest.approx(4 * np.trace(mean), rel=1e-5)


def test_orthogonal_change_of_unknowns_leaves_the_total_error() -> None:
    rng = np.random.default_rng(1)
    K, (Q, _) = rng.standard_normal((8, 3)), np.linalg.qr(rng.standard_normal((3, 3)))
    first, second = (sparsification.matrix_expected_error(M, drop_rate=0.25, noise_std=1.0).value for M in (K, K @ Q))
    assert first == pytest.approx(second, rel=1e-10)


def test_gaussian_matrix() -> None:
    assert sparsification.gaussian_matrix_error(keep=10, unknowns=4, noise_std=2.0) == AttackError(
        value=3.2, given_recoverable=3.2, lost_probability=0.0
    )
    for keep in (4, 5):
        found = sparsification.gaussian_matrix_error(keep=keep, unknowns=4, noise_std=1.0)
        assert (found.value, found.given_recoverable, found.lost_probability) == (math.inf, math.inf, 0.0)
        assert found.reason is not None
    assert sparsification.gaussian_matrix_error(keep=3, unknowns=4, noise_std=1.0).lost_probability == 1.0


NAN, INF = math.nan, math.inf


def test_near_ones_of_a_million_normal_entries_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute where all are told apart, which gave the number below."""
    entries, levels = np.random.default_rng(0).standard_normal(10**6), []
    whole = _subset_sums._of_levels
    monkeypatch.setattr(_subset_sums, "_of_levels", lambda *given: levels.append(given[0].levels.size) or whole(*given))
    found = expected_error(entries, drop_rate=0.999, noise_std=1.0).value
    assert found == pytest.approx(0.0010006577554956017, rel=1e-8) and max(levels) < 20_000


@pytest.mark.parametrize("vector", [[1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 0.0, 3.0] * 2500])
@pytest.mark.parametrize("prior_std", [1.0, 0.01])
def test_all_errors_of_one_gradient(vector: list[float], prior_std: float) -> None:
    found = sparsification.reconstruction_errors(vector, drop_rate=0.5, noise_std=0.1, prior_std=prior_std)
    assert found == sparsification.ReconstructionErrors(
        attack=expected_error(vector, drop_rate=0.5, noise_std=0.1),
        lower_bound=error_lower_bound(vector, drop_rate=0.5, noise_std=0.1),
        bayes=bayes_error(vector, drop_rate=0.5, noise_std=0.1, prior_std=prior_std),
    )


def test_a_prior_whose_square_overflows() -> None:
    assert bayes_error([1.0], drop_rate=0.0, noise_std=1e100, prior_std=1e200) == pytest.approx(1e200, rel=1e-12)


def test_whole_is_what_kept_entries_calls_whole() -> None:
    for rate, dim in ((0.1 + 5e-9, 10), (0.7 + 5e-10, 10**6)):
        try:
            kept_entries(dim=dim, drop_rate=rate)
        except ValueError:
            with refused("drop_rate", "1000000"):
                error_lower_bound(np.ones(dim), drop_rate=rate, noise_std=1.0)
        else:
            error_lower_bound(np.ones(dim), drop_rate=rate, noise_std=1.0)


# --- Gradual cooling against a count epoch by epoch ---


RATES = st.floats(0, 1)


@given(RATES, st.integers(2, 200), st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_density_is_the_mean_over_the_epochs(final: float, cooling: int, epochs: int, baseline: int) -> None:
    kept = sum(
        1 - sparsification.freeze_rate(epoch=e, final_drop_rate=final, cooling_epochs=cooling) for e in range(epochs)
    )
    assert sparsification.total_density(
        final_drop_rate=final, cooling_epochs=cooling, epochs=epochs, baseline_epochs=baseline
    ) == pytest.approx(kept / baseline, rel=1e-12, abs=1e-12)


@given(RATES, st.integers(2, 10**6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_ramp_over_the_whole_run_keeps_one_minus_half_the_rate(final: float, epochs: int) -> None:
    assert sparsification.total_density(final_drop_rate=final, cooling_epochs=epochs, epochs=epochs) == pytest.approx(
        1 - final / 2, rel=1e-12
    )


@given(RATES, st.integers(2, 100), st.integers(0, 300))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_rate_rises_from_zero_to_the_final_rate(final: float, cooling: int, epoch: int) -> None:
    assert sparsification.freeze_rate(epoch=0, final_drop_rate=final, cooling_epochs=cooling) == 0.0
    now, later = (
        sparsification.freeze_rate(epoch=e, final_drop_rate=final, cooling_epochs=cooling) for e in (epoch, epoch + 1)
    )
    assert now <= later <= final
    assert sparsification.freeze_rate(epoch=cooling - 1, final_drop_rate=final, cooling_epochs=cooling) == final


def test_the_papers_tables() -> None:
    assert sparsification.total_density(
        final_drop_rate=0.9, cooling_epochs=40, epochs=60, baseline_epochs=40
    ) == pytest.approx(float(Fraction(3, 5)), rel=1e-15)
    assert sparsification.total_density(
        final_drop_rate=0.9, cooling_epochs=80, epochs=100, baseline_epochs=80
    ) == pytest.approx(0.575, rel=1e-15)
    assert sparsification.total_density(final_drop_rate=0.9, cooling_epochs=40, epochs=60) == pytest.approx(
        0.4, rel=1e-15
    )


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ends(rate: float) -> None:
    assert (
        sparsification.total_density(final_drop_rate=rate, cooling_epochs=2, epochs=1) == 1.0
    )  # the first epoch is dense
    assert sparsification.total_density(final_drop_rate=rate, cooling_epochs=2, epochs=2) == 1 - rate / 2


# --- Bytes and operations against round trips and counts ---


INDEX = ("seed", "kept", "dropped", "bitmap")


@given(st.integers(1, 10**12), st.floats(0, 1), st.integers(1, 10**6), st.sampled_from(INDEX), st.integers(1, 64))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_ratio_is_the_kept_share_plus_the_index(dim: int, share: float, rounds: int, index: str, bits: int) -> None:
    keep = min(max(round(dim * share), 1), dim)
    sent = sparsification.communication(dim, keep, rounds=rounds, index=index, value_bits=bits)  # type: ignore[arg-type]
    assert sent.ratio == pytest.approx((sent.values + sent.index) / sent.dense, rel=1e-15)
    width = (dim - 1).bit_length()
    told = {"seed": 128, "kept": keep * width, "dropped": (dim - keep) * width, "bitmap": dim}[index]
    exact = keep / dim + told / (dim * bits * rounds)
    rounding = 8 * (rounds + 1) / (dim * bits * rounds)
    assert abs(sent.ratio - exact) <= (1 + exact) * rounding + 1e-9


def test_a_mask_of_each_kind_can_be_read_back() -> None:
    dim, keep = 300, 40
    kept = np.sort(np.random.default_rng(1).permutation(dim)[:keep])
    width = (dim - 1).bit_length()
    bits = np.array([b == "1" for i in kept for b in f"{i:b}".zfill(width)])
    message = np.packbits(bits)
    assert message.nbytes == sparsification.communication(dim, keep, rounds=1, index="kept").index
    unpacked = np.unpackbits(message)[: keep * width].reshape(keep, width)
    assert np.array_equal(unpacked @ (1 << np.arange(width)[::-1]), kept)


def test_more_rounds_make_the_index_free() -> None:
    ratios = [
        sparsification.communication(550_000, 55_000, rounds=rounds, index="kept").ratio
        for rounds in (1, 10, 100, 10**6)
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == pytest.approx(0.1 * (1 + 20 / 32), rel=1e-9)
    assert ratios[-1] == pytest.approx(0.1, rel=1e-5)


def test_one_entry_needs_no_index() -> None:
    assert sparsification.communication(1, 1, rounds=1, index="kept").index == 0
    assert sparsification.communication(7, 7, rounds=3, index="dropped") == sparsification.Communication(
        dense=84, values=84, index=0
    )


@given(*(st.integers(1, 50) for _ in range(4)), st.integers(1, 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_operations_scale_with_every_size(dim: int, basis: int, samples: int, gradients: int, repeats: int) -> None:
    found = sparsification.projection_operations(
        dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients, iterations=repeats
    )
    assert found.total == found.power_method + found.projection
    doubled = sparsification.projection_operations(
        dim=2 * dim, subspace_dim=2 * basis, anchors=2 * samples, gradient_count=gradients, iterations=repeats
    )
    assert (doubled.power_method, doubled.projection) == (8 * found.power_method, 4 * found.projection)
    once = sparsification.projection_operations(dim=dim, subspace_dim=basis, anchors=samples, gradient_count=gradients)
    assert found.power_method == repeats * once.power_method


@pytest.mark.parametrize(("zeros", "keep", "shift"), [(0, 1500, 0.0), (0, 40, 0.5), (1600, 1500, 0.0)])
def test_joined_values_give_the_mean_of_all(
    zeros: int, keep: int, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.concatenate([np.zeros(zeros), np.random.default_rng(8).standard_normal(3000) ** 2])
    monkeypatch.setattr(_subset_sums, "_CELLS", (60,))
    monkeypatch.setattr(_subset_sums, "_JOINED", 1e-4)
    few = mean_reciprocal(values=values, keep=keep, shift=shift)
    monkeypatch.setattr(_subset_sums, "_MOST_DIFFERENT", 10**9)
    every = mean_reciprocal(values=values, keep=keep, shift=shift)
    assert 0 < abs(few / every - 1) <= 1e-4
