"""The Opacus optimizer that runs a mechanism at its two hook points."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from opacus.optimizers.ddpoptimizer import DistributedDPOptimizer
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed

from training.ledger import PrivacyLedger
from training.mechanisms._base import Mechanism, Noise, Tensors
from training.noise import generator_noise, secure_noise


class MechanismOptimizer(DPOptimizer):  # type: ignore[misc]
    """Hands per-sample gradients to a mechanism and its release to any torch optimizer.

    Works with what Opacus's own optimizer works with: hooks and functorch per-sample gradients, virtual batches
    (``BatchMemoryManager``), Poisson sampling with the expected batch size as divisor. Build it with
    :func:`training.make_private`.

    Attributes:
        mechanism: the algorithm.
        ledger: what has been spent.
        nonfinite_samples: samples so far whose gradient held NaN or infinity; they contribute zero.
        clipped_total: what the mechanism summed up for the step under way, before noise.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        mechanism: Mechanism,
        sampling_rate: float,
        names: Mapping[torch.Tensor, str],
        noise_multiplier: float,
        max_grad_norm: float,
        expected_batch_size: float,
        loss_reduction: str = "mean",
        generator: torch.Generator | None = None,
        secure: bool = False,
    ) -> None:
        super().__init__(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected_batch_size,
            loss_reduction=loss_reduction,
            generator=generator,
        )
        self.mechanism = mechanism
        self.ledger = PrivacyLedger(sampling_rate)
        self.nonfinite_samples = 0
        self.clipped_total: Tensors | None = None
        self._nonfinite = 0
        self._stepped = False
        self._noise: Noise = secure_noise if secure else generator_noise(generator)
        self._names = names
        self._released: Tensors = []

    @property
    def grad_samples(self) -> Tensors:
        """Per-sample gradients of all trainable parameters, checked; an empty batch has length 0 everywhere."""
        samples = []
        for p in self.params:
            if getattr(p, "grad_sample", None) is None:
                name = self._names.get(p, "a parameter")
                raise ValueError(
                    f"{name} has no per-sample gradient: it took no part in the forward pass, or backward() was not called; "
                    f"use it in the model, or freeze it with requires_grad_(False) before make_private"
                )
            _check_processed_flag(p.grad_sample)
            samples.append(self._get_flat_grad_sample(p))
        size = min(len(s) for s in samples)
        if size == 0:  # Opacus gives one row of zeros for some layers and none for others
            return [s[:0] for s in samples]
        if any(len(s) != size for s in samples):
            sizes = {self._names.get(p, "?"): len(s) for p, s in zip(self.params, samples, strict=True)}
            raise ValueError(f"per-sample gradients must come from one batch, got {sizes} samples")
        return samples

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far, with what the mechanism itself spends; inf if it is not private."""
        return self.ledger.epsilon(delta)

    def clip_and_accumulate(self) -> None:
        """Clip what the backward pass left, and add it to the totals of the step."""
        samples = self.grad_samples
        if self._stepped:  # a step that was released must not leak into the next, whichever zero_grad() was called
            self.clipped_total = None
        if self.clipped_total is None:
            self._nonfinite, self._stepped = 0, False
            self._begin_step([p.detach() for p in self.params])
        found = self.mechanism.contribute(samples, self.max_grad_norm)
        self._nonfinite += found.nonfinite
        if self.clipped_total is None:
            self.clipped_total = found.total
        else:
            self.clipped_total = [a + b for a, b in zip(self.clipped_total, found.total, strict=True)]
        for p in self.params:
            _mark_as_processed(p.grad_sample)

    def add_noise(self) -> None:
        """Release the step: noise where the mechanism wants it, and the result into ``p.grad``."""
        self._store(self._release())

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients; the totals too, unless the last batch was only part of a step."""
        if not self._is_last_step_skipped:
            self.clipped_total = None
        super().zero_grad(set_to_none)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One physical batch; an update where it completes a step."""
        result: float | None = super().step(closure)
        if not self._is_last_step_skipped:
            self._stepped = True
            self.nonfinite_samples += self._nonfinite
            self.ledger.record(self.mechanism.cost(self.noise_multiplier))
            self.mechanism.end_step(self._released, self.noise_multiplier * self.max_grad_norm)
            self._released = []
        return result

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state, the mechanism's, the ledger's, and that of the noise generator."""
        return {
            "optimizer": self.original_optimizer.state_dict(),
            "mechanism": self.mechanism.state_dict(),
            "ledger": self.ledger.state_dict(),
            "nonfinite_samples": self.nonfinite_samples,
            "generator": None if self.generator is None else self.generator.get_state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self.original_optimizer.load_state_dict(state_dict["optimizer"])
        self.mechanism.load_state_dict(state_dict["mechanism"])
        self.ledger.load_state_dict(state_dict["ledger"])
        self.nonfinite_samples = state_dict["nonfinite_samples"]
        if self.generator is not None and state_dict["generator"] is not None:
            self.generator.set_state(state_dict["generator"].cpu())

    def _begin_step(self, params: Tensors) -> None:
        self.mechanism.begin_step(params)

    def _release(self) -> Tensors:
        if self.clipped_total is None:
            raise ValueError("step() needs a backward pass since the last zero_grad()")
        self.ledger.clear(self.mechanism.cost(self.noise_multiplier))
        return self.mechanism.release(self.clipped_total, self.noise_multiplier, self.max_grad_norm, self._noise)

    def _store(self, released: Tensors) -> None:
        self._released = released
        for p, value in zip(self.params, released, strict=True):
            p.grad = value.view_as(p).to(p.dtype)


class DistributedMechanismOptimizer(MechanismOptimizer, DistributedDPOptimizer):  # type: ignore[misc]
    """The same over several processes: totals are summed over all of them, the first draws noise, all get its release.

    Every process needs a mechanism that was built with the same seed.
    """

    def add_noise(self) -> None:
        """Sum the totals, release once, and hand the release to every process."""
        if self.clipped_total is None:
            raise ValueError("step() needs a backward pass since the last zero_grad()")
        for total in self.clipped_total:
            torch.distributed.all_reduce(total)
        count = torch.tensor(self._nonfinite, device=self.clipped_total[0].device)
        torch.distributed.all_reduce(count)
        self._nonfinite = int(count)
        released = [r.contiguous() for r in self._release()]
        for value in released:
            torch.distributed.broadcast(value, src=0)
        self._store(released)

    def _begin_step(self, params: Tensors) -> None:
        """The first process's subspace for all: rounding alone could turn a basis vector round."""
        super()._begin_step(params)
        for tensor in self.mechanism.shared():
            torch.distributed.broadcast(tensor, src=0)

    def reduce_gradients(self) -> None:
        """Every process has the sum already; Opacus gives each the expected size of its own share of the batch."""
        if self.loss_reduction == "mean":
            for p in self.params:
                p.grad /= self.world_size
