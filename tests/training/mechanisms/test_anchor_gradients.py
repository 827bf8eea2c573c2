"""Anchor gradients: of which parameters, with which labels, and what is no set of images."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from dptheory.training._streams import simulation
from dptheory.training.mechanisms import AnchorGradients
from tests.refused import refused

PIXELS = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))


def test_gradients_of_the_trainable_parameters_for_random_labels() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5))
    model[0].weight.requires_grad_(False)
    with simulation():  # where the seed alone makes the labels
        anchors = AnchorGradients(model, PIXELS, classes=5, seed=11, chunk=2)
    generator = torch.Generator().manual_seed(11)
    for _ in range(2):  # labels are drawn afresh at every call
        labels = torch.randint(5, (7,), generator=generator)
        found = anchors()
        assert [tuple(g.shape) for g in found] == [(7, 4), (7, 5, 4), (7, 5)]
        for i in range(7):
            model.zero_grad()
            nn.functional.cross_entropy(model(PIXELS[i : i + 1]), labels[i : i + 1]).backward()
            for g, p in zip(found, [p for p in model.parameters() if p.requires_grad], strict=True):
                torch.testing.assert_close(g[i], p.grad, rtol=1e-4, atol=1e-6)
        with torch.no_grad():
            model[2].weight += 1.0  # the present weights count


def test_dropout_draws_for_every_image() -> None:
    """In training mode; in ``eval()`` it does nothing."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 5))
    ones, labels = torch.ones(64, 3), torch.zeros(64, dtype=torch.int64)
    weights = AnchorGradients(model, ones, classes=5, seed=11, labels=labels, chunk=20)()[0]
    assert len(weights[:, 0].ne(0).unique(dim=0)) > 4  # of 8 ways to drop three features
    still = AnchorGradients(model.eval(), ones, classes=5, seed=11, labels=labels)()[0]
    assert torch.equal(still, still[:1].expand_as(still))


def test_given_labels_stay() -> None:
    model, labels = nn.Linear(3, 5), torch.tensor([4, 0, 1, 2, 3, 4, 4])
    anchors = AnchorGradients(model, PIXELS, classes=5, seed=11, labels=labels)
    for _ in range(2):
        found = anchors()
        for i in range(7):
            model.zero_grad()
            nn.functional.cross_entropy(model(PIXELS[i : i + 1]), labels[i : i + 1]).backward()
            torch.testing.assert_close(found[1][i], model.bias.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "labels", [[0] * 7, torch.zeros(6, dtype=torch.int64), torch.zeros(7), torch.full((7,), 5), torch.full((7,), -1)]
)
def test_what_are_no_labels(labels: object) -> None:
    with refused("labels", "7", "0..4"):
        AnchorGradients(nn.Linear(3, 5), PIXELS, classes=5, seed=0, labels=labels)


@pytest.mark.parametrize("simulated", [False, True])
def test_a_resumed_simulation_alone_draws_the_same_labels(simulated: bool) -> None:
    model, pixels = nn.Linear(3, 5), torch.ones(40, 3)
    with simulation() if simulated else nullcontext():
        first, again = (AnchorGradients(model, pixels, classes=5, seed=seed) for seed in (11, 12))
    first()
    again.load_state_dict(first.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(first(), again(), strict=True)) == simulated


@pytest.mark.parametrize("pixels", [None, [[1.0, 2.0]], torch.zeros(3), torch.zeros(0, 3)])
def test_what_is_no_set_of_images(pixels: object) -> None:
    with refused("pixels"):
        AnchorGradients(nn.Linear(3, 5), pixels, classes=5, seed=0)
