"""A training on the layers whose gradients are kept as factors: dense ones with their biases, a convolution, an embedding.

The loss is an inner product of outputs and numbers that come with the example, so that gradients do not depend on the weights. What
they are is found apart from all hooks: for one example after the other, in double precision, by torch alone.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from dptheory.training.audits._board import Array, Board, Plan

_TOKENS, _WORDS = 3, 7
_TAKEN = ((6,), (3, 8), (2, 4, 4), (_TOKENS,))
_GIVEN = ((8,), (3, 6), (3, 3, 3), (_TOKENS, 4))
"""Shapes of what each layer takes in and gives out."""


class Layers(Board):
    """A dense layer, one on a sequence, a convolution and an embedding, each on inputs of its own.

    A row holds what the layers take in, one after the other, then the numbers that their outputs are multiplied by.
    """

    def __init__(self, sizes: tuple[int, ...] = ()) -> None:
        nn.Module.__init__(self)
        self.parts = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 6), nn.Conv2d(2, 3, 2), nn.Embedding(_WORDS, 4)])
        for weight in self.parameters():
            nn.init.zeros_(weight)
        self.sizes = [weight.numel() for weight in self.parameters()]

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        pieces = torch.split(rows, [int(np.prod(shape)) for shape in (*_TAKEN, *_GIVEN)], dim=1)
        shaped = [piece.reshape(len(rows), *shape) for piece, shape in zip(pieces, (*_TAKEN, *_GIVEN), strict=True)]
        taken = [*shaped[:3], shaped[3].long()]
        outputs = [layer(one) for layer, one in zip(self.parts, taken, strict=True)]
        products = [(out * by).flatten(1).sum(1) for out, by in zip(outputs, shaped[4:], strict=True)]
        return torch.stack(products).sum(0)


def on_layers(plan: Plan) -> Plan:
    """The same training, on layers: as many examples, whose gradients have the same norms."""
    rng = np.random.default_rng(plan.seed)
    numbers = [rng.normal(size=(len(plan.rows), *shape)) for shape in _TAKEN[:3]]
    numbers.append(rng.integers(0, _WORDS, size=(len(plan.rows), *_TAKEN[3])).astype(float))
    taken, given = (
        np.concatenate([one.reshape(len(one), -1) for one in parts], axis=1)
        for parts in (numbers, [rng.normal(size=(len(plan.rows), *shape)) for shape in _GIVEN])
    )
    norms = np.linalg.norm(plan.rows, axis=1) / np.linalg.norm(_gradients(np.hstack([taken, given])), axis=1)
    inputs = np.hstack([taken, given * norms[:, None]]).astype(np.float32).astype(float)  # as the model gets them
    return replace(plan, rows=_gradients(inputs), inputs=inputs, sizes=tuple(Layers().sizes), board=Layers)


def _gradients(inputs: Array) -> Array:
    """Of one example at a time."""
    model = Layers().double()
    found = []
    for row in torch.from_numpy(inputs):
        gradients = torch.autograd.grad(model(row[None]).sum(), list(model.parameters()))
        found.append(torch.cat([one.flatten() for one in gradients]).numpy())
    return np.stack(found)
