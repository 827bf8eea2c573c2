"""What users of ``training`` call: make_private, mechanisms and their schedules, accountant, samplers, runs, readers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.privacy import Step
from dptheory.training import make_private
from dptheory.training import mechanisms as m
from dptheory.training.audits import step_audits
from dptheory.training.engine import (
    AllocatedBatches,
    GeneratorBatches,
    PartitionBatches,
    PoissonBatches,
    PrivacyAccountant,
    PrivacyEngine,
    SecureBatches,
    attach,
)
from dptheory.training.measure import MeasureSettings
from dptheory.training.runs import DpSgdSettings, OptimizerConfig
from tests.calls import Call, Calls, Fresh, call, dear, used

_FEATURES = 6
_CPU = torch.device("cpu")
_SETTINGS = {
    "steps": 20, "batch_size": 10, "noise_multiplier": 1.0, "max_grad_norm": 1.0, "learning_rate": 0.1, "seed": 0,
}  # fmt: skip
_GROUPS = [[0, 1]]
_ACCURACIES = [0.81, 0.79, 0.80, 0.82, 0.78, 0.83, 0.80, 0.79, 0.81, 0.80, 0.77, 0.82, 0.80, 0.81, 0.79, 0.80]
_OTHERS = [0.80, 0.78, 0.81, 0.80, 0.79, 0.81, 0.80, 0.77, 0.80, 0.81, 0.78, 0.80, 0.81, 0.80, 0.78, 0.79]


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(_FEATURES, 3), nn.Linear(3, 2))


def _loader() -> Any:
    return DataLoader(TensorDataset(torch.ones(40, _FEATURES), torch.arange(40) % 2), 10)


def _anchors() -> list[torch.Tensor]:
    return [torch.randn(4, 2, _FEATURES), torch.randn(4, 2)]


def _wrapped() -> Any:
    """An optimizer that has made no step."""
    model = _model()
    return make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=_loader(), mechanism=m.DpSgd(),
        noise_multiplier=1.0, max_grad_norm=1.0,
    )[1]  # fmt: skip


def _attached() -> Any:
    """The optimizer of a caller who draws the batches."""
    model = _model()
    return attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=m.DpSgd(), sampling_rate=0.1,
        expected_batch_size=4, noise_multiplier=1.0, max_grad_norm=1.0,
    )[1]  # fmt: skip


def _one_step(mechanism: m.Mechanism) -> None:
    """What the optimizer does in one step, on two parameters and three examples."""
    layers = nn.Linear(_FEATURES, 2)
    params = [p.detach() for p in layers.parameters()]
    mechanism.attach(GradSampleModule(layers))
    mechanism.check_clip(1.0)
    mechanism.begin_step(params)
    samples = [torch.ones(3, *p.shape) for p in params]
    total = mechanism.contribute(samples, 1.0).total
    mechanism.end_step(
        mechanism.release(
            total, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: std * torch.randn_like(like)
        ),
        1.0,
    )
    mechanism.cost(1.0)


def _mechanism(**arguments: Any) -> list[Call]:
    return [Call(arguments, cost="dear", use=_one_step)]


def _first_steps(schedule: m.Schedule) -> list[float]:
    return [schedule(step) for step in (0, 1, 1000)]


_UNCLIPPED = _mechanism(drop_rate=m.Constant(0.5), seed=0, refresh_steps=1)
_MASKED = _mechanism(drop_rate=m.Constant(0.5), seed=0, refresh_steps=1, clipping=m.FlatClipping())
_RANKED = _mechanism(drop_rate=m.Constant(0.5), steps_per_epoch=2, seed=0, clipping=m.FlatClipping())
_EMBEDDING = _mechanism(
    anchor_gradients=_anchors, subspace_dim=2, residual_clip=0.5, groups=_GROUPS, seed=0, iterations=1
)
_BATCH = {"step": 3, "part": 0, "parts": 2}


def _private(**arguments: Any) -> Callable[[], dict[str, Any]]:
    """A module with its optimizer, and other arguments."""

    def make() -> dict[str, Any]:
        model = _model()
        return {
            "module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "mechanism": m.DpSgd(),
            "noise_multiplier": 1.0, "max_grad_norm": 1.0, "grad_sample_mode": "hooks", "loss_reduction": "mean", **arguments,
        }  # fmt: skip

    return make


def _engine() -> PrivacyEngine:
    """An engine with a run that has made no step."""
    engine, model = PrivacyEngine(m.DpSgd()), _model()
    engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=_loader(),
        noise_multiplier=1.0, max_grad_norm=1.0,
    )  # fmt: skip
    return engine


def _budgeted(**more: Any) -> Callable[[], dict[str, Any]]:
    """A run whose noise is to be found."""

    def make() -> dict[str, Any]:
        arguments = _private(data_loader=_loader(), target_epsilon=3.0, target_delta=1e-5, epochs=2, **more)()
        del arguments["noise_multiplier"]
        return arguments

    return make


def _mean_square(model: nn.Module, batch: Any) -> torch.Tensor:
    found: torch.Tensor = model(batch[0]).square().mean()
    return found


CALLS: Calls = {
    "dptheory.training.engine.make_private_with_epsilon": [
        Call(_budgeted(secure=False, sampling_rate=0.25, expected_batch_size=10.0, probe=False, views=1, augmentation=None), "dear"),
        Call(_budgeted(noise_generator=torch.Generator()), "dear"),
        Call(_budgeted(sampling="random allocation", steps_per_epoch=4, participations=1, expected_batch_size=10.0), "dear"),
    ],
    "dptheory.training.engine.PrivacyEngine": [call(mechanism=m.DpSgd(), secure_mode=False)],
    "dptheory.training.engine.PrivacyEngine.get_epsilon": [dear(self=_engine(), delta=1e-5)],
    "dptheory.training.engine.make_private": [
        Call(lambda: _private(data_loader=_loader(), secure=False, sampling_rate=0.25, expected_batch_size=10.0)(), "dear"),
        Call(lambda: _private(data_loader=_loader(), noise_generator=torch.Generator(), probe=False)(), "dear"),
        Call(lambda: _private(data_loader=_loader(), views=1, augmentation=None)(), "dear"),
        Call(
            lambda: _private(
                data_loader=_loader(), sampling="random allocation", steps_per_epoch=4, participations=2, expected_batch_size=20.0
            )(),
            "dear",
        ),
    ],
    "dptheory.training.engine.check_rows_apart": [dear(model=nn.Linear(3, 2), batch=(torch.rand(4, 3),), loss=_mean_square, views=1)],
    "dptheory.training.engine.attach": [
        Call(_private(sampling_rate=0.25, train_size=40, secure=False, views=1), "dear"),
        Call(_private(sampling_rate=0.25, expected_batch_size=10.0, noise_generator=None), "dear"),
        Call(_private(sampling_rate=0.25, train_size=40, batches=PartitionBatches(train_size=40, batch_size=10, seed=0)), "dear"),
        Call(_private(train_size=40, batches=AllocatedBatches(train_size=40, steps_per_epoch=4, seed=None)), "dear"),
    ],
    "dptheory.training.mechanisms.Constant": [used(_first_steps, value=0.5)],
    "dptheory.training.mechanisms.GradualCooling": [used(_first_steps, final_drop_rate=0.5, cooling_epochs=4, steps_per_epoch=10)],
    "dptheory.training.mechanisms.Linear": [used(_first_steps, start=0.1, end=0.9, steps=10)],
    "dptheory.training.mechanisms.Exponential": [used(_first_steps, start=0.1, end=0.9, steps=10)],
    "dptheory.training.mechanisms.DpSgd": _mechanism(clipping=m.FlatClipping()),
    "dptheory.training.mechanisms.NoisySgd": _mechanism(),
    "dptheory.training.mechanisms.ClippedSgd": _mechanism(clipping=m.FlatClipping()),
    "dptheory.training.mechanisms.RandomSparsification": _MASKED,
    "dptheory.training.mechanisms.PosteriorFreeze": _MASKED,
    "dptheory.training.mechanisms.RankedSparsification": _RANKED,
    "dptheory.training.mechanisms.RankedByTrueGradients": _RANKED,
    "dptheory.training.mechanisms.UnnoisedVelocity": _RANKED,
    "dptheory.training.mechanisms.NoisySparsification": _UNCLIPPED,
    "dptheory.training.mechanisms.QuietLayers": [call(quiet=1, from_step=0)],
    "dptheory.training.mechanisms.BatchSizeDivisor": _mechanism(expected_batch_size=3.0, drop_rate=0.5, seed=0),
    "dptheory.training.mechanisms.TopKWithoutNoise": _mechanism(keep_share=0.5),
    "dptheory.training.mechanisms.IndexPruning": _mechanism(
        theta=0.1, keep_share=m.Constant(0.5), group_size=4, clipping=m.FlatClipping()
    ),
    "dptheory.training.mechanisms.NoisyMagnitudeTopK": _mechanism(
        selection_multiplier=1.0, keep_share=m.Constant(0.5), group_size=4, clipping=m.FlatClipping()
    ),
    "dptheory.training.mechanisms.TopKOfReleased": _mechanism(
        keep_share=m.Constant(0.5), group_size=4, clipping=m.FlatClipping()
    ),
    "dptheory.training.mechanisms.AdaptiveClipping": [
        call(inner=m.DpSgd(), expected_batch_size=3.0, quantile=0.5, clip_rate=0.2, count_share=0.01),
    ],
    "dptheory.training.mechanisms.AutomaticClipping": [call(gamma=0.5)],
    "dptheory.training.mechanisms.FlatClipping": [call()],
    "dptheory.training.mechanisms.LayerClipping": [call(shares=[1.0, 2.0])],
    "dptheory.training.mechanisms.LayerFreezing": [
        call(inner=m.DpSgd(), frozen_layers=1, from_step=0),
    ],
    **{f"dptheory.training.mechanisms.{name}": _EMBEDDING for name in ("Gep", "GepOptimal", "GepJoint", "BiasedGep")},
    "dptheory.training.engine.PrivacyAccountant": [call(sampling_rate=0.1), call(steps_per_epoch=10, participations=2)],
    "dptheory.training.engine.PrivacyAccountant.epsilon": [call(self=PrivacyAccountant(0.1), delta=1e-5)],
    "dptheory.training.engine.PrivacyAccountant.get_epsilon": [call(self=PrivacyAccountant(0.1), delta=1e-5)],
    "dptheory.training.engine.PrivacyAccountant.epsilon_if_secure": [call(self=PrivacyAccountant(0.1), delta=1e-5)],
    "dptheory.training.engine.PrivacyAccountant.composition": [call(self=PrivacyAccountant(0.1))],
    "dptheory.training.engine.PrivacyAccountant.limit": [
        call(self=Fresh(lambda: PrivacyAccountant(0.1)), epsilon=3.0, delta=1e-5, records=1000)
    ],
    "dptheory.training.engine.PrivacyAccountant.record": [
        call(self=Fresh(lambda: PrivacyAccountant(0.1)), cost=m.StepCost(1.0), epochs=0)
    ],
    "dptheory.training.engine.PrivacyAccountant.record_release": [
        call(self=Fresh(lambda: PrivacyAccountant(0.1)), release=Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
    ],
    "dptheory.training.engine.PrivacyAccountant.clear": [
        call(self=Fresh(lambda: PrivacyAccountant(0.1)), cost=m.StepCost(1.0), epochs=0)
    ],
    "dptheory.training.engine.MechanismOptimizer.epsilon": [dear(self=_wrapped(), delta=1e-5)],
    "dptheory.training.engine.MechanismOptimizer.privacy": [dear(self=_wrapped(), delta=1e-5)],
    "dptheory.training.engine.MechanismOptimizer.begin_batch": [dear(self=Fresh(_attached), size=3)],
    "dptheory.training.engine.PoissonBatches": [used(lambda one: one.batch(0), train_size=100, sampling_rate=0.1, seed=0)],
    "dptheory.training.engine.PoissonBatches.batch": [call(self=PoissonBatches(train_size=100, sampling_rate=0.1, seed=0), **_BATCH)],
    "dptheory.training.engine.SecureBatches": [used(lambda one: one.batch(0), train_size=100, sampling_rate=0.1)],
    "dptheory.training.engine.SecureBatches.batch": [call(self=SecureBatches(train_size=100, sampling_rate=0.1), **_BATCH)],
    "dptheory.training.engine.GeneratorBatches": [
        used(lambda one: one.batch(0), train_size=100, sampling_rate=0.1,
        generator=Fresh(lambda: torch.Generator().manual_seed(0))),
    ],
    "dptheory.training.engine.GeneratorBatches.batch": [
        call(self=Fresh(lambda: GeneratorBatches(train_size=100, sampling_rate=0.1,
        generator=torch.Generator().manual_seed(0))), **_BATCH),
    ],
    "dptheory.training.engine.AllocatedBatches": [
        used(lambda one: one.batch(0), train_size=100, steps_per_epoch=10, participations=2, seed=0),
    ],
    "dptheory.training.engine.AllocatedBatches.batch": [
        call(self=AllocatedBatches(train_size=100, steps_per_epoch=10, seed=0), **_BATCH)
    ],
    "dptheory.training.engine.PartitionBatches": [used(lambda one: one.batch(0), train_size=100, batch_size=10, seed=0)],
    "dptheory.training.engine.PartitionBatches.batch": [call(self=PartitionBatches(train_size=100, batch_size=10, seed=0), **_BATCH)],
    "dptheory.training.studies.paired_difference": [call(first=_ACCURACIES, second=_OTHERS, confidence=0.95)],
    "dptheory.training.studies.equivalence": [call(first=_ACCURACIES, second=_OTHERS, margin=0.5, level=0.05)],
    "dptheory.training.studies.sign_flip_p": [call(differences=_OTHERS, seed=0), dear(differences=_ACCURACIES + _OTHERS, seed=0)],
    "dptheory.training.runs.OptimizerConfig": [
        call(name="sgd", learning_rate=0.1, momentum=0.9, weight_decay=0.0, schedule="constant", decay=0.0),
    ],
    "dptheory.training.runs.RunConfig": [
        call(
            data="excerpt", model="small-cnn", epochs=3, batch_size=30, max_grad_norm=1.0, delta=1e-5,
            noise_multiplier=1.0, epsilon=3.0, physical_batch_size=16, seed=0, inputs="unit", grad_sample_mode="hooks",
            secure=False, sampling="partition", optimizer=OptimizerConfig(), mechanism={"name": "dp-sgd"},
            unjudged=3, aside=2, num_examples=100, average=0.5, average_decay=0.0, standardised_weights=False, views=1,
            augmentation="none",
        ),
    ],
    "dptheory.training.engine.generator_noise": [
        used(lambda noise: noise(torch.zeros(3), 1.0), generator=Fresh(lambda: torch.Generator().manual_seed(0))),
    ],
    "dptheory.training.engine.secure_noise": [call(like=torch.zeros(3), std=1.0)],
    "dptheory.training.runs.pooled_channels_last": [
        used(lambda context: context.__enter__(), model=Fresh(lambda: torch.nn.MaxPool2d(2))),
    ],
    "dptheory.training.networks.small_tanh_cnn": [dear(seed=0)],
    "dptheory.training.networks.small_tempered_cnn": [dear(seed=0)],
    "dptheory.training.networks.small_colour_cnn": [dear(seed=0)],
    "dptheory.training.networks.mlp": [dear(seed=0)],
    "dptheory.training.networks.dp_cnn": [dear(seed=0)],
    "dptheory.training.networks.resnet20": [dear(seed=0)],
    "dptheory.training.networks.standardise_weights": [call(model=Fresh(lambda: torch.nn.Conv2d(1, 2, 3)))],
    "dptheory.training.networks.wrn_16_4": [dear(seed=0)],
    "dptheory.training.networks.scattering_cnn": [dear(seed=0)],
    "dptheory.training.networks.scattering_linear": [dear(seed=0)],
    "dptheory.training.networks.scattering_small_cnn": [dear(seed=0)],
    "dptheory.training.networks.linear_probe": [dear(seed=0, features=12, bias=True)],
    "dptheory.training.data.load": [dear(name="excerpt", train=False)],
    "dptheory.training.runs.build_model": [call(name="linear-probe", features=_FEATURES, seed=0)],
    "dptheory.training.runs.DpSgdSettings": [call(**_SETTINGS)],
    "dptheory.training.runs.sampling_rate": [call(batch_size=10, train_size=40)],
    "dptheory.training.runs.pick_device": [call(wanted="cpu")],
    "dptheory.training.measure.MeasureSettings": [call(keep_shares=(0.1, 0.5), draws=20, noise_multiplier=1.0, max_grad_norm=1.0)],
    "dptheory.training.measure.measure_gradient": [
        dear(
            gradient=np.linspace(-1.0, 1.0, 512),
            settings=MeasureSettings((0.5,), draws=2, noise_multiplier=1.0, max_grad_norm=1.0),
            rng=Fresh(lambda: np.random.default_rng(0)),
        ),
    ],
    "dptheory.training.measure.ValidateSettings": [
        call(training=DpSgdSettings(**_SETTINGS), drop_rate=0.5, keep_shares=(0.1, 0.5), subspace_dims=(10, 50), pool=300,
             anchors=256, window=10, draws=50),
    ],
    "dptheory.training.mechanisms.AnchorGradients": [
        Call(
            {"model": _model(), "pixels": torch.ones(2, _FEATURES), "classes": 2, "seed": 0, "chunk": 2,
             "labels": torch.tensor([0, 1])},
            cost="dear", use=lambda anchors: anchors(),
        ),
    ],
    "dptheory.training.planning.Shipped": [call(name="excerpt", count=60)],
    "dptheory.training.planning.Synthetic": [call(shape=(2, 3), classes=2, scale=1.0, count=60)],
    "dptheory.training.planning.Effort": [call(spread=4, guided=4, short=5, kept=2, middle=9, finalists=2, whole=20)],
    "dptheory.training.audits.StepAudit.run": [dear(self=step_audits()[0], seed=0)],
}  # fmt: skip
