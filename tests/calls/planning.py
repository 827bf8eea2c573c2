"""Setups, plans and what is written of them."""

from pathlib import Path

from dptheory.planning import TrainingSetup, compare_runs, plan
from tests.calls import Calls, call, dear, slow
from tests.planning.made import STATS
from tests.planning.test_private_statistics import GIVEN, PRIVATE

_SETUP = TrainingSetup(
    num_examples=2000, epsilon=3.0, delta=1e-5, dim=200, batch_size=2000, epochs=2, clip_norm=1.0, learning_rate=1.0
)
_PLAN = plan(_SETUP)
_FILES = Path(__file__).parents[1] / "planning"

CALLS: Calls = {
    "dptheory.privacy.estimated_noise_multiplier": [dear(epsilon=1.0, delta=1e-5, sampling_rate=1.0, steps=10)],
    "dptheory.planning.TrainingSetup": [
        call(num_examples=2000, epsilon=3.0, delta=1e-5, dim=200, layer_sizes=None, batch_size=100, epochs=10, clip_norm=1.0,
             learning_rate=0.5, max_epochs=100),
        call(num_examples=60_000, epsilon=1.0, delta=1e-5, dim=None, layer_sizes=[500_000, 50_570], batch_size=1024, epochs=40,
             clip_norm=0.1, learning_rate=2.0, max_epochs=100),
    ],
    "dptheory.planning.PrivateStats": [call(**GIVEN)],
    "dptheory.planning.PrivateStats.clip_probability": [call(self=PRIVATE, clip_norm=1.0)],
    "dptheory.planning.PrivateStats.norm_quantile": [call(self=PRIVATE, level=0.5)],
    "dptheory.planning.PrivateStats.layer_shares": [call(self=PRIVATE)],
    "dptheory.planning.plan": [slow(setup=_SETUP, stats=STATS, borrowed=True)],
    "dptheory.planning.Plan.choice_rows": [call(self=_PLAN)],
    "dptheory.planning.advice": [call(plan=_PLAN)],
    "dptheory.planning.recommended": [call(plan=_PLAN)],
    "dptheory.planning.to_json": [call(plan=_PLAN, results=compare_runs(_PLAN, runs=[_FILES / "metrics.json"]))],
    "dptheory.planning.to_markdown": [call(plan=_PLAN, results=compare_runs(_PLAN, runs=[_FILES / "metrics.json"]))],
    "dptheory.planning.config_text": [call(plan=_PLAN, data="excerpt", model="small-cnn", physical_batch_size=512)],
    "dptheory.planning.compare_runs": [call(plan=_PLAN, runs=[_FILES / "metrics.json"])],
    "dptheory.planning.statistics_text": [call(stats=STATS)],
    "dptheory.planning.read_statistics": [call(path=_FILES / "made.json")],
    "dptheory.planning.shipped_names": [call()],
    "dptheory.planning.shipped_statistics": [call(name="small-cnn/mnist")],
}  # fmt: skip
