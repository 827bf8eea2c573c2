"""A call that fails leaves the model as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def restored_after_errors(module: nn.Module) -> Iterator[None]:
    """Give the module and its parameters back the attributes, hooks and flags that they had, if the block fails."""
    modules = [
        (m, type(m), dict(vars(m)), {k: dict(v) for k, v in vars(m).items() if isinstance(v, dict)})
        for m in module.modules()
    ]
    parameters = [(p, dict(vars(p)), p.requires_grad, p.grad) for p in module.parameters()]
    try:
        yield
    except BaseException:
        for m, kind, attributes, tables in modules:
            m.__class__ = kind
            vars(m).clear()
            vars(m).update(attributes)
            for name, table in tables.items():
                vars(m)[name].clear()
                vars(m)[name].update(table)
        for p, attributes, trained, gradient in parameters:
            vars(p).clear()
            vars(p).update(attributes)
            p.requires_grad_(trained)
            p.grad = gradient
        raise
