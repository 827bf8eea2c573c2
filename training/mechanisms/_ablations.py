"""What two explanations of a gain predict, tried by leaving one thing out: for studies, not private."""

from typing import Any

from opacus import GradSampleModule

from dptheory import _validate
from dptheory.training.mechanisms._base import Contribution, Noise, Samples, StepCost, Tensors
from dptheory.training.mechanisms._clipping import clip_factors, sample_norms, weighted_sum
from dptheory.training.mechanisms._dpsgd import DpSgd
from dptheory.training.mechanisms._layer_freezing import first_parameters, layers
from dptheory.training.mechanisms._random_sparsification import RandomSparsification
from dptheory.training.mechanisms._rates import Schedule


class QuietLayers(DpSgd):
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

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._step = state["step"]


class NoisySparsification(RandomSparsification):
    r"""Random sparsification with noise and without clipping: :math:`m\odot(\sum_i g_i + \sigma C z)`. Not private.

    Args:
        drop_rate, seed, refresh_steps: as for :class:`RandomSparsification`.

    Raises:
        TypeError: ``drop_rate`` is no schedule.
        ValueError: an argument outside its range.

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

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)
