"""The accountant: its parts, its state, its budget."""

import copy
import dataclasses
import json
import math
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory import privacy
from dptheory.privacy import ORDERS, FreshMask, Step, subsampled_gaussian_rdp
from dptheory.privacy.index_sets import joint_rdp
from dptheory.pruning import SubsetMallows
from dptheory.training import make_private_with_epsilon
from dptheory.training import mechanisms as m
from dptheory.training._streams import simulation
from dptheory.training.engine import BudgetError, PrivacyAccountant, _accountant
from dptheory.training.mechanisms import StepCost
from tests.refused import refused
from tests.training.forked import in_a_fork
from tests.training.sgd import epoch

# --- The accountant: plain steps by brackets, selections and masks by Renyi curves, budgets to the last step ---


RATE, DELTA = 0.05, 1e-5
PLAIN, QUIET = StepCost(1.3), StepCost(2.0)
LAW = SubsetMallows(64, 16, theta=0.3)
CHOSEN = StepCost(1.5, selection=(10, LAW))
RELEASE = Step(noise_multiplier=2.0, sampling_rate=1.0, count=1)
SELECTED = StepCost(1.3, selection=(10, SubsetMallows(64, 16, theta=0.01)))
STRONG = StepCost(1.3, selection=(10, LAW))
MASKED = StepCost(1.3, mask=FreshMask(dim=1000, keep=300))


def new(rate: float = RATE) -> PrivacyAccountant:
    return PrivacyAccountant(rate)


def made(accountant: PrivacyAccountant, steps: int, cost: StepCost = PLAIN) -> PrivacyAccountant:
    for _ in range(steps):
        accountant.record(cost)
    return accountant


def accountant(*spent: tuple[StepCost, int], rate: float = RATE) -> PrivacyAccountant:
    kept = new(rate)
    for cost, times in spent:
        made(kept, times, cost)
    return kept


def by_curve(curve) -> float:
    return privacy.epsilon_from_rdp(orders=ORDERS, rdp=curve, delta=DELTA)


def test_plain_steps_cost_what_the_accountant_says() -> None:
    assert new().epsilon(DELTA) == 0.0
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
    assert resumed(kept.state_dict()).epsilon_if_secure(DELTA) == kept.epsilon_if_secure(DELTA)
    both = accountant((MASKED, 20), (seeded, 30))  # alike in a secure run
    assert both.epsilon_if_secure(DELTA) == secure.epsilon(DELTA)


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


@pytest.mark.parametrize(("delta", "warned"), [(0.1, True), (1 / 40, True), (0.02, False), (1e-5, False)])
def test_a_delta_at_which_a_whole_record_may_be_published_is_warned_of(
    delta: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Linear(3, 2)
    data = TensorDataset(torch.zeros(40, 3), torch.zeros(40, dtype=torch.long))
    make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(data, 10),
        mechanism=m.DpSgd(), max_grad_norm=1.0, target_epsilon=1.0, target_delta=delta, epochs=1,
    )  # fmt: skip
    assert any("each of 40 records" in one.getMessage() for one in caplog.records) is warned


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
    kept = new()
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


def test_a_budget_affords_as_many_steps_with_a_selection_that_tells_nothing() -> None:
    """The K of a schedule changes all the time; no step is lost, and the accountant is not asked at every step."""
    counts = []
    for law in (None, SubsetMallows(64, 16, theta=1e-9)):
        kept = new()
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


def test_state_round_trip() -> None:
    kept = accountant((PLAIN, 3), (SELECTED, 2), (MASKED, 4), (MASKED.seeded(), 1))
    again = resumed(kept.state_dict())
    assert again._spent == kept._spent == Counter({PLAIN: 3, SELECTED: 2, MASKED: 4, MASKED.seeded(): 1})
    assert again.epsilon(DELTA) == kept.epsilon(DELTA)
    made(again, 1, SELECTED), made(kept, 1, SELECTED)
    assert again.steps == 11 and again.epsilon(DELTA) == kept.epsilon(DELTA)


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
    for state in (kept.state_dict(), PrivacyAccountant(sampling_rate=0.1).state_dict()):
        noted.load_state_dict(state)
        assert len(noted.releases) == 2  # its own and that of the state; one that only one of the two knows stays
    for budget, fits in ((whole * 1.02, True), (whole, False)):
        kept.limit(epsilon=budget, delta=1e-5)
        if fits:
            kept.clear(StepCost(3.0))
        else:
            with pytest.raises(BudgetError, match="one more step would exceed"):
                kept.clear(StepCost(3.0))


# --- States of an accountant: what is counted when one is taken over, and which are refused


def resumed(*states: dict) -> PrivacyAccountant:
    found = new()
    for state in states:
        found.load_state_dict(json.loads(json.dumps(state)))  # plain values only
    return found


def test_a_state_of_an_earlier_step_takes_nothing_back() -> None:
    kept = made(new(), 4)
    best, before = kept.state_dict(), kept.epsilon(DELTA)
    spent = made(kept, 20).epsilon(DELTA)
    kept.load_state_dict(best)
    assert kept.steps == kept.own_steps == 24 and kept.epsilon(DELTA) == spent > before
    kept.limit(epsilon=spent, delta=DELTA)
    with pytest.raises(ValueError, match="one more step would exceed"):
        kept.clear(PLAIN)


def test_a_run_that_goes_on_counts_every_step_once() -> None:
    """In another process, in two of them from one state, and where their states come together."""
    first = made(new(), 4)
    state = first.state_dict()
    one, two = made(resumed(state), 3), made(resumed(state), 5, QUIET)
    assert (one.steps, one.own_steps, two.steps, two.own_steps) == (7, 3, 9, 5)
    assert resumed(state).epsilon(DELTA) == first.epsilon(DELTA)
    whole = resumed(one.state_dict(), two.state_dict(), state, one.state_dict())
    assert whole.steps == 12 and whole._spent == Counter({PLAIN: 7, QUIET: 5})
    one.load_state_dict(two.state_dict())
    assert one.epsilon(DELTA) == whole.epsilon(DELTA)
    one.load_state_dict(made(new(), 3).state_dict())  # of a run that has none in common
    assert one.steps == 15


def test_a_run_that_goes_on_again_and_again_counts_every_step_and_release() -> None:
    """In five processes, each of which knows the state of the one before alone."""
    first = new()
    first.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    state = made(first, 1).state_dict()
    for steps in (2, 4, 8, 16):
        state = made(resumed(state), steps).state_dict()
    last = resumed(state)
    whole = new()
    whole.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    assert (last.steps, last.own_steps, last.releases) == (31, 0, whole.releases)
    assert last.epsilon(DELTA) == made(whole, 31).epsilon(DELTA)


def test_a_release_at_every_start_is_counted_at_every_start() -> None:
    """A script that draws fresh noise, records its release and loads its state then, four times, and every state twice."""
    state = new().state_dict()
    for start in range(1, 5):
        found = new()
        found.record_release(RELEASE)
        for _ in range(2):
            found.load_state_dict(json.loads(json.dumps(state)))
        assert found.releases == (RELEASE,) * start
        state = found.state_dict()
    whole = privacy.Composition((Step(noise_multiplier=2.0, sampling_rate=1.0, count=4),))
    assert found.epsilon(DELTA) == pytest.approx(whole.epsilon(DELTA).upper, rel=1e-9)


def test_releases_of_a_state_without_names_are_added() -> None:
    """A state of an earlier version lists them alone; nothing says that one of them is one of those here."""
    found = new()
    found.record_release(RELEASE)
    found.load_state_dict(found.state_dict() | {"releases": [dataclasses.asdict(RELEASE)] * 2})
    assert found.releases == (RELEASE,) * 3


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_counts_steps_and_releases_of_its_own(copied) -> None:
    first = made(new(), 4)
    first.record_release(RELEASE)
    second = copied(first)
    assert (second.steps, second.own_steps) == (4, 0)
    made(first, 2), made(second, 3)
    for one in (first, second):
        one.record_release(RELEASE)
    assert (first.steps, second.steps) == (6, 7) and first.releases == second.releases == (RELEASE,) * 2
    first.load_state_dict(second.state_dict())
    assert first.steps == 9 and first.releases == (RELEASE,) * 3


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
    first = made(new(), 1)
    states = [in_a_fork(lambda: made(first, 100).state_dict()) for _ in range(2)]
    assert in_a_fork(lambda: (first.own_steps, first.steps)) == (0, 1)
    nested = in_a_fork(lambda: [made(first, 1).state_dict(), in_a_fork(lambda: made(first, 1).state_dict())])
    for state in (*states, *states, *nested, first.state_dict()):
        first.load_state_dict(state)
    assert (first.steps, first.own_steps, first.states_loaded) == (203, 1, 7)


# make_private_with_epsilon: noise that a number of passes needs, the budget that holds, and mechanisms without an
# answer


DATA = TensorDataset(torch.ones(40, 6), torch.arange(40) % 2)


def private(mechanism: m.Mechanism | None = None, **options):
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))
    chosen = {"target_epsilon": 2.0, "target_delta": DELTA, "epochs": 2, "max_grad_norm": 1.0} | options
    return make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
        mechanism=mechanism or m.DpSgd(), **chosen,
    )  # fmt: skip


class HalfClip(m.DpSgd):
    """Noise of sigma C on a sum of sensitivity C / 2."""

    def cost(self, noise_multiplier: float) -> m.StepCost:
        return m.StepCost(2 * noise_multiplier)


NEEDED = privacy.least_noise_multiplier(epsilon=2.0, delta=DELTA, sampling_rate=0.25, steps=8)


@pytest.mark.parametrize(
    ("mechanism", "sigma"),
    [
        (m.DpSgd(), NEEDED),
        (m.RandomSparsification(m.Constant(0.5), 0), NEEDED),
        (m.LayerFreezing(m.PosteriorFreeze(m.Constant(0.5), 0), frozen_layers=1, from_step=3), NEEDED),
        (m.NoisyMagnitudeTopK(30.0, m.Constant(0.5), group_size=4), (NEEDED**-2 - 30.0**-2) ** -0.5),
        (HalfClip(), NEEDED / 2),
    ],
    ids=lambda one: getattr(one, "title", None),
)
def test_so_many_passes_spend_the_budget_and_no_step_more(mechanism: m.Mechanism, sigma: float) -> None:
    made = private(mechanism)
    assert made[1].noise_multiplier == pytest.approx(sigma, rel=1e-12)
    for _ in range(2):
        epoch(made)
    assert 1.999 < made[1].epsilon(DELTA) <= 2.0
    with pytest.raises(BudgetError, match="one more step would exceed epsilon = 2 at delta = 1e-05"):
        epoch(made)
    assert made[1].accountant.steps == 8


def test_the_masks_of_the_run_are_not_those_of_the_question() -> None:
    """The first masks of a seeded run are those of the same run by make_private."""
    with simulation():  # where the seed alone makes them
        mechanisms = [m.RandomSparsification(m.Constant(0.5), 0) for _ in range(2)]
    optimizer = private(mechanisms[0])[1]
    for mechanism in mechanisms:
        mechanism.begin_step([p.detach() for p in optimizer.params])
    assert all(torch.equal(a, b) for a, b in zip(mechanisms[0].mask, mechanisms[1].mask, strict=True))


def test_a_secure_mask_that_amplifies_leaves_some_of_the_budget() -> None:
    made = private(m.PosteriorFreeze(m.Constant(0.9), None), secure=True)
    assert made[1].noise_multiplier == NEEDED
    epoch(made)
    assert epoch(made).epsilon(DELTA) < 1.7


def test_a_mechanism_is_free_after_a_call_that_failed() -> None:
    mechanism = m.LayerFreezing(m.DpSgd(), frozen_layers=1, from_step=3)
    with refused("target_epsilon"):
        private(mechanism, target_epsilon=1e-20, target_delta=1e-30)
    private(mechanism)
    with refused("mechanism"):
        private(mechanism)


def test_rate_and_steps_are_the_callers() -> None:
    optimizer = private(sampling_rate=0.05, expected_batch_size=2.0, epochs=3)[1]
    needed = privacy.least_noise_multiplier(epsilon=2.0, delta=DELTA, sampling_rate=0.05, steps=60)
    assert optimizer.noise_multiplier == needed and optimizer.privacy(DELTA).adjacency == "add-remove"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target_epsilon": 0.0}, "target_epsilon"),
        ({"target_delta": 1.0}, "target_delta"),
        ({"epochs": 0}, "epochs"),
        (
            {"target_epsilon": 1e-20, "target_delta": 1e-30},
            "target_epsilon 8 1e-20",
        ),
        ({"mechanism": m.ClippedSgd()}, "mechanism"),
        ({"mechanism": m.NoisyMagnitudeTopK(1.0, m.Constant(0.5), group_size=4)}, "mechanism"),
        (
            {"mechanism": m.IndexPruning(0.1, m.Constant(0.5), group_size=4)},
            "mechanism",
        ),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
    ],
)
def test_what_has_no_answer_is_refused_and_leaves_the_model_as_it_was(options: dict, says: str) -> None:
    model = nn.Linear(6, 2)
    before = (dict(vars(model)), {name: dict(vars(p)) for name, p in model.named_parameters()})
    arguments = {
        "mechanism": m.DpSgd(),
        "target_epsilon": 2.0,
        "target_delta": DELTA,
        "epochs": 2,
        "max_grad_norm": 1.0,
    }
    with refused(*says.split()):
        make_private_with_epsilon(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(DATA, 10),
            **(arguments | options),
        )  # fmt: skip
    assert (dict(vars(model)), {name: dict(vars(p)) for name, p in model.named_parameters()}) == before
    assert not model._forward_hooks


@pytest.mark.parametrize(("epsilon", "delta"), [(0.005, 1e-9), (2000.0, 1e-3), (1e5, 1e-3)])
def test_budgets_beyond_the_noise_of_the_calculator_are_answered(epsilon: float, delta: float) -> None:
    """Of full batches, against the closed form; above an epsilon of 1e4 the noise is that of 1e4."""
    made = private(target_epsilon=epsilon, target_delta=delta, epochs=4, sampling_rate=1.0, expected_batch_size=40.0)
    wanted = 2.0 / privacy.gaussian_mu(min(epsilon, 1e4), delta)
    assert not privacy.NOISE[0] <= wanted <= privacy.NOISE[1]
    assert made[1].noise_multiplier == pytest.approx(
        wanted, rel=2e-6
    )  # twice GAP: of the least one, and of the closed form
    for _ in range(4):
        epoch(made)
    assert 0.9999 * min(epsilon, 1e4) < made[1].epsilon(delta) <= epsilon
    if epsilon <= 1e4:
        with pytest.raises(BudgetError):
            epoch(made)


# --- The ends of the calculators' ranges, the budget at any time, and what the joint bound is asked


Patch = pytest.MonkeyPatch


def below(value: float) -> float:
    return float(np.nextafter(value, -math.inf))


MOST = privacy.MAX_STEPS


@pytest.mark.parametrize(("sigma", "rate", "steps"), [
    (privacy.NOISE[0], 0.5, 9), (privacy.NOISE[1], 0.5, 9), (2.0, 0.5, MOST), (2.0, privacy.RATE[0], 9),
])  # fmt: skip
def test_within_the_range_of_the_calculators_the_bound_is_theirs(sigma: float, rate: float, steps: int) -> None:
    found = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=DELTA).upper
    assert _accountant._bound(Counter({StepCost(sigma): steps}), rate, DELTA) == found
    if sigma == privacy.NOISE[1]:
        assert _accountant._bound(Counter({StepCost(2 * sigma): steps}), rate, DELTA) == found


@pytest.mark.parametrize(("sigma", "rate", "steps"), [
    (below(privacy.NOISE[0]), 0.5, 9), (2.0, 0.5, MOST + 1), (2.0, below(privacy.RATE[0]), 9), (1e-100, 0.5, 1),
])  # fmt: skip
def test_outside_of_it_nothing_is_amplified(sigma: float, rate: float, steps: int) -> None:
    found = _accountant._bound(Counter({StepCost(sigma): steps}), rate, DELTA)
    assert found == privacy.gaussian_epsilon(math.sqrt(steps) / sigma, DELTA)
    assert _accountant._bound(Counter({StepCost(0.95e-100): 1}), rate, DELTA) == math.inf
    assert math.isfinite(accountant((STRONG, 2)).epsilon(privacy.DELTA[0]))  # of which the sums get a share


@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_cleared_where_it_keeps_the_budget_and_nowhere_else(seed: int) -> None:
    """Costs of several kinds in any order, budgets that change, and states and releases that come in between."""
    rng, kept, budget, refusals = np.random.default_rng(seed), new(1.0), math.inf, 0
    kinds = [StepCost(10.0), StepCost(14.0), StepCost(12.0, mask=FreshMask(dim=1000, keep=300))]
    for number in range(60):
        if number % 12 == 0:
            budget = 1.3 * kept.epsilon(DELTA) + 0.2
            kept.limit(epsilon=budget, delta=DELTA)
        if number == 20:
            kept.load_state_dict(made(new(1.0), 2, StepCost(13.0)).state_dict())
        if number == 40:
            kept.record_release(Step(noise_multiplier=30.0, sampling_rate=1.0, count=1))
        cost = kinds[rng.integers(len(kinds))]
        spent = made(copy.deepcopy(kept), 1, cost).epsilon(DELTA)
        try:
            kept.clear(cost)
        except BudgetError:
            assert spent > budget
            refusals += 1
        else:
            assert spent <= budget * (1 + 1e-9)
            kept.record(cost)
    assert refusals and kept.steps > 15


def test_a_budget_is_asked_for_ever_longer_runs_and_not_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for place, name in ((privacy, "epsilon_bounds"), (_accountant, "composed_epsilon")):
        plain = getattr(place, name)
        noted = lambda *a, plain=plain, name=name, **b: asked.append(name) or plain(*a, **b)  # noqa: E731
        monkeypatch.setattr(place, name, noted)
    kept = new()
    kept.limit(epsilon=2.03, delta=DELTA)
    with pytest.raises(BudgetError):
        for _ in range(10_000):
            kept.clear(PLAIN)
            kept.record(PLAIN)
    assert kept.steps == 90 and len(asked) < 45


@pytest.mark.parametrize("horizon", [0, 9, 4])
def test_what_the_joint_bound_is_asked(horizon: int, monkeypatch: Patch) -> None:
    """Curves only where one accountant does not know all: of several noises, masks or selections."""
    asked: dict[str, Any] = {}

    def joint(*, delta: float, values: Any, **given: Any) -> float:
        asked.update(given, delta=delta, values=values(0.25))
        return 3.5

    monkeypatch.setattr(_accountant, "joint_epsilon", joint)
    monkeypatch.setattr(_accountant, "_gaussian", lambda *a: a)
    spent = Counter({PLAIN: 3, CHOSEN: 2})
    assert _accountant._bound(spent, RATE, DELTA, horizon) == 3.5
    assert asked["delta"] == DELTA and asked["values"] == (1.3, max(5, horizon), RATE, 0.25)
    assert asked["index_epsilon"] == pytest.approx(2 * 10 * LAW.epsilon(2 * LAW.max_swaps))
    rho = 2 * 10 * LAW.zcdp(2 * LAW.max_swaps)
    assert asked["index_zcdp_rho"] == pytest.approx(rho)
    assert asked["orders"] is ORDERS
    curve = 3 * subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3) + 2 * joint_rdp(
        orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.5, mechanism=LAW, groups=10
    )
    np.testing.assert_allclose(asked["rdp"], curve)
    _accountant._bound(Counter({PLAIN: 3}), RATE, DELTA)
    assert asked["orders"] is None and asked["rdp"] is None and asked["index_epsilon"] == 0.0
    assert asked["values"] == (1.3, 3, RATE, 0.25)
    _accountant._bound(Counter({MASKED: 3}), RATE, DELTA)
    np.testing.assert_allclose(
        asked["rdp"], 3 * MASKED.mask.rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3)
    )
    assert _accountant._renyi_bound(Counter({PLAIN: 2, QUIET: 1}), RATE, DELTA) == 3.5
    assert (asked["values"], asked["index_epsilon"]) == (math.inf, 0) and asked["orders"] is ORDERS
    assert _accountant._renyi_bound(Counter({PLAIN: 2}), RATE, DELTA) == math.inf
    bare = Counter({PLAIN: 1, StepCost(0.0): 1})
    assert _accountant._bound(bare, RATE, DELTA) == _accountant._renyi_bound(bare, RATE, DELTA) == math.inf


def test_masks_that_change_at_every_step_are_not_asked_for_where_the_noisy_sums_keep_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has a Renyi curve of its own: to ask for all of them at every step made a run of 1,800 steps take hours."""
    asked: list[FreshMask] = []
    monkeypatch.setattr(FreshMask, "rdp", lambda self, **_: asked.append(self) or np.full(len(ORDERS), np.inf))
    kept = PrivacyAccountant(0.01)
    kept.limit(epsilon=1.0, delta=1e-5)
    for keep in range(900, 860, -1):
        cost = StepCost(4.0, mask=FreshMask(dim=1000, keep=keep))
        kept.clear(cost)
        kept.record(cost)
    assert kept.steps == 40 and not asked
