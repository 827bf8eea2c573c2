"""The parts of the accountant, with the accountants noted down instead of asked: what goes where, and every threshold."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dptheory import privacy
from dptheory.privacy import ORDERS, FreshMask, subsampled_gaussian_rdp
from dptheory.privacy.index_sets import joint_rdp
from dptheory.pruning import SubsetMallows
from dptheory.training.engine import BudgetError, PrivacyAccountant, _accountant
from dptheory.training.mechanisms import StepCost

RATE, DELTA = 0.05, 1e-5
LAW = SubsetMallows(64, 16, theta=0.3)
PLAIN, QUIET = StepCost(1.3), StepCost(2.0)
SELECTED = StepCost(1.5, selection=(10, LAW))
MASKED = StepCost(1.3, mask=FreshMask(dim=1000, keep=300))
Patch = pytest.MonkeyPatch


def below(value: float) -> float:
    return float(np.nextafter(value, -math.inf))


def test_which_accountant_is_asked(monkeypatch: Patch) -> None:
    """Within its range the amplified one; elsewhere the Gaussian mechanism without amplification."""
    monkeypatch.setattr(privacy, "epsilon_bounds", lambda **a: SimpleNamespace(upper=("amplified", *a.values())))
    monkeypatch.setattr(privacy, "gaussian_epsilon", lambda *a: ("plain", *a))
    _accountant._gaussian.cache_clear()
    least, most = privacy.NOISE
    rate, delta, steps = privacy.RATE[0], privacy.DELTA[0], privacy.MAX_STEPS

    def ask(sigma: float = 2.0, steps: int = 9, rate: float = 0.5, delta: float = 1e-3) -> Any:
        return _accountant._gaussian(sigma, steps, rate, delta)

    assert ask() == ("amplified", 2.0, 0.5, 9, 1e-3)
    assert ask(most) == ("amplified", most, 0.5, 9, 1e-3) == ask(2 * most)
    assert ask(least)[:2] == ("amplified", least) and ask(below(least)) == ("plain", 3 / below(least), 1e-3)
    assert ask(steps=steps)[0] == "amplified" and ask(steps=steps + 1) == ("plain", math.sqrt(steps + 1) / 2, 1e-3)
    assert ask(rate=rate)[0] == "amplified" and ask(rate=below(rate)) == ("plain", 1.5, 1e-3)
    assert ask(delta=delta)[0] == "amplified" and ask(delta=below(delta)) == ("plain", 1.5, below(delta))
    assert ask(1e-100, 1) == ("plain", 1 / 1e-100, 1e-3) and ask(0.5e-100, 1) == math.inf
    assert ask(0.95e-100, 1) == math.inf
    _accountant._gaussian.cache_clear()


def test_epsilon_is_the_bound_at_any_delta(monkeypatch: Patch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(_accountant, "composed_epsilon", lambda *a: math.inf)
    monkeypatch.setattr(_accountant, "_bound", lambda *a: asked.append(a) or 7.0)
    kept = PrivacyAccountant(RATE)
    kept.record(PLAIN)
    kept.limit(epsilon=2.0, delta=DELTA)
    for delta in (DELTA, 2 * DELTA):
        assert kept.epsilon(delta) == 7.0 and asked.pop() == (Counter({PLAIN: 1}), RATE, delta)


def test_whether_a_step_fits(monkeypatch: Patch) -> None:
    """By the Renyi curves, or else by the first of some horizons; that one is remembered."""
    kept = PrivacyAccountant(RATE)
    kept.limit(epsilon=2.0, delta=DELTA)
    kept._horizon, kept._block = 3, 2
    asked: list[int] = []
    spent = Counter({PLAIN: 5})
    for renyi, limit, tried, left in (
        (2.0, 0, [], (3, 2)),
        (2.1, 8, [8], (8, 4)),
        (2.1, 6, [8, 6], (6, 2)),
        (2.1, 5, [8, 6, 5], (5, 1)),
        (2.1, 4, [8, 6, 5], (3, 2)),
    ):
        kept._horizon, kept._block = 3, 2
        asked.clear()
        monkeypatch.setattr(
            _accountant, "_renyi_bound", lambda *a, renyi=renyi: renyi if a == (spent, RATE, DELTA) else 0.0
        )

        def bound(spent: Any, rate: float, delta: float, horizon: int, limit: int = limit) -> float:
            asked.append(horizon)
            return 2.0 if horizon <= limit else 2.0001

        monkeypatch.setattr(_accountant, "_bound", bound)
        assert kept._fits(spent, 2.0, DELTA) == (limit != 4)
        assert asked == tried and (kept._horizon, kept._block) == left


def test_horizons() -> None:
    kept = PrivacyAccountant(RATE)
    assert (kept._horizon, kept._block, kept.steps) == (0, 1, 0)
    assert list(kept._horizons(5)) == [(6, 2), (5, 1)]
    kept._horizon, kept._block = 5, 8
    wanted = [(20, 16), (12, 8), (8, 4), (6, 2), (5, 1)]
    assert list(kept._horizons(5)) == [(5, 8), *wanted]
    kept._horizon = 4
    assert list(kept._horizons(5)) == wanted
    kept._horizon, kept._block = 0, 2**20
    assert next(kept._horizons(1)) == (2**20, 2**20)
    kept._block = 2**19
    assert next(kept._horizons(1)) == (2**20, 2**20)


def test_what_is_remembered_is_forgotten_with_a_new_budget_or_state() -> None:
    kept = PrivacyAccountant(RATE)
    for change in (
        lambda: kept.limit(epsilon=1.0, delta=DELTA),
        lambda: kept.load_state_dict(PrivacyAccountant(RATE).state_dict()),
    ):
        kept._horizon, kept._block = 9, 8
        kept._afforded, kept._ahead = Counter({PLAIN: 9}), 8
        change()
        assert (kept._horizon, kept._block) == (0, 1)
        assert (kept._afforded, kept._ahead) == (Counter(), 1)


def test_what_the_composition_is_asked_near_the_budget(monkeypatch: Patch) -> None:
    """With twice as many steps of the last cost as fitted before, then with fewer; what fitted is not asked again."""
    asked: list[int] = []

    def composed(spent: Any, rate: float, delta: float, releases: Any) -> float:
        assert (rate, delta, spent[QUIET], releases) == (RATE, DELTA, 2, ())
        asked.append(spent[PLAIN])
        return 2.0 if spent[PLAIN] <= 9 else 2.0001

    monkeypatch.setattr(_accountant, "composed_epsilon", composed)
    kept = PrivacyAccountant(RATE)
    found = [kept._composition_fits(Counter({PLAIN: n, QUIET: 2}), PLAIN, 2.0, DELTA) for n in range(3, 11)]
    assert found == [True] * 7 + [False]
    assert asked == [4, 8, 16, 12, 10, 9, 11, 10]


def test_a_step_is_cleared_with_those_before_it(monkeypatch: Patch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(PrivacyAccountant, "_fits", lambda self, *a: asked.append(a) or len(asked) == 1)
    monkeypatch.setattr(_accountant, "composed_epsilon", lambda *a: math.inf)
    kept = PrivacyAccountant(RATE)
    kept.clear(PLAIN)
    assert asked == []
    kept.limit(epsilon=2.0, delta=DELTA)
    for cost in (PLAIN, PLAIN, QUIET):
        kept.record(cost)
    assert kept.steps == 3
    kept.clear(QUIET)
    assert asked == [(Counter({PLAIN: 2, QUIET: 2}), 2.0, DELTA)]
    with pytest.raises(BudgetError):
        kept.clear(QUIET)


def test_an_account_if_secure_adds_up_what_becomes_alike(monkeypatch: Patch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(_accountant, "_bound", lambda spent, *a: asked.append(dict(spent)) or 1.0)
    kept = PrivacyAccountant(RATE)
    for cost, times in ((MASKED, 2), (MASKED.seeded(), 3), (PLAIN, 1)):
        for _ in range(times):
            kept.record(cost)
    kept.epsilon_if_secure(DELTA)
    assert asked == [{MASKED: 5, PLAIN: 1}]


@pytest.mark.parametrize("horizon", [0, 9, 4])
def test_what_the_joint_bound_is_asked(horizon: int, monkeypatch: Patch) -> None:
    asked: dict[str, Any] = {}

    def joint(*, delta: float, values: Any, **given: Any) -> float:
        asked.update(given, delta=delta, values=values(0.25))
        return 3.5

    monkeypatch.setattr(_accountant, "joint_epsilon", joint)
    monkeypatch.setattr(_accountant, "_gaussian", lambda *a: a)
    spent = Counter({PLAIN: 3, SELECTED: 2})
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


def test_bounds_without_an_accountant(monkeypatch: Patch) -> None:
    assert _accountant._bound(Counter(), RATE, DELTA) == 0.0
    bare = Counter({PLAIN: 1, StepCost(0.0): 1})
    assert _accountant._bound(bare, RATE, DELTA) == _accountant._renyi_bound(bare, RATE, DELTA) == math.inf
    assert _accountant._renyi_bound(Counter({PLAIN: 2}), RATE, DELTA) == math.inf
    asked: dict[str, Any] = {}

    def joint(*, delta: float, values: Any, **given: Any) -> float:
        asked.update(given, delta=delta, values=values(0.25))
        return 4.5

    monkeypatch.setattr(_accountant, "joint_epsilon", joint)
    assert _accountant._renyi_bound(Counter({PLAIN: 2, QUIET: 1}), RATE, DELTA) == 4.5
    assert (asked["delta"], asked["values"], asked["index_epsilon"]) == (DELTA, math.inf, 0) and asked[
        "orders"
    ] is ORDERS
    curve = 2 * subsampled_gaussian_rdp(
        orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3
    ) + subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=2.0)
    np.testing.assert_allclose(asked["rdp"], curve)


def test_curves() -> None:
    """None where one accountant knows all: one noise, no mask, no selection."""
    for costs, known in (
        ([PLAIN], True),
        ([PLAIN, QUIET], False),
        ([SELECTED], False),
        ([MASKED], False),
        ([PLAIN, MASKED], False),
    ):
        curve = _accountant._joint_curve(Counter(dict.fromkeys(costs, 3)), RATE)
        assert (curve is None) == known
    np.testing.assert_allclose(
        _accountant._joint_curve(Counter({MASKED: 3}), RATE),
        3 * MASKED.mask.rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3),
    )
    np.testing.assert_allclose(
        _accountant._curve(SELECTED, RATE),
        joint_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.5, mechanism=LAW, groups=10),
    )
    np.testing.assert_allclose(
        _accountant._curve(PLAIN, RATE),
        subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=RATE, noise_multiplier=1.3),
    )
    assert _accountant._index_epsilon(PLAIN) == _accountant._index_rho(PLAIN) == 0.0
    assert _accountant._index_epsilon(SELECTED) == 10 * LAW.epsilon(32)
    assert _accountant._index_rho(SELECTED) == 10 * LAW.zcdp(32) and LAW.max_swaps == 16


def test_costs_from_plain_values() -> None:
    kept = PrivacyAccountant(RATE)
    for cost in (PLAIN, SELECTED, MASKED, MASKED.seeded(), MASKED):
        kept.record(cost)
    again = PrivacyAccountant(RATE)
    again.load_state_dict(kept.state_dict())
    assert again._spent == kept._spent == Counter({PLAIN: 1, SELECTED: 1, MASKED: 2, MASKED.seeded(): 1})
