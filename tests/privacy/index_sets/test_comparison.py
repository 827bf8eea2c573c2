"""One index budget under each accounting: each part against the calculator that the ledger checks."""

import functools

import pytest

from dptheory import privacy, pruning
from dptheory.privacy.index_sets import IndexAccountings, IndexChoice, compare_index_accountings
from tests.refused import refused

_SAMPLE = {"sampling_rate": 1.0, "noise_multiplier": 4.0}
_HALF = {"sampling_rate": 0.5, "noise_multiplier": 4.0}


@functools.cache  # mutants of the comparison ask for the same again
def _expected(dim: int, keep: int, steps: int, groups: int, sampling_rate: float | None) -> IndexAccountings:
    run = {"dim": dim, "keep": keep, "steps": steps, "groups": groups}

    def choice(theta: float) -> IndexChoice:
        return IndexChoice(theta=theta, retained_gain=pruning.SubsetMallows(dim, keep, theta=theta).retained_gain())

    thetas = {
        method: privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, **run, method=method)  # type: ignore[arg-type]
        for method in ("basic", "zcdp", "exact")
    }
    assert thetas["basic"] <= thetas["exact"] and thetas["zcdp"] <= thetas["exact"]
    alone = joint = None
    if sampling_rate is not None:
        sample = {"sampling_rate": sampling_rate, "noise_multiplier": 4.0}
        rdp = steps * privacy.subsampled_gaussian_rdp(orders=privacy.ORDERS, **sample)
        alone = privacy.epsilon_from_rdp(orders=privacy.ORDERS, rdp=rdp, delta=1e-5)
        joint = choice(privacy.index_sets.theta_for_joint_budget(epsilon=alone + 1.0, delta=1e-5, **run, **sample))  # type: ignore[arg-type]
    return IndexAccountings(
        basic=choice(thetas["basic"]),
        zcdp=choice(thetas["zcdp"]),
        exact=choice(thetas["exact"]),
        joint=joint,
        values_epsilon=alone,
        least_retained_gain=pruning.least_retained_gain(dim, keep, groups=groups),
    )


@pytest.mark.parametrize(
    ("dim", "keep", "steps", "groups", "sample"),
    [(8, 3, 1, 1, {}), (8, 3, 2, 3, _SAMPLE), (8, 3, 1, 2, _HALF), (20_000, 2, 2, 3, _SAMPLE)],
)
def test_every_field(dim: int, keep: int, steps: int, groups: int, sample: dict[str, float]) -> None:
    run = {"dim": dim, "keep": keep, "steps": steps, "groups": groups}
    found = compare_index_accountings(epsilon=1.0, delta=1e-5, **run, **sample)  # type: ignore[arg-type]
    assert found == _expected(*run.values(), sample.get("sampling_rate"))  # type: ignore[arg-type]


def test_steps_and_groups_are_one_where_not_given() -> None:
    run = {"epsilon": 1.0, "delta": 1e-5, "dim": 8, "keep": 3}
    assert compare_index_accountings(**run) == compare_index_accountings(**run, steps=1, groups=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("half", [{"sampling_rate": 0.5}, {"noise_multiplier": 4.0}])
def test_a_sample_has_a_rate_and_a_noise(half: dict[str, float]) -> None:
    with refused("sampling_rate and noise_multiplier"):
        compare_index_accountings(epsilon=1.0, delta=1e-5, dim=8, keep=3, **half)  # type: ignore[arg-type]


def test_too_little_noise_is_named_and_not_the_budget_that_it_breaks() -> None:
    with refused("noise_multiplier", "1e+06", "5e-324"):
        compare_index_accountings(epsilon=1.0, delta=1e-5, dim=8, keep=3, sampling_rate=0.5, noise_multiplier=5e-324)
