"""Angles between true, clipped and private gradient, before and after the first half of the layers is frozen."""

from dataclasses import dataclass

import numpy as np
import torch

from dptheory import freezing, gradients
from dptheory.training.engine import generator_noise
from dptheory.training.measure._rows import NONE, Array, Labels, Row
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot
from dptheory.training.mechanisms import DpSgd, clip_factors, clipped_sum, sample_norms

POSITIVE = "lf.lem3.2b: inner products of the gradients >= 0"
TURN = "lf.prop3.1.1: what freezing adds lies on the true gradient's side"
ALIGNED = "lf.prop3.1.3: alignment unchanged by freezing"
_MOST_SAMPLES = 1024  # signal_growth looks at all pairs


@dataclass(frozen=True)
class _Part:
    """A part of the network under one clipping: ``signal`` is its part of the batch's clipped sum."""

    name: str
    true: Array
    signal: torch.Tensor


def angle_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Laws of the angles over the noise, given the batch: no assumption; what freezing does to them."""
    first = trainable_from(snapshot.layers)
    whole = clipped_sum([snapshot.batch], settings.clip_norm).total[0]
    after = clipped_sum([snapshot.batch[:, first:]], settings.clip_norm).total[0]
    parts = (
        _Part("all layers", snapshot.true, whole),
        _Part("trainable, before", snapshot.true[first:], whole[first:]),
        _Part("trainable, after", snapshot.true[first:], after),
    )
    rows = [row for part in parts for row in _noise_rows(part, settings, generator)]
    return rows + _freezing_rows(snapshot, first, parts[1], parts[2], settings)


def trainable_from(layers: dict[str, slice]) -> int:
    """First entry of the second half of the layers; a layer is what has one name before its last dot."""
    names = list(dict.fromkeys(name.rpartition(".")[0] for name in layers))
    return min(int(part.start) for name, part in layers.items() if name.startswith(names[len(names) // 2] + "."))


def _noise_rows(part: _Part, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    signal, sigma = part.signal.double(), settings.training.noise_multiplier
    noise, mechanism = generator_noise(generator), DpSgd()
    released = torch.stack(
        [
            mechanism.release([signal], noise_multiplier=sigma, clip_norm=settings.clip_norm, noise=noise)[0]
            for _ in range(settings.draws)
        ]
    ).numpy()
    lengths = np.linalg.norm(released, axis=1)
    size, true_size = float(signal.norm()), float(np.linalg.norm(part.true))
    noise_cos = released @ signal.numpy() / (lengths * size)
    cos = released @ part.true / (lengths * true_size)
    bias = freezing.bias_angle(direction=part.true, signal=signal.numpy())
    law = gradients.DistortionAngle(signal.numel(), snr=size / settings.sum_noise_std)
    labels = Labels(group="angles", claims="lf.def3.2, lf.angle_law")
    return [
        labels.mean("cos gamma_BP", part.name, law.expected_cos(), noise_cos),
        labels.mean("gamma_BP", part.name, law.mean(), _angles(noise_cos)),
        labels.mean(
            "cos gamma", part.name, gradients.batch_expected_cos(cos_bias=np.cos(bias), dim=law.dim, snr=law.snr), cos
        ),
        labels.mean("gamma", part.name, freezing.expected_angle(law.dim, snr=law.snr, bias_angle=bias), _angles(cos)),
    ]


def _angles(cosines: Array) -> Array:
    """Of cosines that rounding may have put just outside [-1, 1]."""
    return np.asarray(np.arccos(np.clip(cosines, -1, 1)))


def _freezing_rows(
    snapshot: Snapshot, first: int, before: _Part, after: _Part, settings: ValidateSettings
) -> list[Row]:
    frozen, kept = (sample_norms([part]) for part in (snapshot.batch[:, :first], snapshot.batch[:, first:]))
    clipped_before = kept * clip_factors(torch.hypot(frozen, kept), settings.clip_norm)
    clipped_after = kept * clip_factors(kept, settings.clip_norm)
    ratios = clipped_after[kept > 0] / clipped_before[kept > 0]
    growth = freezing.norm_growth(
        trainable_norms=kept.double().numpy(), frozen_norms=frozen.double().numpy(), clip_norm=settings.clip_norm
    )
    sizes = [part.stop - part.start for part in snapshot.layers.values()]
    norms = torch.stack([snapshot.batch[:, part].norm(dim=1) for part in snapshot.layers.values()], dim=1)
    frozen_count = sum(part.stop <= first for part in snapshot.layers.values())
    old, new = (float(part.signal.double().norm()) for part in (before, after))
    count = len(snapshot.batch)
    effect = freezing.freezing_effect(
        sizes,
        layer_norms=norms.double().numpy(),
        frozen_layers=frozen_count,
        clip_norm=settings.clip_norm,
        noise_multiplier=settings.training.noise_multiplier,
        batch_size=count,
        alignment=min(1.0, old / float(clipped_before.double().sum())),
    )
    samples, rest = snapshot.batch[:_MOST_SAMPLES, first:].double().numpy(), frozen[:_MOST_SAMPLES].double().numpy()
    sure = freezing.signal_growth(samples, frozen_norms=rest, clip_norm=settings.clip_norm)
    turn = freezing.bias_turn(direction=before.true, signal=before.signal.double().numpy(), added=_added(before, after))
    bias_before, bias_after = (
        freezing.bias_angle(direction=p.true, signal=p.signal.double().numpy()) for p in (before, after)
    )
    lemma, turning = (
        Labels(group="freezing", claims="lf.lem3.2a, lf.lem3.2b"),
        Labels(group="freezing", claims="lf.prop3.1.1"),
    )
    noise = Labels(group="freezing", claims="lf.prop3.1.3")
    return [
        lemma.fixed(
            "mean clipped norm",
            "after",
            float((clipped_before.double().numpy() * growth).mean()),
            float(clipped_after.double().mean()),
        ),
        lemma.fixed("norm growth", "least", 1.0, float(ratios.min()), relation="at least"),
        lemma.fixed(
            "|signal| after / before",
            "grows",
            1.0,
            sure.after / sure.before,
            NONE if sure.lower >= 1.0 else POSITIVE,
            "at least",
        ),
        turning.fixed(
            "gamma_B", "falls", bias_before, bias_after, NONE if turn.limit >= 1.0 else TURN, relation="at most"
        ),
        noise.fixed("signal-to-noise", "before", effect.before.snr, old / settings.sum_noise_std),
        noise.fixed("signal-to-noise", "after", effect.after.snr, new / settings.sum_noise_std, ALIGNED),
    ]


def _added(before: _Part, after: _Part) -> Array:
    """What freezing adds to the signal; the signal itself where it adds nothing, which turns it as little."""
    added = (after.signal.double() - before.signal.double()).numpy()
    return np.asarray(added) if added.any() else before.signal.double().numpy()
