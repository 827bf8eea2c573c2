"""What one step of each method is worth at the weights of a DP-SGD run: the forecast that accuracies are held against."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from training.instrument._releases import released
from training.instrument._view import View, trained_entries
from training.networks import loss_hessian
from training.runs import Run, from_dict, prepare


def forecast(view: View, methods: Mapping[str, Mapping[str, Any]], draws: int, curved: int) -> dict[str, Any]:
    """max(0, E<w, g>)^2 / E|g|^2 and max(0, E<w, g>)^2 / E[g'Hg] of what each method releases, relative to the run's own.

    w is the mean gradient of the examples; g the mean gradient that the method releases of a batch drawn from them, with its
    masks and its noise; H the Hessian of the mean loss of the first ``curved`` of them. The first is the gain of a step at the
    best rate where the curvature is the same in all directions, the second where it is what it is; null where E[g'Hg] is not
    positive. ``turned`` is the mean cosine of g and w. Standard errors are by the jackknife over the draws, those of ratios to
    first order; null where E[g'Hg] is not positive with every draw left out.
    """
    run, found = view.run, dict[str, dict[str, float | None]]()
    for name, changes in {"dp-sgd": {}, **methods}.items():
        found[name] = _worth(view, _with(run, changes), draws, curved)
    own = found["dp-sgd"]
    for one in found.values():
        for key in ("isotropic", "curved"):
            mine, other = one[key], own[key]
            one[f"relative_{key}"] = mine / other if mine is not None and other else None
            one[f"relative_{key}_error"] = _ratio_error(one, own, key)
    own["relative_isotropic_error"] = own["relative_curved_error"] = 0.0
    return {"methods": found}


def _with(run: Run, changes: Mapping[str, Any]) -> Run:
    """A run of another method at the same weights."""
    other = prepare(from_dict(run.config.as_dict() | dict(changes)), torch.device("cpu"))
    other.model.load_state_dict(run.model.state_dict())
    return other


def _worth(view: View, run: Run, draws: int, curved: int) -> dict[str, float | None]:
    rows, images = [], view.test(0, curved)
    hessian = loss_hessian(view.model, images.pixels, images.labels)
    for _ in range(draws):
        chosen = torch.randint(len(view.gradients), (view.batch_size,), generator=view.generator)
        g = _released(view, run, chosen)
        cosine = float(torch.nn.functional.cosine_similarity(view.mean, g, dim=0))
        rows.append((float(view.mean @ g), float(g @ g), float(g @ hessian(g).double()), cosine))
    descent, square, bend, turned = torch.tensor(rows, dtype=torch.float64).T
    return {
        "isotropic": float(_gain(descent.mean(), square.mean())),
        "isotropic_error": _gain_error(descent, square),
        "curved": float(_gain(descent.mean(), bend.mean())) if bend.mean() > 0 else None,
        "curved_error": _gain_error(descent, bend),
        "curvature": float(bend.mean()),
        "curvature_error": float(bend.std() / math.sqrt(draws)),
        "turned": float(turned.mean()),
    }


def _gain(descent: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
    return descent.clamp_min(0.0) ** 2 / cost


def _gain_error(descent: torch.Tensor, cost: torch.Tensor) -> float | None:
    """Jackknife standard error of the gain; None where a cost with one draw left out is not positive."""
    left = len(descent) - 1
    costs = (cost.sum() - cost) / left
    if not bool((costs > 0).all()):
        return None
    gains = _gain((descent.sum() - descent) / left, costs)
    return float(((gains - gains.mean()) ** 2).sum().mul(left / len(descent)).sqrt())


def _ratio_error(one: Mapping[str, float | None], own: Mapping[str, float | None], key: str) -> float | None:
    """Standard error of the ratio of two gains over draws of their own."""
    ratio, base = one[f"relative_{key}"], own[key]
    errors = one[f"{key}_error"], own[f"{key}_error"]
    if ratio is None or not base or errors[0] is None or errors[1] is None:
        return None
    return math.hypot(errors[0], ratio * errors[1]) / base


def _released(view: View, run: Run, chosen: torch.Tensor) -> torch.Tensor:
    """The mean gradient that the method releases of a batch, shape (d,); 0 where it trains nothing."""
    mechanism = run.optimizer.mechanism
    pieces = released(view, run, mechanism, view.gradients[chosen])
    mechanism.end_step(pieces, run.optimizer.noise_multiplier * view.clip_norm)
    whole = torch.zeros(view.dim, dtype=torch.float64)
    whole[trained_entries(run.model)] = torch.cat([piece.flatten() for piece in pieces]).double() / view.batch_size
    return whole
