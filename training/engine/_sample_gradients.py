"""Per-example gradients as a backward pass leaves them at the parameters, put together as one batch."""

from collections.abc import Mapping
from typing import Any

import torch

from dptheory.training.per_example import Formed, PerExampleGradients, Representation, Tensors

_DONE = "_processed"  # Opacus's mark


def of_one_batch(params: Tensors, names: Mapping[torch.Tensor, str]) -> PerExampleGradients:
    """The gradients of all parameters, with one number of rows; zeros where a layer saw none of the examples.

    Args:
        params: the trained parameters.
        names: of the parameters, for errors.

    Raises:
        ValueError: no gradients, or such as are not of one backward pass over one batch.
    """
    parts = []
    for p in params:
        name = names.get(p, "a parameter")
        found = getattr(p, "grad_sample", None)
        if found is None:
            raise ValueError(
                f"{name} has no per-sample gradient: it took no part in the forward pass, or backward() was not called; "
                f"use it in the model, or freeze it with requires_grad_(False); unfreeze it before a forward pass"
            )
        if isinstance(found, list):
            raise ValueError(f"{name} has gradients of {len(found)} backward passes: each needs a step() of its own")
        if hasattr(found, _DONE):
            raise ValueError(
                f"{name} has the per-sample gradient of the last step still: call zero_grad() before every backward pass"
            )
        parts.append(found if isinstance(found, Representation) else Formed(found))
    # of an empty batch Opacus gives one row of zeros for some layers, none for others
    size = max(len(one) for one in parts)
    if any(len(one) not in (0, size) for one in parts):
        sizes = {names.get(p, "?"): len(one) for p, one in zip(params, parts, strict=True)}
        raise ValueError(
            f"per-sample gradients must come from one batch, got {sizes} samples; a layer that sees some of the examples "
            "only cannot be matched with them: hand it all, and multiply by zero what it is not to see"
        )
    return PerExampleGradients([_with_rows(one, size) for one in parts])


def mark_done(params: Tensors) -> None:
    """Note that these gradients are in the totals, so that no step takes them again."""
    for p in params:
        found: Any = p.grad_sample  # type: ignore[attr-defined]
        setattr(found, _DONE, True)


def _with_rows(one: Representation, size: int) -> Representation:
    if len(one) == size:
        return one
    return Formed(torch.zeros(size, *one.shape[1:], dtype=one.dtype, device=one.formed().device))
