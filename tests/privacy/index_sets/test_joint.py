"""Index and values of one sample, and fresh masks, against dp-accounting and limits."""

import math

import numpy as np
import pytest

from dptheory import privacy
from dptheory.privacy import FreshMask, subsampled_gaussian_rdp
from dptheory.privacy.index_sets import joint_rdp
from dptheory.pruning import SubsetMallows
from tests.refused import refused

ORDERS = [2, 3, 8, 64]


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (1.0, 2.0), (0.3, 0.5), (1e-4, 20.0), (0.0, 1.0)])
def test_values_against_dp_accounting(rate: float, sigma: float) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)), 100
    )
    theirs = dp_accounting.rdp.RdpAccountant(privacy.ORDERS).compose(event).get_epsilon(1e-5)
    curve = subsampled_gaussian_rdp(orders=privacy.ORDERS, sampling_rate=rate, noise_multiplier=sigma)
    assert privacy.epsilon_from_rdp(orders=privacy.ORDERS, rdp=100 * curve, delta=1e-5) == pytest.approx(
        theirs, rel=1e-6, abs=1e-9
    )


def test_limits_of_the_joint_curve() -> None:
    model = SubsetMallows(40, 10, theta=0.01)
    values = subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0)
    assert joint_rdp(
        orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0, mechanism=SubsetMallows(40, 10, theta=0.0), groups=7
    ) == pytest.approx(values)
    assert (
        joint_rdp(orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0, mechanism=model, groups=7)
        <= values + 7 * model.epsilon(20)
    ).all()
    assert joint_rdp(orders=ORDERS, sampling_rate=1.0, noise_multiplier=2.0, mechanism=model) == pytest.approx(
        [a / 8 + _index(model, a) for a in ORDERS], rel=1e-12
    )
    small = joint_rdp(orders=[2], sampling_rate=1e-9, noise_multiplier=math.inf, mechanism=model)[0]
    assert small == pytest.approx(1e-18 * math.expm1(_index(model, 2)), rel=1e-9)  # no cancellation
    assert joint_rdp(orders=[2], sampling_rate=0.5, noise_multiplier=1e-3, mechanism=model)[0] > 1e5
    assert np.isinf(subsampled_gaussian_rdp(orders=[9000], sampling_rate=0.5, noise_multiplier=1e-160)).all()
    # moments that overflow, with weights of 0
    assert np.isinf(subsampled_gaussian_rdp(orders=[2, 9000], sampling_rate=1.0, noise_multiplier=1e-160)).all()
    assert (subsampled_gaussian_rdp(orders=[2, 9000], sampling_rate=0.0, noise_multiplier=1e-160) == 0).all()
    unmasked = SubsetMallows(4, 2, theta=math.inf)
    assert (
        np.isinf(joint_rdp(orders=[2, 5], sampling_rate=1.0, noise_multiplier=1.0, mechanism=unmasked)).all()
        and (joint_rdp(orders=[2, 5], sampling_rate=0.0, noise_multiplier=1.0, mechanism=unmasked) == 0).all()
    )


def _index(model: SubsetMallows, order: int) -> float:
    from dptheory.privacy.index_sets import loss_law

    return loss_law(mechanism=model).renyi(order=order)


def test_fresh_mask_limits() -> None:
    base = subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0)
    assert FreshMask(dim=10, keep=10).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) == pytest.approx(base)
    assert FreshMask(dim=10, keep=0).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) == pytest.approx(
        0 * base
    )
    assert FreshMask(dim=100, keep=10).rdp(
        orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0, steps=7
    ) == pytest.approx(7 * FreshMask(dim=10, keep=1).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0))
    assert (FreshMask(dim=10, keep=3).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) <= base).all()
    strong = FreshMask(dim=10, keep=1).rdp(orders=[64], sampling_rate=1.0, noise_multiplier=0.05)[0]
    assert strong == pytest.approx(64 / 2 / 0.05**2 + math.log(0.1) / 63)
    thin = FreshMask(dim=10**9, keep=1).rdp(orders=[2], sampling_rate=1.0, noise_multiplier=1.0)[0]
    assert thin == pytest.approx(math.log1p(1e-9 * math.expm1(1.0)), rel=1e-12)  # no cancellation
    tiny = FreshMask(dim=10, keep=1).rdp(orders=[2], sampling_rate=1e-9, noise_multiplier=1.0)[0]
    assert tiny == pytest.approx(0.1 * 1e-18 * math.expm1(1.0), rel=1e-9)
    assert [name for name in vars(FreshMask) if not name.startswith("_")] == ["rdp"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: subsampled_gaussian_rdp(orders=[1], sampling_rate=0.1, noise_multiplier=1.0),
            "orders 1",
        ),
        (
            lambda: subsampled_gaussian_rdp(
                orders=[2], sampling_rate=0.1, noise_multiplier=1.0, adjacency="replace-one", direction="add"
            ),
            "direction 'worst' 'replace-one'",
        ),
        (
            lambda: joint_rdp(
                orders=[2.5], sampling_rate=0.1, noise_multiplier=1.0, mechanism=SubsetMallows(4, 2, theta=0.1)
            ),
            "orders",
        ),
        (lambda: subsampled_gaussian_rdp(orders=[], sampling_rate=0.1, noise_multiplier=1.0), "orders"),
        (lambda: subsampled_gaussian_rdp(orders=[2], sampling_rate=1.1, noise_multiplier=1.0), "sampling_rate"),
        (lambda: subsampled_gaussian_rdp(orders=[2], sampling_rate=0.1, noise_multiplier=0.0), "noise_multiplier"),
        (
            lambda: joint_rdp(
                orders=[2], sampling_rate=0.1, noise_multiplier=1.0, mechanism=SubsetMallows(4, 2, theta=0.1), groups=0
            ),
            "groups",
        ),
        (lambda: FreshMask(dim=4, keep=5), "keep"),
        (lambda: FreshMask(dim=0, keep=0), "dim"),
        (lambda: FreshMask(dim=4, keep=2).rdp(orders=[2], sampling_rate=0.1, noise_multiplier=1.0, steps=0), "steps"),
        (
            lambda: privacy.index_sets.theta_for_joint_budget(
                epsilon=0.1, delta=1e-5, dim=8, keep=2, sampling_rate=0.5, noise_multiplier=1.0, steps=100
            ),
            "epsilon",
        ),
        (
            lambda: privacy.index_sets.theta_for_joint_budget(
                epsilon=-0.1, delta=1e-5, dim=8, keep=2, sampling_rate=0.5, noise_multiplier=1.0
            ),
            "epsilon",
        ),
    ],
)
def test_bad_input_is_named(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(*says.split()):
        call()
