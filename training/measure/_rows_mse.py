"""Error of DP-SGD's gradient and of random freeze's."""

from dataclasses import dataclass

import numpy as np
import torch

from dptheory import gradients
from dptheory.training.engine import generator_noise
from dptheory.training.measure._rows import Array, Labels, Row
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot
from dptheory.training.mechanisms import Constant, DpSgd, Mechanism, RandomSparsification

ISOTROPIC = "rf.eq6: deviations N(0, s^2 I)"
FLAT = "rf.eq7: deviations N(0, s^2 I), true gradient flat"


@dataclass(frozen=True)
class _Drawn:
    """One entry a draw of batch, mask and noise."""

    signal_loss: Array
    noise: Array
    mse: Array
    law: Array  # signal loss expected over the batches, given the mask
    masked_norm: Array  # of the true gradient
    clipped_share: Array  # of the pool, given the mask


def mse_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Batches of examples drawn from the pool, run through the mechanisms; w is the mean gradient of the pool.

    Rows without assumption: noise energy d (sigma C / B)^2, of a mask (1 - r) times that; signal loss
    |w - c|^2 + tr Cov(clip(g)) / B with c = E clip(g), both over the pool, g masked where there is a mask.
    """
    drop_rate = whole_rate(settings.drop_rate, snapshot.true.size)
    full = _drawn(DpSgd(), snapshot, settings, generator)
    seed = int(torch.randint(2**31, (), generator=generator))
    masked = _drawn(RandomSparsification(Constant(drop_rate), seed), snapshot, settings, generator)
    gaussian, flat = (_predicted(snapshot, settings, drop_rate, norms) for norms in (masked.masked_norm, None))
    labels = Labels(group="mse", claims="rf.eq6, rf.eq7")
    rows = []
    for setting, drawn, error in (
        ("DP-SGD", full, gaussian.full),
        (f"freeze {drop_rate:.3g}", masked, gaussian.masked),
    ):
        rows += [
            labels.mean("noise_energy", setting, error.noise, drawn.noise),
            labels.mean("signal_loss", setting, drawn.law, drawn.signal_loss),
            labels.mean("mse", setting, drawn.law + error.noise, drawn.mse),
            labels.mean("signal_loss", setting, error.signal_loss, drawn.signal_loss, ISOTROPIC),
            labels.mean("mse", setting, error.mse, drawn.mse, ISOTROPIC),
            labels.fixed("clipped_share", setting, error.clip_probability, drawn.clipped_share.mean(), ISOTROPIC),
        ]
    error = flat.masked
    return [*rows, labels.mean("signal_loss", f"freeze {drop_rate:.3g}", error.signal_loss, masked.signal_loss, FLAT)]


def whole_rate(drop_rate: float, dim: int) -> float:
    """The rate next to ``drop_rate`` that drops a whole number of entries, and neither none nor all."""
    return 1.0 - min(max(round((1.0 - drop_rate) * dim), 1), dim - 1) / dim


def deviation(snapshot: Snapshot) -> float:
    """s: root mean square entry of an example's gradient less their mean, over the pool."""
    return float(np.sqrt(np.mean((snapshot.pool.numpy() - snapshot.pool_mean) ** 2)))


def _predicted(
    snapshot: Snapshot, settings: ValidateSettings, drop_rate: float, masked_norms: Array | None
) -> gradients.MseBreakdown:
    return gradients.clipped_gradient_mse(
        grad_norm=float(np.linalg.norm(snapshot.pool_mean)),
        dim=snapshot.true.size,
        deviation=deviation(snapshot),
        clip_norm=settings.clip_norm,
        noise_multiplier=settings.training.noise_multiplier,
        batch_size=settings.training.batch_size,
        drop_rate=drop_rate,
        masked_norms=masked_norms,
    )


def _drawn(mechanism: Mechanism, snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> _Drawn:
    size, noise = settings.training.batch_size, generator_noise(generator)
    true = torch.from_numpy(snapshot.pool_mean)
    norms_squared = snapshot.pool.double().square()
    columns = []
    for _ in range(settings.draws):
        mechanism.begin_step([true])
        chosen = torch.randint(len(snapshot.pool), (size,), generator=generator)
        (total,) = mechanism.contribute([snapshot.pool[chosen]], settings.clip_norm).total
        (released,) = mechanism.release(
            [total], noise_multiplier=settings.training.noise_multiplier, clip_norm=settings.clip_norm, noise=noise
        )
        mask = (
            mechanism.mask[0]
            if isinstance(mechanism, RandomSparsification)
            else torch.ones_like(true, dtype=torch.bool)
        )
        law, clipped = _law(snapshot, true, norms_squared @ mask.double(), mask, settings)
        columns.append(
            (
                float((true - total / size).square().sum()),
                float(((released - total).double() / size).square().sum()),
                float((true - released / size).square().sum()),
                law,
                float((true * mask).norm()),
                clipped,
            )
        )
    return _Drawn(*np.array(columns).T)


def _law(
    snapshot: Snapshot, true: torch.Tensor, norms_squared: torch.Tensor, mask: torch.Tensor, settings: ValidateSettings
) -> tuple[float, float]:
    """Expected signal loss of a batch drawn from the pool with replacement, and the share of the pool that is clipped."""
    norms = norms_squared.sqrt()
    factors = (settings.clip_norm / norms.clamp_min(1e-300)).clamp_max(1.0)
    centre = (factors.float() @ snapshot.pool).double() / len(norms) * mask
    spread = float((factors * norms).square().mean() - centre.square().sum())
    bias = float((true - centre).square().sum())
    return bias + spread / settings.training.batch_size, float((norms > settings.clip_norm).double().mean())
