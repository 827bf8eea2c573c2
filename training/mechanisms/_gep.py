"""Gradient embedding perturbation: noise on coordinates in an anchor subspace, and other noise on the rest."""

import abc
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from opacus import GradSampleModule

from dptheory import _validate
from dptheory import embedding as theory
from dptheory.errors import ArgumentError, ArgumentTypeError
from dptheory.training._streams import START, Stream, on_cpu, seed_stream
from dptheory.training.mechanisms._base import Contribution, Mechanism, Noise, Samples, Tensors, with_noise
from dptheory.training.mechanisms._clipping import clip_factors
from dptheory.training.mechanisms._subspace import AnchorSource, Matrix, Span, principal_span, shared_dimensions
from dptheory.training.per_example import PerExampleGradients, as_gradients, square_sums

_MOST_DIMENSIONS, _MOST_ITERATIONS = 10**9, 1000
_NEAR = 1e-2
"""Share of the squared norm off the subspace below which a residual is formed."""


class _Embedding(Mechanism, abc.ABC):
    """What all variants share: the subspace and the two clipped sums; arguments and errors are those of :class:`Gep`."""

    public = ("auxiliary examples of the subspace",)

    def __init__(
        self,
        anchor_gradients: AnchorSource,
        *,
        subspace_dim: int,
        residual_clip: float,
        groups: Sequence[Sequence[int]],
        seed: int | None,
        iterations: int = 1,
    ) -> None:
        if not callable(anchor_gradients):
            raise ArgumentTypeError("anchor_gradients", "give gradients when it is called", anchor_gradients)
        self._anchors = anchor_gradients
        self._quota = _validate.integer("subspace_dim", subspace_dim, 1, _MOST_DIMENSIONS)
        self._residual_clip = _validate.size("residual_clip", residual_clip, 1e-15, 1e15)
        self._members = _grouped(groups)
        self._iterations = _validate.integer("iterations", iterations, 1, _MOST_ITERATIONS)
        self._stream = seed_stream(seed, START)
        self.seeded = seed is not None
        self._shapes: list[torch.Size] = []
        self._spans: list[Span] = []
        self._dims: list[tuple[int, int]] = []
        """Rows and entries of each group's basis."""
        self._bases: Tensors | None = []

    @property
    def bases(self) -> Tensors:
        """Orthonormal rows of the step's subspace, one matrix (k_g, p_g) a group; what is written to them counts."""
        if self._bases is None:
            self.bases = [span.matrix() for span in self._spans]
        return self._bases or []

    @bases.setter
    def bases(self, rows: Tensors) -> None:
        self._bases, self._spans = rows, [Matrix(one) for one in rows]

    def attach(self, module: GradSampleModule) -> None:
        """See that the groups hold the trainable parameters."""
        self._check_groups(sum(p.requires_grad for p in module.parameters()))

    def _check_groups(self, count: int) -> None:
        if sum(map(len, self._members)) != count:
            raise ArgumentError("groups", f"hold each of the {count} trainable parameters once", self._members)

    def begin_step(self, params: Tensors) -> None:
        self._check_groups(len(params))
        self._shapes = [p.shape for p in params]
        found = as_gradients(self._anchors())
        sizes = [sum(found.parts[i].entries for i in group) for group in self._members]
        dims = shared_dimensions(sizes, self._quota)
        for size, dim in zip(sizes, dims, strict=True):
            if dim > min(found.examples, size):
                raise ArgumentError(
                    "subspace_dim",
                    f"give a group of {size} entries with {found.examples} anchors at most "
                    f"{min(found.examples, size)} vectors",
                    self._quota,
                    got=f"{self._quota}, which gives it {dim}",
                )
        self._spans = [
            principal_span(found.of(group), dim=k, iterations=self._iterations, generator=on_cpu(self._stream))
            for group, k in zip(self._members, dims, strict=True)
        ]
        self._bases, self._dims = None, list(zip(dims, sizes, strict=True))

    def streams(self) -> list[Stream]:
        asked = getattr(self._anchors, "streams", None)  # of an anchor source that draws
        return [*([] if self._stream is None else [self._stream]), *([] if asked is None else asked())]

    def shared(self) -> Tensors:
        return self.bases

    def contribute(self, samples: Samples, clip_norm: float) -> Contribution:
        gradients = as_gradients(samples)
        grouped = [gradients.of(group) for group in self._members]
        embeddings = [span.coordinates(one) for one, span in zip(grouped, self._spans, strict=True)]
        whole = gradients.square_norms()
        inside = torch.stack([square_sums(e) for e in embeddings]).sum(0)
        off = whole - inside
        # NaN and infinity are neither; of a gradient next to the subspace the difference would be rounding
        near = torch.isfinite(whole) & (off < _NEAR * whole)
        for i, parts in self._residuals(grouped, near):
            off[i] = torch.stack([part.square().sum() for part in parts]).sum()
        norms, rest = (square.sqrt().to(gradients.dtype) for square in (inside, off))
        factors, rest_factors = self._factors(norms, rest, clip_norm)
        bad = (factors == 0) | (rest_factors == 0)
        factors, rest_factors = (one.masked_fill(bad, 0.0) for one in (factors, rest_factors))
        sums = [factors.to(e.dtype) @ e.masked_fill(bad[:, None], 0.0) for e in embeddings]
        embedding = torch.cat(sums).to(gradients.dtype)
        far = rest_factors.masked_fill(near, 0.0)
        totals = [torch.cat([part.flatten() for part in one.weighted_sum(far)]) for one in grouped]
        for i, parts in self._residuals(grouped, near & ~bad):
            for total, part in zip(totals, parts, strict=True):
                total += (float(rest_factors[i]) * part).to(total.dtype)
        # the weighted gradients have a part inside the subspace, which is not of the residuals
        residuals = [span.rest(one) for one, span in zip(totals, self._spans, strict=True)]
        return Contribution([embedding, *residuals], int(bad.sum()))

    def _residuals(self, grouped: list[PerExampleGradients], chosen: torch.Tensor) -> Iterator[tuple[int, Tensors]]:
        """Number and residual, one vector a group, of the chosen examples, each formed in float64.

        Elsewhere the square norm of a residual is that of the gradient less that of the embedding, and the sum of residuals is
        that of the gradients off the subspace. Both lose digits where the residual is small: relative to it the error is
        |g|^2 / |r|^2 units in the last place, which ``_NEAR`` keeps at 100.
        """
        spans = [span.in_float64() for span in self._spans] if chosen.any() else []
        for i in chosen.nonzero().flatten().tolist():
            gradients = (torch.cat([p.flatten() for p in one.formed(slice(i, i + 1))]).double() for one in grouped)
            yield i, [span.off(g) for g, span in zip(gradients, spans, strict=True)]

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        embedding, residual = total[0], total[1:]
        stds = self._stds(noise_multiplier, clip_norm)
        coordinates = torch.split(with_noise(embedding, stds[0], noise), [k for k, _ in self._dims])
        released = [
            span.combined(c).to(r.dtype) + self._rest(r, span, stds[1], noise)
            for c, r, span in zip(coordinates, residual, self._spans, strict=True)
        ]
        return self._parted(released)

    @property
    def _dim(self) -> int:
        return sum(size for _, size in self._dims)

    @property
    def _subspace_dim(self) -> int:
        return sum(k for k, _ in self._dims)

    def _factors(self, norms: torch.Tensor, rest: torch.Tensor, clip_norm: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Clip factors of embedding and residual of each sample."""
        return clip_factors(norms, clip_norm), clip_factors(rest, self._residual_clip)

    @abc.abstractmethod
    def _stds(self, noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        """Standard deviations of the noise on embedding and residual."""

    def _rest(self, residual: torch.Tensor, span: Span, std: float, noise: Noise) -> torch.Tensor:
        """The residual with noise, both off the subspace.

        There the noise of the embedding stands alone, and it is enough for the embedding and nothing else. In exact arithmetic
        a residual has no part in the subspace. In float32 that of a gradient of norm G has one of about G 2^-24, which is the
        whole of it from G = 2^24 S on and is then scaled to S. Whatever a record's residual is, off the subspace it is no
        longer than before, so that embedding and residual stay within their clips.
        """
        return span.off(with_noise(residual, std, noise))

    def _parted(self, released: Tensors) -> Tensors:
        """One tensor per parameter from one vector per group."""
        parts: dict[int, torch.Tensor] = {}
        for vector, group in zip(released, self._members, strict=True):
            pieces = torch.split(vector, [self._shapes[i].numel() for i in group])
            parts |= {i: piece.view(self._shapes[i]) for i, piece in zip(group, pieces, strict=True)}
        return [parts[i] for i in range(len(parts))]

    def state_dict(self) -> dict[str, Any]:
        generator = None if self._stream is None else self._stream.state()
        return {"generator": generator, "anchors": self._anchors.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._stream is not None:
            self._stream.load(state["generator"])
        self._anchors.load_state_dict(state["anchors"])


class Gep(_Embedding):
    r"""As published: the same noise ratio on embedding and residual, residual noise in every direction.

    Each gradient g_i gives :math:`w_i = \mathrm{clip}_C(B g_i)` and :math:`r_i = \mathrm{clip}_S(g_i - B^\top B g_i)`, S =
    ``residual_clip``. Released is :math:`B^\top(\sum_i w_i + \sigma_1 z) + \sum_i r_i + \sigma_2 z'` with
    :math:`\sigma_1 = \sqrt2\sigma C, \sigma_2 = \sqrt2\sigma S`, so that both together are as private as the Gaussian mechanism
    of noise multiplier sigma.

    Args:
        anchor_gradients: such as :class:`AnchorGradients`; called at every step.
        subspace_dim: number k of basis vectors, shared out over the groups; 1..1e9.
        residual_clip: S, in [1e-15, 1e15].
        groups: indices of the trainable parameters that share a basis; every parameter in one group.
        seed: of the power iteration's start, which is public; 0 to 2^63 - 1, or None for the operating system's generator.
        iterations: of the power method, 1..1000; the paper has 1.

    Raises:
        TypeError: anchor gradients that cannot be called.
        ValueError: an argument outside its range; when a step begins, groups unlike the model or too few anchors.

    Source: GEP, Algorithm 1 (gep.thm3.1, gep.concat).

    Example: twenty anchors of two parameters, together 14 entries, give a basis of three vectors.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients, Gep
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.rand(20, 6), classes=2, seed=0)
        >>> mechanism = Gep(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=0)
        >>> mechanism.begin_step([torch.zeros(2, 6), torch.zeros(2)])
        >>> [tuple(basis.shape) for basis in mechanism.bases]
        [(3, 14)]
    """

    title = "GEP as published"

    def _stds(self, noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        ratio = math.sqrt(2) * noise_multiplier
        return ratio * clip_norm, ratio * self._residual_clip

    def _rest(self, residual: torch.Tensor, span: Span, std: float, noise: Noise) -> torch.Tensor:
        return with_noise(residual, std, noise)


class GepOptimal(_Embedding):
    r"""The split of the noise that has the least energy, residual noise off the subspace.

    Clipped as in :class:`Gep`; :math:`\sigma_1^2 = \sigma^2 C(C + S\sqrt{q/k})`,
    :math:`\sigma_2^2 = \sigma^2 S(S + C\sqrt{k/q})`, q = p - k, and :math:`z'` is projected off the rows of B. Energy
    :math:`\sigma^2(\sqrt k C + \sqrt q S)^2`.

    Args:
        anchor_gradients, subspace_dim, residual_clip, groups, seed, iterations: as for :class:`Gep`.

    Raises:
        TypeError, ValueError: as :class:`Gep`.

    Source: new, on GEP, Theorem 3.1 (gep.split); computed by :func:`dptheory.embedding.split_noise`.

    Example: half of 14 entries in the subspace; the variances are C (C + S) and S (S + C) by hand.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients, GepOptimal
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.rand(20, 6), classes=2, seed=0)
        >>> mechanism = GepOptimal(anchors, subspace_dim=7, residual_clip=0.5, groups=[[0, 1]], seed=0)
        >>> mechanism.begin_step([torch.zeros(2, 6), torch.zeros(2)])  # 14 parameters: with k = 7 also q = 7
        >>> total = mechanism.contribute([torch.ones(4, 2, 6), torch.ones(4, 2)], clip_norm=1.0).total
        >>> squares = []  # of the standard deviations that it asks for
        >>> _ = mechanism.release(total, noise_multiplier=1.0, clip_norm=1.0,
        ...     noise=lambda like, std: squares.append(round(std**2, 6)) or torch.zeros_like(like))
        >>> squares
        [1.5, 0.75]
    """

    title = "GEP, optimal split"

    def _stds(self, noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        if noise_multiplier == 0:
            return 0.0, 0.0
        split = theory.split_noise(
            dim=self._dim,
            subspace_dim=self._subspace_dim,
            embedding_clip=clip_norm,
            residual_clip=self._residual_clip,
            mu=1 / noise_multiplier,
        )
        return split.embedding_std, split.residual_std


class GepJoint(_Embedding):
    r"""Clip the whole gradient to C, then its residual to S <= C; the privacy of both is accounted for together.

    :math:`h_i = \mathrm{clip}_C(g_i), w_i = B h_i, r_i = \mathrm{clip}_S(h_i - B^\top B h_i)`, so that
    :math:`|w_i|^2 + |r_i|^2\le C^2`. The noise minimises :math:`k\sigma_1^2 + q\sigma_2^2` under
    :math:`\max(|w|^2/\sigma_1^2 + |r|^2/\sigma_2^2) = 1/\sigma^2` over the pairs that can occur.

    Args:
        anchor_gradients, subspace_dim, residual_clip, groups, seed, iterations: as for :class:`Gep`; ``residual_clip`` at most
            C.

    Raises:
        TypeError, ValueError: as :class:`Gep`; by ``make_private`` where ``residual_clip`` is above C.

    Source: new, on GEP, Algorithm 1, lines 10 and 11 (gep.joint_clip); computed by :func:`dptheory.embedding.joint_clip`.

    Example: the residual cannot be clipped to more than the whole gradient.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients, GepJoint
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.rand(20, 6), classes=2, seed=0)
        >>> mechanism = GepJoint(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=0)
        >>> mechanism.check_clip(0.4)
        Traceback (most recent call last):
            ...
        dptheory.errors.ArgumentError: residual_clip must be a number in (0, 0.4], got 0.5
    """

    title = "GEP, joint clipping"

    def check_clip(self, clip_norm: float) -> None:
        """``residual_clip`` is at most ``clip_norm``."""
        _validate.real("residual_clip", self._residual_clip, 0.0, clip_norm, ends="(]")

    def _factors(self, norms: torch.Tensor, rest: torch.Tensor, clip_norm: float) -> tuple[torch.Tensor, torch.Tensor]:
        whole = clip_factors(torch.hypot(norms, rest), clip_norm)
        return whole, whole * clip_factors(whole * rest, self._residual_clip)

    def _stds(self, noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        if noise_multiplier == 0:
            return 0.0, 0.0
        share = self._residual_clip / clip_norm
        split = theory.joint_clip(
            dim=self._dim,
            subspace_dim=self._subspace_dim,
            clip_norm=clip_norm,
            residual_share=share,
            mu=1 / noise_multiplier,
        )
        return split.embedding_std, split.residual_std


class BiasedGep(_Embedding):
    r"""The embedding alone, :math:`B^\top(\sum_i\mathrm{clip}_C(B g_i) + \sigma C z)`; the residual is thrown away.

    Args:
        anchor_gradients, subspace_dim, residual_clip, groups, seed, iterations: as for :class:`Gep`.

    Raises:
        TypeError, ValueError: as :class:`Gep`.

    Source: GEP, Remark 1 (gep.rem1).

    Example: it spends what DP-SGD spends with the same noise multiplier.
        >>> import torch
        >>> from dptheory.training.mechanisms import AnchorGradients, BiasedGep
        >>> anchors = AnchorGradients(torch.nn.Linear(6, 2), torch.rand(20, 6), classes=2, seed=0)
        >>> BiasedGep(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=0).cost(1.5).noise_multiplier
        1.5
    """

    title = "B-GEP"

    def _stds(self, noise_multiplier: float, clip_norm: float) -> tuple[float, float]:
        return noise_multiplier * clip_norm, 0.0

    def _rest(self, residual: torch.Tensor, span: Span, std: float, noise: Noise) -> torch.Tensor:
        return torch.zeros_like(residual)


def _grouped(groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """The groups, if each of the numbers 0, 1, ... is in one of them, and none is empty."""
    try:
        members = [_validate.integers("groups", group, 0, _MOST_DIMENSIONS) for group in groups]
    except (TypeError, ValueError):
        members = []
    joined = sorted(i for group in members for i in group)
    if not joined or joined != list(range(len(joined))):
        raise ArgumentError("groups", "hold each of the numbers 0, 1, ... once, none empty", groups)
    return members
