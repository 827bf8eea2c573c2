"""The validation run: train, and compare at the start, in the middle and at the end."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dptheory import _validate, embedding, freezing, gradients, sparsification
from dptheory._arrays import Array
from dptheory._progress import spoken_bar
from dptheory.errors import ArgumentError
from dptheory.training._streams import simulation
from dptheory.training.data import NAMES, Images, load
from dptheory.training.engine import generator_noise
from dptheory.training.measure._gradient import measure_gradient
from dptheory.training.measure._linear_attack import attack_errors, constraint_vector
from dptheory.training.measure._rows import NONE, Labels, MeasureSettings, Moment, Result, Row, ValidateSettings
from dptheory.training.measure._snapshot import Snapshot, prepare, snapshots
from dptheory.training.mechanisms import (
    AnchorSource,
    BiasedGep,
    Constant,
    DpSgd,
    Gep,
    GepJoint,
    GepOptimal,
    Mechanism,
    RandomSparsification,
    Tensors,
    clip_factors,
    clipped_sum,
    draw_mask,
    largest_entries,
    power_iteration,
    sample_norms,
)
from dptheory.training.networks import IMAGE_SHAPE
from dptheory.training.runs import accuracy

DATA = tuple(name for name in NAMES if name != "cifar-10")  # the network takes 1 x 28 x 28 images


def validate(data: str, settings: ValidateSettings, device: torch.device) -> Result:
    """Run the validation on a data set: train, and compare at the start, in the middle and at the end.

    Args:
        data: "excerpt", "fashion-mnist" or "mnist".
        settings: see :class:`ValidateSettings`.
        device: where to train and to compute gradients; they are compared on the CPU.

    Returns:
        Predictions beside measurements, each row with the ids of the claims that it rests on.

    Raises:
        OSError: the data files are missing and cannot be fetched.
    """
    _validate.choice("data", data, DATA)
    return validate_images(load(name=data, train=True), load(name=data, train=False), settings, device)


def validate_images(train: Images, test: Images, settings: ValidateSettings, device: torch.device) -> Result:
    """:func:`validate` for given images; the auxiliary images are test images.

    Args:
        train, test: images of shape 1 x 28 x 28.
        settings: see :class:`ValidateSettings`.
        device: where to train and to compute gradients; they are compared on the CPU.

    Returns:
        Predictions beside measurements, each row with the ids of the claims that it rests on.

    Raises:
        ValueError: images of another shape than 1 x 28 x 28, or too few for the settings.
    """
    for images in (train, test):
        if tuple(images.pixels.shape[1:]) != IMAGE_SHAPE:
            raise ArgumentError("images", f"have the shape {IMAGE_SHAPE}", tuple(images.pixels.shape[1:]))
    trainer = prepare(train, test.pixels, settings, device)
    with spoken_bar() as progress:
        training = progress.add_task("training", total=settings.training.steps)
        taken = snapshots(trainer, settings, lambda: progress.advance(training))
        measuring = progress.add_task("measuring", total=len(taken))
        moments = []
        for number, snapshot in enumerate(taken):
            with simulation():  # measured bit for bit again
                moments.append(_moment(snapshot, settings, settings.stream(number)))
            progress.advance(measuring)
    trainer.synchronize()
    return Result(
        data=train.name,
        train_images=len(train),
        test_images=len(test),
        settings=settings,
        moments=tuple(moments),
        accuracy=accuracy(trainer.plain, test, device),
    )


def _moment(snapshot: Snapshot, settings: ValidateSettings, seed: int) -> Moment:
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    kappas, notes = kappa_rows(snapshot, settings, generator)
    rows = [
        *mse_rows(snapshot, settings, generator),
        *clipping_rows(snapshot, settings),
        *kappas,
        *pruning_rows(snapshot, settings, rng),
        *ranking_rows(snapshot, settings, generator),
        *angle_rows(snapshot, settings, generator),
        *projection_rows(snapshot, settings, generator),
        *embedding_rows(snapshot, settings, generator),
        *attack_rows(snapshot, settings, rng),
    ]
    return Moment(name=snapshot.name, step=snapshot.step, batch_size=len(snapshot.batch), rows=tuple(rows), notes=notes)


# --- Predicted against measured on a snapshot of a run, subject by subject: the rows of a validation


# --- What clipping keeps of the true gradient, and kappa, the share of that which a random mask keeps


SYMMETRIC = "rs.lem3.2: deviations symmetric"
ISOTROPIC_DEVIATIONS = "rs.kappa: deviations N(0, s^2 I)"
MANY_ENTRIES = "rs.mask_is_clip: gradients sit in many entries"
DESCENT = "rs.lem3.3: the lower bounds are the descents"
_SPLITS = (0.75, 0.25)  # of RS and of RF
_MASKS = 200


def clips(snapshot: Snapshot, settings: ValidateSettings) -> dict[str, float]:
    """The clip of the run, and one of twice the median deviation: the bounds say nothing where deviations exceed the clip."""
    norms = np.linalg.norm(snapshot.pool.numpy() - snapshot.pool_mean, axis=1)
    return {"C": settings.clip_norm, "C' = 2 median": 2.0 * float(np.median(norms))}


def clipping_rows(snapshot: Snapshot, settings: ValidateSettings) -> list[Row]:
    """E<w, clip(g)> over the pool against its lower bounds, which need the deviations g - w to be symmetric; w is their mean.

    The rows "symmetrised" take w + xi and w - xi for every measured xi, and so need nothing.
    """
    true, pool = snapshot.pool_mean, snapshot.pool.numpy().astype(np.float64)
    norms, size = np.linalg.norm(pool - true, axis=1), float(np.linalg.norm(true))
    labels = Labels(group="clipping", claims="rs.lem3.2, rf.eq70")
    rows = []
    for clip_name, clip_norm in clips(snapshot, settings).items():
        kept = float((gradients.clip(pool, clip_norm=clip_norm) @ true).mean())
        mirrored = float((gradients.clip(2.0 * true - pool, clip_norm=clip_norm) @ true).mean())
        bounds = {
            z: gradients.symmetric_clip_lower_bound(
                grad_norm=size, clip_norm=clip_norm, deviation_norms=norms, deviation_share=z
            )
            for z in _SPLITS
        }
        named = {"integral": bounds[_SPLITS[0]].integral} | {f"split {z:g}": bound.split for z, bound in bounds.items()}
        for name, value in named.items():
            setting = f"{name}, {clip_name}"
            rows += [
                labels.fixed("descent, symmetrised", setting, value, (kept + mirrored) / 2, relation="at least"),
                labels.fixed("descent", setting, value, kept, SYMMETRIC, "at least"),
            ]
    return rows


def kappa_rows(
    snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator
) -> tuple[list[Row], tuple[str, ...]]:
    """kappa with measured deviations, by calculator and by definition, and with Gaussian ones; what is missing, and why."""
    true, pool = snapshot.pool_mean, snapshot.pool.numpy().astype(np.float64)
    rate, deviations = whole_rate(settings.drop_rate, true.size), pool - true
    masks = np.array(
        [draw_mask([torch.from_numpy(true)], rate, generator)[0].numpy() for _ in range(_MASKS)], np.float64
    )
    sizes, kept = masks @ true**2, masks @ (deviations**2).T
    seed = int(torch.randint(2**31, (), generator=generator))
    labels, clipped = (
        Labels(group="kappa", claims="rs.lem3.3, rs.kappa"),
        Labels(group="kappa", claims="rs.mask_is_clip"),
    )
    rows, notes = [], []
    for name, clip_norm in clips(snapshot, settings).items():
        setting = f"rate {rate:.3g}, {name}"
        descents = _descents(snapshot, masks, clip_norm)
        bounds = sparsification.masked_descent(pool, clip_norm=clip_norm, drop_rate=rate)
        rows += [
            clipped.mean("exact kappa, lower bound", setting, bounds.lower, descents, relation="at least"),
            clipped.mean("exact kappa, upper bound", setting, bounds.upper, descents, relation="at most"),
            clipped.mean("exact kappa, larger clip", setting, bounds.larger_clip, descents, MANY_ENTRIES),
        ]
        below = float((np.linalg.norm(deviations, axis=1) < _SPLITS[0] * clip_norm).mean())
        if below == 0.0:
            notes.append(
                f"kappa at {name} is undefined: no deviation of {len(pool)} is shorter than {_SPLITS[0]:g} {name}"
            )
            continue
        samples = _definition(float(np.linalg.norm(true)), sizes, kept, clip_norm) / below
        measured = sparsification.kappa(true, clip_norm=clip_norm, drop_rate=rate, deviation=deviations, seed=seed)
        gaussian = sparsification.kappa(
            true, clip_norm=clip_norm, drop_rate=rate, deviation=deviation(snapshot), seed=seed
        )
        # both ends are exact; the value has an error where it comes from a bracket, and where masks were drawn for it
        rows += [
            labels.mean("kappa", setting, measured.value, samples, error=measured.error),
            labels.mean("kappa, lower end", setting, measured.lower, samples, relation="at least"),
            labels.mean("kappa, upper end", setting, measured.upper, samples, relation="at most"),
            labels.mean("descent ratio", setting, measured.value, descents, DESCENT, error=measured.error),
        ]
        if np.isfinite(gaussian.value):
            rows.append(
                labels.mean("kappa", setting, gaussian.value, samples, ISOTROPIC_DEVIATIONS, error=gaussian.error)
            )
        else:
            notes.append(f"kappa at {name} for Gaussian deviations exceeds the largest float")
    return rows, tuple(notes)


def _definition(size: float, kept_squares: Array, deviation_squares: Array, clip_norm: float) -> Array:
    """P'_m f(|m * w|^2) / f(|w|^2) for each mask, f(X) = min(X, c sqrt X) with c = (1 - z) C."""
    room, kept = (1.0 - _SPLITS[0]) * clip_norm, np.sqrt(kept_squares)
    below = (deviation_squares < (_SPLITS[0] * clip_norm) ** 2).mean(axis=1)
    return np.asarray(below * np.minimum(kept, room) * kept / (min(size, room) * size))


def _descents(snapshot: Snapshot, masks: Array, clip_norm: float) -> Array:
    """<w, mean clip(m * g)> / <w, mean clip(g)> over the pool, for each of some masks."""
    true = torch.from_numpy(snapshot.pool_mean)
    whole = float(clipped_sum([snapshot.pool], clip_norm).total[0].double() @ true)
    return np.array(
        [
            float(clipped_sum([snapshot.pool], clip_norm, mask=[torch.from_numpy(m).float()]).total[0].double() @ true)
            / whole
            for m in masks[:20]
        ]
    )


# --- Angles between true, clipped and private gradient, before and after the first half of the layers is frozen


POSITIVE = "lf.lem3.2b: inner products of the gradients >= 0"
TURN = "lf.prop3.1.1: what freezing adds lies on the true gradient's side"
ALIGNED = "lf.prop3.1.3: alignment unchanged by freezing"
_MOST_SAMPLES = 1024  # signal_growth looks at all pairs


@dataclass(frozen=True)
class _Part:
    """A part of the network under one clipping: ``signal`` is its part of the batch's clipped sum."""

    name: str
    true: Array
    signal: torch.Tensor


def angle_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Laws of the angles over the noise, given the batch: no assumption; what freezing does to them."""
    first = trainable_from(snapshot.layers)
    whole = clipped_sum([snapshot.batch], settings.clip_norm).total[0]
    after = clipped_sum([snapshot.batch[:, first:]], settings.clip_norm).total[0]
    parts = (
        _Part("all layers", snapshot.true, whole),
        _Part("trainable, before", snapshot.true[first:], whole[first:]),
        _Part("trainable, after", snapshot.true[first:], after),
    )
    rows = [row for part in parts for row in _noise_rows(part, settings, generator)]
    return rows + _freezing_rows(snapshot, first, parts[1], parts[2], settings)


def trainable_from(layers: dict[str, slice]) -> int:
    """First entry of the second half of the layers; a layer is what has one name before its last dot."""
    names = list(dict.fromkeys(name.rpartition(".")[0] for name in layers))
    return min(int(part.start) for name, part in layers.items() if name.startswith(names[len(names) // 2] + "."))


def _noise_rows(part: _Part, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    signal, sigma = part.signal.double(), settings.training.noise_multiplier
    noise, mechanism = generator_noise(generator), DpSgd()
    released = torch.stack(
        [
            mechanism.release([signal], noise_multiplier=sigma, clip_norm=settings.clip_norm, noise=noise)[0]
            for _ in range(settings.draws)
        ]
    ).numpy()
    lengths = np.linalg.norm(released, axis=1)
    size, true_size = float(signal.norm()), float(np.linalg.norm(part.true))
    noise_cos = released @ signal.numpy() / (lengths * size)
    cos = released @ part.true / (lengths * true_size)
    bias = freezing.bias_angle(direction=part.true, signal=signal.numpy())
    law = gradients.DistortionAngle(signal.numel(), snr=size / settings.sum_noise_std)
    labels = Labels(group="angles", claims="lf.def3.2, lf.angle_law")
    return [
        labels.mean("cos gamma_BP", part.name, law.expected_cos(), noise_cos),
        labels.mean("gamma_BP", part.name, law.mean(), _angles(noise_cos)),
        labels.mean(
            "cos gamma", part.name, gradients.batch_expected_cos(cos_bias=np.cos(bias), dim=law.dim, snr=law.snr), cos
        ),
        labels.mean("gamma", part.name, freezing.expected_angle(law.dim, snr=law.snr, bias_angle=bias), _angles(cos)),
    ]


def _angles(cosines: Array) -> Array:
    """Of cosines that rounding may have put just outside [-1, 1]."""
    return np.asarray(np.arccos(np.clip(cosines, -1, 1)))


def _freezing_rows(
    snapshot: Snapshot, first: int, before: _Part, after: _Part, settings: ValidateSettings
) -> list[Row]:
    frozen, kept = (sample_norms([part]) for part in (snapshot.batch[:, :first], snapshot.batch[:, first:]))
    clipped_before = kept * clip_factors(torch.hypot(frozen, kept), settings.clip_norm)
    clipped_after = kept * clip_factors(kept, settings.clip_norm)
    ratios = clipped_after[kept > 0] / clipped_before[kept > 0]
    growth = freezing.norm_growth(
        trainable_norms=kept.double().numpy(), frozen_norms=frozen.double().numpy(), clip_norm=settings.clip_norm
    )
    sizes = [part.stop - part.start for part in snapshot.layers.values()]
    norms = torch.stack([snapshot.batch[:, part].norm(dim=1) for part in snapshot.layers.values()], dim=1)
    frozen_count = sum(part.stop <= first for part in snapshot.layers.values())
    old, new = (float(part.signal.double().norm()) for part in (before, after))
    count = len(snapshot.batch)
    effect = freezing.freezing_effect(
        sizes,
        layer_norms=norms.double().numpy(),
        frozen_layers=frozen_count,
        clip_norm=settings.clip_norm,
        noise_multiplier=settings.training.noise_multiplier,
        batch_size=count,
        alignment=min(1.0, old / float(clipped_before.double().sum())),
    )
    samples, rest = snapshot.batch[:_MOST_SAMPLES, first:].double().numpy(), frozen[:_MOST_SAMPLES].double().numpy()
    sure = freezing.signal_growth(samples, frozen_norms=rest, clip_norm=settings.clip_norm)
    turn = freezing.bias_turn(direction=before.true, signal=before.signal.double().numpy(), added=_added(before, after))
    bias_before, bias_after = (
        freezing.bias_angle(direction=p.true, signal=p.signal.double().numpy()) for p in (before, after)
    )
    lemma, turning = (
        Labels(group="freezing", claims="lf.lem3.2a, lf.lem3.2b"),
        Labels(group="freezing", claims="lf.prop3.1.1"),
    )
    noise = Labels(group="freezing", claims="lf.prop3.1.3")
    return [
        lemma.fixed(
            "mean clipped norm",
            "after",
            float((clipped_before.double().numpy() * growth).mean()),
            float(clipped_after.double().mean()),
        ),
        lemma.fixed("norm growth", "least", 1.0, float(ratios.min()), relation="at least"),
        lemma.fixed(
            "|signal| after / before",
            "grows",
            1.0,
            sure.after / sure.before,
            NONE if sure.lower >= 1.0 else POSITIVE,
            "at least",
        ),
        turning.fixed(
            "gamma_B", "falls", bias_before, bias_after, NONE if turn.limit >= 1.0 else TURN, relation="at most"
        ),
        noise.fixed("signal-to-noise", "before", effect.before.snr, old / settings.sum_noise_std),
        noise.fixed("signal-to-noise", "after", effect.after.snr, new / settings.sum_noise_std, ALIGNED),
    ]


def _added(before: _Part, after: _Part) -> Array:
    """What freezing adds to the signal; the signal itself where it adds nothing, which turns it as little."""
    added = (after.signal.double() - before.signal.double()).numpy()
    return np.asarray(added) if added.any() else before.signal.double().numpy()


# --- What pruning loses of a clipped batch gradient, and what a ranking of noisy sums finds of it


RANKED = "rf.ranked: Gaussian entries"
CONSTANT = "rf.ranked: Gaussian entries, the same signal in the next step"


def pruning_rows(snapshot: Snapshot, settings: ValidateSettings, rng: np.random.Generator) -> list[Row]:
    """All that :func:`measure_gradient` compares on the clipped sum of the step's batch."""
    gradient = clipped_sum([snapshot.batch], settings.clip_norm).total[0].numpy()
    measuring = MeasureSettings(
        settings.keep_shares,
        draws=settings.draws,
        noise_multiplier=settings.training.noise_multiplier,
        max_grad_norm=settings.clip_norm,
    )
    return list(measure_gradient(gradient, measuring, rng))


def ranking_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Share of the signal's energy on the entries that are largest in the noisy sum of ``window`` steps.

    The signal is that sum itself, or the clipped sum of the step after it; the noise of the sum is drawn many times.
    """
    summed = snapshot.window_sum
    std = settings.sum_noise_std * settings.window**0.5
    snr = float(summed.double().square().mean().sqrt()) / std
    noise = generator_noise(generator)
    noisy = [summed + noise(summed, std) for _ in range(settings.draws)]
    labels = Labels(group="ranking", claims="rf.ranked")
    rows = []
    for ratio in settings.keep_shares:
        keep = round(ratio * summed.numel())  # 1 at least: pruning refuses other ratios
        predicted = sparsification.captured_energy(summed.numel(), keep, snr=snr)
        masks = [largest_entries([values], 1.0 - keep / summed.numel())[0] for values in noisy]
        for quantity, signal, assumption in (
            ("captured_energy", summed, RANKED),
            ("captured_energy_next", snapshot.next_sum, CONSTANT),
        ):
            energy = signal.double().square()
            shares = [float(energy[mask].sum() / energy.sum()) for mask in masks]
            rows.append(labels.mean(quantity, f"keep {ratio:g}", predicted, shares, assumption))
    return rows


# --- GEP: what its subspace captures, and the error of its variants


INDEPENDENT = "gep.jl: basis uniformly random"
RESIDUAL_SHARE = 0.2  # residual clip over clip
_BASES = 20
_VARIANTS: dict[str, Callable[..., Gep | GepOptimal | GepJoint | BiasedGep]] = {
    "published": Gep,
    "optimal": GepOptimal,
    "joint": GepJoint,
    "embedding_only": BiasedGep,
}


@dataclasses.dataclass(frozen=True)
class _Given(AnchorSource):
    """Anchor gradients that are there already."""

    gradients: torch.Tensor

    def __call__(self) -> Tensors:
        return [self.gradients]


def projection_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Root mean square of |residual| / |gradient| over the batch: sqrt(1 - k/p) for a random basis, less for GEP's."""
    norms = snapshot.batch.norm(dim=1, keepdim=True)
    units = (snapshot.batch / norms)[norms[:, 0] > 0]
    dim, most = units.shape[1], max(settings.subspace_dims)
    captured = np.empty((_BASES, len(settings.subspace_dims)))
    for i in range(_BASES):
        basis = _random_basis(dim, most, generator)
        energy = (units @ basis.T).double().square().mean(0).cumsum(0).numpy()
        captured[i] = energy[np.array(settings.subspace_dims) - 1]
    labels = Labels(group="projection", claims="gep.jl")
    rows = []
    for k, shares in zip(settings.subspace_dims, captured.T, strict=True):
        error = embedding.random_basis_error(dim=dim, subspace_dim=k)
        found = power_iteration(snapshot.anchors, dim=k, iterations=1, generator=generator)
        measured = float((1.0 - (units @ found.T).double().square().sum(1).mean()).sqrt())
        rows += [
            labels.mean("captured, random basis", f"k = {k}", 1.0 - error**2, shares),
            labels.mean("error, random basis", f"k = {k}", error, np.sqrt(1.0 - shares)),
            labels.fixed("error, GEP's basis", f"k = {k}", error, measured, INDEPENDENT),
        ]
    return rows


def _random_basis(dim: int, rows: int, generator: torch.Generator) -> torch.Tensor:
    """Uniformly random orthonormal rows, each first few of them too; by Cholesky, many times faster than QR."""
    normal = torch.randn(rows, dim, generator=generator)
    lower = torch.linalg.cholesky(normal @ normal.T)
    basis: torch.Tensor = torch.linalg.solve_triangular(lower, normal, upper=False)
    return basis


def embedding_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Noise energy and squared error of the released sum of the batch, for the four variants; the residual clip is C / 5."""
    k = sorted(settings.subspace_dims)[len(settings.subspace_dims) // 2]
    dim, sigma = snapshot.true.size, settings.training.noise_multiplier
    noise, parameter = generator_noise(generator), torch.zeros(dim)
    true_sum = snapshot.batch.double().sum(0)
    labels = Labels(group="embedding", claims="gep.versus, gep.rem1")
    rows = []
    for name, variant in _VARIANTS.items():
        mechanism = variant(
            _Given(snapshot.anchors),
            subspace_dim=k,
            residual_clip=RESIDUAL_SHARE * settings.clip_norm,
            groups=[[0]],
            seed=settings.training.seed,
        )
        mechanism.begin_step([parameter])
        total = mechanism.contribute([snapshot.batch], settings.clip_norm).total
        (clean,) = mechanism.release(total, noise_multiplier=0.0, clip_norm=settings.clip_norm, noise=noise)
        energies, errors = [], []
        for _ in range(settings.draws):
            (released,) = mechanism.release(total, noise_multiplier=sigma, clip_norm=settings.clip_norm, noise=noise)
            energies.append(float((released - clean).double().square().sum()))
            errors.append(float((released.double() - true_sum).square().sum()))
        energy, error = _predicted_embedding(name, snapshot, mechanism.bases[0], settings)
        rows += [
            labels.mean("noise energy", f"{name}, k = {k}", energy, energies),
            labels.mean("mse", f"{name}, k = {k}", error, errors),
        ]
    return rows


def _predicted_embedding(
    name: str, snapshot: Snapshot, basis: torch.Tensor, settings: ValidateSettings
) -> tuple[float, float]:
    """Noise energy and squared error: the noise, the lost residual and the squared clipping bias."""
    gradients, rows = snapshot.batch.double(), basis.double()
    w = gradients @ rows.T
    r = gradients - w @ rows
    clip, residual_clip, mu = (
        settings.clip_norm,
        RESIDUAL_SHARE * settings.clip_norm,
        1.0 / settings.training.noise_multiplier,
    )
    noise = embedding.gep_mse(
        dim=gradients.shape[1], subspace_dim=len(rows), clip_norm=clip, residual_clip=residual_clip, mu=mu
    )
    lossy = embedding.gep_mse(
        dim=gradients.shape[1],
        subspace_dim=len(rows),
        clip_norm=clip,
        residual_clip=residual_clip,
        mu=mu,
        residual_norm=float(r.sum(0).norm()),
    )
    if name == "joint":
        bias = embedding.joint_clipping_bias(
            w.numpy(), residuals=r.numpy(), clip_norm=clip, residual_share=RESIDUAL_SHARE
        ).square
    else:
        apart = embedding.clipping_bias(
            w.numpy(), residuals=r.numpy(), embedding_clip=clip, residual_clip=residual_clip
        )
        # B-GEP has no residual to clip
        bias = float(np.square(apart.embedding).sum()) if name == "embedding_only" else apart.square
    return float(getattr(noise, name)), float(getattr(lossy, name)) + bias


# --- The least-squares attack on the gradient of the network's last layer


RATE = 0.8  # a mask then hides about one feature in ten


def attack_rows(snapshot: Snapshot, settings: ValidateSettings, rng: np.random.Generator) -> list[Row]:
    """Inputs of the last layer, read from its masked, noisy gradient for one example; the noise is that of DP-SGD's sum.

    The gradient is an outer product of the scores' derivatives and the inputs, exactly; error and share of hidden inputs are
    averages over masks and noise.
    """
    head = snapshot.head
    rate = 1.0 - round((1.0 - RATE) * head.weights.size) / head.weights.size
    keep = round((1.0 - rate) * head.weights.size)
    predicted = sparsification.expected_error(constraint_vector(head), drop_rate=rate, noise_std=settings.sum_noise_std)
    errors, hidden = [], []
    for _ in range(20 * settings.draws):
        squares = attack_errors(rng, head, keep, settings.sum_noise_std)
        hidden.append(np.isnan(squares).mean())
        errors.append(np.nan_to_num(squares, nan=0.0).mean())
    labels, setting = Labels(group="attack", claims="rs.thm5.1"), f"rate {rate:.3g}"
    outer = np.outer(head.outputs, head.pixels)
    seen = 1.0 - predicted.lost_probability
    return [
        labels.fixed("|gradient|^2", "last layer", float(np.square(outer).sum()), float((head.weights * outer).sum())),
        labels.mean("error where not hidden", setting, seen * predicted.given_recoverable, errors),
        labels.mean("share hidden", setting, predicted.lost_probability, hidden),
    ]


ISOTROPIC = "rf.eq6: deviations N(0, s^2 I)"
FLAT = "rf.eq7: deviations N(0, s^2 I), true gradient flat"


@dataclass(frozen=True)
class _Drawn:
    """One entry a draw of batch, mask and noise."""

    signal_loss: Array
    noise: Array
    mse: Array
    law: Array  # signal loss expected over the batches, given the mask
    masked_norm: Array  # of the true gradient
    clipped_share: Array  # of the pool, given the mask


def mse_rows(snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> list[Row]:
    """Batches of examples drawn from the pool, run through the mechanisms; w is the mean gradient of the pool.

    Rows without assumption: noise energy d (sigma C / B)^2, of a mask (1 - r) times that; signal loss
    |w - c|^2 + tr Cov(clip(g)) / B with c = E clip(g), both over the pool, g masked where there is a mask.
    """
    drop_rate = whole_rate(settings.drop_rate, snapshot.true.size)
    full = _drawn(DpSgd(), snapshot, settings, generator)
    seed = int(torch.randint(2**31, (), generator=generator))
    masked = _drawn(RandomSparsification(Constant(drop_rate), seed), snapshot, settings, generator)
    gaussian, flat = (_predicted(snapshot, settings, drop_rate, norms) for norms in (masked.masked_norm, None))
    labels = Labels(group="mse", claims="rf.eq6, rf.eq7")
    rows = []
    for setting, drawn, error in (
        ("DP-SGD", full, gaussian.full),
        (f"freeze {drop_rate:.3g}", masked, gaussian.masked),
    ):
        rows += [
            labels.mean("noise_energy", setting, error.noise, drawn.noise),
            labels.mean("signal_loss", setting, drawn.law, drawn.signal_loss),
            labels.mean("mse", setting, drawn.law + error.noise, drawn.mse),
            labels.mean("signal_loss", setting, error.signal_loss, drawn.signal_loss, ISOTROPIC),
            labels.mean("mse", setting, error.mse, drawn.mse, ISOTROPIC),
            labels.fixed("clipped_share", setting, error.clip_probability, drawn.clipped_share.mean(), ISOTROPIC),
        ]
    error = flat.masked
    return [*rows, labels.mean("signal_loss", f"freeze {drop_rate:.3g}", error.signal_loss, masked.signal_loss, FLAT)]


def whole_rate(drop_rate: float, dim: int) -> float:
    """The rate next to ``drop_rate`` that drops a whole number of entries, and neither none nor all."""
    return 1.0 - min(max(round((1.0 - drop_rate) * dim), 1), dim - 1) / dim


def deviation(snapshot: Snapshot) -> float:
    """s: root mean square entry of an example's gradient less their mean, over the pool."""
    return float(np.sqrt(np.mean((snapshot.pool.numpy() - snapshot.pool_mean) ** 2)))


def _predicted(
    snapshot: Snapshot, settings: ValidateSettings, drop_rate: float, masked_norms: Array | None
) -> gradients.MseBreakdown:
    return gradients.clipped_gradient_mse(
        grad_norm=float(np.linalg.norm(snapshot.pool_mean)),
        dim=snapshot.true.size,
        deviation=deviation(snapshot),
        clip_norm=settings.clip_norm,
        noise_multiplier=settings.training.noise_multiplier,
        batch_size=settings.training.batch_size,
        drop_rate=drop_rate,
        masked_norms=masked_norms,
    )


def _drawn(mechanism: Mechanism, snapshot: Snapshot, settings: ValidateSettings, generator: torch.Generator) -> _Drawn:
    size, noise = settings.training.batch_size, generator_noise(generator)
    true = torch.from_numpy(snapshot.pool_mean)
    norms_squared = snapshot.pool.double().square()
    columns = []
    for _ in range(settings.draws):
        mechanism.begin_step([true])
        chosen = torch.randint(len(snapshot.pool), (size,), generator=generator)
        (total,) = mechanism.contribute([snapshot.pool[chosen]], settings.clip_norm).total
        (released,) = mechanism.release(
            [total], noise_multiplier=settings.training.noise_multiplier, clip_norm=settings.clip_norm, noise=noise
        )
        mask = (
            mechanism.mask[0]
            if isinstance(mechanism, RandomSparsification)
            else torch.ones_like(true, dtype=torch.bool)
        )
        law, clipped = _law(snapshot, true, norms_squared @ mask.double(), mask, settings)
        columns.append(
            (
                float((true - total / size).square().sum()),
                float(((released - total).double() / size).square().sum()),
                float((true - released / size).square().sum()),
                law,
                float((true * mask).norm()),
                clipped,
            )
        )
    return _Drawn(*np.array(columns).T)


def _law(
    snapshot: Snapshot, true: torch.Tensor, norms_squared: torch.Tensor, mask: torch.Tensor, settings: ValidateSettings
) -> tuple[float, float]:
    """Expected signal loss of a batch drawn from the pool with replacement, and the share of the pool that is clipped."""
    norms = norms_squared.sqrt()
    factors = (settings.clip_norm / norms.clamp_min(1e-300)).clamp_max(1.0)
    centre = (factors.float() @ snapshot.pool).double() / len(norms) * mask
    spread = float((factors * norms).square().mean() - centre.square().sum())
    bias = float((true - centre).square().sum())
    return bias + spread / settings.training.batch_size, float((norms > settings.clip_norm).double().mean())
