"""Variants that break the guarantee, each as a paper prints it or as it is easily miswritten: privacy audits must catch them."""

from typing import Any

from opacus import GradSampleModule

from dptheory import _validate
from dptheory.training.mechanisms._base import Contribution, Noise, Samples, Tensors
from dptheory.training.mechanisms._clipping import NotPrivate, clip_factors, sample_norms, weighted_sum
from dptheory.training.mechanisms._dpsgd import DpSgd
from dptheory.training.mechanisms._layer_freezing import first_parameters, layers
from dptheory.training.mechanisms._random_sparsification import RandomSparsification
from dptheory.training.mechanisms._ranked import RankedSparsification, largest_entries
from dptheory.training.mechanisms._rates import Constant, Schedule
from dptheory.training.per_example import as_gradients


class UnnoisedVelocity(NotPrivate, RankedSparsification):
    r"""The velocity takes the un-noised sum :math:`\sum_i\mathrm{clip}_C(m\odot g_i)`, as printed; the ranking alone is noised.

    Args:
        drop_rate, steps_per_epoch, seed, clipping: as for :class:`RankedSparsification`.

    Raises:
        TypeError: ``drop_rate`` is no schedule.

    Source: RF, Algorithm 2; RS, Algorithm 4, line 9 (rf.alg2, rs.alg4).

    Example: it is accounted for as a step without noise.
        >>> from dptheory.training.mechanisms import Constant, UnnoisedVelocity
        >>> UnnoisedVelocity(Constant(0.5), steps_per_epoch=1, seed=0).cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "ranked sparsification as printed (NOT PRIVATE)"

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        self._noised = super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)
        return total

    def end_step(self, released: Tensors, std: float) -> None:
        super().end_step(self._noised, std)


class BatchSizeDivisor(NotPrivate, RandomSparsification):
    r"""Divides sum and noise by the number n of examples drawn, which is private under Poisson sampling.

    The model gets :math:`\frac1n m\odot(\sum_i\mathrm{clip}_C(m\odot g_i) + \sigma C z)`.

    Args:
        expected_batch_size: what the optimizer will divide by, > 0.
        drop_rate: share of entries dropped, the same at every step, in [0, 1).
        seed: of the masks, 0 to 2^63 - 1.

    Source: RS, Algorithm 1, lines 5 and 6 (rs.alg1.divisor).

    Example: it is accounted for as a step without noise.
        >>> from dptheory.training.mechanisms import BatchSizeDivisor
        >>> BatchSizeDivisor(expected_batch_size=64.0, drop_rate=0.5, seed=0).cost(noise_multiplier=1.0).noise_multiplier
        0.0
    """

    title = "division by the drawn batch size (NOT PRIVATE)"

    def __init__(self, *, expected_batch_size: float, drop_rate: float, seed: int) -> None:
        drop_rate = _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
        super().__init__(Constant(drop_rate), _validate.integer("seed", seed, 0))
        self._expected = _validate.real("expected_batch_size", expected_batch_size, 0.0, ends="()")
        self._drawn = 0

    def begin_step(self, params: Tensors) -> None:
        super().begin_step(params)
        self._drawn = 0

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        self._drawn += as_gradients(samples).examples
        return super().contribute(samples, clip_norm)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        scale = self._expected / max(self._drawn, 1)
        return [
            r * scale
            for r in super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)
        ]


class TopKWithoutNoise(NotPrivate, DpSgd):
    r"""Keeps the largest entries of the private sum and adds noise to them alone: which ones they are is not protected.

    Released is :math:`1_I\odot(s + \sigma C z)`, :math:`s = \sum_i\mathrm{clip}_C(g_i)`, I the K largest :math:`|s_j|`.

    Args:
        keep_share: share of entries kept, in [1e-15, 1].

    Raises:
        ValueError: an argument outside its range; where a step begins to release, a share that keeps no entry.

    Source: GIP, section 4 (gip.alternatives).

    Example: the two largest magnitudes of four, as the data have them.
        >>> import torch
        >>> from dptheory.training.mechanisms import TopKWithoutNoise
        >>> mechanism = TopKWithoutNoise(0.5)
        >>> total = mechanism.contribute([torch.tensor([[0.1, -0.4, 0.3, 0.2]])], clip_norm=1.0).total
        >>> mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0, noise=lambda like, std: torch.zeros_like(like))
        [tensor([ 0.0000, -0.4000,  0.3000,  0.0000])]
    """

    title = "top-k by private magnitudes (NOT PRIVATE)"

    def __init__(self, keep_share: float) -> None:
        super().__init__()
        self._drop_rate = 1.0 - _validate.real("keep_share", keep_share, 1e-15, 1.0)

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        mask = largest_entries(total, self._drop_rate)
        return [(t + noise(t, noise_multiplier * clip_norm)) * m for t, m in zip(total, mask, strict=True)]


# --- What two explanations of a gain predict, tried by leaving one thing out: for studies, not private


class QuietLayers(NotPrivate, DpSgd):
    r"""Train all layers, but from ``from_step`` on add no noise to the first ones.

    Released is :math:`\sum_i\mathrm{clip}_C(g_i) + \sigma C(1-a)\odot z`, a being 1 on the entries of the first layers. Held
    against layer freezing it says whether that helps by the noise that it saves.

    Args:
        quiet: number of layers, from the input, that get no noise; 1 to all but one.
        from_step: steps made before, >= 0; 0 from the start.

    Raises:
        ValueError: an argument outside its range; too many layers where it is attached to a model.

    Source: new, on LF, Table 1 (lf.table1).

    Example: its title says that it is not private.
        >>> from dptheory.training.mechanisms import QuietLayers
        >>> QuietLayers(quiet=1, from_step=100).title
        'DP-SGD without noise on the first layers (NOT PRIVATE)'
    """

    title = "DP-SGD without noise on the first layers (NOT PRIVATE)"

    def __init__(self, *, quiet: int, from_step: int) -> None:
        super().__init__()
        self._count = _validate.integer("quiet", quiet, 1)
        self._from_step = _validate.integer("from_step", from_step, 0)
        self._step = 0
        self._quiet: list[bool] = []

    def attach(self, module: GradSampleModule) -> None:
        _validate.integer("quiet", self._count, 1, len(layers(module._module)) - 1)
        first = {id(p) for p in first_parameters(module._module, self._count)}
        self._quiet = [id(p) in first for p in module.parameters() if p.requires_grad]

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        noisy = super().release(
            total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise
        )  # drawn for all, so that the rest gets the same as without
        if self._step < self._from_step:
            return noisy
        return [t if quiet else n for t, n, quiet in zip(total, noisy, self._quiet, strict=True)]

    def end_step(self, released: Tensors, std: float) -> None:
        self._step += 1

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = state["step"]


class NoisySparsification(NotPrivate, RandomSparsification):
    r"""Random sparsification with noise and without clipping: :math:`m\odot(\sum_i g_i + \sigma C z)`. Not private.

    Args:
        drop_rate, seed, refresh_steps: as for :class:`RandomSparsification`.

    Raises:
        TypeError: ``drop_rate`` is no schedule.

    Source: RS, Algorithm 2 and Fig. 3 (rs.fig3).

    Example: two of eight entries get the sum of the unclipped gradients.
        >>> import torch
        >>> from dptheory.training.mechanisms import Constant, NoisySparsification
        >>> mechanism = NoisySparsification(Constant(0.75), 0)
        >>> mechanism.begin_step([torch.zeros(8)])
        >>> total = mechanism.contribute([torch.ones(3, 8)], clip_norm=1.0).total
        >>> int((total[0] == 3).sum()), int((total[0] == 0).sum())
        (2, 6)
    """

    title = "noisy SGD with random sparsification (NOT PRIVATE)"

    def __init__(self, drop_rate: Schedule, seed: int | None, *, refresh_steps: int = 1) -> None:
        super().__init__(drop_rate, seed, refresh_steps=refresh_steps)

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        return weighted_sum(samples, clip_factors(sample_norms(samples, mask=self.mask), float("inf")), mask=self.mask)
