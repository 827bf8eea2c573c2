"""States of an accountant: what is counted when one is taken over, and which are refused."""

import copy
import json
import pickle
from collections import Counter

import pytest

from dptheory.privacy import Step
from dptheory.training.engine import PrivacyAccountant
from dptheory.training.mechanisms import StepCost
from tests.refused import refused
from tests.training.in_a_fork import in_a_fork

RATE, DELTA = 0.1, 1e-5
PLAIN, OTHER = StepCost(1.3), StepCost(2.0)


def made(accountant: PrivacyAccountant, steps: int, cost: StepCost = PLAIN) -> PrivacyAccountant:
    for _ in range(steps):
        accountant.record(cost)
    return accountant


def resumed(*states: dict) -> PrivacyAccountant:
    accountant = PrivacyAccountant(RATE)
    for state in states:
        accountant.load_state_dict(json.loads(json.dumps(state)))
    return accountant


def test_a_state_of_an_earlier_step_takes_nothing_back() -> None:
    kept = made(PrivacyAccountant(RATE), 4)
    best, before = kept.state_dict(), kept.epsilon(DELTA)
    spent = made(kept, 20).epsilon(DELTA)
    kept.load_state_dict(best)
    assert kept.steps == kept.own_steps == 24 and kept.epsilon(DELTA) == spent > before
    kept.limit(epsilon=spent, delta=DELTA)
    with pytest.raises(ValueError, match="one more step would exceed"):
        kept.clear(PLAIN)


def test_a_run_that_goes_on_counts_every_step_once() -> None:
    """In another process, in two of them from one state, and where their states come together."""
    first = made(PrivacyAccountant(RATE), 4)
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
    first = PrivacyAccountant(RATE)
    first.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    state = made(first, 1).state_dict()
    for steps in (2, 4, 8, 16):
        state = made(resumed(state), steps).state_dict()
    last = resumed(state)
    whole = PrivacyAccountant(RATE)
    whole.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    assert (last.steps, last.own_steps, last.releases) == (31, 0, whole.releases)
    assert last.epsilon(DELTA) == made(whole, 31).epsilon(DELTA)


def test_steps_of_another_run_are_added() -> None:
    here, there = made(PrivacyAccountant(RATE), 4), made(PrivacyAccountant(RATE), 3)
    here.load_state_dict(there.state_dict())
    assert here.steps == 7


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_counts_steps_of_its_own(copied) -> None:
    first = made(PrivacyAccountant(RATE), 4)
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
    first = made(PrivacyAccountant(RATE), 1)
    states = [in_a_fork(lambda: made(first, 100).state_dict()) for _ in range(2)]
    assert in_a_fork(lambda: (first.own_steps, first.steps)) == (0, 1)
    nested = in_a_fork(lambda: [made(first, 1).state_dict(), in_a_fork(lambda: made(first, 1).state_dict())])
    for state in (*states, *states, *nested, first.state_dict()):
        first.load_state_dict(state)
    assert (first.steps, first.own_steps, first.states_loaded) == (203, 1, 7)
