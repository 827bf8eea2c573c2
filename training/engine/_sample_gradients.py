"""Per-sample gradients as Opacus leaves them at the parameters, put together as one batch."""

from collections.abc import Callable, Mapping

import torch
from opacus.optimizers.optimizer import _check_processed_flag

from dptheory.training.mechanisms import Tensors


def of_one_batch(
    params: Tensors, names: Mapping[torch.Tensor, str], flat: Callable[[torch.Tensor], torch.Tensor]
) -> Tensors:
    """Per-sample gradients of all parameters, with one number of rows; zeros where a layer saw none of the examples.

    Args:
        params: the trained parameters.
        names: of the parameters, for errors.
        flat: Opacus's reading of the gradients at a parameter.

    Raises:
        ValueError: no gradients, or such as are not of one backward pass over one batch.
    """
    samples = []
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
        _check_processed_flag(found)
        samples.append(flat(p))
    size = max(
        len(s) for s in samples
    )  # of an empty batch Opacus gives one row of zeros for some layers, none for others
    if any(len(s) not in (0, size) for s in samples):
        sizes = {names.get(p, "?"): len(s) for p, s in zip(params, samples, strict=True)}
        raise ValueError(
            f"per-sample gradients must come from one batch, got {sizes} samples; a layer that sees some of the examples "
            "only cannot be matched with them: hand it all, and multiply by zero what it is not to see"
        )
    return [s if len(s) == size else s.new_zeros(size, *s.shape[1:]) for s in samples]
