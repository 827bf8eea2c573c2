"""Bugs that an audit must see, each planted by a monkeypatch."""

from collections.abc import Callable

import pytest
import torch

from dptheory.training import engine
from dptheory.training import mechanisms as m
from dptheory.training._randomness import subset
from dptheory.training.engine import _accountant, _noise, _optimizer
from dptheory.training.mechanisms import Contribution, clipped_sum, largest_entries
from dptheory.training.mechanisms._clipping import weighted_sum

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def batches_at_twice_the_rate(patch: Patch) -> None:
    """The samplers of the command line, and that of make_private."""
    for kind in (engine.PoissonBatches, engine.SecureBatches, engine.GeneratorBatches):
        plain = kind.batch

        def twice(self, step, part=0, parts=1, plain=plain):
            rate = self.sampling_rate
            object.__setattr__(self, "sampling_rate", min(1.0, 2 * rate))
            try:
                return plain(self, step, part, parts)
            finally:
                object.__setattr__(self, "sampling_rate", rate)

        patch.setattr(kind, "batch", twice)


def last_tensor_without_noise(patch: Patch) -> None:
    for kind in (m.DpSgd, m.RandomSparsification, m.PosteriorFreeze, m.RankedSparsification, m.IndexPruning):
        plain = kind.release

        def release(self, total, *, noise_multiplier, clip_norm, noise, plain=plain):
            released = plain(self, total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)
            return [*released[:-1], total[-1] * (released[-1] != 0)]

        patch.setattr(kind, "release", release)


def less_noise(patch: Patch) -> None:
    """A tenth missing, from both generators."""
    _share_of_the_noise(patch, 0.9)


def no_noise(patch: Patch) -> None:
    _share_of_the_noise(patch, 0.0)


def _share_of_the_noise(patch: Patch, share: float) -> None:
    of_generator, of_system = _optimizer.noise_of, _optimizer.secure_noise

    def weaker(generator):
        stream, found = of_generator(generator)
        return stream, lambda like, std: share * found(like, std)

    patch.setattr(_optimizer, "noise_of", weaker)
    patch.setattr(_optimizer, "secure_noise", lambda like, std: share * of_system(like, std))


def noise_in_every_part(patch: Patch) -> None:
    plain = m.DpSgd.contribute

    def contribute(self, samples, clip):
        found = plain(self, samples, clip)
        return Contribution([t + clip * torch.randn(t.shape) for t in found.total], found.nonfinite)

    patch.setattr(m.DpSgd, "contribute", contribute)
    patch.setattr(m.DpSgd, "release", lambda self, total, **named: total)


def noise_over_parts(patch: Patch) -> None:
    """The noise of a step is divided by the number of its parts."""
    begin, contribute, release = m.DpSgd.begin_step, m.DpSgd.contribute, m.DpSgd.release

    def count_none(self, params):
        self.parts = 0
        begin(self, params)

    def count(self, samples, clip):
        self.parts += 1
        return contribute(self, samples, clip)

    def weaker(self, total, *, noise_multiplier, clip_norm, noise):
        share = noise_multiplier / max(self.parts, 1)
        return release(self, total, noise_multiplier=share, clip_norm=clip_norm, noise=noise)

    patch.setattr(m.DpSgd, "begin_step", count_none)
    patch.setattr(m.DpSgd, "contribute", count)
    patch.setattr(m.DpSgd, "release", weaker)


def same_noise_in_every_step(patch: Patch) -> None:
    kept: dict[torch.Size, torch.Tensor] = {}
    plain = _optimizer.noise_of

    def stale(generator):
        stream, noise = plain(generator)
        return stream, lambda like, std: std * kept.setdefault(like.shape, noise(torch.zeros_like(like), 1.0))

    patch.setattr(_optimizer, "noise_of", stale)


def mask_of_private_gradients(patch: Patch) -> None:
    """The mask keeps what is large in the first part of the batch."""
    for kind in (m.RandomSparsification, m.PosteriorFreeze, m.RankedSparsification):
        plain = kind.contribute

        def contribute(self, samples, clip, plain=plain):
            if len(samples[0]):
                self.mask = largest_entries([s.sum(0) for s in samples], 0.5)
            return plain(self, samples, clip)

        patch.setattr(kind, "contribute", contribute)


def ranked_by_private_sums(patch: Patch) -> None:
    plain, end = m.RankedSparsification.release, m.RankedSparsification.end_step

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        self.private = [t.clone() for t in total]
        return plain(self, total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)

    patch.setattr(m.RankedSparsification, "release", release)
    patch.setattr(m.RankedSparsification, "end_step", lambda self, released, std: end(self, self.private, std))


def half_the_sum(patch: Patch) -> None:
    _in_place_of_the_sum(patch, lambda total: total / 2)


def nothing_but_noise(patch: Patch) -> None:
    _in_place_of_the_sum(patch, torch.zeros_like)


def half_of_the_signs_turned(patch: Patch) -> None:
    _in_place_of_the_sum(patch, lambda total: total * (1 - 2 * (torch.arange(total.numel()) % 2)).view_as(total))


def _in_place_of_the_sum(patch: Patch, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    plain = _optimizer.MechanismOptimizer._release

    def release(self):
        self.clipped_total = [change(total) for total in self.clipped_total]
        return plain(self)

    patch.setattr(_optimizer.MechanismOptimizer, "_release", release)


def no_clipping(patch: Patch) -> None:
    def contribute(self, samples, clip):
        mask = getattr(self, "mask", None) or None
        return weighted_sum(samples, torch.ones(len(samples[0])), mask=mask)

    for kind in (m.DpSgd, m.RandomSparsification, m.PosteriorFreeze):
        patch.setattr(kind, "contribute", contribute)


def clipping_before_the_mask_alone(patch: Patch) -> None:
    """What the mask leaves is blown up to the norm of the whole: it has been clipped before, and not after."""

    def contribute(self, samples, clip):
        found = clipped_sum(samples, clip)
        share = sum(int(kept.sum()) for kept in self.mask) / sum(kept.numel() for kept in self.mask)
        return Contribution([t * kept / share for t, kept in zip(found.total, self.mask, strict=True)], 0)

    patch.setattr(m.RandomSparsification, "contribute", contribute)


def account_at_half_the_rate(patch: Patch) -> None:
    plain = engine.PrivacyAccountant.__init__
    patch.setattr(
        engine.PrivacyAccountant, "__init__", lambda self, rate, *more, **named: plain(self, rate / 2, *more, **named)
    )


def account_at_half_the_rate_in_silence(patch: Patch) -> None:
    """The rate that is shown is right, and epsilon is that of another."""
    plain = _accountant._gaussian
    patch.setattr(_accountant, "_gaussian", lambda sigma, steps, rate, *rest: plain(sigma, steps, rate / 2, *rest))


def account_of_every_other_step(patch: Patch) -> None:
    plain = engine.PrivacyAccountant.record

    def record(self, cost, **more):
        self.odd = not getattr(self, "odd", False)
        if self.odd:
            plain(self, cost, **more)

    patch.setattr(engine.PrivacyAccountant, "record", record)


def account_of_more_noise(patch: Patch) -> None:
    patch.setattr(m.DpSgd, "cost", lambda self, noise_multiplier: m.StepCost(1.1 * noise_multiplier))


def account_of_a_secret_mask(patch: Patch) -> None:
    """Posterior freeze with a known seed is charged as if nobody could tell its masks."""
    patch.setattr(m.StepCost, "seeded", lambda self: self)


def predictable_secure_masks(patch: Patch) -> None:
    """A secure run whose masks come from a seed all the same."""
    from dptheory.training.mechanisms import _random_sparsification

    patch.setattr(_random_sparsification, "subset", lambda size, count, generator: subset(size, count, _constant()))


def predictable_secure_noise(patch: Patch) -> None:
    patch.setattr(_noise, "secure_normal", lambda count: torch.randn(count, generator=_constant()).double())


def _constant() -> torch.Generator:
    return torch.Generator().manual_seed(0)
