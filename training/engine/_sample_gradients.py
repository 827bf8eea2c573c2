"""Per-sample gradients as the hooks leave them at the parameters, put together as one batch."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from dptheory.errors import ArgumentError
from dptheory.training.per_example import Formed, PerExampleGradients, Representation, Tensors

_DONE = "_processed"  # Opacus's mark


def of_one_batch(
    params: Tensors,
    names: Mapping[torch.Tensor, str],
    why: str | None = None,
) -> PerExampleGradients:
    """Per-sample gradients of all parameters, with one number of rows; zeros where a layer saw none of the examples.

    ``why`` says why no parameter has any, where that is known.
    """
    parts: list[Representation] = []
    bare = all(getattr(p, "grad_sample", None) is None for p in params)
    for p in params:
        name = names.get(p, "a parameter")
        found = getattr(p, "grad_sample", None)
        if found is None:
            raise ArgumentError.about(name, None, f"{name} has no per-sample gradient: {_cause(p, bare, why)}")
        if isinstance(found, list):
            raise ArgumentError.about(
                name,
                len(found),
                f"{name} has gradients of {len(found)} backward passes: each needs a step() of its own",
            )
        if hasattr(found, _DONE):
            raise ArgumentError.about(
                name,
                None,
                f"{name} has the per-sample gradients of the last step still: call zero_grad() before every backward pass",
            )
        if isinstance(found, Representation) and found.written_to:
            raise ArgumentError(
                "inputs and outputs of layers",
                "stay as they are until step()",
                name,
                got=f"one of the layer of {name} (or its gradient) that was changed in place after backward()",
                then=": per-sample gradients follow from both; write to a copy, or after step()",
            )
        parts.append(_settled(found) if isinstance(found, Representation) else Formed(found))
    # of an empty batch Opacus gives one row of zeros for some layers, none for others
    sizes = [len(one) for one in parts]
    size = max(sizes)
    if not {0, size}.issuperset(sizes):
        raise _of_other_rows({names.get(p, "?"): rows for p, rows in zip(params, sizes, strict=True)})
    return PerExampleGradients(
        [one if rows == size else one.with_rows(size) for one, rows in zip(parts, sizes, strict=True)]
    )


def _settled(found: Representation) -> Representation:
    """What was used as a tensor is that tensor, with what was written to it; anything else is what costs least."""
    return found.settled() if found.looked_at is None else Formed(found.looked_at, computed_in=found.computed_in)


def mark_done(params: Tensors) -> None:
    """Take from the parameters what was used: a copy of the model or a file would hold it; and no step takes it again."""
    for p in params:
        empty: Any = p.new_zeros(0, *p.shape)
        setattr(empty, _DONE, True)
        p.grad_sample = empty  # type: ignore[attr-defined]


def _cause(p: torch.Tensor, bare: bool, why: str | None) -> str:
    if bare:
        return why or "backward() was not called since the last zero_grad(), or not on a loss of the private model"
    if p.grad is not None and p.grad.any():
        return (
            "it is used outside of the layer that holds it, by another layer or a function: call that layer, take "
            "grad_sample_mode='whole network', or freeze it with requires_grad_(False)"
        )
    return (
        "it took no part in the forward pass: use it in the model, or freeze it with requires_grad_(False); unfreeze it "
        "before a forward pass, and call backward() without inputs="
    )


def _of_other_rows(rows: Mapping[str, int]) -> ArgumentError:
    """What to say where layers see different numbers of rows: the first layer with a number that few others have."""
    usual = Counter(count for count in rows.values() if count).most_common(1)[0][0]
    name, found = next((name, count) for name, count in rows.items() if count not in (0, usual))
    folded = (
        "frames, tokens or views are folded into the batch on one side: call the layer once for each of them (calls add up), or keep "
        "them in a dimension behind the examples"
    )
    partly = "a layer that sees some of the examples only must see all; multiply by zero what it is not to see"
    first = "examples stand first (batch_first=True, positions expanded to the batch)"
    whole = "or take grad_sample_mode='whole network'"
    if found == 1:
        remedy = "one row stands for all examples there (position embeddings, prompts): expand it to the batch before the layer"
    elif found % usual == 0:
        remedy = f"{folded}, {whole}"
    else:
        remedy = f"{partly}; or {folded}; {whole}" if usual % found == 0 else f"{first}; {partly}; {whole}"
    return ArgumentError(
        "per-sample gradients",
        "come from one batch, a row for each example",
        found,
        got=f"{found} at {name} and {usual} at most others",
        then=f": {remedy}",
    )
