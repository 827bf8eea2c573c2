"""Statistics of private records for a plan: two Gaussian releases at starting weights, and nothing else.

What a release costs is proved in proofs/planning/private_statistics.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._rounding import rounded_up
from dptheory.planning import SHARE_PARTS, STATISTICS_RELEASES, PrivateStats
from dptheory.privacy import Composition, least_noise_multiplier
from dptheory.training import _argument_ranges
from dptheory.training._randomness import own_generator, secure_normal
from dptheory.training.data import load, standardised
from dptheory.training.networks import per_sample_gradients
from dptheory.training.probe._statistics import CLIPS, FITTING, LEVELS, layer_sizes_of
from dptheory.training.runs import build_model

NORM_EDGES = tuple(2.0 ** (i / 2) for i in range(-12, 15))
"""From 1/64 to 128, a factor of sqrt(2) between two: fixed beforehand, as edges that follow the records would be a release."""
_LEVELS = LEVELS[:-1]
_PHYSICAL = 128
_NOISE_STREAM = 4


def private_statistics(
    samples: Iterable[torch.Tensor],
    *,
    name: str,
    data: str,
    network: str,
    num_examples: int,
    layer_sizes: Sequence[int],
    noise_multiplier: float,
    norm_edges: Sequence[float] = NORM_EDGES,
    seed: int | None = None,
) -> PrivateStats:
    """Release what a plan can use of the gradients of private records, with Gaussian noise.

    Released once are the number of records with a norm in each bin, and the sum over the records of each layer's share of the
    squared norm. One record more or less changes one count by 1, and the sums by at most 1 in norm; a record without a gradient
    counts nowhere. The weights must not have seen the records, or be released by a private training that is accounted for too. No
    gradient of a record makes an error: one that is not finite counts in the last bin, and has no shares.

    Args:
        samples: gradients of all records, some at a time, shape (n, d) each, in the order of the parameters.
        name, data, network: what the file says of them.
        num_examples: N, which is public, 2..1e9.
        layer_sizes: parameters of each layer, from the input on; their sum is d.
        noise_multiplier: of both releases, in [1e-6, 1e6]; ``stats.release`` is what they cost.
        norm_edges: of the bins, rising, chosen without a look at the records.
        seed: of the noise, 0..2^63 - 1: good for tests, and nothing is protected from who knows it; None for noise of the
            operating system's cryptographic generator.

    Returns:
        The noisy statistics.

    Raises:
        ValueError: an argument outside its range, or samples that are not N records of d entries.

    Source: new, on GIP, Lemma 1 (gip.lem1).

    Example: 1,000 gradients of norm 2, all in the first of two layers.
        >>> import torch
        >>> from dptheory.training.probe import private_statistics
        >>> samples = torch.tensor([2.0, 0.0, 0.0]).expand(1000, 3)
        >>> found = private_statistics([samples], name="made", data="made", network="made", num_examples=1000,
        ...     layer_sizes=[2, 1], noise_multiplier=5.0, norm_edges=(1.0, 3.0))
        >>> found.clip_probability(1.0).lower > 0.9, found.clip_probability(3.0).upper < 0.1, found.layer_shares()[0].lower > 0.9
        (True, True, True)
    """
    nothing = PrivateStats(  # which checks all that was given
        name=name,
        data=data,
        network=network,
        num_examples=num_examples,
        layer_sizes=tuple(_validate.integers("layer_sizes", layer_sizes, 1, 10**9)),
        norm_edges=norm_edges,  # type: ignore[arg-type]
        norm_counts=np.zeros_like(_validate.bounded("norm_edges", norm_edges)),  # type: ignore[arg-type]
        layer_sums=(0.0,) * len(layer_sizes),
        noise_multiplier=noise_multiplier,
        secure=seed is None,
    )
    noise = _noise(len(nothing.norm_edges) + len(nothing.layer_sizes), seed) * nothing.noise_multiplier
    counts, parts = totals(samples, nothing.layer_sizes, np.array(nothing.norm_edges), nothing.num_examples)
    noisy = np.concatenate([counts, parts / SHARE_PARTS]) + noise
    return replace(
        nothing, norm_counts=tuple(noisy[: counts.size].tolist()), layer_sums=tuple(noisy[counts.size :].tolist())
    )


def totals(
    samples: Iterable[torch.Tensor], sizes: Sequence[int], edges: NDArray[np.float64], records: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What noise is added to, in whole numbers: records per bin, and parts of their shares per layer. Secret.

    Raises:
        ValueError: as :func:`private_statistics`.
    """
    counts, parts, seen = np.zeros(edges.size, np.int64), np.zeros(len(sizes), np.int64), 0
    for some in samples:
        _validate.instance("samples", some, torch.Tensor)
        if some.ndim != 2 or some.shape[1] != sum(sizes):
            raise ValueError(
                f"samples must have the {sum(sizes)} entries of layer_sizes, shape (n, d), got {tuple(some.shape)}"
            )
        squares = torch.stack(
            [part.double().square().sum(1) for part in torch.split(some.detach(), list(sizes), dim=1)], dim=1
        )
        energies = squares.cpu().numpy()
        whole = energies.sum(1)
        places = np.searchsorted(edges, np.sqrt(whole))  # what is no number is sorted behind every edge
        counts += np.bincount(places, minlength=edges.size + 1)[1:]
        there = np.isfinite(whole) & (whole > 0.0)
        # rounded down, so that the parts of a record are SHARE_PARTS or less together
        parts += np.floor(energies[there] / whole[there, None] * SHARE_PARTS).astype(np.int64).sum(0)
        seen += len(some)
    if seen != records:
        raise ValueError(f"num_examples must be the number of samples, got {records} and {seen} samples")
    return counts, parts


def _noise(count: int, seed: int | None) -> NDArray[np.float64]:
    """Standard normal numbers; of a seed from a stream of their own."""
    if seed is None:
        drawn = secure_normal(count)
    else:
        stream = np.random.SeedSequence((_argument_ranges.seed("seed", seed), _NOISE_STREAM))
        generator = own_generator(int(stream.generate_state(1, np.uint64)[0]) >> 1)
        drawn = torch.randn(count, generator=generator, dtype=torch.float64)
    return np.asarray(drawn.numpy(), dtype=np.float64)


def run_private_statistics(
    *,
    data: str,
    model: str = "small-cnn",
    epsilon: float,
    delta: float,
    share: float,
    seed: int | None = None,
    device: torch.device,
) -> PrivateStats:
    """Release statistics of the training images, taken as private, at the network's starting weights.

    By themselves the two releases are (share * epsilon, delta)-private. With a training they compose:
    :func:`dptheory.plan` takes the noise of a training that keeps epsilon together with them.

    Args:
        data: "excerpt", "fashion-mnist", "mnist" or "cifar-10"; all training images count, standardised as a run takes them.
        model: as for :func:`run_statistics`.
        epsilon: budget of training and statistics together, in [1e-3, 1e6].
        delta: of the budget, in [1e-15, 0.1].
        share: of epsilon that the statistics may spend, in [1e-6, 1).
        seed: of starting weights and noise, as for :func:`private_statistics`; None for the weights of seed 0, and secure noise.
        device: where gradients are computed.

    Returns:
        The noisy statistics.

    Raises:
        ValueError: an argument outside its range, or a share that no noise multiplier up to 1000 keeps.
        OSError: the data files are missing and cannot be fetched.

    Source: new, on GIP, Lemma 1 (gip.lem1).
    """
    _validate.choice("data", data, tuple(FITTING))
    _validate.choice("model", model, FITTING[data])
    epsilon = _argument_ranges.epsilon("epsilon", epsilon)
    share = _validate.real("share", share, 1e-6, 1.0, ends="[)")
    start = 0 if seed is None else _argument_ranges.seed("seed", seed)
    try:
        sigma = least_noise_multiplier(
            epsilon=share * epsilon, delta=delta, sampling_rate=1.0, steps=STATISTICS_RELEASES
        )
    except ValueError as error:
        raise ValueError(
            f"share must leave the statistics a budget that they can keep, got {share!r}: {error}"
        ) from None
    images = standardised(load(name=data, train=True))
    network = build_model(model, features=images.pixels[0].numel(), seed=start).to(device)
    batches = zip(torch.split(images.pixels, _PHYSICAL), torch.split(images.labels, _PHYSICAL), strict=True)
    return private_statistics(
        (per_sample_gradients(network, some.to(device), their.to(device)) for some, their in batches),
        name=f"{model}/{data}",
        data=data,
        network=model,
        num_examples=len(images),
        layer_sizes=layer_sizes_of(network),
        noise_multiplier=sigma,
        seed=seed,
    )


def private_lines(stats: PrivateStats, *, delta: float) -> list[str]:
    """What was released, in words.

    Args:
        stats: the release.
        delta: at which its epsilon is told, in [1e-30, 0.99].

    Returns:
        Lines to print.

    Raises:
        ValueError: ``delta`` outside its range, or ``stats`` of another kind.

    Source: new, on GIP, Lemma 1 (gip.lem1).

    Example: a release of little noise.
        >>> from dptheory.planning import PrivateStats
        >>> from dptheory.training.probe import private_lines
        >>> stats = PrivateStats(name="made", data="made", network="made", num_examples=300, layer_sizes=(6, 2),
        ...     norm_edges=(1.0, 2.0), norm_counts=(100.0, 100.0), layer_sums=(225.0, 75.0), noise_multiplier=4.0, secure=True)
        >>> print(private_lines(stats, delta=1e-5)[0])
        made: 300 private records at starting weights; epsilon = 1.36 spent at delta = 1e-05.
    """
    _validate.instance("stats", stats, PrivateStats)
    spent = Composition((stats.release,)).epsilon(delta).upper
    step = stats.release
    shorter = ", ".join(f"{level:g}: {stats.norm_quantile(level)}" for level in _LEVELS)
    longer = ", ".join(f"{clip:g}: {stats.clip_probability(clip)}" for clip in CLIPS)
    shares = ", ".join(str(one) for one in stats.layer_shares())
    lines = [
        f"{stats.name}: {stats.num_examples:,} private records at starting weights; epsilon = {rounded_up(spent)} spent at "
        f"delta = {delta:g}.",
        f"Step(noise_multiplier={step.noise_multiplier:.6g}, sampling_rate=1, count={step.count}) composes with the training; "
        "dptheory plan --stats does it.",
        f"Norms that a share of the records does not exceed: {shorter}.",
        f"Share of the records whose gradient is longer than a clip: {longer}.",
        f"Share of each layer in the squared norms, from the input on: {shares}.",
        "All intervals hold together with 95 %, over the noise. Nothing else of the records was measured.",
    ]
    if not stats.secure:
        lines.append("Simulation: seeded. The noise protects nothing from who knows the seed.")
    return lines
