"""What clipping keeps of the true gradient, and kappa, the share of that which a random mask keeps."""

import numpy as np
import torch

from dptheory import gradients, sparsification
from dptheory.training.measure._rows import Array, Labels, Row
from dptheory.training.measure._rows_mse import deviation, whole_rate
from dptheory.training.measure._settings import ValidateSettings
from dptheory.training.measure._snapshot import Snapshot
from dptheory.training.mechanisms import clipped_sum, draw_mask

SYMMETRIC = "rs.lem3.2: deviations symmetric"
ISOTROPIC = "rs.kappa: deviations N(0, s^2 I)"
MANY_ENTRIES = "rs.mask_is_clip: gradients sit in many entries"
DESCENT = "rs.lem3.3: the lower bounds are the descents"
_SPLITS = (0.75, 0.25)  # of RS and of RF
_MASKS = 200


def clips(snapshot: Snapshot, settings: ValidateSettings) -> dict[str, float]:
    """The clip of the run, and one of twice the median deviation: the bounds say nothing where deviations exceed the clip."""
    norms = np.linalg.norm(snapshot.pool.numpy() - snapshot.pool_mean, axis=1)
    return {"C": settings.clip_norm, "C' = 2 median": 2.0 * float(np.median(norms))}


def clipping_rows(snapshot: Snapshot, settings: ValidateSettings) -> list[Row]:
    """E<w, clip(g)> over the pool against its lower bounds, which need the deviations g - w to be symmetric; w is their mean.

    The rows "symmetrised" take w + xi and w - xi for every measured xi, and so need nothing.
    """
    true, pool = snapshot.pool_mean, snapshot.pool.numpy().astype(np.float64)
    norms, size = np.linalg.norm(pool - true, axis=1), float(np.linalg.norm(true))
    labels = Labels(group="clipping", claims="rs.lem3.2, rf.eq70")
    rows = []
    for clip_name, clip_norm in clips(snapshot, settings).items():
        kept = float((gradients.clip(pool, clip_norm=clip_norm) @ true).mean())
        mirrored = float((gradients.clip(2.0 * true - pool, clip_norm=clip_norm) @ true).mean())
        bounds = {
            z: gradients.symmetric_clip_lower_bound(
                grad_norm=size, clip_norm=clip_norm, deviation_norms=norms, deviation_share=z
            )
            for z in _SPLITS
        }
        named = {"integral": bounds[_SPLITS[0]].integral} | {f"split {z:g}": bound.split for z, bound in bounds.items()}
        for name, value in named.items():
            setting = f"{name}, {clip_name}"
            rows += [
                labels.fixed("descent, symmetrised", setting, value, (kept + mirrored) / 2, relation="at least"),
                labels.fixed("descent", setting, value, kept, SYMMETRIC, "at least"),
            ]
    return rows


def kappa_rows(
    snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator
) -> tuple[list[Row], tuple[str, ...]]:
    """kappa with the measured deviations, by the calculator and by its definition, and with Gaussian deviations.

    Returns:
        The rows, and what is missing among them and why.
    """
    true, pool = snapshot.pool_mean, snapshot.pool.numpy().astype(np.float64)
    rate, deviations = whole_rate(settings.drop_rate, true.size), pool - true
    masks = np.array(
        [draw_mask([torch.from_numpy(true)], rate, generator)[0].numpy() for _ in range(_MASKS)], np.float64
    )
    sizes, kept = masks @ true**2, masks @ (deviations**2).T
    seed = int(torch.randint(2**31, (), generator=generator))
    labels, clipped = (
        Labels(group="kappa", claims="rs.lem3.3, rs.kappa"),
        Labels(group="kappa", claims="rs.mask_is_clip"),
    )
    rows, notes = [], []
    for name, clip_norm in clips(snapshot, settings).items():
        setting = f"rate {rate:.3g}, {name}"
        descents = _descents(snapshot, masks, clip_norm)
        bounds = sparsification.masked_descent(pool, clip_norm=clip_norm, drop_rate=rate)
        rows += [
            clipped.mean("exact kappa, lower bound", setting, bounds.lower, descents, relation="at least"),
            clipped.mean("exact kappa, upper bound", setting, bounds.upper, descents, relation="at most"),
            clipped.mean("exact kappa, larger clip", setting, bounds.larger_clip, descents, MANY_ENTRIES),
        ]
        below = float((np.linalg.norm(deviations, axis=1) < _SPLITS[0] * clip_norm).mean())
        if below == 0.0:
            notes.append(
                f"kappa at {name} is undefined: no deviation of {len(pool)} is shorter than {_SPLITS[0]:g} {name}"
            )
            continue
        samples = _definition(float(np.linalg.norm(true)), sizes, kept, clip_norm) / below
        measured = sparsification.kappa(true, clip_norm=clip_norm, drop_rate=rate, deviation=deviations, seed=seed)
        gaussian = sparsification.kappa(
            true, clip_norm=clip_norm, drop_rate=rate, deviation=deviation(snapshot), seed=seed
        )
        # both ends are exact; the value has an error where it comes from a bracket, and where masks were drawn for it
        rows += [
            labels.mean("kappa", setting, measured.value, samples, error=measured.error),
            labels.mean("kappa, lower end", setting, measured.lower, samples, relation="at least"),
            labels.mean("kappa, upper end", setting, measured.upper, samples, relation="at most"),
            labels.mean("descent ratio", setting, measured.value, descents, DESCENT, error=measured.error),
        ]
        if np.isfinite(gaussian.value):
            rows.append(labels.mean("kappa", setting, gaussian.value, samples, ISOTROPIC, error=gaussian.error))
        else:
            notes.append(f"kappa at {name} for Gaussian deviations exceeds the largest float")
    return rows, tuple(notes)


def _definition(size: float, kept_squares: Array, deviation_squares: Array, clip_norm: float) -> Array:
    """P'_m f(|m * w|^2) / f(|w|^2) for each mask, f(X) = min(X, c sqrt X) with c = (1 - z) C."""
    room, kept = (1.0 - _SPLITS[0]) * clip_norm, np.sqrt(kept_squares)
    below = (deviation_squares < (_SPLITS[0] * clip_norm) ** 2).mean(axis=1)
    return np.asarray(below * np.minimum(kept, room) * kept / (min(size, room) * size))


def _descents(snapshot: Snapshot, masks: Array, clip_norm: float) -> Array:
    """<w, mean clip(m * g)> / <w, mean clip(g)> over the pool, for each of some masks."""
    true = torch.from_numpy(snapshot.pool_mean)
    whole = float(clipped_sum([snapshot.pool], clip_norm).total[0].double() @ true)
    return np.array(
        [
            float(clipped_sum([snapshot.pool], clip_norm, mask=[torch.from_numpy(m).float()]).total[0].double() @ true)
            / whole
            for m in masks[:20]
        ]
    )
