"""What one step of each method is worth at the weights of a DP-SGD run: the forecast that accuracies are held against."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

import torch

from dptheory.training.instrument._releases import released
from dptheory.training.instrument._view import View, trained_entries
from dptheory.training.networks import loss_hessian
from dptheory.training.runs import Run, from_dict, prepare, ratio_of_gains


def forecast(view: View, methods: Mapping[str, Mapping[str, Any]], draws: int, curved: int) -> dict[str, Any]:
    """max(0, E<w, g>)^2 / E|g|^2 and max(0, E<w, g>)^2 / E[g'Hg] of what each method releases, relative to the run's own.

    w is the mean gradient of the examples; g the mean gradient that the method releases of a batch of them, with its masks and
    its noise; H the Hessian of the mean loss of the first ``curved`` of them. The first is the gain of a step at the best rate
    where the curvature is the same in all directions, the second where it is what it is; null where E[g'Hg] is not positive.
    ``turned`` is the mean cosine of g and w.

    A draw puts the examples in a random order and cuts them into batches for E<w, g>: which examples a batch holds, the largest
    part of its spread, then cancels within a draw. E|g|^2, E[g'Hg] and ``turned`` are of one more batch per draw, whose examples
    are drawn with replacement, as that spread is a part of them. Standard errors
    are by the jackknife over the draws, with what squaring a descent adds; null where E[g'Hg] is not positive with every draw
    left out.
    """
    run, found = view.run, dict[str, dict[str, float | None]]()
    for name, changes in {"dp-sgd": {}, **methods}.items():
        found[name] = _worth(view, _with(run, changes), draws, curved)
    own = found["dp-sgd"]
    for one in found.values():
        for key in ("isotropic", "curved"):
            one[f"relative_{key}"], one[f"relative_{key}_error"] = ratio_of_gains(one, own, key)
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
        descents = [float(view.mean @ _released(view, run, batch)) for batch in _batches(view)]
        g = _released(view, run, torch.randint(len(view.gradients), (view.batch_size,), generator=view.generator))
        cosine = float(torch.nn.functional.cosine_similarity(view.mean, g, dim=0))
        rows.append((statistics.fmean(descents), float(g @ g), float(g @ hessian(g).double()), cosine))
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
    """Standard error of the gain; None where a cost with one draw left out is not positive.

    The jackknife sees what is linear in the error s of the mean descent; its square has a variance of 2 s^4 besides, which
    counts where the descent is hardly told apart from 0.
    """
    left = len(descent) - 1
    costs = (cost.sum() - cost) / left
    if not bool((costs > 0).all()):
        return None
    gains = _gain((descent.sum() - descent) / left, costs)
    linear = ((gains - gains.mean()) ** 2).sum().mul(left / len(descent)).sqrt()
    return math.hypot(float(linear), math.sqrt(2.0) * float(descent.var() / len(descent) / cost.mean()))


def _batches(view: View) -> tuple[torch.Tensor, ...]:
    """The examples in a random order, cut into batches: as many whole ones as there are.

    One, of examples that come again, where a batch is larger than all of them.
    """
    count, size = len(view.gradients), view.batch_size
    order = torch.cat([torch.randperm(count, generator=view.generator) for _ in range(math.ceil(size / count))])
    return torch.split(order[: len(order) // size * size], size)


def _released(view: View, run: Run, chosen: torch.Tensor) -> torch.Tensor:
    """The mean gradient that the method releases of a batch, shape (d,); 0 where it trains nothing."""
    mechanism = run.optimizer.mechanism
    pieces = released(view, run, mechanism, view.gradients[chosen])
    mechanism.end_step(pieces, run.optimizer.noise_multiplier * view.clip_norm)
    whole = torch.zeros(view.dim, dtype=torch.float64)
    whole[trained_entries(run.model)] = torch.cat([piece.flatten() for piece in pieces]).double() / view.batch_size
    return whole
