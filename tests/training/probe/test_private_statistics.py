"""Statistics of private records: what one record changes, to the last digit, and that the noise is what it is said to be."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from dptheory import privacy
from dptheory.planning import SHARE_PARTS, PrivateStats
from dptheory.training.networks import per_sample_gradients
from dptheory.training.probe import private_statistics, run_private_statistics
from dptheory.training.probe._private_statistics import NORM_EDGES, totals
from dptheory.training.runs import build_model

SIZES, EDGES = (3, 2, 2), np.array(NORM_EDGES)


def records(count: int = 40) -> torch.Tensor:
    """Norms from 1/4 to 8, with the layers in other shares each."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(count, 7, generator=draw) * torch.linspace(-3.0, 2.0, count).exp2()[:, None]


def planted() -> dict[str, list[float]]:
    """Gradients that an attacker would take: of one layer, of no length and of any, at an edge, and such as are no numbers."""
    third = math.sqrt(1 / 3)
    return {
        "one layer": [5.0, 0, 0, 0, 0, 0, 0],
        "alike": [third, 0, 0, third, 0, third, 0],
        "huge": [3e38] * 7,
        "tiny": [1e-45] * 7,
        "at an edge": [0, 0, 0, 2.0, 0, 0, 0],
        "above all edges": [0, 0, 0, 0, 0, 129.0, 0],
        "below all edges": [2.0**-7, 0, 0, 0, 0, 0, 0],
        "nothing": [0.0] * 7,
        "infinite": [math.inf, 1, 1, 1, 1, 1, 1],
        "none": [math.nan, 1, 1, 1, 1, 1, 1],
        "uneven": [0.1, 0.2, 0.3, 1e-4, 7.0, 1e-9, 3.0],
    }


def exact(samples: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    return totals([samples], SIZES, EDGES, len(samples))


def test_one_record_changes_the_totals_by_at_most_one() -> None:
    """Added, removed or replaced by a null record: whole numbers, so nothing is rounded."""
    base, most = exact(records()), 0
    for name, gradient in planted().items():
        more = torch.cat([records(), torch.tensor([gradient])])
        null = torch.cat([records(), torch.zeros(1, 7)])
        found = exact(more)
        for other in (base, exact(null)):
            counted, shared = found[0] - other[0], found[1] - other[1]
            assert (counted**2).sum() <= 1 and (shared**2).sum() <= SHARE_PARTS**2, name
            assert counted.min() >= 0 and shared.min() >= 0 and shared.sum() <= SHARE_PARTS, name
        most += (counted**2).sum() == 1 and (shared**2).sum() >= 0.3 * SHARE_PARTS**2
    assert most >= 5


def test_what_each_record_counts_for() -> None:
    where = {name: exact(torch.tensor([g, g]))[0] for name, g in planted().items()}
    parts = {name: exact(torch.tensor([g, g]))[1] / (2 * SHARE_PARTS) for name, g in planted().items()}
    two = NORM_EDGES.index(2.0)
    for name in ("huge", "infinite", "none", "above all edges"):
        assert where[name].tolist() == [0] * (len(EDGES) - 1) + [2], name
    for name in ("tiny", "nothing", "below all edges"):
        assert where[name].sum() == 0, name
    assert where["at an edge"][two - 1] == 2 == where["at an edge"].sum()
    assert parts["one layer"].tolist() == [1.0, 0.0, 0.0] and parts["alike"] == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert parts["huge"] == pytest.approx([3 / 7, 2 / 7, 2 / 7], abs=1e-6)
    for name in ("nothing", "infinite", "none"):
        assert parts[name].tolist() == [0.0] * 3, name


def test_totals_by_a_loop() -> None:
    counts, parts = np.zeros(len(EDGES)), np.zeros(3)
    for g in records().double().numpy():
        for place, edge in enumerate(EDGES):
            upper = EDGES[place + 1] if place + 1 < len(EDGES) else math.inf
            counts[place] += edge < np.linalg.norm(g) <= upper
        parts += [np.sum(one**2) / np.sum(g**2) for one in np.split(g, [3, 5])]
    for batches in ([records()], list(torch.split(records(), 7))):
        found = totals(batches, SIZES, EDGES, 40)
        assert found[0].tolist() == counts.tolist()
        assert found[1] / SHARE_PARTS == pytest.approx(parts, abs=40 / SHARE_PARTS)


def released(seed: int | None, sigma: float = 3.0, samples: torch.Tensor | None = None) -> PrivateStats:
    rows = records() if samples is None else samples
    return private_statistics(
        [rows],
        name="made",
        data="d",
        network="n",
        num_examples=40,
        layer_sizes=SIZES,
        noise_multiplier=sigma,
        seed=seed,
    )


def vector(stats: PrivateStats) -> np.ndarray:
    return np.array([*stats.norm_counts, *stats.layer_sums])


@pytest.mark.parametrize("seeded", [True, False])
def test_the_noise_is_of_the_stated_scale(seeded: bool) -> None:
    """200 releases of 30 numbers: 6,000 draws show a scale that is 5 % off, at 5 standard errors and more."""
    counts, parts = exact(records())
    truth = np.concatenate([counts, parts / SHARE_PARTS])
    noise = np.array([vector(released(seed if seeded else None)) - truth for seed in range(200)]) / 3.0
    low, high = chi2.ppf([1e-6, 1 - 1e-6], noise.size)
    assert low < (noise**2).sum() < high and high < 1.1 * noise.size and low > 0.9 * noise.size
    per_entry = (noise**2).sum(0)
    assert chi2.ppf(1e-8, 200) < per_entry.min() and per_entry.max() < chi2.ppf(1 - 1e-8, 200)
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    together = np.corrcoef(noise.T) - np.eye(30)
    assert abs(together).max() < 6 / math.sqrt(200)


def test_a_seed_repeats_the_noise_and_nothing_else_does() -> None:
    assert released(1) == released(1) != released(2)
    assert released(None) != released(None) and released(None).secure and not released(1).secure
    other = vector(released(1, samples=records().flip(1))) - vector(released(1))
    assert other[-3:] == pytest.approx(np.round(other[-3:] * SHARE_PARTS) / SHARE_PARTS, abs=1e-9)  # who knows the seed


def test_every_field() -> None:
    found = released(1, sigma=2.5)
    assert (found.name, found.data, found.network, found.num_examples) == ("made", "d", "n", 40)
    assert (found.layer_sizes, found.norm_edges, found.noise_multiplier) == (SIZES, NORM_EDGES, 2.5)
    assert found.release == privacy.Step(noise_multiplier=2.5, sampling_rate=1.0, count=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_examples": 41}, "num_examples must be the number of samples, got 41 and 40 samples"),
        ({"layer_sizes": (3, 2)}, "samples must have the 5 entries of layer_sizes"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a number"),
        ({"norm_edges": (2.0, 1.0)}, "norm_edges must be 1 to 10000 rising numbers"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_input(changes: dict[str, Any], message: str) -> None:
    given = {
        "name": "n",
        "data": "d",
        "network": "n",
        "num_examples": 40,
        "layer_sizes": SIZES,
        "noise_multiplier": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        private_statistics([records()], **(given | changes))
    with pytest.raises(ValueError, match="samples must be"):
        private_statistics([3], **given)  # type: ignore[list-item, arg-type]


def test_statistics_of_images_spend_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """All images, at the weights of the seed; the two releases by themselves keep the share of epsilon, with the least noise."""
    asked: list[Any] = []

    def gradients(network: Any, pixels: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        asked.append(next(network.parameters()).detach().clone())
        return per_sample_gradients(network, pixels[:2], labels[:2]).repeat_interleave(len(pixels) // 2, dim=0)

    monkeypatch.setattr("dptheory.training.probe._private_statistics.per_sample_gradients", gradients)
    given = {"data": "excerpt", "model": "linear-probe", "epsilon": 2.0, "delta": 1e-5, "device": torch.device("cpu")}
    found = run_private_statistics(**given, share=0.25, seed=3)
    spent = privacy.Composition((found.release,)).epsilon(1e-5).upper
    assert 0.5 * (1 - 1e-5) <= spent <= 0.5
    assert (found.name, found.data, found.network) == ("linear-probe/excerpt", "excerpt", "linear-probe")
    assert (found.num_examples, found.layer_sizes, found.secure, len(asked)) == (2000, (7850,), False, 16)
    weights = next(build_model("linear-probe", features=784, seed=3).parameters())
    assert all(torch.equal(one, weights) for one in asked)
    for changes, message in (
        ({"share": 1.0}, "share must be a number"),
        ({"share": 1e-5}, "share must leave the statistics a budget that they can keep"),
        ({"model": "dp-cnn"}, "model must be"),
        ({"data": "imagenet"}, "data must be"),
        ({"epsilon": 0.0}, "epsilon must be a number"),
    ):
        with pytest.raises(ValueError, match=message):
            run_private_statistics(**(given | {"share": 0.25} | changes))
