"""The index mechanism: its law, its composition, its budgets, other ways of choosing entries."""

import numpy as np

from dptheory import privacy
from dptheory.privacy import FreshMask, IndexSteps
from dptheory.privacy.methods.references import IndexPRV
from dptheory.pruning import SubsetMallows
from tests.calls import Calls, Fresh, call, dear, slow

_SMALL = SubsetMallows(8, 3, theta=0.3)
_PAPER = SubsetMallows(256, 26, theta=0.01)
_LOSS = privacy.index_sets.loss_law(mechanism=_SMALL)
_PRV = IndexPRV(mechanism=_SMALL, releases=5)
_SETTING = {"dim": 20, "keep": 5, "steps": 2, "groups": 3}
_MALLOWS = "dptheory.pruning.SubsetMallows"
_LATTICE = "dptheory.privacy.index_sets.LatticeLoss"
_INDEX_PRV = "dptheory.privacy.methods.references.IndexPRV"


def _values(delta: float) -> float:
    """Epsilon of the noisy sums alone."""
    return 1.0


CALLS: Calls = {
    "dptheory.pruning.index_sensitivity": [call(dim=20, keep=5)],
    "dptheory.pruning.groups_of": [call(dim=2_700_032, group_size=256)],
    _MALLOWS: [call(dim=8, keep=3, theta=0.3), call(dim=2_700_000, keep=270_000, theta=1e-6)],
    f"{_MALLOWS}.swap_log_pmf": [call(self=_SMALL), call(self=_PAPER)],
    f"{_MALLOWS}.swap_pmf": [call(self=_SMALL), call(self=_PAPER)],
    f"{_MALLOWS}.mean_swaps": [call(self=_SMALL), call(self=_PAPER)],
    f"{_MALLOWS}.retained_gain": [call(self=_SMALL), call(self=_PAPER)],
    f"{_MALLOWS}.epsilon": [call(self=_SMALL, distance=6), call(self=_PAPER, distance=52)],
    f"{_MALLOWS}.zcdp": [call(self=_SMALL, distance=6), call(self=_PAPER, distance=52)],
    f"{_MALLOWS}.sample": [
        call(self=_SMALL, reference=np.arange(8) < 3, rng=Fresh(lambda: np.random.default_rng(0))),
        call(self=_PAPER, reference=np.arange(256) < 26, rng=Fresh(lambda: np.random.default_rng(0))),
    ],
    "dptheory.pruning.theta_for_budget": [
        call(epsilon=1.0, **_SETTING),
        call(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547),
    ],
    "dptheory.pruning.theta_for_retained_gain": [
        call(retained_gain=0.5, dim=20, keep=5),
        dear(retained_gain=0.64, dim=256, keep=26),
    ],
    "dptheory.pruning.index_budget": [
        call(epsilon=1.0, **_SETTING),
        dear(epsilon=0.01, dim=256, keep=26, steps=2500, groups=10_547),
    ],
    "dptheory.pruning.sparse_index_budget": [
        call(epsilon=1.0, nonzeros=3, **_SETTING),
        dear(epsilon=1.0, nonzeros=27_000, dim=256, keep=26, steps=1000, groups=10_547),
    ],
    "dptheory.privacy.index_sets.loss_law": [call(mechanism=_SMALL, distance=6), call(mechanism=_PAPER, distance=52)],
    "dptheory.privacy.index_sets.theta_for_delta_budget": [
        call(epsilon=1.0, delta=1e-5, method="zcdp", **_SETTING),
        dear(epsilon=1.0, delta=1e-5, dim=8, keep=3, steps=1, groups=2, method="exact"),
        dear(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=10, groups=100, method="exact"),
    ],
    "dptheory.privacy.index_sets.compare_index_accountings": [
        slow(epsilon=3.0, delta=1e-5, dim=8, keep=3, steps=1, groups=2, sampling_rate=1.0, noise_multiplier=4.0),
    ],
    "dptheory.privacy.index_sets.epsilon_for_retained_gain": [
        call(retained_gain=0.5, delta=1e-5, method="zcdp", **_SETTING),
        dear(retained_gain=0.5, delta=1e-5, dim=8, keep=3, steps=1, groups=2, method="exact"),
    ],
    "dptheory.privacy.index_sets.retained_gain_for_delta_budget": [
        call(epsilon=1.0, delta=1e-5, method="zcdp", **_SETTING),
        dear(epsilon=1.0, delta=1e-5, dim=8, keep=3, steps=1, groups=2, method="exact"),
    ],
    _LATTICE: [call(spacing=0.5, low=-1, log_pmf=np.log([0.25, 0.0625, 0.6875]), top=1, log_omitted=-200.0)],
    _LATTICE + ".delta": [call(self=_LOSS, epsilon=1.0, count=5)],
    _LATTICE + ".epsilon": [call(self=_LOSS, delta=1e-5, count=5)],
    _LATTICE + ".renyi": [call(self=_LOSS, order=2.0)],
    _INDEX_PRV: [call(mechanism=_SMALL, releases=5), call(mechanism=_PAPER, releases=1000)],
    f"{_INDEX_PRV}.cdf": [call(self=_PRV, t=[0.0, 1.0])],
    f"{_INDEX_PRV}.pdf": [call(self=_PRV, t=[0.0, 1.0])],
    f"{_INDEX_PRV}.probability": [call(self=_PRV, a=[0.0, 1.0], b=[1.0, 2.0])],
    f"{_INDEX_PRV}.mean": [call(self=_PRV)],
    f"{_INDEX_PRV}.rdp": [call(self=_PRV, alpha=2.0)],
    "dptheory.privacy.subsampled_gaussian_rdp": [
        call(
            orders=[1.5, 3.0, 4.0], sampling_rate=0.5, noise_multiplier=1.0, adjacency="add-remove", direction="worst"
        ),
        dear(orders=np.arange(2.0, 257.0), sampling_rate=0.01, noise_multiplier=1.0, adjacency="replace-one"),
    ],
    "dptheory.privacy.index_sets.joint_rdp": [
        call(orders=[2.0, 3.0], sampling_rate=0.5, noise_multiplier=1.0, mechanism=_SMALL, groups=2),
        dear(orders=np.arange(2.0, 33.0), sampling_rate=0.01, noise_multiplier=1.0, mechanism=_PAPER, groups=100),
    ],
    "dptheory.privacy.FreshMask": [call(dim=10, keep=4), call(dim=1_000_000, keep=500_000)],
    "dptheory.privacy.FreshMask.rdp": [
        call(self=FreshMask(dim=10, keep=4), orders=[2.0, 3.0], sampling_rate=0.5, noise_multiplier=1.0, steps=3),
        dear(
            self=FreshMask(dim=10**6, keep=5 * 10**5),
            orders=[2.0, 8.0],
            sampling_rate=0.01,
            noise_multiplier=1.0,
            steps=1000,
        ),
    ],
    "dptheory.privacy.IndexSteps": [call(steps=3, mechanism=_SMALL, groups=2)],
    "dptheory.privacy.index_sets.joint_epsilon": [
        call(delta=1e-5, values=_values, index_epsilon=0.1, index_zcdp_rho=0.01, orders=[2.0, 3.0], rdp=[0.1, 0.2]),
    ],
    "dptheory.privacy.index_sets.run_epsilon": [
        dear(
            releases=[IndexSteps(steps=3, mechanism=_SMALL, groups=2)],
            sampling_rate=1.0,
            noise_multiplier=4.0,
            delta=1e-5,
        ),
    ],
    "dptheory.privacy.index_sets.values_epsilon": [dear(delta=1e-5, sampling_rate=1.0, noise_multiplier=4.0, steps=3)],
    "dptheory.privacy.index_sets.theta_for_joint_budget": [
        dear(epsilon=3.0, delta=1e-5, dim=8, keep=3, sampling_rate=0.5, noise_multiplier=4.0, steps=1, groups=2),
    ],
    "dptheory.pruning.magnitude_noise": [call(zcdp_rho=0.5)],
    "dptheory.pruning.gumbel_rate": [call(zcdp_rho=0.5, keep=5)],
    "dptheory.pruning.magnitude_gain": [dear(keep_share=0.1, noise_ratio=1.0)],
    "dptheory.pruning.gumbel_gain": [dear(keep_share=0.1, noise_ratio=1.0)],
    "dptheory.pruning.released_gain": [call(sigma_g=1.0, noise_std=2.0)],
    "dptheory.pruning.released_top_k_mse": [
        call(dim=20, keep=5, sigma_g=1.0, noise_std=2.0),
        call(dim=2_700_000, keep=270_000, sigma_g=0.1, noise_std=2.0),
    ],
    "dptheory.pruning.selection_gain_bound": [
        dear(zcdp_rho=0.5, dim=256, keep=26, groups=10, sigma_g=0.1, clip_norm=1.0),
    ],
    "dptheory.pruning.selection_gains": [
        dear(zcdp_rho=0.5, dim=256, keep=26, groups=10, sigma_g=1.0, clip_norm=1.0, noise_multiplier=1.0),
    ],
}
