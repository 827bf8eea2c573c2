"""Accounting, conversions, audits, what a divisor leaks."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dptheory import papers
from dptheory.privacy import Composition, FreshMask, Step, privacy_statement
from dptheory.pruning import SubsetMallows
from tests.calls import Calls, call, dear, slow, used

_SETTING = papers.PaperSetting(name="one step", epsilon=3.0, delta=1e-5, batch_size=60_000, train_size=60_000, epochs=1)
_SCORES = np.random.default_rng(0).standard_normal(200)
_FEW = _SCORES[:20]
_COINS = np.arange(200) % 2
_PRIVACY = "dptheory.privacy"
_SAMPLED = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "count": 100}
_FILES = Path(__file__).parent / "composition"
_RELEASE = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=3)])
_COMPOSITION = f"{_PRIVACY}.Composition"
_STATEMENT = f"{_PRIVACY}.PrivacyStatement"

CALLS: Calls = {
    f"{_PRIVACY}.epsilon_bounds": [
        call(noise_multiplier=2.0, sampling_rate=1.0, steps=1, delta=1e-5, adjacency="add-remove",
             sampling="poisson", direction="worst", certified=False, rtol=1e-6),
        dear(noise_multiplier=2.0, steps=6, delta=1e-5, sampling="random allocation", steps_per_epoch=3, participations=2),
        dear(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.delta_bounds": [
        dear(noise_multiplier=2.0, steps=6, epsilon=1.0, sampling="random allocation", steps_per_epoch=3, participations=2),
        call(noise_multiplier=2.0, sampling_rate=1.0, steps=1, epsilon=1.0, adjacency="add-remove",
             sampling="poisson", direction="worst", certified=False, rtol=1e-6),
        dear(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, epsilon=4.0, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.Step": [call(**_SAMPLED)],
    f"{_PRIVACY}.FixedSizeStep": [call(**_SAMPLED)],
    f"{_PRIVACY}.LaplaceRelease": [call(noise_multiplier=2.0, count=1)],
    f"{_PRIVACY}.BlackBox": [call(epsilon=0.5, delta=1e-6, count=2)],
    f"{_PRIVACY}.RandomAllocation": [
        call(noise_multiplier=1.0, steps_per_epoch=5, participations=2, count=3, stopped_after=4),
    ],
    f"{_PRIVACY}.JointStep": [call(**_SAMPLED, mechanism=SubsetMallows(8, 3, theta=0.3), groups=2)],
    f"{_PRIVACY}.MaskedStep": [call(**_SAMPLED, mask=FreshMask(dim=10, keep=2))],
    _COMPOSITION: [call(parts=[Step(**_SAMPLED)], adjacency="replace-one")],
    f"{_COMPOSITION}.epsilon": [call(self=_RELEASE, delta=1e-5, direction="worst", certified=False, rtol=1e-6)],
    f"{_COMPOSITION}.delta": [call(self=_RELEASE, epsilon=1.0, direction="worst", certified=False, rtol=1e-6)],
    f"{_COMPOSITION}.advantage": [call(self=_RELEASE, certified=False)],
    f"{_COMPOSITION}.tradeoff": [dear(self=_RELEASE, false_positive_rate=0.01, certified=False)],
    f"{_COMPOSITION}.attack": [dear(self=_RELEASE, false_positive_rate=0.01, certified=False)],
    f"{_COMPOSITION}.noise_scale": [dear(self=_RELEASE, epsilon=1.0, delta=1e-5, certified=False)],
    f"{_COMPOSITION}.scaled": [call(self=_RELEASE, factor=2.0)],
    f"{_PRIVACY}.read_composition": [dear(path=_FILES / "run.toml")],
    f"{_PRIVACY}.read_statement": [dear(path=_FILES / "finished")],
    f"{_COMPOSITION}.guaranteed": [dear(self=_RELEASE, false_positive_rates=[0.01, 0.5])],
    f"{_COMPOSITION}.plot": [dear(self=_RELEASE, ax=Figure().add_subplot())],
    f"{_PRIVACY}.privacy_statement": [
        dear(
            composition=_RELEASE, delta=1e-5, mechanism="DP-SGD", train_size=100, unit="one record", adjacency="zero-out",
            public=("N",), sampler="Poisson",
            randomness="seed 0", secure=False, epsilon_if_secure=1.0, tuning="none", software=("a 1",),
            certified=False,
        ),
    ],
    f"{_STATEMENT}.json": [call(self=privacy_statement(composition=None, delta=1e-5))],
    f"{_STATEMENT}.markdown": [call(self=privacy_statement(composition=None, delta=1e-5))],
    f"{_PRIVACY}.rdp_epsilon": [
        call(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.methods.references.cross_check": [
        slow(noise_multiplier=4.0, sampling_rate=0.01, steps=1, delta=1e-5, width=0.5, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.methods.references.fixed_size_rdp_epsilon": [
        slow(noise_multiplier=4.0, sampling_rate=0.02, steps=500, delta=1e-5),
    ],
    f"{_PRIVACY}.least_noise_multiplier": [
        call(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=10, adjacency="add-remove",
             sampling="poisson", direction="worst", certified=False),
        slow(epsilon=3.0, delta=1e-5, sampling_rate=0.02, steps=1000, adjacency="add-remove"),
        slow(epsilon=3.0, delta=1e-5, steps=6, sampling="random allocation", steps_per_epoch=3, participations=2),
        dear(advantage=0.1, sampling_rate=1.0, steps=10),
        slow(true_positive_rate=0.1, false_positive_rate=0.01, sampling_rate=1.0, steps=10),
    ],
    f"{_PRIVACY}.referee.compare": [
        slow(noise_multiplier=1.0, sampling_rate=0.02, steps=1000, delta=1e-5, tools=["dptheory RDP"], limit=20.0),
    ],
    f"{_PRIVACY}.referee.draw": [used(list, count=2, seed=0, law="core")],
    f"{_PRIVACY}.referee.search": [slow(count=1, seed=0, tools=["dptheory RDP"], limit=20.0, law="core", known=())],
    f"{_PRIVACY}.least_noise_beside": [
        dear(spent=_RELEASE, epsilon=40.0, delta=1e-5, sampling_rate=1.0, steps=10),
    ],
    f"{_PRIVACY}.max_steps": [
        call(epsilon=1.0, delta=1e-5, noise_multiplier=20.0, sampling_rate=1.0, adjacency="add-remove",
             sampling="poisson", direction="worst", certified=False),
        slow(epsilon=3.0, delta=1e-5, noise_multiplier=1.5, sampling_rate=0.02, adjacency="add-remove"),
        slow(epsilon=3.0, delta=1e-5, noise_multiplier=1.5, sampling="random allocation", steps_per_epoch=3, participations=2),
    ],
    f"{_PRIVACY}.samplers.shuffled_epsilon_lower_bound": [
        slow(noise_multiplier=2.0, batches=10, epochs=2, delta=1e-5, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.samplers.shuffled_epsilon_upper_bound": [
        call(noise_multiplier=2.0, epochs=2, delta=1e-5, adjacency="add-remove"),
    ],
    f"{_PRIVACY}.samplers.user_epsilon_upper_bound": [
        call(noise_multiplier=2.0, sampling_rate=1.0, steps=10, delta=1e-5, records_per_user=2),
        slow(noise_multiplier=2.0, sampling_rate=0.1, steps=10, delta=1e-5, records_per_user=2),
    ],
    f"{_PRIVACY}.samplers.truncated_epsilon_upper_bound": [
        slow(noise_multiplier=2.0, sampling_rate=0.1, steps=10, delta=1e-5, train_size=100, max_batch_size=20),
    ],
    f"{_PRIVACY}.samplers.selection_epsilon_upper_bound": [
        slow(noise_multiplier=2.0, sampling_rate=0.1, steps=10, delta=1e-5, mean_runs=10.0, runs_law="geometric"),
    ],
    f"{_PRIVACY}.gaussian_log_delta": [call(mu=1.0, epsilon=1.0), call(mu=0.01, epsilon=8.0)],
    f"{_PRIVACY}.gaussian_delta": [call(mu=1.0, epsilon=1.0), call(mu=0.01, epsilon=8.0)],
    f"{_PRIVACY}.gaussian_epsilon": [call(mu=1.0, delta=1e-5), call(mu=100.0, delta=1e-10)],
    f"{_PRIVACY}.gaussian_mu": [call(epsilon=1.0, delta=1e-5), call(epsilon=8.0, delta=1e-10)],
    f"{_PRIVACY}.gaussian_rdp_epsilon": [call(mu=1.0, delta=1e-5)],
    f"{_PRIVACY}.gaussian_rdp_mu": [call(epsilon=1.0, delta=1e-5)],
    "dptheory.papers.paper_settings": [call()],
    "dptheory.papers.PaperSetting.needed_noise_multiplier": [call(self=_SETTING)],
    "dptheory.papers.PaperSetting.spent": [call(self=_SETTING)],
    "dptheory.papers.PaperSetting.allowed_steps": [call(self=_SETTING)],
    "dptheory.privacy.epsilon_from_rdp": [
        call(orders=[2.0, 4.0, 8.0], rdp=[0.1, 0.2, 0.4], delta=1e-5),
        call(orders=np.arange(2.0, 257.0), rdp=0.01 * np.arange(2.0, 257.0), delta=1e-6),
    ],
    "dptheory.privacy.zcdp_epsilon": [call(zcdp_rho=0.5, delta=1e-5)],
    "dptheory.privacy.zcdp_budget": [call(epsilon=1.0, delta=1e-5)],
    "dptheory.privacy.auditing.audit": [
        call(scores_with=_SCORES + 3.0, scores_without=_SCORES[::-1], delta=1e-5, confidence=0.99, method="events"),
        call(scores_with=_SCORES + 1.0, scores_without=_SCORES[::-1], delta=1e-5, method="gaussian"),
    ],
    "dptheory.privacy.auditing.bound_at_known_rate": [call(hits=90, trials=100, false_rate=0.01, delta=1e-5, confidence=0.99)],
    "dptheory.privacy.auditing.largest_bound": [
        call(scores=100, delta=1e-5, confidence=0.99, method="events"),
        call(scores=1000, delta=1e-5, method="gaussian"),
    ],
    "dptheory.privacy.auditing.one_run_epsilon": [
        call(scores=_FEW + 2.0 * _COINS[:20], coins=_COINS[:20], delta=1e-5, confidence=0.95, guesses=8),
        call(scores=_FEW + 2.0 * _COINS[:20], coins=_COINS[:20], delta=1e-5, epsilon=1.0),
        dear(scores=_SCORES + 2.0 * _COINS, coins=_COINS, delta=1e-5, composition=_RELEASE),
    ],
    "dptheory.privacy.masked_sensitivity": [
        call(gradients=[[3.0, 4.0], [1.0, 0.0]], clip_norm=1.0, mask=[1.0, 0.0], adjacency="add-remove"),
        dear(gradients=np.outer([1.0, 2.0], np.linspace(0.1, 1.0, 2000)), clip_norm=1.0, adjacency="replace-one"),
    ],
    "dptheory.privacy.clipping.weighted_mean_sensitivity": [
        call(batch_size=2, clip_norm=1.0, weight_ratio=3.0, adjacency="replace-one"),
        call(batch_size=50_000, clip_norm=1.0, weight_ratio=1000.0),
    ],
    "dptheory.privacy.clipping.layer_clip_sensitivity": [
        call(layer_clips=[3.0, 4.0], adjacency="replace-one"),
        call(layer_clips=[1.0] * 1000),
    ],
    "dptheory.privacy.clipping.automatic_clip_sensitivity": [
        call(clip_norm=2.0, gamma=0.5, largest_norm=1.0, adjacency="replace-one"),
        call(clip_norm=1.0, gamma=0.01),
    ],
    "dptheory.privacy.clipping.counted_noise": [call(noise_multiplier=3.0, count_share=0.2)],
    "dptheory.privacy.combined_multiplier": [call(noise_multipliers=[1.0, 2.0])],
    "dptheory.pruning.randomized_response_epsilon": [call(probability=0.7, distance=3)],
    "dptheory.pruning.randomized_response_probability": [call(epsilon=1.0, distance=3)],
    "dptheory.pruning.mallows_theta": [call(probability=0.7)],
}  # fmt: skip
