"""The audit's layers: gradients that are known apart from all hooks."""

import numpy as np
import pytest
import torch

from dptheory.training.audits import _suite
from dptheory.training.audits._layers import Layers, on_layers

PLAN = _suite.plan(0)
MADE = on_layers(PLAN)
UNIT = 2.0**-24


def test_the_gradients_have_the_norms_of_the_plan() -> None:
    """Inputs are rounded to single precision."""
    assert MADE.inputs is not None and MADE.rows.shape == (len(PLAN.rows), sum(MADE.sizes))
    np.testing.assert_allclose(np.linalg.norm(MADE.rows, axis=1), np.linalg.norm(PLAN.rows, axis=1), rtol=4 * UNIT)
    assert MADE.sizes == tuple(weight.numel() for weight in Layers().parameters())


def test_the_gradients_are_those_of_the_layers() -> None:
    """Of the dense layers by their formula, of the bias of the convolution and of the words by counting."""
    assert MADE.inputs is not None
    taken = np.split(MADE.inputs, np.cumsum([6, 24, 32, 3, 8, 18, 27]), axis=1)
    a, sequence, _, tokens, b, of_sequence, of_kernel, of_words = taken
    n = len(a)
    found = np.split(MADE.rows, np.cumsum(MADE.sizes)[:-1], axis=1)
    words = np.zeros((n, 7, 4))
    for i in range(n):
        np.add.at(words[i], tokens[i].astype(int), of_words[i].reshape(3, 4))
    wanted = {
        0: np.einsum("no,ni->noi", b, a),
        1: b,
        2: np.einsum("nto,nti->noi", of_sequence.reshape(n, 3, 6), sequence.reshape(n, 3, 8)),
        3: of_sequence.reshape(n, 3, 6).sum(1),
        5: of_kernel.reshape(n, 3, 9).sum(2),
        6: words,
    }
    for place, rows in wanted.items():
        size = np.abs(rows).max(axis=tuple(range(1, rows.ndim)))[:, None]
        assert (
            np.abs(found[place] - rows.reshape(n, -1)) <= 2**5 * 2.0**-52 * size
        ).all()  # sums of at most nine terms
    assert len(found) == 7 and found[4].all()


def test_an_example_of_zeros_has_no_gradient() -> None:
    """As in the neighbour in which one is zeroed."""
    changed = MADE.changed(np.zeros_like)
    assert changed.inputs is not None and not changed.rows.any()
    model = Layers()
    model(torch.from_numpy(changed.inputs).float()).sum().backward()
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_biases_weigh_in_the_norm(share: float) -> None:
    """A norm without them would be seen: they have more than a fiftieth of the square of every gradient, and half of none."""
    squares = np.square(MADE.rows)
    bounds = np.cumsum([0, *MADE.sizes])
    biases = sum(squares[:, bounds[place] : bounds[place + 1]].sum(1) for place in (1, 3, 5)) / squares.sum(1)
    assert (biases > share).all() == (share < 0.1)
