"""Bugs of a review, and of gradients kept as factors, each a monkeypatch: tests see all, the audit what changes what a run spends."""

import copy
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch

from dptheory.training import _randomness, engine
from dptheory.training import mechanisms as m
from dptheory.training.engine import _accountant, _logical_batch, _optimizer, _private, _sampling
from dptheory.training.mechanisms import StepCost, _clipping, _gep
from dptheory.training.mechanisms._random_sparsification import _Masked
from dptheory.training.mechanisms._subspace import power_iteration, split_vectors
from dptheory.training.per_example import Dense, HookedModule, PerExampleGradients, _factors, as_gradients
from dptheory.training.per_example._trial import MORE
from dptheory.training.runs import _prepare, _train
from tests.training.bugs import Patch

# --- batches ------------------------------------------------------------------------------------------------------------


def empty_batches_not_recorded(patch: Patch) -> None:
    plain = _optimizer.MechanismOptimizer._release

    def release(self):
        if not any(total.any() for total in self.clipped_total):
            self.accountant.record = lambda cost, **more: None
        try:
            return plain(self)
        finally:
            vars(self.accountant).pop("record", None)

    patch.setattr(_optimizer.MechanismOptimizer, "_release", release)


class FixedSize:
    """So many of all records, every time."""

    def __init__(self, *, train_size: int, sampling_rate: float, seed: int = 0) -> None:
        self.train_size, self.size, self.start = train_size, round(train_size * sampling_rate), seed

    def batch(self, step: int, part: int = 0, parts: int = 1) -> torch.Tensor:
        order = np.random.default_rng((self.start, step)).permutation(self.train_size)
        return torch.from_numpy(np.sort(order[: self.size])[part::parts])


def batches_of_fixed_size_in_runs(patch: Patch) -> None:
    for kind in ("PoissonBatches", "SecureBatches"):
        patch.setattr(_prepare, kind, FixedSize)


def batches_of_fixed_size_in_the_steps_of_runs(patch: Patch) -> None:
    """What the run holds is right, and not what its steps take."""
    plain = _train.one_step

    def one_step(run):
        rate = run.config.batch_size / len(run.train)
        return plain(replace_batches(run, FixedSize(train_size=len(run.train), sampling_rate=rate)))

    def replace_batches(run, batches):
        run.batches = batches
        return run

    patch.setattr(_train, "one_step", one_step)


def _at_a_rate_of_whole_steps(patch: Patch, module: ModuleType, *kinds: str) -> None:
    """Batches say the rate that they were asked for, and draw at another."""
    for kind in kinds:
        plain = getattr(module, kind)

        class Rounded(plain):  # type: ignore[misc,valid-type]
            def batch(self, *place, plain=plain):
                return plain.batch(_with_rate(self, 1 / max(1, round(1 / self.sampling_rate))), *place)

        patch.setattr(module, kind, Rounded)


def loader_at_a_rate_of_whole_steps(patch: Patch) -> None:
    _at_a_rate_of_whole_steps(patch, _private, "GeneratorBatches", "SecureBatches")


def runs_at_a_rate_of_whole_steps(patch: Patch) -> None:
    _at_a_rate_of_whole_steps(patch, _prepare, "PoissonBatches", "SecureBatches")


def batches_in_single_precision(patch: Patch) -> None:
    def of_a_generator(self, step, part=0, parts=1):
        drawn = torch.rand(self.train_size, generator=self.generator) < self.sampling_rate
        return torch.arange(part, self.train_size, parts)[drawn[part::parts]]

    def of_a_seed(self, step, part=0, parts=1):
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, step)))
        return torch.from_numpy(
            np.flatnonzero(rng.random(self.train_size, dtype=np.float32) < self.sampling_rate)[part::parts]
        )

    patch.setattr(engine.GeneratorBatches, "batch", of_a_generator)
    patch.setattr(engine.PoissonBatches, "batch", of_a_seed)


def secure_rate_of_sixteen_bits(patch: Patch) -> None:
    plain = engine.SecureBatches.batch

    def batch(self, *place):
        return plain(_with_rate(self, round(self.sampling_rate * 2**16) / 2**16), *place)

    patch.setattr(engine.SecureBatches, "batch", batch)


def repeats_not_drawn_again(patch: Patch) -> None:
    """Not of the review, as the next two: a batch has as many records as different numbers came."""

    def subset(count, records, words):
        return np.unique(_sampling._uniform(count, records, words))

    patch.setattr(_sampling, "_uniform_subset", subset)


def size_is_its_mean(patch: Patch) -> None:
    plain = _sampling.size_law

    def law(records, rate):
        found = plain(records, rate)
        patch.setattr(type(found), "draw", lambda self, words: round(records * rate))
        return found

    patch.setattr(_sampling, "size_law", law)


def last_record_never_drawn(patch: Patch) -> None:
    plain = _sampling._uniform
    patch.setattr(_sampling, "_uniform", lambda count, records, words: plain(count, max(1, records - 1), words))


def _with_rate(batches: Any, rate: float) -> Any:
    found = copy.copy(batches)
    object.__setattr__(found, "sampling_rate", rate)
    return found


# --- what is counted ----------------------------------------------------------------------------------------------------


def selection_costs_what_the_first_one_did(patch: Patch) -> None:
    def cost(self, noise_multiplier: float) -> StepCost:
        self.first = vars(self).get("first", (self._rows, self._law()))
        return StepCost(noise_multiplier, selection=self.first)

    patch.setattr(m.IndexPruning, "cost", cost)


def fresh_mask_costs_what_the_first_one_did(patch: Patch) -> None:
    """Not of the review: the same with masks."""
    plain = m.PosteriorFreeze.cost

    def cost(self, noise_multiplier: float) -> StepCost:
        self.first = vars(self).get("first") or plain(self, noise_multiplier)
        return self.first

    patch.setattr(m.PosteriorFreeze, "cost", cost)


def held_mask_amplifies(patch: Patch) -> None:
    plain = m.PosteriorFreeze.cost

    def cost(self, noise_multiplier: float) -> StepCost:
        fresh = copy.copy(self)
        fresh._refresh_steps = 1
        return plain(fresh, noise_multiplier)

    patch.setattr(m.PosteriorFreeze, "cost", cost)


def budget_of_one_step_too_many(patch: Patch) -> None:
    def clear(self, cost: StepCost) -> None:
        if self._budget is None or not self._spent:
            return
        if not self._fits(self._spent, *self._budget) and not self._composition_fits(self._spent, cost, *self._budget):
            raise engine.BudgetError("spent")

    patch.setattr(engine.PrivacyAccountant, "clear", clear)


def state_of_the_last_two_processes(patch: Patch) -> None:
    plain = _accountant.written
    patch.setattr(_accountant, "written", lambda makers: plain(dict(list(makers.items())[:2])))


def releases_lost_on_resume(patch: Patch) -> None:
    plain = engine.PrivacyAccountant.load_state_dict
    patch.setattr(
        engine.PrivacyAccountant,
        "load_state_dict",
        lambda self, state: plain(self, {key: value for key, value in state.items() if key != "releases"}),
    )


# --- noise --------------------------------------------------------------------------------------------------------------


def one_noise_for_all_tensors(patch: Patch) -> None:
    def release(self, total, *, noise_multiplier, clip_norm, noise):
        drawn = noise(max(total, key=torch.Tensor.numel).flatten(), noise_multiplier * clip_norm)
        return [t + drawn[: t.numel()].view_as(t) for t in total]

    patch.setattr(m.DpSgd, "release", release)


def noise_behind_another_mask(patch: Patch) -> None:
    """That of the step to come."""

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        following = _random_mask_like(self.mask)
        return [t + noise(t, noise_multiplier * clip_norm) * n for t, n in zip(total, following, strict=True)]

    patch.setattr(_Masked, "release", release)


def _random_mask_like(mask: list[torch.Tensor]) -> list[torch.Tensor]:
    return [kept.flatten()[torch.randperm(kept.numel())].view_as(kept) for kept in mask]


def momentum_before_noise(patch: Patch) -> None:
    plain = m.DpSgd.release

    def release(self, total, **named):
        before = vars(self).get("velocity", [torch.zeros_like(t) for t in total])
        self.velocity = [0.9 * v + t for v, t in zip(before, total, strict=True)]
        return plain(self, self.velocity, **named)

    patch.setattr(m.DpSgd, "release", release)


def ranking_noise_without_the_clip(patch: Patch) -> None:
    def scores(self, flat, noised, clip_norm, noise):
        return flat.abs() + noise(flat, self._selection)

    patch.setattr(m.NoisyMagnitudeTopK, "_scores", scores)


def secure_normal_of_few_bits(patch: Patch) -> None:
    patch.setattr(_randomness, "_BITS", 23)


def going_back_repeats_noise(patch: Patch) -> None:
    """A state carries that of the noise, and the noise goes back with it."""
    kind = engine.MechanismOptimizer
    plain, plain_load = kind.state_dict, kind.load_state_dict

    def load(self, state):
        plain_load(self, state)
        self.noise_stream.on("cpu").set_state(state["generator"])

    patch.setattr(kind, "state_dict", lambda self: plain(self) | {"generator": self.noise_stream.on("cpu").get_state()})
    patch.setattr(kind, "load_state_dict", load)


def nothing_ranks_what_is_masked(patch: Patch) -> None:
    def end_step(self, released, std):
        for s, r in zip(self._sums, released, strict=True):
            s += r
        self._rank_after_an_epoch()

    patch.setattr(m.RankedSparsification, "end_step", end_step)


# --- sums ---------------------------------------------------------------------------------------------------------------


def divisor_by_the_drawn_batch(patch: Patch) -> None:
    plain = _optimizer.MechanismOptimizer.scale_grad

    def scale(self):
        plain(self)
        for p in self.params:
            p.grad *= self.expected_batch_size / max(self._batch.rows, 1)

    patch.setattr(_optimizer.MechanismOptimizer, "scale_grad", scale)


def clipped_by_the_largest_layer(patch: Patch) -> None:
    def norms(samples, *, mask=None):
        gradients = as_gradients(samples)
        masks = [None] * len(gradients) if mask is None else mask
        squares = [part.square_norms(kept) for part, kept in zip(gradients.parts, masks, strict=True)]
        return torch.stack(squares).amax(0).sqrt().to(gradients.dtype)

    patch.setattr(_clipping, "sample_norms", norms)


def layers_clipped_to_the_whole_clip(patch: Patch) -> None:
    def factors(self, norms, clip_norm):
        return torch.stack([_clipping.clip_factors(own, clip_norm) for own in norms.T], 1)

    patch.setattr(m.LayerClipping, "factors", factors)


def normalised_layer_by_layer(patch: Patch) -> None:
    """Automatic clipping of each tensor to nearly C."""
    patch.setattr(m.AutomaticClipping, "groups", lambda self, parameters: [[i] for i in range(parameters)])


def count_without_noise(patch: Patch) -> None:
    plain = m.AdaptiveClipping._noise
    patch.setattr(m.AdaptiveClipping, "_noise", lambda self, sigma: replace(plain(self, sigma), count_std=0.0))


def count_that_nothing_is_paid_for(patch: Patch) -> None:
    """The sum has the noise that it has without a count beside it."""
    plain = m.AdaptiveClipping._noise
    patch.setattr(
        m.AdaptiveClipping, "_noise", lambda self, sigma: replace(plain(self, sigma), gradient_multiplier=sigma)
    )


def count_of_zeros_and_ones(patch: Patch) -> None:
    plain = m.DpSgd.contribute

    def contribute(self, samples, clip):
        found = plain(self, samples, clip)
        return replace(found, votes=found.votes + len(samples[0]) / 2)

    patch.setattr(m.DpSgd, "contribute", contribute)


def zero_gradients_vote(patch: Patch) -> None:
    """As a null record does not, and as the row of zeros that an empty batch has would."""
    plain = m.DpSgd.contribute

    def contribute(self, samples, clip):
        found = plain(self, samples, clip)
        zeros = sum(not any(one.any() for one in rows) for rows in zip(*samples, strict=True))
        return replace(found, votes=found.votes + zeros / 2)

    patch.setattr(m.DpSgd, "contribute", contribute)


def mask_dropped_in_the_norm(patch: Patch) -> None:
    """Of a dense layer whose gradients are kept as factors."""
    plain = Dense.square_norms
    patch.setattr(Dense, "square_norms", lambda self, mask=None: plain(self))


def factors_of_another_batch(patch: Patch) -> None:
    """The inputs that a dense layer had in the step before meet the output gradients of this one.

    Not in the few rows that the engine tries first: it would find that they do not add up, and do without the factors.
    """
    plain, before = _factors._dense, {}

    def dense(layer, inputs, gradient, views):
        if 0 < len(inputs) <= MORE:
            return plain(layer, inputs, gradient, views)
        used = before.get(id(layer), inputs)
        before[id(layer)] = inputs
        if not len(used):
            return plain(layer, inputs, gradient, views)
        return plain(layer, used[torch.arange(len(inputs)) % len(used)], gradient, views)

    patch.setattr(_factors, "_dense", dense)


def views_clipped_apart(patch: Patch) -> None:
    """Every row of an example is clipped by itself, as Opacus does it: so many times the sensitivity."""
    patch.setattr(_private, "HookedModule", lambda module, *, views, **named: HookedModule(module, **named))
    for name in ("check", "is_dry", "add"):
        plain = getattr(_logical_batch.LogicalBatch, name)
        counted = lambda self, rows, plain=plain: plain(self, rows // self._views)  # noqa: E731
        patch.setattr(_logical_batch.LogicalBatch, name, counted)


def norm_without_the_bias(patch: Patch) -> None:
    def square_norms(self, mask=None):
        masks = [None] * len(self.parts) if mask is None else mask
        found = [part.square_norms(own) for part, own in zip(self.parts, masks, strict=True) if len(part.shape) > 2]
        return torch.stack(found).sum(0)

    patch.setattr(PerExampleGradients, "square_norms", square_norms)


def frozen_layers_count_in_the_clip(patch: Patch) -> None:
    """They are trained on, and what is released of them is thrown away."""
    plain = m.LayerFreezing.release

    def release(self, total, **named):
        released = plain(self, total, **named)
        frozen = len(self._freezable) if self._due() else 0
        return [torch.zeros_like(r) if place < frozen else r for place, r in enumerate(released)]

    patch.setattr(m.LayerFreezing, "release", release)
    patch.setattr(m.LayerFreezing, "_freeze_if_due", lambda self: None)


def cooling_one_step_early(patch: Patch) -> None:
    plain = m.GradualCooling.__call__
    patch.setattr(m.GradualCooling, "__call__", lambda self, step: plain(self, step + 1))


def freezing_one_step_late(patch: Patch) -> None:
    patch.setattr(m.LayerFreezing, "_due", lambda self: self._step > self._from_step)


# --- subspaces ----------------------------------------------------------------------------------------------------------


def residual_not_clipped(patch: Patch) -> None:
    def factors(self, norms, rest, clip_norm):
        return _clipping.clip_factors(norms, clip_norm), _clipping.clip_factors(rest, float("inf"))

    patch.setattr(_gep._Embedding, "_factors", factors)


def residual_clipped_by_its_largest_tensor(patch: Patch) -> None:
    contribute, factors = _gep._Embedding.contribute, _gep._Embedding._factors

    def noted(self, samples, clip_norm):
        self.given = as_gradients(samples)
        return contribute(self, samples, clip_norm)

    def of_the_largest(self, norms, rest, clip_norm):
        squares = []
        for group, basis in zip(self._members, self.bases, strict=True):
            own = self.given.of(group)
            inside = own.project(split_vectors(basis, own.shapes))
            squares.append(own.square_norms() - _gep.square_sums(inside))
        return factors(self, norms, torch.stack(squares).amax(0).clamp_min(0).sqrt().to(rest.dtype), clip_norm)

    patch.setattr(_gep._Embedding, "contribute", noted)
    patch.setattr(_gep._Embedding, "_factors", of_the_largest)


def joint_split_for_the_clip_itself(patch: Patch) -> None:
    plain = _gep.theory.joint_clip

    def joint(*, clip_norm: float, residual_share: float, **more: Any):
        return plain(clip_norm=clip_norm, residual_share=min(residual_share * clip_norm, 1.0), **more)

    patch.setattr(_gep, "theory", _with(_gep.theory, joint_clip=joint))


def _with(module: ModuleType, **changes: Callable[..., Any]) -> ModuleType:
    found = ModuleType(module.__name__)
    vars(found).update(vars(module) | changes)
    return found


def private_batch_among_the_anchors(patch: Patch) -> None:
    plain = _gep._Embedding.contribute

    def contribute(self, samples, clip_norm):
        if len(samples[0]):
            formed = [as_gradients(samples).of(group).formed() for group in self._members]
            private = [torch.cat([part.flatten(1) for part in parts], dim=1) for parts in formed]
            self.bases = [
                power_iteration(
                    torch.cat([basis, rows]), dim=len(basis), iterations=1, generator=_gep.on_cpu(self._stream)
                )
                for basis, rows in zip(self.bases, private, strict=True)
            ]
        return plain(self, samples, clip_norm)

    patch.setattr(_gep._Embedding, "contribute", contribute)


def stale_anchors(patch: Patch) -> None:
    plain = m.AnchorGradients.__init__

    def init(self, model, *rest, **named):
        plain(self, copy.deepcopy(model), *rest, **named)

    patch.setattr(m.AnchorGradients, "__init__", init)
