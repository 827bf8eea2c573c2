"""Per-sample gradients as the hooks leave them at the parameters, put together as one batch."""

from collections import Counter
from collections.abc import Callable, Mapping

import torch
from opacus.optimizers.optimizer import _check_processed_flag

from dptheory.training.mechanisms import Tensors


def of_one_batch(
    params: Tensors,
    names: Mapping[torch.Tensor, str],
    flat: Callable[[torch.Tensor], torch.Tensor],
    why: str | None = None,
) -> Tensors:
    """Per-sample gradients of all parameters, with one number of rows; zeros where a layer saw none of the examples.

    Args:
        params: the trained parameters.
        names: of the parameters, for errors.
        flat: Opacus's reading of the gradients at a parameter.
        why: no parameter has gradients, where that is known.

    Raises:
        ValueError: no gradients, or such as are not of one backward pass over one batch.
    """
    samples = []
    bare = all(getattr(p, "grad_sample", None) is None for p in params)
    for p in params:
        name = names.get(p, "a parameter")
        found = getattr(p, "grad_sample", None)
        if found is None:
            raise ValueError(f"{name} has no per-sample gradient: {_cause(p, bare, why)}")
        if isinstance(found, list):
            raise ValueError(f"{name} has gradients of {len(found)} backward passes: each needs a step() of its own")
        _check_processed_flag(found)
        samples.append(flat(p))
    size = max(
        len(s) for s in samples
    )  # of an empty batch Opacus gives one row of zeros for some layers, none for others
    if any(len(s) not in (0, size) for s in samples):
        raise ValueError(_of_other_rows({names.get(p, "?"): len(s) for p, s in zip(params, samples, strict=True)}))
    return [s if len(s) == size else s.new_zeros(size, *s.shape[1:]) for s in samples]


def _cause(p: torch.Tensor, bare: bool, why: str | None) -> str:
    if bare:
        return why or "backward() was not called since the last zero_grad(), or not on a loss of the private model"
    if p.grad is not None and p.grad.any():
        return (
            "it is used outside of the layer that holds it, by another layer or a function: call that layer, or freeze it "
            "with requires_grad_(False)"
        )
    return (
        "it took no part in the forward pass: use it in the model, or freeze it with requires_grad_(False); unfreeze it "
        "before a forward pass"
    )


def _of_other_rows(rows: Mapping[str, int]) -> str:
    """What to say where layers see different numbers of rows: the first layer with a number that few others have."""
    usual = Counter(count for count in rows.values() if count).most_common(1)[0][0]
    name, found = next((name, count) for name, count in rows.items() if count not in (0, usual))
    said = f"per-sample gradients must come from one batch, a row for each example, got {found} at {name} and {usual} at most others: "
    folded = (
        "frames, tokens or views are folded into the batch on one side: call the layer once for each of them (calls add up), or keep "
        "them in a dimension behind the examples"
    )
    partly = "a layer that sees some of the examples only must see all; multiply by zero what it is not to see"
    first = "examples stand first (batch_first=True, positions expanded to the batch)"
    if found == 1:
        return f"{said}one row stands for all examples there (position embeddings, prompts): expand it to the batch before the layer"
    if found % usual == 0:
        return said + folded
    return f"{said}{partly}; or {folded}" if usual % found == 0 else f"{said}{first}; {partly}"
