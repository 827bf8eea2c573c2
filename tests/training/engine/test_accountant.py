"""The accountant: plain steps by brackets, selections and masks by Renyi curves, budgets to the last step."""

import copy
import json
import math
import pickle
from collections import Counter

import numpy as np
import pytest
import torch

from dptheory import privacy
from dptheory.privacy import ORDERS, FreshMask, Step, subsampled_gaussian_rdp
from dptheory.privacy.index_sets import joint_rdp
from dptheory.pruning import SubsetMallows
from dptheory.training import mechanisms as m
from dptheory.training.engine import BudgetError, PrivacyAccountant, _accountant
from dptheory.training.mechanisms import StepCost
from tests.refused import refused
from tests.training.in_a_fork import in_a_fork

RATE, DELTA = 0.05, 1e-5
PLAIN = StepCost(1.3)
SELECTED = StepCost(1.3, selection=(10, SubsetMallows(64, 16, theta=0.01)))
STRONG = StepCost(1.3, selection=(10, SubsetMallows(64, 16, theta=0.3)))
MASKED = StepCost(1.3, mask=FreshMask(dim=1000, keep=300))


def accountant(*spent: tuple[StepCost, int], rate: float = RATE) -> PrivacyAccountant:
    kept = PrivacyAccountant(rate)
    for cost, times in spent:
        for _ in range(times):
            kept.record(cost)
    return kept


def by_curve(curve) -> float:
    return privacy.epsilon_from_rdp(orders=ORDERS, rdp=curve, delta=DELTA)


def test_plain_steps_cost_what_the_accountant_says() -> None:
    assert PrivacyAccountant(RATE).epsilon(DELTA) == 0.0
    for steps in (1, 7, 200):
        kept = accountant((PLAIN, steps))
        assert kept.steps == steps
        step = privacy.Step(noise_multiplier=1.3, sampling_rate=RATE, count=steps)
        known = privacy.epsilon_bounds(noise_multiplier=1.3, sampling_rate=RATE, steps=steps, delta=DELTA)
        assert kept.epsilon(DELTA) == min(privacy.Composition([step]).epsilon(DELTA).upper, known.upper) >= known.lower
    assert accountant((PLAIN, 9), rate=1.0).epsilon(DELTA) == pytest.approx(
        privacy.gaussian_epsilon(3 / 1.3, DELTA), rel=1e-9
    )


def test_selections_and_masks_by_their_curves() -> None:
    groups, law = STRONG.selection
    joint = privacy.JointStep(noise_multiplier=1.3, sampling_rate=RATE, mechanism=law, groups=groups, count=50)
    found = privacy.Composition([joint]).epsilon(DELTA)
    assert (
        found.lower
        <= accountant((STRONG, 50)).epsilon(DELTA)
        == found.upper
        < by_curve(
            50 * joint_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3, mechanism=law, groups=groups)
        )
    )
    masked = by_curve(50 * MASKED.mask.rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3))
    assert accountant((MASKED, 50)).epsilon(DELTA) == min(masked, accountant((PLAIN, 50)).epsilon(DELTA))
    assert masked < accountant((PLAIN, 50)).epsilon(DELTA)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "dp_sgd"),
    [(10.0, 4096 / 45000, 875, 1.0138), (1.0, 0.02, 1000, 3.901), (0.6, 0.01, 2000, 9.958), (1.0, 0.005, 1, 0.0834)],
)
def test_a_selection_that_tells_nothing_costs_nothing(sigma: float, rate: float, steps: int, dp_sgd: float) -> None:
    """By gip.thm2 for any accountant; the Renyi curve alone would cost 1.108, 4.324, 13.14 and .8206."""
    groups = 10547
    for index_epsilon in (0.0, 0.01):
        theta = index_epsilon / (steps * groups * 52)
        cost = StepCost(sigma, selection=(groups, SubsetMallows(256, 26, theta=theta)))
        kept = PrivacyAccountant(rate)
        kept._spent[cost] = steps
        values = privacy.Step(noise_multiplier=sigma, sampling_rate=rate, count=steps)
        plain = privacy.Composition([values]).epsilon(DELTA)
        assert plain.lower <= kept.epsilon(DELTA) <= plain.upper + index_epsilon * (1 + 1e-9)
        if index_epsilon == 0.0:
            assert kept.epsilon(DELTA) == pytest.approx(dp_sgd, rel=0.005)


def test_a_seeded_mask_counts_in_the_secure_account_alone() -> None:
    seeded = MASKED.seeded()
    assert seeded.mask is None and seeded.seeded_mask == MASKED.mask and seeded.secured() == MASKED == MASKED.secured()
    kept, secure, plain = accountant((seeded, 50)), accountant((MASKED, 50)), accountant((PLAIN, 50))
    assert kept.epsilon(DELTA) == plain.epsilon(DELTA) == plain.epsilon_if_secure(DELTA)
    assert (
        kept.epsilon_if_secure(DELTA) == secure.epsilon(DELTA) == secure.epsilon_if_secure(DELTA) < plain.epsilon(DELTA)
    )
    again = PrivacyAccountant(RATE)
    again.load_state_dict(json.loads(json.dumps(kept.state_dict())))
    assert again.epsilon_if_secure(DELTA) == kept.epsilon_if_secure(DELTA)


def test_costs_of_all_kinds_add_up() -> None:
    groups, law = STRONG.selection
    curve = (
        30 * subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3)
        + 20 * subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=2.0)
        + 5 * joint_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3, mechanism=law, groups=groups)
        + 10 * MASKED.mask.rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3)
    )
    mixed = accountant((PLAIN, 30), (StepCost(2.0), 20), (STRONG, 5), (MASKED, 10))
    composed = mixed.composition().epsilon(DELTA)
    assert composed.lower <= mixed.epsilon(DELTA) <= composed.upper < 0.6 * by_curve(curve)
    assert sum(part.count for part in mixed.composition().parts) == 65
    some = accountant((PLAIN, 30), (StepCost(2.0), 20), (SELECTED, 5)).epsilon(
        DELTA
    )  # and by the least noise, plus the indices
    groups, law = SELECTED.selection
    assert some <= privacy.epsilon_bounds(
        noise_multiplier=1.3, sampling_rate=RATE, steps=55, delta=DELTA
    ).upper + 5 * groups * law.epsilon(32)
    two = accountant((PLAIN, 30), (StepCost(2.0), 20)).epsilon(DELTA)
    parts = [privacy.Step(noise_multiplier=sigma, sampling_rate=RATE, count=n) for sigma, n in ((1.3, 30), (2.0, 20))]
    assert two == privacy.Composition(parts).epsilon(DELTA).upper < accountant((PLAIN, 50)).epsilon(DELTA)


def test_order_of_the_steps_is_nothing() -> None:
    """To the last digit: a resumed run adds up in another order."""
    kinds = [(StepCost(1.0 + k / 7, selection=(3, SubsetMallows(64, 16 + k, theta=0.3))), 1 + k) for k in range(12)]
    rng = np.random.default_rng(0)

    def orders(spent: list[tuple[StepCost, int]]) -> list[list[tuple[StepCost, int]]]:
        return [[spent[i] for i in rng.permutation(len(spent))] for _ in range(4)]

    few = [*kinds[:3], (MASKED, 2), (PLAIN, 3)]
    assert len({accountant(*spent).epsilon(DELTA) for spent in orders(few)}) == 1
    many = [*kinds, (MASKED, 2), (PLAIN, 3)]
    assert len({_accountant._joint_curve(accountant(*spent)._spent, RATE).tobytes() for spent in orders(many)}) == 1
    assert len({tuple(accountant(*spent).composition().parts) for spent in orders(many)}) == 1


@pytest.mark.parametrize("sigma", [1e-9, 0.02, 0.0499, 150.0, 1e4, math.inf])
@pytest.mark.parametrize(
    "extra", [{}, {"mask": FreshMask(dim=100, keep=50)}, {"selection": (3, SubsetMallows(8, 2, theta=0.1))}]
)
def test_any_noise_has_a_bound(sigma: float, extra: dict) -> None:
    found = accountant((StepCost(sigma, **extra), 4)).epsilon(DELTA)
    assert math.isfinite(found) and found >= 0
    if sigma < 0.05:
        assert found >= 1 / (2 * sigma**2) - 10 / sigma  # little is amplified: one step's larger loss occurs
    if not extra:
        inside = privacy.epsilon_bounds(
            noise_multiplier=min(max(sigma, 0.05), 1000.0), sampling_rate=RATE, steps=4, delta=DELTA
        )
        assert (
            found >= inside.lower
            if sigma < 0.05
            else found <= privacy.epsilon_bounds(noise_multiplier=100.0, sampling_rate=RATE, steps=4, delta=DELTA).upper
        )


def test_what_nothing_protects_costs_everything() -> None:
    assert accountant((PLAIN, 3), (StepCost(0.0), 1)).epsilon(DELTA) == math.inf
    exact = StepCost(1.3, selection=(10, SubsetMallows(64, 16, theta=math.inf)))
    assert accountant((exact, 1)).epsilon(DELTA) == math.inf


def test_more_steps_than_the_accountants_take_are_bounded_without_amplification() -> None:
    kept = PrivacyAccountant(1e-4)
    spent = [({"noise_multiplier": 10.0, "selection": None, "mask": None}, 2_000_000)]
    kept.load_state_dict({"sampling_rate": 1e-4, "spent": {"a": spent}})
    assert kept.epsilon(DELTA) <= privacy.gaussian_epsilon(math.sqrt(2e6) / 10, DELTA) * (1 + 1e-9)
    kept = PrivacyAccountant(1e-4)
    kept.limit(epsilon=8, delta=DELTA)
    kept.clear(StepCost(10.0))  # affords more steps than the accountants take


PARAMS = [torch.zeros(40, 10), torch.zeros(12)]


def cost_of(mechanism: m.Mechanism, sigma: float = 1.3) -> StepCost:
    mechanism.begin_step(PARAMS)
    return mechanism.cost(sigma)


def test_mechanisms_compare_as_they_should() -> None:
    def epsilon(mechanism: m.Mechanism) -> float:
        return accountant((cost_of(mechanism), 100)).epsilon(DELTA)

    plain = epsilon(m.DpSgd())
    assert epsilon(m.IndexPruning(0.001, m.Constant(0.25), group_size=64)) > plain
    assert epsilon(m.IndexPruning(0.1, m.Constant(0.25), group_size=64)) > epsilon(
        m.IndexPruning(0.01, m.Constant(0.25), group_size=64)
    )
    assert epsilon(m.PosteriorFreeze(m.Constant(0.5), None)) < plain
    assert epsilon(m.PosteriorFreeze(m.Constant(0.5), 0)) == plain  # whoever knows the seed knows the mask
    assert epsilon(m.PosteriorFreeze(m.Constant(0.0), None)) <= plain
    assert epsilon(m.PosteriorFreeze(m.Constant(0.5), None, refresh_steps=2)) == plain
    assert epsilon(m.RandomSparsification(m.Constant(0.5), 0)) == plain
    assert epsilon(m.RankedSparsification(m.Constant(0.5), steps_per_epoch=5, seed=0)) == plain
    assert epsilon(m.TopKOfReleased(m.Constant(0.5), 64)) == plain
    assert epsilon(m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=3)) == plain
    assert epsilon(m.NoisyMagnitudeTopK(4.0, m.Constant(0.25), group_size=64)) > plain


NOT_PRIVATE = [
    m.NoisySgd(), m.ClippedSgd(), m.RankedByTrueGradients(m.Constant(0.5), steps_per_epoch=5, seed=0),
    m.UnnoisedVelocity(m.Constant(0.5), steps_per_epoch=5, seed=0),
    m.BatchSizeDivisor(expected_batch_size=10, drop_rate=0.5, seed=0), m.TopKWithoutNoise(0.5),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", NOT_PRIVATE, ids=lambda one: one.title)
def test_what_is_not_private_says_so(mechanism: m.Mechanism) -> None:
    assert accountant((cost_of(mechanism), 1)).epsilon(DELTA) == math.inf
    assert "NOT PRIVATE" in mechanism.title or isinstance(mechanism, m.UnnoisedVelocity)


COSTS = [
    PLAIN,
    StepCost(1.3, selection=(10, SubsetMallows(64, 16, theta=1e-6))),
    StepCost(1.3, selection=(1, SubsetMallows(4, 2, theta=0.01))),
    MASKED,
]


@pytest.mark.parametrize("cost", COSTS, ids=["plain", "weakly selected", "selected", "masked"])
def test_budget_is_used_up_and_kept(cost: StepCost) -> None:
    kept = PrivacyAccountant(RATE)
    kept.limit(epsilon=1.2, delta=DELTA)
    while True:
        try:
            kept.clear(cost)
        except BudgetError as error:
            assert "one more step would exceed epsilon = 1.2 at delta = 1e-05" in str(error)
            break
        kept.record(cost)
    assert kept.steps > 1 and kept.epsilon(DELTA) <= 1.2
    kept.record(cost)
    assert kept.epsilon(DELTA) > 1.2


@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(2.0, 0.2, 10)])
def test_noise_for_a_budget_affords_the_last_step(epsilon: float, rate: float, steps: int) -> None:
    cost = StepCost(privacy.least_noise_multiplier(epsilon=epsilon, delta=DELTA, sampling_rate=rate, steps=steps))
    kept = accountant((cost, steps - 1), rate=rate)
    kept.limit(epsilon=epsilon, delta=DELTA)
    kept.clear(cost)
    kept.record(cost)
    assert 0.99 * epsilon < kept.epsilon(DELTA) <= epsilon


def test_a_budget_affords_as_many_steps_with_a_selection_that_tells_nothing() -> None:
    """The K of a schedule changes all the time; no step is lost, and the accountant is not asked at every step."""
    counts = []
    for law in (None, SubsetMallows(64, 16, theta=1e-9)):
        kept = PrivacyAccountant(RATE)
        kept.limit(epsilon=1.2, delta=DELTA)
        with pytest.raises(BudgetError):
            for step in range(10_000):
                keep = 16 + step % 7
                cost = PLAIN if law is None else StepCost(1.3, selection=(10, SubsetMallows(64, keep, theta=1e-9)))
                kept.clear(cost)
                kept.record(cost)
        assert kept.epsilon(DELTA) <= 1.2
        counts.append(kept.steps)
    assert counts[0] - 1 <= counts[1] <= counts[0]


def test_budget_with_costs_that_take_turns() -> None:
    kept = PrivacyAccountant(1.0)
    kept.limit(epsilon=3.0, delta=DELTA)
    costs = [StepCost(3.0), StepCost(6.0)]
    with pytest.raises(BudgetError):
        for step in range(10_000):
            kept.clear(costs[step % 2])
            kept.record(costs[step % 2])
    assert 2.4 < kept.epsilon(DELTA) <= 3.0


def test_state_round_trip() -> None:
    kept = accountant((PLAIN, 3), (SELECTED, 2), (MASKED, 4))
    state = json.loads(json.dumps(kept.state_dict()))  # plain values only
    again = PrivacyAccountant(RATE)
    again.load_state_dict(state)
    assert again.steps == 9 and again.epsilon(DELTA) == kept.epsilon(DELTA)
    again.record(SELECTED)
    kept.record(SELECTED)
    assert again.epsilon(DELTA) == kept.epsilon(DELTA)


def test_epsilon_grows_with_the_steps_and_falls_with_delta() -> None:
    grown = [accountant((SELECTED, n)).epsilon(DELTA) for n in (1, 10, 100)]
    assert grown == sorted(grown)
    falls = [accountant((MASKED, 10)).epsilon(delta) for delta in (1e-9, 1e-5, 1e-2)]
    assert np.all(np.diff(falls) < 0)


def test_bad_input() -> None:
    for sigma in (-1.0, -math.inf, math.nan, "1", True):
        with refused("noise_multiplier"):
            StepCost(sigma)
    with refused("sampling_rate"):
        PrivacyAccountant(0.0)
    with refused("delta"):
        accountant((PLAIN, 1)).epsilon(0.995)
    for epsilon, delta, says in ((0.0, 1e-5, "epsilon"), (1.0, 0.995, "delta"), (1.0, 0.0, "delta")):
        with refused(says):
            PrivacyAccountant(RATE).limit(epsilon=epsilon, delta=delta)


def test_releases_besides_the_steps_are_counted() -> None:
    """In epsilon and in the budget, with the steps of one kind and of several, before and after a state is taken over."""
    release = privacy.Step(noise_multiplier=10.0, sampling_rate=1.0, count=2)
    kept = PrivacyAccountant(sampling_rate=0.1)
    kept.record_release(release)
    assert kept.epsilon(1e-5) == privacy.Composition((release,)).epsilon(1e-5).upper and kept.steps == 0
    for sigma, count in ((2.0, 30), (3.0, 20)):
        for _ in range(count):
            kept.record(StepCost(sigma))
    parts = [privacy.Step(noise_multiplier=s, sampling_rate=0.1, count=n) for s, n in ((2.0, 30), (3.0, 20))]
    whole = privacy.Composition((release, *parts)).epsilon(1e-5).upper
    assert kept.epsilon(1e-5) == pytest.approx(whole, rel=1e-9) and kept.composition().parts[0] == release  # type: ignore[union-attr]
    again = PrivacyAccountant(sampling_rate=0.1)
    again.load_state_dict(kept.state_dict())
    assert again.releases == (release,) and again.epsilon(1e-5) == kept.epsilon(1e-5)
    noted = PrivacyAccountant(sampling_rate=0.1)
    noted.record_release(release)
    for state, expected in ((kept.state_dict(), 1), (PrivacyAccountant(sampling_rate=0.1).state_dict(), 1)):
        noted.load_state_dict(state)
        assert len(noted.releases) == expected  # the same once; one that only one of the two knows stays
    for budget, fits in ((whole * 1.02, True), (whole, False)):
        kept.limit(epsilon=budget, delta=1e-5)
        if fits:
            kept.clear(StepCost(3.0))
        else:
            with pytest.raises(BudgetError, match="one more step would exceed"):
                kept.clear(StepCost(3.0))


# --- accountant_state: States of an accountant: what is counted when one is taken over, and which are refused


RATE_ACCOUNTANT_STATE = 0.1
OTHER = StepCost(2.0)


def made(accountant: PrivacyAccountant, steps: int, cost: StepCost = PLAIN) -> PrivacyAccountant:
    for _ in range(steps):
        accountant.record(cost)
    return accountant


def resumed(*states: dict) -> PrivacyAccountant:
    accountant = PrivacyAccountant(RATE_ACCOUNTANT_STATE)
    for state in states:
        accountant.load_state_dict(json.loads(json.dumps(state)))
    return accountant


def test_a_state_of_an_earlier_step_takes_nothing_back() -> None:
    kept = made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 4)
    best, before = kept.state_dict(), kept.epsilon(DELTA)
    spent = made(kept, 20).epsilon(DELTA)
    kept.load_state_dict(best)
    assert kept.steps == kept.own_steps == 24 and kept.epsilon(DELTA) == spent > before
    kept.limit(epsilon=spent, delta=DELTA)
    with pytest.raises(ValueError, match="one more step would exceed"):
        kept.clear(PLAIN)


def test_a_run_that_goes_on_counts_every_step_once() -> None:
    """In another process, in two of them from one state, and where their states come together."""
    first = made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 4)
    state = first.state_dict()
    one, two = made(resumed(state), 3), made(resumed(state), 5, OTHER)
    assert (one.steps, one.own_steps, two.steps, two.own_steps) == (7, 3, 9, 5)
    assert resumed(state).epsilon(DELTA) == first.epsilon(DELTA)
    whole = resumed(one.state_dict(), two.state_dict(), state, one.state_dict())
    assert whole.steps == 12 and whole._spent == Counter({PLAIN: 7, OTHER: 5})
    one.load_state_dict(two.state_dict())
    assert one.epsilon(DELTA) == whole.epsilon(DELTA)


def test_a_run_that_goes_on_again_and_again_counts_every_step_and_release() -> None:
    """In five processes, each of which knows the state of the one before alone."""
    first = PrivacyAccountant(RATE_ACCOUNTANT_STATE)
    first.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    state = made(first, 1).state_dict()
    for steps in (2, 4, 8, 16):
        state = made(resumed(state), steps).state_dict()
    last = resumed(state)
    whole = PrivacyAccountant(RATE_ACCOUNTANT_STATE)
    whole.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    assert (last.steps, last.own_steps, last.releases) == (31, 0, whole.releases)
    assert last.epsilon(DELTA) == made(whole, 31).epsilon(DELTA)


def test_steps_of_another_run_are_added() -> None:
    here, there = made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 4), made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 3)
    here.load_state_dict(there.state_dict())
    assert here.steps == 7


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_counts_steps_of_its_own(copied) -> None:
    first = made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 4)
    second = copied(first)
    assert (second.steps, second.own_steps) == (4, 0)
    made(first, 2)
    made(second, 3)
    assert (first.steps, second.steps) == (6, 7)
    first.load_state_dict(second.state_dict())
    assert first.steps == 9


def test_a_state_whose_steps_have_another_sampling_rate_is_refused() -> None:
    """Steps of rate 1 would be priced at a rate at which they cost next to nothing."""
    whole, part = PrivacyAccountant(1.0), PrivacyAccountant(0.125)
    whole.record(PLAIN)
    state = whole.state_dict()
    with refused("state", "0.125", "1.0"):
        part.load_state_dict(state)
    del state["sampling_rate"]
    with refused("state"):
        whole.load_state_dict(state)
    assert (part.steps, whole.steps) == (0, 1)
    part.load_state_dict({"spent": []})
    part.load_state_dict(PrivacyAccountant(1.0).state_dict())  # no steps, which cost nothing at any rate
    assert part.steps == 0 and part.sampling_rate == 0.125


def test_forked_processes_count_steps_of_their_own() -> None:
    """Under one name the 100 steps of two children would be 100 together."""
    first = made(PrivacyAccountant(RATE_ACCOUNTANT_STATE), 1)
    states = [in_a_fork(lambda: made(first, 100).state_dict()) for _ in range(2)]
    assert in_a_fork(lambda: (first.own_steps, first.steps)) == (0, 1)
    nested = in_a_fork(lambda: [made(first, 1).state_dict(), in_a_fork(lambda: made(first, 1).state_dict())])
    for state in (*states, *states, *nested, first.state_dict()):
        first.load_state_dict(state)
    assert (first.steps, first.own_steps, first.states_loaded) == (203, 1, 7)
