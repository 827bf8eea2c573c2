"""Budgets of index sets: every documented argument ends, no answer is below basic composition, brackets are tight."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta as beta_law

from dptheory import privacy, pruning, sparsification
from dptheory.claims.rf import sigmas
from dptheory.privacy import IndexSteps
from dptheory.privacy.index_sets import run_epsilon, theta_for_joint_budget
from dptheory.privacy.methods import references
from dptheory.privacy.methods.references import IndexPRV
from dptheory.pruning import SubsetMallows
from tests.named import by_name
from tests.refused import refused

PAPER: dict[str, Any] = {
    "dim": 256,
    "keep": 26,
    "sampling_rate": 4096 / 45_000,
    "noise_multiplier": 10.0,
    "steps": 875,
    "groups": 10_547,
}


def test_a_delta_that_covers_joining_affords_every_dispersion() -> None:
    assert (
        theta_for_joint_budget(epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=0.0, noise_multiplier=1.0)
        == math.inf
    )
    assert (
        theta_for_joint_budget(
            epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=1e-7, noise_multiplier=1.0, steps=99
        )
        == math.inf
    )
    assert (
        theta_for_joint_budget(
            epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=1e-7, noise_multiplier=1.0, steps=101
        )
        < math.inf
    )
    sure = [IndexSteps(steps=99, mechanism=SubsetMallows(20, 5, theta=math.inf))]
    assert run_epsilon(releases=sure, sampling_rate=1e-7, noise_multiplier=1.0, delta=1e-5) == 0.0
    assert run_epsilon(releases=sure, sampling_rate=1e-3, noise_multiplier=1.0, delta=1e-5) == math.inf


def test_a_delta_below_what_doubles_hold() -> None:
    basic = pruning.theta_for_budget(epsilon=1.0, dim=20, keep=5, steps=2, groups=3)
    assert (
        privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-308, dim=20, keep=5, steps=2, groups=3) >= basic
    )
    assert (
        privacy.index_sets.retained_gain_for_delta_budget(epsilon=1.0, delta=1e-308, dim=20, keep=5, steps=2, groups=3)
        > 0
    )
    assert privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=5e-324, dim=20, keep=5) >= 0.1
    assert (
        theta_for_joint_budget(epsilon=1.0, delta=5e-324, dim=20, keep=5, sampling_rate=1.0, noise_multiplier=1e3) > 0
    )
    assert privacy.index_sets.theta_for_delta_budget(epsilon=1e-9, delta=math.nextafter(1.0, 0.0), dim=2, keep=1) > 1
    assert privacy.index_sets.theta_for_delta_budget(epsilon=5e-324, delta=1e-5, dim=256, keep=26) > 1e-7


@pytest.mark.parametrize("exponent", [9, 10, 11, 12])
def test_very_many_releases(exponent: int) -> None:
    count = 10**exponent
    found = privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=count)
    reference = privacy.index_sets.theta_for_delta_budget(
        epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=10**7
    )  # by the Fourier transform
    assert found * math.sqrt(count) == pytest.approx(reference * math.sqrt(1e7), rel=1e-4)
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(256, 26, theta=found))
    assert law.delta(epsilon=1.0, count=count) <= 1e-5 and law.epsilon(delta=1e-5, count=count) == pytest.approx(
        1.0, rel=1e-5
    )


@pytest.mark.parametrize("epsilon", [1.0, 0.0199, 0.0195, 0.019, 0.01, 1e-4, 1e-9])
def test_small_joint_budgets_do_not_collapse(epsilon: float) -> None:
    theta = theta_for_joint_budget(
        epsilon=epsilon,
        delta=1e-5,
        dim=256,
        keep=26,
        sampling_rate=1.0,
        noise_multiplier=math.inf,
        steps=10,
        groups=100,
    )
    assert theta >= pruning.theta_for_budget(epsilon=epsilon, dim=256, keep=26, steps=10, groups=100)
    assert privacy.index_sets.loss_law(mechanism=SubsetMallows(256, 26, theta=theta)).epsilon(
        delta=1e-5, count=1000
    ) <= epsilon * (1 + 1e-6)
    assert theta >= (1 - 1e-5) * privacy.index_sets.theta_for_delta_budget(
        epsilon=epsilon, delta=1e-5, dim=256, keep=26, steps=10, groups=100
    )


def test_joint_budgets_of_the_paper() -> None:
    with refused("epsilon", "1.0133"):
        theta_for_joint_budget(epsilon=1.01, delta=1e-5, **PAPER)
    thetas = [theta_for_joint_budget(epsilon=epsilon, delta=1e-5, **PAPER) for epsilon in (1.02, 1.05, 1.12)]
    assert thetas == sorted(thetas) and thetas[0] > 5e-8 and thetas[2] > 3e-5
    for epsilon, theta in zip((1.02, 1.05, 1.12), thetas, strict=True):
        run = [IndexSteps(steps=875, mechanism=SubsetMallows(256, 26, theta=theta), groups=10_547)]
        spent = run_epsilon(releases=run, sampling_rate=PAPER["sampling_rate"], noise_multiplier=10.0, delta=1e-5)
        assert spent == pytest.approx(
            epsilon, rel=0.004
        )  # run_epsilon accounts for the index sets by zCDP, theta exactly


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "most"),
    [(10.0, 4096 / 45_000, 875, 1.0238), (1.0, 0.02, 1000, 3.911), (0.6, 0.01, 2000, 9.985), (1.0, 0.005, 1, 0.0835)],
)
def test_weak_index_sets_cost_what_the_values_cost(sigma: float, rate: float, steps: int, most: float) -> None:
    theta = 0.01 / (steps * 10_547 * 52) if steps == 875 else 1e-12
    run = [IndexSteps(steps=steps, mechanism=SubsetMallows(256, 26, theta=theta), groups=10_547)]
    found = run_epsilon(releases=run, sampling_rate=rate, noise_multiplier=sigma, delta=1e-5)
    values = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5)
    assert values.lower <= found <= most


def test_dispersions_that_change() -> None:
    models = [SubsetMallows(256, keep, theta=1e-6) for keep in (200, 100, 26)]
    parts = [IndexSteps(steps=100, mechanism=model, groups=50) for model in models]
    epsilons = [p.epsilon for p in parts]
    assert epsilons == pytest.approx([100 * 50 * 1e-6 * s for s in (112, 200, 52)])
    assert [p.zcdp_rho for p in parts] == pytest.approx([e * 1e-6 for e in epsilons])
    split = run_epsilon(releases=[*parts, *parts], sampling_rate=0.1, noise_multiplier=4.0, delta=1e-5)
    whole = run_epsilon(
        releases=[IndexSteps(steps=200, mechanism=model, groups=50) for model in models],
        sampling_rate=0.1,
        noise_multiplier=4.0,
        delta=1e-5,
    )
    assert split == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.2, 50.0, 2000.0, math.inf])
@pytest.mark.parametrize("steps", [1, 1000, 10**8])
def test_values_have_an_epsilon_at_every_noise(sigma: float, steps: int) -> None:
    found = privacy.index_sets.values_epsilon(delta=1e-5, sampling_rate=0.01, noise_multiplier=sigma, steps=steps)
    shift = math.sqrt(steps) / sigma
    assert 0 <= found <= privacy.gaussian_epsilon(shift, 1e-5)


def test_the_gain_of_a_dispersion_and_back() -> None:
    for dim, keep in ((2, 1), (256, 26), (10**6, 10**5)):
        for gain in (1e-12, 0.3, 0.9):
            theta = pruning.theta_for_retained_gain(retained_gain=gain, dim=dim, keep=keep)
            assert SubsetMallows(dim, keep, theta=theta).retained_gain() == pytest.approx(gain, rel=1e-9)
    assert pruning.theta_for_retained_gain(retained_gain=0.0, dim=4, keep=2) == 0.0
    assert pruning.theta_for_retained_gain(retained_gain=1.0, dim=4, keep=2) == math.inf
    assert 0 <= pruning.theta_for_retained_gain(retained_gain=5e-324, dim=256, keep=26) < 1e-300
    theta = privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=875, groups=100)
    gain = SubsetMallows(256, 26, theta=theta).retained_gain()
    assert privacy.index_sets.epsilon_for_retained_gain(
        retained_gain=gain, delta=1e-5, dim=256, keep=26, steps=875, groups=100
    ) == pytest.approx(1.0, rel=1e-5)
    assert privacy.index_sets.epsilon_for_retained_gain(retained_gain=0.0, delta=1e-5, dim=256, keep=26) == 0.0
    assert privacy.index_sets.epsilon_for_retained_gain(retained_gain=1.0, delta=1e-5, dim=256, keep=26) == math.inf


@pytest.mark.parametrize(("epsilon", "steps"), [(1e-9, 50), (1e-3, 1000)])
def test_a_small_budget_is_refused(epsilon: float, steps: int) -> None:
    with refused("epsilon", "1000"):
        privacy.least_noise_multiplier(epsilon=epsilon, delta=1e-5, sampling_rate=0.02, steps=steps)


RUNS = [(1.0, 0.02, 1000, 1e-5), (10.0, 0.01, 1000, 1e-5), (4.0, 0.1, 300, 1e-7)]


@pytest.mark.parametrize("run", RUNS)
def test_brackets_are_as_tight_as_promised(run: tuple[float, float, int, float]) -> None:
    *asked, delta = run
    found = privacy.epsilon_bounds(**by_name("noise_multiplier sampling_rate steps delta", run))  # type: ignore[arg-type]
    width = 1e-6 * max(1.0, found.estimate)
    low, high = found.lower - width, found.upper + width  # the inversion here is the less exact of the two
    assert sigmas.worst_delta(*asked, low) >= delta >= sigmas.worst_delta(*asked, high)  # type: ignore[arg-type]
    assert found.upper - found.lower <= width
    assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12) and found.method == "saddle line"
    both = references.cross_check(**by_name("noise_multiplier sampling_rate steps delta", run), width=1e-3)  # type: ignore[arg-type]
    for low, high in (both.prv, both.pld):
        assert sigmas.worst_delta(*asked, low) >= delta >= sigmas.worst_delta(*asked, high)  # type: ignore[arg-type]
    assert both.prv[1] - both.prv[0] <= 1.3e-3 * max(1.0, found.estimate)
    assert both.pld[1] <= found.upper * 1.005 and both.pld[0] >= 0.7 * found.lower  # its lower bound is a coarse one
    assert both.rdp == privacy.rdp_epsilon(**by_name("noise_multiplier sampling_rate steps delta", run))  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [(1.0, 0.02, 1000, 1e-5), (4.0, 0.1, 300, 1e-7), (10.0, 4096 / 45_000, 875, 1e-5)])
def test_renyi_epsilon_is_that_of_the_best_whole_order(run: tuple[float, float, int, float]) -> None:
    sigma, rate, steps, delta = run
    orders = range(2, 64)
    curve = steps * privacy.subsampled_gaussian_rdp(orders=orders, sampling_rate=rate, noise_multiplier=sigma)
    found = privacy.rdp_epsilon(**by_name("noise_multiplier sampling_rate steps delta", run))
    assert 0.995 * privacy.epsilon_from_rdp(orders=list(orders), rdp=curve, delta=delta) <= found
    assert found <= privacy.epsilon_from_rdp(orders=list(orders), rdp=curve, delta=delta) * (1 + 1e-9)


@pytest.mark.parametrize(("hits_with", "hits_without"), [(1000, 0), (900, 100), (700, 300)])
@pytest.mark.parametrize("method", privacy.auditing.AUDIT_METHODS)
def test_every_number_of_an_audit(hits_with: int, hits_without: int, method: str) -> None:
    first, second = (np.where(np.arange(1000) < hits, 1.0, 0.0) for hits in (hits_with, hits_without))
    found = privacy.auditing.audit(scores_with=first, scores_without=second, delta=1e-5, confidence=0.98, method=method)
    level = 0.75 * 0.02 / 4
    low = float(beta_law.ppf(level, hits_with, 1000 - hits_with + 1))
    high = float(beta_law.isf(level, hits_without + 1, 1000 - hits_without))
    assert found.likelier_rate == pytest.approx(low, rel=1e-9) and found.other_rate == pytest.approx(high, rel=1e-9)
    assert (found.event, found.likelier, found.threshold) in {("above", "with", 0.5), ("below", "without", 0.5)}
    assert (found.method, found.confidence, found.trials) == (method, 0.98, (1000, 1000))
    if method == "events":
        assert found.epsilon_lower == pytest.approx(math.log((low - 1e-5) / high), rel=1e-9)
    else:
        from statistics import NormalDist

        mu = NormalDist().inv_cdf(low) - NormalDist().inv_cdf(high)
        assert found.epsilon_lower == pytest.approx(privacy.gaussian_epsilon(mu, 1e-5), rel=1e-7)


def test_the_largest_bound_of_an_audit_takes_no_memory() -> None:
    for method in privacy.auditing.AUDIT_METHODS:
        perfect = privacy.auditing.audit(
            scores_with=np.ones(101), scores_without=np.zeros(101), delta=1e-5, method=method
        ).epsilon_lower
        assert privacy.auditing.largest_bound(scores=101, delta=1e-5, method=method) == perfect
        assert privacy.auditing.largest_bound(scores=2**31, delta=1e-5, method=method) < math.inf
    assert privacy.auditing.largest_bound(scores=2**31, delta=1e-5) == pytest.approx(
        math.log(2**31 / -math.log(0.75 * 0.01 / 4)), rel=1e-4
    )


def test_index_prv_numbers() -> None:
    variable = IndexPRV(mechanism=SubsetMallows(6, 3, theta=0.1), releases=7)
    assert (variable.error, variable.releases, variable.pm_inf) == (0.2, 7, 0.0)


def test_size_of_the_batch_alone() -> None:
    laws = [[math.comb(n, b) / 2**n for b in range(12)] for n in (11, 10)]
    both = (sum(max(p - math.e * q, 0.0) for p, q in zip(*pair, strict=True)) for pair in (laws, laws[::-1]))
    assert privacy.published_size_delta(epsilon=1.0, train_size=10, sampling_rate=0.5, shift=0.0) == pytest.approx(
        max(both), rel=1e-12
    )


def test_masks_of_nearly_all_and_of_nothing() -> None:
    assert (
        sparsification.sparse_captured_energy(keep_share=0.999999999999, snr=0.0, nonzero_share=0.1) == 0.999999999999
    )
    assert sparsification.sparse_captured_energy(keep_share=5e-324, snr=0.0, nonzero_share=0.1) == 5e-324
    for share in (1e-300, 1e-9, 0.5, math.nextafter(0.5, 1), 1 - 1e-12):
        found = sparsification.sparse_captured_energy(keep_share=share, snr=0.5, nonzero_share=0.01)
        assert share <= found <= 1
    # the two forms of the threshold meet
    low, high = (
        sparsification.sparse_captured_energy(keep_share=x, snr=0.5, nonzero_share=0.1)
        for x in (0.5, math.nextafter(0.5, 1))
    )
    assert low == pytest.approx(high, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: IndexPRV(mechanism=SubsetMallows(8, 3, theta=0.1), releases=10**13),
            ("releases", "1..1000000000000"),
        ),
        (lambda: pruning.released_top_k_mse(4, 2, sigma_g=1.0, noise_std=-1.0), ("noise_std",)),
        (lambda: pruning.released_top_k_mse(4, 2, sigma_g=1.0, noise_std=1e-80), ("noise_std", "0")),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=1.0, dim=4, keep=2, groups=1, sigma_g=1.0, clip_norm=1.0, noise_multiplier=-1.0
            ),
            ("noise_multiplier",),
        ),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=1.0, dim=4, keep=2, groups=1, sigma_g=1e-70, clip_norm=1e70, noise_multiplier=1.0
            ),
            ("noise_multiplier",),
        ),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=1e-60, dim=4, keep=2, groups=1, sigma_g=1.0, clip_norm=1.0, noise_multiplier=1.0
            ),
            ("zcdp_rho",),
        ),
        (
            lambda: privacy.combined_multiplier(noise_multipliers=np.ma.array([1.0, 2.0], mask=[0, 1])),
            ("noise_multipliers",),
        ),
        (
            lambda: privacy.epsilon_from_rdp(orders=[2.0, 3.0], rdp=np.ma.array([2.0, 3.0], mask=[0, 1]), delta=1e-5),
            ("rdp",),
        ),
        (lambda: privacy.average_sensitivity(batch_size=1, clip_norm=1e308), ("clip_norm",)),
        (lambda: privacy.auditing.largest_bound(scores=10**30, delta=1e-5), ("scores",)),
        (lambda: privacy.auditing.largest_bound(scores=2, delta=1e-5), ("scores", "10")),
        (
            lambda: privacy.index_sets.theta_for_delta_budget(
                epsilon=1.0, delta=1e-5, dim=8, keep=3, steps=10**12, groups=10
            ),
            ("steps * groups",),
        ),
        (
            lambda: privacy.index_sets.epsilon_for_retained_gain(retained_gain=1.5, delta=1e-5, dim=8, keep=3),
            ("retained_gain",),
        ),
        (
            lambda: privacy.index_sets.epsilon_for_retained_gain(retained_gain=0.5, delta=1e-5, dim=8, keep=3, steps=0),
            ("steps",),
        ),
        (lambda: pruning.theta_for_retained_gain(retained_gain=0.5, dim=8, keep=8), ("keep",)),
        (lambda: IndexSteps(steps=0, mechanism=SubsetMallows(8, 3, theta=0.1)), ("steps",)),
        (lambda: run_epsilon(releases=[], sampling_rate=0.1, noise_multiplier=1.0, delta=1e-5), ("releases",)),
        (
            lambda: privacy.index_sets.joint_epsilon(delta=1e-5, values=lambda d: 1.0, index_epsilon=0.1, rdp=[1.0]),
            ("orders and rdp",),
        ),
        (
            lambda: privacy.index_sets.values_epsilon(delta=1e-5, sampling_rate=0.1, noise_multiplier=0.0, steps=1),
            ("noise_multiplier",),
        ),
    ],
)
def test_bad_input_is_named(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(*says):
        call()
