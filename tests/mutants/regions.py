"""Where a calculator may be wrong alone: small sizes and users' sizes, every choice of a method, arguments with a default."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.mutants.surface import Target, options

SMALL, USERS = 1_000, 10_000
"""Largest size that an enumeration reaches, and the least that people train with."""

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Region:
    """A part of a calculator's domain; ``holds(arguments, result)`` says whether a call lies in it."""

    name: str
    holds: Callable[[Arguments, Any], bool]


_NUMBERS = ("dim",)
_TOTALS = ("layer_sizes", "group_sizes")
_ARRAYS = (
    "gradient", "vector", "matrix", "first", "trainable_gradients", "direction", "curvature", "start", "eigenvalues",
    "embeddings",
    "gradients", "anchor_gradients", "values",
)  # fmt: skip


def size(arguments: Arguments) -> float | None:
    """Entries that the call is about: the dimension, or the length of its vectors; None where it has no size."""
    for name in _NUMBERS:
        if arguments.get(name) is not None:
            return float(np.max(arguments[name]))
    for name in _TOTALS:
        if name in arguments:
            return float(np.sum(arguments[name]))
    for name in _ARRAYS:
        if name in arguments:
            shape = np.shape(arguments[name])
            return float(shape[-1] if name != "matrix" and shape else np.size(arguments[name]))
    dim = getattr(arguments.get("mechanism"), "dim", None)
    return None if dim is None else float(dim)


def bound(target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], signature: inspect.Signature) -> Arguments:
    """Arguments by name with defaults; those of ``self`` are the fields of the object."""
    call = signature.bind(*args, **kwargs)
    call.apply_defaults()
    found = dict(call.arguments)
    self = found.pop("self", None)
    if target.owner is not None and dataclasses.is_dataclass(self):
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)} | found
    return found


def _is_sized(target: Target) -> bool:
    if isinstance(target.calculator, property):
        return False  # arithmetic on the fields of a result
    parameters = {
        name
        for name, p in target.signature.parameters.items()
        if p.annotation not in (str, float) and typing.get_origin(p.annotation) is not Callable
    }
    own = {f.name for f in dataclasses.fields(target.owner)} if dataclasses.is_dataclass(target.owner) else set()
    return bool(parameters & {*_NUMBERS, *_TOTALS, *_ARRAYS, "mechanism"} or own & {*_NUMBERS})


def regions(target: Target) -> tuple[Region, ...]:
    """The generic regions of a calculator and those of the table."""
    found = [Region("everywhere", lambda a, r: True)]
    if _is_sized(target):
        found = [
            Region(f"size < {SMALL}", lambda a, r: (size(a) or 0) < SMALL),
            Region(f"size >= {USERS}", lambda a, r: (size(a) or 0) >= USERS),
        ]
    choices = options(target.function)
    for name, values in choices.items():
        found += [_one_of(name, value) for value in values]
    for name, parameter in target.signature.parameters.items():
        if parameter.default is not inspect.Parameter.empty and name not in choices and name != "seed":
            found.append(_given(name, parameter.default))
    return (*found, *TABLE.get(target.name, ()))


def _one_of(name: str, value: Any) -> Region:
    return Region(f"{name} = {value}", lambda a, r: a[name] == value)


def _given(name: str, default: Any) -> Region:
    return Region(f"{name} given", lambda a, r: not (a[name] is default or np.array_equal(a[name], default)))


def _where(name: str, holds: Callable[[Arguments], bool]) -> Region:
    return Region(name, lambda a, r: holds(a))


_ACCOUNTED = (
    _where("one step", lambda a: a["steps"] == 1),
    _where("1000 steps or more", lambda a: a["steps"] >= 1000),
    _where("every example in every batch", lambda a: a["sampling_rate"] == 1),
)

TABLE: dict[str, tuple[Region, ...]] = {
    "privacy.epsilon_bounds": _ACCOUNTED,
    "privacy.delta_bounds": _ACCOUNTED,
    "privacy.least_noise_multiplier": _ACCOUNTED[:2],
    "privacy.gaussian_delta": (
        _where("mu > 5", lambda a: a["mu"] > 5),
        _where("mu < 0.1", lambda a: a["mu"] < 0.1),
    ),
    "privacy.gaussian_mu": (_where("epsilon > 7", lambda a: a["epsilon"] > 7),),
    "gradients.DistortionAngle.var": (
        _where("dim > 10000, little snr", lambda a: a["dim"] > 10_000 and a["snr"] < math.sqrt(a["dim"])),
    ),
    "gradients.DistortionAngle.asymptotic_mean": (
        _where("snr > 10 sqrt(dim)", lambda a: a["snr"] > 10 * math.sqrt(a["dim"])),
    ),
    "gradients.angle_variance": (
        _where("dim = 1", lambda a: a["dim"] == 1),
        _where("dim = 2", lambda a: a["dim"] == 2),
        _where("2 < dim < 8", lambda a: 2 < a["dim"] < 8),
        _where("8 <= dim < 1000", lambda a: 8 <= a["dim"] < 1000),
        _where("obtuse bias", lambda a: a["bias_angle"] > math.pi / 2),
        _where("no bias", lambda a: a["bias_angle"] == 0),
    ),
    "gradients.batch_expected_cos": (
        _where("no bias", lambda a: bool(np.all(np.asarray(a["cos_bias"]) == 1))),
        _where("bias", lambda a: bool(np.all(np.asarray(a["cos_bias"]) < 1))),
    ),
    "convergence.noise_term": (_where("batch_size > 1", lambda a: a["batch_size"] > 1),),
    "convergence.batch_second_moment": (_where("batch_size > 1", lambda a: a["batch_size"] > 1),),
    "convergence.dpsgd_bound": (
        _where("default second moment", lambda a: a["second_moment"] is None),
        _where("several steps", lambda a: a["steps"] > 1),
        _where("no step biased", lambda a: a["bias"] is None and a["steps"] > 1),
        _where("no step biased, mean second moment", lambda a: a["bias"] is None and a["second_moment"] is not None),
        _where("steps beyond 1 / (2 x G)", lambda a: a["bias"] is None and a["learning_rate"] * a["smoothness"] > 0.5),
    ),
    "convergence.noisy_sgd_bound": (
        _where("changing step sizes", lambda a: bool(np.ndim(a["learning_rate"]))),
        _where("changing masks", lambda a: bool(np.ndim(a["drop_rate"]))),
        _where("deviation at batch_size > 1", lambda a: a["deviation_norm"] > 0 and a["batch_size"] > 1),
        _where("noise at batch_size > 1", lambda a: a["sum_noise_std"] > 0 and a["batch_size"] > 1),
        _where("several steps", lambda a: a["steps"] > 1),
    ),
    "convergence.held_mask_bound": (
        _where(
            "without noise", lambda a: not a["deviation_norm"] and not a["sum_noise_std"] and a["steps_per_epoch"] > 1
        ),
        _where("deviation", lambda a: a["deviation_norm"] > 0 and a["epochs"] > 1),
        _where("noise at batch_size > 1", lambda a: a["sum_noise_std"] > 0 and a["batch_size"] > 1),
        _where("changing masks", lambda a: bool(np.ndim(a["drop_rate"]))),
    ),
    "convergence.plain_mean_bound": (
        _where(
            "an epoch that counts for nothing",
            lambda a: bool(np.ndim(a["drop_rate"])) and a["drop_rate"][0] < a["drop_rate"][-1],
        ),
        _where("deviation of a held mask", lambda a: a["deviation_norm"] > 0 and a["steps_per_epoch"] > 1),
        _where("noise at batch_size > 1", lambda a: a["sum_noise_std"] > 0 and a["batch_size"] > 1),
    ),
    "convergence.momentum_mask_bound": (
        _where("held masks", lambda a: a["steps_per_epoch"] > 1),
        _where("noise under momentum", lambda a: a["sum_noise_std"] > 0 and a["momentum"] > 0),
        _where("deviation of fresh masks", lambda a: a["deviation_norm"] > 0 and a["steps_per_epoch"] == 1),
        _where("a short run", lambda a: a["epochs"] < 10),
    ),
    "convergence.layer_freezing_bound": (
        _where("default second moment", lambda a: a["second_moment"] is None),
        _where("batch_size > 1", lambda a: a["batch_size"] > 1),
        _where("several steps", lambda a: a["steps"] > 1),
    ),
    "embedding.best_residual_clip": (
        Region("residuals dropped", lambda a, found: found.residual_clip == 0),
        Region("some residuals clipped", lambda a, found: found.bias > 0 and found.residual_clip > 0),
        _where("several subspaces", lambda a: len(a["subspace_dims"]) > 1),
    ),
    "embedding.biased_descent_risk": (
        _where("bias and noise", lambda a: a["bias"] > 0 and a["noise_energy"] > 0 and a["steps"] > 1),
        _where("large bias", lambda a: a["bias"] > 2 * a["smoothness"] * a["initial_distance"] > 0),
    ),
    "embedding.joint_mu": (_where("several ratios", lambda a: len(a["noise_multipliers"]) > 1),),
    "embedding.release_noise_ratio": (_where("over 100 steps", lambda a: a["steps"] > 100),),
    "embedding.sampled_epsilon": (_where("epsilon < 1", lambda a: a["epsilon"] < 1),),
    "freezing.best_freezing": (
        _where("clipped", lambda a: a["layer_norms"] is not None and np.min(a["clip_norm"]) < np.max(a["layer_norms"])),
        _where("clip norm that changes", lambda a: np.ndim(a["clip_norm"]) > 0 and np.ptp(a["clip_norm"]) > 0),
        _where("changing steps", lambda a: np.ndim(a["learning_rate"]) > 0 and np.ptp(a["learning_rate"]) > 0),
        _where("several parts", lambda a: np.ndim(a["layer_sizes"]) > 1 and np.shape(a["layer_sizes"])[1] > 1),
    ),
    "freezing.best_layer_steps": (
        _where("changing steps", lambda a: np.ndim(a["learning_rate"]) > 0 and np.ptp(a["learning_rate"]) > 0),
        _where("several parts", lambda a: np.ndim(a["layer_sizes"]) > 1 and np.shape(a["layer_sizes"])[1] > 1),
    ),
    "freezing.expected_angle": (
        _where("dim = 2", lambda a: a["dim"] == 2),
        _where("obtuse bias", lambda a: a["dim"] > 2 and a["bias_angle"] > math.pi / 2),
    ),
    "gradients.expected_max_quadratic_form": (_where("n > 1e6", lambda a: a["n"] > 1e6),),
    "sparsification.divisor_kl": (_where("batch shrinks", lambda a: a["other_batch_size"] < a["batch_size"]),),
    "sparsification.divisor_delta": (_where("epsilon > 1", lambda a: a["epsilon"] > 1),),
    "sparsification.published_size_delta": (
        _where("no shift", lambda a: a["shift"] == 0),
        _where("rate > 1/2", lambda a: a["sampling_rate"] > 0.5 and a["shift"] > 0),
        _where("users' data sets", lambda a: a["train_size"] >= 10_000),
    ),
    "convergence.velocity_variance": (_where("no end", lambda a: math.isinf(a["steps"])),),
    "convergence.adam_velocity_variance": (_where("no end", lambda a: math.isinf(a["steps"])),),
    "convergence.adam_corrected_variance": (_where("no end", lambda a: math.isinf(a["steps"])),),
    "pruning.cosine_ratio": (
        _where("some dispersion", lambda a: 0 < a["theta"] < math.inf),
        _where("top-k", lambda a: math.isinf(a["theta"])),
    ),
    "pruning.pruned_cosine": (_where("no noise", lambda a: a["noise_std"] == 0),),
    "convergence.fresh_mask_moments": (_where("several steps", lambda a: a["steps"] > 1),),
    "convergence.epoch_mask_moments": (
        _where("several epochs of several steps", lambda a: a["epochs"] > 1 and a["steps_per_epoch"] > 1),
    ),
    "sparsification.sparse_captured_energy": (_where("density < .01", lambda a: a["nonzero_share"] < 0.01),),
    "sparsification.bayes_error": (_where("over 100 entries", lambda a: np.size(a["vector"]) > 100),),
    "sparsification.kappa": (
        _where("over 12 entries", lambda a: np.size(a["gradient"]) > 12),
        _where("z other than .75", lambda a: a["deviation_share"] != 0.75),
    ),
    "sparsification.best_rate": (_where("over 20 entries", lambda a: np.size(a["gradient"]) > 20),),
    "embedding.least_risk": (
        _where("several steps", lambda a: a["steps"] > 2),
        _where("Lipschitz cap", lambda a: math.isfinite(a["lipschitz"])),
    ),
}
"""Branches that neither a size nor a choice names."""
