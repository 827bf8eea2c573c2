"""A run at one of its steps, as measurements see it: per-sample gradients of test images at its present weights."""

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch import nn
from torch.func import grad, vmap

from dptheory import _validate
from dptheory.training._streams import simulation
from dptheory.training.data import Images, load, standardised
from dptheory.training.engine import generator_noise
from dptheory.training.measure._gradient import excess_kurtosis, ks_distance
from dptheory.training.mechanisms import (
    Mechanism,
    RankedSparsification,
    Tensors,
    clip_factors,
    layers,
    power_iteration,
)
from dptheory.training.networks import layer_slices, mean_gradient, per_sample_gradients, sample_loss
from dptheory.training.runs import Run, build_model

_CHUNK = 250


def gradients_of(model: nn.Module, images: Images) -> torch.Tensor:
    """Gradient of every image's cross-entropy, flat: shape (n, d)."""
    return per_sample_gradients(model, images.pixels, images.labels, physical_batch_size=_CHUNK)


def module_slices(model: nn.Module) -> dict[str, slice]:
    """Where each layer lies in the flat gradient: its weights and its bias together."""
    found: dict[str, slice] = {}
    for name, place in layer_slices(model).items():
        layer = name.rsplit(".", 1)[0]
        found[layer] = slice(found[layer].start if layer in found else place.start, place.stop)
    return found


def trained_entries(model: nn.Module) -> torch.Tensor:
    """True where an entry of the flat gradient belongs to a layer that is trained, shape (d,)."""
    return torch.cat([torch.full((p.numel(),), p.requires_grad) for p in model.parameters()])


@dataclass
class View:
    """What a measurement may look at. It draws from a generator of its own, and leaves the run as it is.

    Attributes:
        images: test images, of which ``examples`` are the first.
        masks: of the run at the steps where they were collected, flat; True where an entry is kept.
    """

    run: Run
    examples: int
    generator: torch.Generator
    _: KW_ONLY
    masks: list[torch.Tensor] = field(default_factory=list)

    @functools.cached_property
    def model(self) -> nn.Module:
        """A copy of the network without Opacus's hooks."""
        model = build_model(self.run.config.model, features=self.run.test.pixels[0].numel(), seed=0)
        model.load_state_dict(self.run.model.state_dict())
        return model

    @functools.cached_property
    def gradients(self) -> torch.Tensor:
        """Of the first test images, shape (n, d)."""
        return gradients_of(self.model, self.test(0, self.examples))

    @functools.cached_property
    def squares(self) -> torch.Tensor:
        """Squared entries of the gradients."""
        return self.gradients.square()

    @functools.cached_property
    def mean(self) -> torch.Tensor:
        """Mean gradient of the examples, shape (d,), in float64."""
        return self.gradients.double().mean(0)

    @functools.cached_property
    def true(self) -> torch.Tensor:
        """Mean gradient of all test images, shape (d,)."""
        return mean_gradient(self.model, self.run.test.pixels, self.run.test.labels)

    @functools.cached_property
    def layers(self) -> dict[str, slice]:
        """Where each layer lies in the flat gradient."""
        return module_slices(self.model)

    @property
    def dim(self) -> int:
        """d."""
        return sum(p.numel() for p in self.run.model.parameters())

    @property
    def clip_norm(self) -> float:
        """C."""
        return self.run.config.max_grad_norm

    @property
    def sum_noise_std(self) -> float:
        """Of an entry of the noise on the sum: sigma C."""
        return float(self.run.optimizer.noise_multiplier * self.clip_norm)

    @property
    def batch_size(self) -> int:
        """B."""
        return self.run.config.batch_size

    @functools.cached_property
    def trained(self) -> torch.Tensor:
        """True where an entry belongs to a layer that is trained, shape (d,)."""
        return trained_entries(self.run.model)

    @functools.cached_property
    def kept(self) -> torch.Tensor:
        """True where an entry is neither frozen nor masked out before clipping, shape (d,)."""
        kept, mask = self.trained.clone(), self.run.optimizer.mechanism.mask_before_clipping
        if mask:
            kept[self.trained] = torch.cat([m.flatten().cpu() for m in mask])
        return kept

    def test(self, first: int, last: int) -> Images:
        """The test images from one number to another."""
        test = self.run.test
        return Images(test.name, test.pixels[first:last], test.labels[first:last])

    def without_first(self, count: int) -> torch.Tensor:
        """True where an entry does not belong to the first layers, shape (d,)."""
        frozen = {id(p) for layer in layers(self.run.model)[:count] for p in layer.parameters(recurse=False)}
        return torch.cat([torch.full((p.numel(),), id(p) not in frozen) for p in self.run.model.parameters()])

    def norms(self, kept: torch.Tensor) -> torch.Tensor:
        """Norms of the masked gradients: shape (n,), or (n, m) of m masks (d, m)."""
        return (self.squares @ kept.float()).sqrt()

    def clipped_mean(self, kept: torch.Tensor) -> torch.Tensor:
        """Mean of the masked and clipped gradients, shape (d,), or (m, d) of m masks (d, m)."""
        factors = clip_factors(self.norms(kept), self.clip_norm)
        return (factors.t() @ self.gradients) / len(self.gradients) * kept.t()

    def drawn_masks(self, drop_rate: float, count: int) -> torch.Tensor:
        """Uniform masks that keep round((1 - r) d) entries, shape (d, count)."""
        found = torch.zeros(self.dim, count, dtype=torch.bool)
        for column in range(count):
            kept = torch.randperm(self.dim, generator=self.generator)[: round((1 - drop_rate) * self.dim)]
            found[kept, column] = True
        return found

    def noise(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers."""
        return torch.randn(*shape, generator=self.generator)


def angle(a: torch.Tensor, b: torch.Tensor) -> float | None:
    """Between two vectors, in radians; None where one of them is zero."""
    lengths = float(a.double().norm() * b.double().norm())
    if not lengths:
        return None
    return float(torch.acos((a.double() @ b.double() / lengths).clamp(-1.0, 1.0)))


# --- What instruments measure on a run, kind by kind: what masks keep and do, releases, signals of layers, subspaces, inversion


# --- What a mask keeps of the gradient, and how far the sums that ranked freeze ranks stand out of their noise


def captured(view: View) -> dict[str, Any]:
    """Share of the gradient's energy on the entries kept, beside the share of the entries; signal over noise of the ranked sums.

    The energy is that of the clipped mean gradient of the examples, which no mask has touched. ``snr`` is t of
    :func:`dptheory.sparsification.captured_energy`: t^2 = |s|^2 / (d n (sigma C)^2) - 1, or 0 where that is negative, with s the
    sum of what the n steps since the last ranking released. None where nothing is summed, or summed without noise.
    """
    whole = view.clipped_mean(torch.ones(view.dim, dtype=torch.bool)).double().square()
    return {
        "kept_share": float(view.kept.double().mean()),
        "energy": float(whole[view.kept].sum() / whole.sum()) if whole.any() else None,
        "snr": _snr(view),
    }


def _snr(view: View) -> float | None:
    mechanism = view.run.optimizer.mechanism
    if type(mechanism) is not RankedSparsification:  # the one that ranks by true gradients sums no noise
        return None
    if not mechanism.steps_summed:
        return None
    sums = torch.cat([s.flatten() for s in mechanism.state_dict()["sums"]]).double()
    return math.sqrt(max(0.0, float(sums.square().mean()) / (mechanism.steps_summed * view.sum_noise_std**2) - 1.0))


# --- What a mechanism releases against what it has; the entries of the batch gradient against a Gaussian law


def released(view: View, run: Run, mechanism: Mechanism, gradients: torch.Tensor) -> Tensors:
    """What a mechanism releases in a step of a run, of flat per-sample gradients (n, d) in the place of a batch's.

    Clip and noise generator are the view's, the noise multiplier is the run's.
    """
    trained = [p for p in run.model.parameters() if p.requires_grad]
    pieces = torch.split(gradients[:, trained_entries(run.model)], [p.numel() for p in trained], dim=1)
    samples: Tensors = [piece.reshape(-1, *p.shape) for piece, p in zip(pieces, trained, strict=True)]
    mechanism.begin_step([p.detach() for p in trained])
    with simulation():  # numbers of the view's own generator, in its order
        noise = generator_noise(view.generator)
    return mechanism.release(
        mechanism.contribute(samples, view.clip_norm).total,
        noise_multiplier=run.optimizer.noise_multiplier,
        clip_norm=view.clip_norm,
        noise=noise,
    )


def cosines(view: View, draws: int) -> dict[str, Any]:
    """Cosine of the released gradient with the clipped sum that no mask and no noise has touched, over draws of both.

    The batch is the first B examples; a copy of the run's mechanism releases, with a noise of its own.
    """
    gradients = view.gradients[: view.batch_size]
    whole = (clip_factors(gradients.norm(dim=1), view.clip_norm) @ gradients)[view.trained]
    mechanism = copy.deepcopy(view.run.optimizer.mechanism)
    found = []
    for _ in range(draws):
        flat = torch.cat([r.flatten() for r in released(view, view.run, mechanism, gradients)])
        found.append(float(torch.nn.functional.cosine_similarity(flat, whole, dim=0)))
    values = torch.tensor(found, dtype=torch.float64)
    return {
        "cosine": float(values.mean()),
        "standard_error": float(values.std() / math.sqrt(draws)),
        "norm_over_noise": float(whole.norm()) / (view.sum_noise_std * math.sqrt(len(whole))),
    }


ENTRY_EDGES = (-12.0, 12.0)
ENTRY_BINS = 96


def entries(view: View) -> dict[str, Any]:
    """Entries of the clipped batch gradient against N(0, s^2), s their root mean square: KS distance, kurtosis, histogram."""
    clipped = view.clipped_mean(view.kept)[view.kept].double()
    size = float(clipped.square().mean().sqrt())
    scaled = clipped / size
    return {
        "ks_distance": ks_distance(clipped.numpy(), size),
        "excess_kurtosis": excess_kurtosis(clipped.numpy(), size),
        "histogram": torch.histc(scaled, ENTRY_BINS, *ENTRY_EDGES).int().tolist(),
        "outside": int((scaled.abs() > ENTRY_EDGES[1]).sum()),
    }


# --- Signals and angles of layer freezing: unclipped, clipped and private mean gradients, and what freezing does to them


def signals(view: View, draws: int, frozen_layers: int) -> dict[str, Any]:
    """For every layer |s^B|, the angle of s^U and s^B, and that of s^B and s^P (mean over draws of the noise), as the run is.

    ``if_frozen`` has the same at the same weights where the first layers are frozen. s^U, s^B and s^P are the mean gradient of
    the examples, the mean clipped one, and that with noise; null for layers that are not trained.
    """
    return {
        "layers": list(view.layers),
        "as_it_is": _signals(view, view.kept, draws),
        "if_frozen": _signals(view, view.kept & view.without_first(frozen_layers), draws),
    }


def _signals(view: View, kept: torch.Tensor, draws: int) -> dict[str, list[float | None]]:
    unclipped, clipped = view.gradients.mean(0) * kept, view.clipped_mean(kept)
    noise = view.noise(draws, view.dim) * (view.sum_noise_std / view.batch_size) * kept
    found: dict[str, list[float | None]] = {"signal": [], "clipping_angle": [], "noise_angle": []}
    for place in view.layers.values():
        signal, trained = clipped[place], bool(kept[place].any())
        angles = [angle(signal, signal + z[place]) for z in noise] if trained else []
        found["signal"].append(float(signal.norm()) if trained else None)
        found["clipping_angle"].append(angle(unclipped[place], signal) if trained else None)
        found["noise_angle"].append(None if None in angles or not angles else math.fsum(angles) / draws)  # type: ignore[arg-type]
    return found


def noise(view: View) -> dict[str, Any]:
    """Root mean square norms of the noise and of the mean clipped gradient of B independent examples; the dimension."""
    mean = view.clipped_mean(view.kept)
    square = float(view.norms(view.kept).clamp_max(view.clip_norm).square().mean())
    count = _validate.integer("examples", len(view.gradients), 2, 10**9)
    spread = (square - float(mean.square().sum())) * count / (count - 1)
    signal = square - spread  # |E|^2, without bias
    return {
        "dim": view.dim,
        "gradient_norm": math.sqrt(max(0.0, signal) + spread / view.batch_size),
        "noise_norm": math.sqrt(view.dim) * view.sum_noise_std / view.batch_size,
    }


def alignment(view: View) -> dict[str, Any]:
    """Angles to the true gradient of the sum of the gradients above C, and of that of the others; null where there are none."""
    above = view.norms(view.kept) >= view.clip_norm
    return {
        "clipped": int(above.sum()),
        "unclipped": int((~above).sum()),
        "clipped_angle": angle(view.gradients[above].sum(0), view.true),
        "unclipped_angle": angle(view.gradients[~above].sum(0), view.true),
    }


def status(view: View, frozen_layers: int) -> dict[str, Any]:
    """How many gradients are clipped before and after the first layers are frozen, at the same weights.

    Beside it the angles, on the entries that stay, between the sums of the clipped ones before and after, and of the others.
    """
    rest = view.kept & view.without_first(frozen_layers)
    before, after = view.norms(view.kept) >= view.clip_norm, view.norms(rest) >= view.clip_norm
    gradients = view.gradients * rest

    def change(one: torch.Tensor, other: torch.Tensor) -> float | None:
        return angle(gradients[one].sum(0), gradients[other].sum(0))

    return {
        "clipped_before": int(before.sum()),
        "clipped_after": int(after.sum()),
        "changed": int((before != after).sum()),
        "examples": len(before),
        "clipped_turn": change(before, after),
        "unclipped_turn": change(~before, ~after),
    }


# --- Stable rank of per-sample gradients, and what a subspace of anchor gradients leaves of them


def stable_rank(rows: torch.Tensor) -> float:
    """Squared Frobenius norm over the squared spectral norm."""
    gram = (rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows).double()
    return float(gram.diagonal().sum() / torch.linalg.eigvalsh(gram)[-1])


def spectrum(view: View, rows: int) -> dict[str, Any]:
    """Stable rank of the matrix of per-sample gradients, of all entries and layer by layer."""
    found = {"all": stable_rank(view.gradients[:rows])}
    return {"rank": found | {name: stable_rank(view.gradients[:rows, at]) for name, at in view.layers.items()}}


def projection(view: View, dims: list[int], anchors: int, other: str) -> dict[str, Any]:
    """Share |g - B'B g| / |g| of the mean gradient that k basis vectors leave out.

    ``same``: of gradients of further test images with their labels; ``other``: of another data set with random labels;
    ``random``: Gaussian vectors.
    """
    mean = view.gradients.mean(0)
    sources = {
        "same": gradients_of(view.model, view.test(view.examples, view.examples + anchors)),
        "other": _other(view, anchors, other),
        "random": None,
    }
    found: dict[str, list[float]] = {}
    for name, rows in sources.items():
        found[name] = []
        for dim in dims:
            if rows is None:
                basis = torch.linalg.qr(view.noise(view.dim, dim)).Q.T
            else:
                basis = power_iteration(rows, dim=dim, iterations=1, generator=view.generator)
            found[name].append(float((mean - basis.T @ (basis @ mean)).norm() / mean.norm()))
    return {"dims": dims, "error": found}


def residuals(view: View, dim: int, anchors: int, other: str, rows: int) -> dict[str, Any]:
    """Stable rank of the gradients, and of what k basis vectors of another data set's gradients leave of each."""
    basis = power_iteration(_other(view, anchors, other), dim=dim, iterations=1, generator=view.generator)
    gradients = view.gradients[:rows]
    return {"original": stable_rank(gradients), "residual": stable_rank(gradients - (gradients @ basis.T) @ basis)}


def _other(view: View, anchors: int, name: str) -> torch.Tensor:
    images = load(name=name, train=False)
    images = standardised(images) if view.run.config.inputs == "standardised" else images
    labels = torch.randint(10, (anchors,), generator=view.generator)
    return gradients_of(view.model, Images(name, images.pixels[:anchors], labels))


# --- Gradient inversion: an image sought whose masked gradient points where the released one does


def inversion(
    view: View, images: int, drop_rates: list[float], noise_std: float, iterations: int, smoothing: float
) -> dict[str, Any]:
    """Mean squared error of reconstructed pixels in [0, 1], by drop rate; the first entry is without mask and noise.

    The attack knows weights, label and mask, and descends 1 - cos(m grad(x), m (g + z)) + smoothing TV(x) by signs, with a step
    that falls from 0.1, from a random start: "inverting gradients" (Geiping et al., 2020). z has N(0, noise_std^2) entries.
    """
    weights = {name: p.detach() for name, p in view.model.named_parameters()}
    shown, gradient = view.test(0, images), grad(sample_loss(view.model))

    def distance(image: torch.Tensor, label: torch.Tensor, target: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        found = torch.cat([g.flatten() for g in gradient(weights, image, label).values()]) * kept
        variation = image.diff(dim=-1).abs().mean() + image.diff(dim=-2).abs().mean()
        away: torch.Tensor = 1 - found @ target / (found.norm() * target.norm()).clamp_min(1e-30)
        return away + smoothing * variation

    descent = vmap(grad(distance))
    found: dict[str, list[float]] = {"mse": [], "standard_error": []}
    for number, rate in enumerate((0.0, *drop_rates)):
        kept = view.drawn_masks(rate, images).T.float()
        noise = noise_std * view.noise(images, view.dim) if number else 0.0
        target = (view.gradients[:images] + noise) * kept
        guess = view.noise(*shown.pixels.shape)
        for step in range(iterations):
            size = 0.1 * (1.0, 0.1, 0.01)[3 * step // iterations]
            guess = (guess - size * descent(guess, shown.labels, target, kept).sign()).clamp(0.0, 1.0)
        errors = (guess - shown.pixels).square().flatten(1).mean(1).double()
        found["mse"].append(float(errors.mean()))
        found["standard_error"].append(float(errors.std() / images**0.5))
    return {"drop_rates": drop_rates, **found}


LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
EDGES = [round(-5 + 0.1 * i, 1) for i in range(81)]
"""Decimal logarithms of norms between which :func:`norms` counts."""


def norms(view: View) -> dict[str, Any]:
    """Law of the norms of the gradients that the run clips: those of the entries kept."""
    found = view.norms(view.kept).double()
    logs = found.clamp_min(1e-300).log10()
    return {
        "quantiles": torch.quantile(found, torch.tensor(LEVELS, dtype=torch.float64)).tolist(),
        "clipped_share": float((found > view.clip_norm).double().mean()),
        "log10_std": float(logs.std()),
        "histogram": torch.histc(logs.clamp(EDGES[0], EDGES[-1]), len(EDGES) - 1, EDGES[0], EDGES[-1]).int().tolist(),
        "kept": int(view.kept.sum()),
    }


def errors(view: View, drop_rates: list[float], masks: int) -> dict[str, Any]:
    """Signal loss and MSE of the released batch gradient, with and without random masks, over batches drawn from the examples.

    E|w - c|^2 with c = E clip(m g) of the batch mean, that is |w - c|^2 + tr Cov(clip(m g)) / B, over the examples and the drawn
    masks; the MSE has the noise's (1 - r) d (sigma C / B)^2 on top. w is the mean gradient of the examples.
    """
    rates = [0.0, *drop_rates]
    rows = [_error(view, view.drawn_masks(rate, 1 if rate == 0 else masks)) for rate in rates]
    noise = [round((1 - rate) * view.dim) * (view.sum_noise_std / view.batch_size) ** 2 for rate in rates]
    return {"drop_rates": rates, "signal_loss": rows, "mse": [a + b for a, b in zip(rows, noise, strict=True)]}


def _error(view: View, kept: torch.Tensor) -> float:
    lengths = view.norms(kept).clamp_max(view.clip_norm).double()
    centre = view.clipped_mean(kept).double()
    spread = lengths.square().mean(0) - centre.square().sum(1)
    return float(((view.mean - centre).square().sum(1) + spread / view.batch_size).mean())


def relaxed(view: View, drop_rates: list[float], masks: int) -> dict[str, Any]:
    """Norm of the clipped mean gradient on the kept entries, with a mask over without; the mean over drawn masks."""
    whole = view.clipped_mean(torch.ones(view.dim, dtype=torch.bool))
    ratios = []
    for rate in drop_rates:
        kept = view.drawn_masks(rate, masks)
        ratios.append(float((view.clipped_mean(kept).norm(dim=1) / (whole * kept.T).norm(dim=1)).mean()))
    return {"drop_rates": drop_rates, "ratio": ratios}


def deviations(view: View, shown: int, projections: int) -> dict[str, Any]:
    """Deviations of masked per-sample gradients from their mean, in random projections: points of two, skewness of many.

    ``mirror_distance`` compares the deviations themselves with their mirror images: E|x + x'| / E|x - x'| - 1, x and x' from the
    two halves of the examples, and in the denominator from one; 0 for a symmetric law.
    """
    masked = view.gradients * view.kept
    centred = masked - masked.mean(0)
    directions = view.noise(view.dim, projections) / view.dim**0.5
    points = (centred @ directions).double()
    scaled = points / points.std(0)
    half = len(centred) // 2
    one, other = centred[:half], -centred[half : 2 * half]
    within = (torch.cdist(one, one).sum() + torch.cdist(other, other).sum()) / (2 * half * (half - 1))
    return {
        "points": [[float(f"{x:.3g}") for x in pair] for pair in (points[:shown, :2] / points[:, :2].std()).tolist()],
        "skewness_rms": float(scaled.pow(3).mean(0).square().mean().sqrt()),
        "mirror_distance": float((torch.cdist(one, other).mean() - within) / within),
    }


def frozen(view: View) -> dict[str, Any]:
    """Of the masks so far, the present one included: how many entries were out 0, 1, ... times."""
    view.masks.append(view.kept.clone())
    times = torch.stack([~mask for mask in view.masks]).sum(0)
    return {"times": torch.bincount(times, minlength=len(view.masks) + 1).tolist()}


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    one.__name__: one
    for one in (
        norms,
        errors,
        relaxed,
        deviations,
        frozen,
        captured,
        signals,
        noise,
        alignment,
        status,
        cosines,
        entries,
        spectrum,
        projection,
        residuals,
        inversion,
    )
}
"""What can be measured, by the names of the tables [measure.*]."""
