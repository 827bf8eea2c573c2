"""What can be said of each method without statistics: from sizes, noise and budget alone."""

import math
from dataclasses import dataclass

from dptheory.embedding import extra_floats, joint_clip
from dptheory.gradients import DistortionAngle
from dptheory.planning._records import Interval, MethodForecast, Part
from dptheory.planning._schedule import estimated_noise
from dptheory.planning._setup import TrainingSetup
from dptheory.planning._signal import UNKNOWN, Signal, Step
from dptheory.pruning import index_budget
from dptheory.sparsification import communication

RATE = 0.5
"""Of dropping and of keeping, where no statistics tell of a better one."""
GROUP = 256
INDEX_SHARE = 0.01
"""Of the budget, for the choice of entries: GIP's own share."""
RESIDUAL_SHARE = 0.2
ANCHORS = 2
"""Anchor gradients for each dimension of the subspace, as in GEP's experiments."""
NO_BOUND = Interval(lower=0.0, upper=math.inf, claims=("rf.mse_criterion",))


@dataclass(frozen=True)
class Shape:
    """A method at a setting: what it costs and how much noise it adds, whatever the gradients.

    Attributes:
        noise_dim: energy of its noise over (sigma C)^2.
        released: entries of what leaves a step.
        index: how the receiver is told which entries these are.
        index_epsilon: what the choice of entries spends.
    """

    method: str
    parts: tuple[Part, ...]
    noise_dim: float
    released: int
    index: str
    memory: int
    index_epsilon: float
    claims: tuple[str, ...]


def dp_sgd(dim: int) -> Shape:
    return Shape("dp-sgd", (), dim, dim, "none", 0, 0.0, ("rf.eq6",))


def masked(method: str, dim: int, rate: float, *, name: str = "drop_rate") -> Shape:
    """Random or ranked masks, drawn from a seed or from what was released."""
    share = rate if name == "keep_share" else 1.0 - rate
    keep = max(1, round(share * dim))
    source = {"ranked-sparsification": "rf.alg2", "random-k": "rf.posterior"}.get(method, "rf.eq7")
    parts = (Part(name=name, value=rate, claims=(source,)),)
    return Shape(method, parts, keep, keep, "seed", dim if method == "ranked-sparsification" else 0, 0.0, (source,))


def frozen(layer_sizes: tuple[int, ...], layers: int) -> Shape:
    rest = sum(layer_sizes[layers:])
    parts = (Part(name="frozen_layers", value=layers, claims=("lf.freeze_bound",)),)
    return Shape("layer-freezing", parts, rest, rest, "none", 0, 0.0, ("lf.freeze_bound", "lf.privacy"))


def embedded(method: str, dim: int, subspace_dim: int, step: Step, clip_norm: float | None) -> Shape:
    """GEP with joint clipping and the best split, in units of (sigma C)^2; B-GEP releases the embedding alone."""
    parts = [Part(name="subspace_dim", value=subspace_dim, claims=("gep.split",))]
    noise = float(subspace_dim)
    if method == "gep-joint":
        best = joint_clip(dim=dim, subspace_dim=subspace_dim, clip_norm=1.0, residual_share=RESIDUAL_SHARE, mu=1.0)
        noise = best.energy
        size = 1.0 if clip_norm is None else clip_norm
        std = step.noise_multiplier * size
        parts += [
            Part(name=name, value=value, claims=("gep.joint_clip",))
            for name, value in (
                ("residual_clip", RESIDUAL_SHARE * size),
                ("embedding_std", best.embedding_std * std),
                ("residual_std", best.residual_std * std),
            )
        ]
    memory = extra_floats(
        dim=dim, subspace_dim=subspace_dim, anchors=ANCHORS * subspace_dim, gradient_count=step.batch_size
    )
    released = dim if method == "gep-joint" else subspace_dim
    claims = ("gep.joint_clip",) if method == "gep-joint" else ("gep.rem1",)
    return Shape(method, tuple(parts), noise, released, "none", memory, 0.0, claims)


def pruned(setup: TrainingSetup, step: Step, keep_share: float) -> Shape:
    """GIP: top-k in groups, perturbed; its indices take a share of the budget by basic composition."""
    group = min(GROUP, setup.entries)
    keep = min(max(1, round(keep_share * group)), group - 1)
    groups = -(-setup.entries // group)
    epsilon = INDEX_SHARE * setup.epsilon
    bought = index_budget(epsilon=epsilon, dim=group, keep=keep, steps=step.steps, groups=groups)
    kept = round(setup.entries * keep / group)
    parts = (
        Part(name="keep_share", value=keep / group, claims=("gip.alg1",)),
        Part(name="theta", value=bought.theta, claims=("gip.budget",)),
        Part(name="retained_gain", value=bought.retained_gain, claims=("gip.retained_gain",)),
        Part(name="total_variation", value=bought.total_variation, claims=("gip.budget",)),
    )
    return Shape("index-pruning", parts, kept, kept, "bitmap", 0, epsilon, ("gip.eq6", "gip.thm2"))


def shapes(setup: TrainingSetup, step: Step, clip_norm: float | None) -> tuple[Shape, ...]:
    """Every method at the setting for comparison; layer freezing only where layers are known."""
    dim = setup.entries
    subspace = max(1, min(100, dim // 2))
    found = [
        dp_sgd(dim),
        masked("random-sparsification", dim, RATE),
        masked("ranked-sparsification", dim, RATE),
        masked("random-k", dim, RATE, name="keep_share"),
    ]
    if setup.layer_sizes is not None and len(setup.layer_sizes) > 1:
        found.append(frozen(setup.layer_sizes, len(setup.layer_sizes) // 2))
    found += [
        embedded("gep-joint", dim, subspace, step, clip_norm),
        embedded("biased-gep", dim, subspace, step, clip_norm),
        pruned(setup, step, RATE),
    ]
    return tuple(found)


def values_noise(setup: TrainingSetup, shape: Shape, step: Step) -> float:
    """sigma with what the choice of entries leaves of the budget, by basic composition of the two."""
    if shape.index_epsilon == 0.0:
        return step.noise_multiplier
    whole, left = (
        estimated_noise(epsilon, setup.delta, step.sampling_rate, step.steps)
        for epsilon in (setup.epsilon, setup.epsilon - shape.index_epsilon)
    )
    return step.noise_multiplier * left / whole


def forecast_without(setup: TrainingSetup, shape: Shape, step: Step) -> MethodForecast:
    """What holds whatever the gradients are."""
    own = Step(
        batch_size=step.batch_size,
        sampling_rate=step.sampling_rate,
        steps=step.steps,
        noise_multiplier=values_noise(setup, shape, step),
    )
    noise = Signal(alignment=1.0, mean_square=0.0, second_moment=0.0, noise=shape.noise_dim).noise_energy(own)
    sampled = (1.0 - step.sampling_rate) / step.batch_size
    snr = own.batch_size / own.noise_multiplier
    # Noise that is longer in some directions than in others leaves more or less: nothing is said of it.
    even = shape.noise_dim == shape.released
    most = DistortionAngle(shape.released, snr=snr).expected_cos() if even else 1.0
    return MethodForecast(
        method=shape.method,
        parts=shape.parts,
        noise_energy=Interval(lower=noise, upper=noise, claims=shape.claims),
        error=Interval(lower=noise, upper=noise + sampled, claims=(*shape.claims, "rs.lem3.1")),
        cosine=Interval(lower=0.0, upper=most, claims=("lf.angle_law",)),
        descent=_descent(setup, shape, step, own),
        curved_descent=None,
        index_epsilon=shape.index_epsilon,
        memory=shape.memory,
        communication=sent(setup.entries, shape),
        best_rank=0,
        worst_rank=0,
        verdict="",
    )


def sent(dim: int, shape: Shape) -> int:
    """Bytes of one release."""
    if shape.index == "none":
        return 4 * shape.released
    told = communication(dim, shape.released, rounds=1, index="bitmap" if shape.index == "bitmap" else "seed")
    return told.values + told.index


def _descent(setup: TrainingSetup, shape: Shape, step: Step, own: Step) -> Interval:
    if shape.method == "dp-sgd":
        return Interval(lower=1.0, upper=1.0, claims=("rf.mse_criterion",))
    if shape.method == "random-k":
        share = shape.noise_dim / setup.entries
        return Interval(lower=share, upper=share, claims=("rf.posterior", "rf.mse_criterion"))
    if shape.method == "random-sparsification":
        share = shape.noise_dim / setup.entries
        # On the bound: squares of kappa sqrt((A + D) / (A + x D)), kappa in [x, 1], at its corners.
        gains = [_noise_ratio(corner, setup.entries, shape.noise_dim, step) for corner in UNKNOWN]
        return Interval(lower=share**2 * min(gains), upper=max(gains), claims=("rs.tuned", "rs.lem3.3"))
    if shape.method == "index-pruning":
        share = shape.noise_dim / setup.entries
        gain = next(part.value for part in shape.parts if part.name == "retained_gain")
        more = (own.noise_multiplier / step.noise_multiplier) ** 2
        # The share of the energy kept is in [x, x + rho (1 - x)]; what the indices take makes the noise longer.
        kept = share + gain * (1.0 - share)
        return Interval(lower=share / more, upper=kept**2 / share, claims=("gip.retained_gain", "gip.budget"))
    return NO_BOUND


def _noise_ratio(corner: Signal, dim: int, kept: float, step: Step) -> float:
    """(A + D) / (A + x D) with A the second moment of the batch, D the noise on all entries."""
    rest = corner.sampled_square(step)
    unit = (step.noise_multiplier / step.batch_size) ** 2
    return (rest + dim * unit) / (rest + kept * unit)
