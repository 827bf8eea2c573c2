"""How far a backward pass has to go for per-sample gradients."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge


@contextmanager
def trained_outputs(model: nn.Module, counts: Callable[[], bool] = lambda: True) -> Iterator[list[GradientEdge]]:
    """Collect, of a forward pass, the outputs of the layers that have trained parameters.

    Opacus forms per-sample gradients from the gradients of these outputs. A pass back to them alone gives the same numbers, and
    spares the gradients of the parameters, sums over the batch that nobody reads: about a sixth of a step of the small network
    on a CPU.

    Args:
        model: the bare one, whose layers Opacus has hooked.
        counts: whether a pass that is under way is the one; the first may be preceded by passes that compare rows.

    Returns:
        A context with the list that the pass fills; for :func:`torch.autograd.grad`.
    """
    outputs: list[GradientEdge] = []

    def collect(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if counts():
            outputs.append(get_gradient_edge(output))

    hooks = [
        module.register_forward_hook(collect)
        for module in model.modules()
        if any(p.requires_grad for p in module.parameters(recurse=False))
    ]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
