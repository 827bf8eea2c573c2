"""Gradient embedding perturbation beside plain perturbation, of one release and at the same privacy."""

from dataclasses import dataclass

from dptheory import _validate
from dptheory.embedding._mse import (
    GepMse,
    LargestRatios,
    SmallResidual,
    gep_mse,
    largest_residual_ratio,
    least_residual_energy,
)
from dptheory.embedding._release import SplitNoise, joint_clip, split_noise
from dptheory.errors import ArgumentError
from dptheory.privacy import gaussian_mu


@dataclass(frozen=True, kw_only=True)
class ReleaseComparison:
    """The ways to release a sum of gradients at one privacy; biases of clipping come on top.

    Attributes:
        mu: privacy of everything that is released in a step.
        mse: squared error of the sum for each way.
        best_split: noise of the two releases where embedding and residual are clipped apart.
        joint_clip: the same where the gradient is clipped first.
        largest_residual_ratio: S2/S below which a way has less noise than plain perturbation.
        least_residual_energy: squared norm of the summed residual above which a way beats dropping it.
    """

    mu: float
    mse: GepMse
    best_split: SplitNoise
    joint_clip: SplitNoise
    largest_residual_ratio: LargestRatios
    least_residual_energy: SmallResidual


def compare_releases(
    *,
    dim: int,
    subspace_dim: int,
    clip_norm: float,
    residual_clip: float,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    residual_norm: float = 0.0,
) -> ReleaseComparison:
    r"""Error, noise and break-even points of gradient embedding perturbation beside plain perturbation.

    :func:`dptheory.embedding.gep_mse`, :func:`~dptheory.embedding.split_noise`, :func:`~dptheory.embedding.joint_clip`,
    :func:`~dptheory.embedding.largest_residual_ratio` and :func:`~dptheory.embedding.least_residual_energy` for one setting
    with S1 = S. The privacy is ``mu``, or the mu of one Gaussian release that is (epsilon, delta)-private.

    Args:
        dim: p, in 1..1e12.
        subspace_dim: k, in 0..p.
        clip_norm: S of the gradients, and of the embeddings, in [1e-70, 1e70].
        residual_clip: S2 in [1e-70, 1e70].
        mu: privacy of one release, in [1e-70, 1e70]; add-remove.
        epsilon: in place of ``mu``, with ``delta``; >= 0, with a mu in its range.
        delta: in place of ``mu``, with ``epsilon``; in (0, 1).
        residual_norm: \|r|, norm of the summed residual, which the embedding alone loses.

    Returns:
        The errors, the best split of the noise, the variant with joint clipping and the break-even points.

    Raises:
        ValueError: an argument outside its range; ``mu`` and one of ``epsilon`` and ``delta``, or neither mu nor both of them.

    Source: new, on GEP, section 3 (gep.versus, gep.split).

    Example: in GEP's setting the best split beats the published one, and both beat plain noise.
        >>> from dptheory.embedding import compare_releases
        >>> found = compare_releases(dim=270_000, subspace_dim=1000, clip_norm=10.0, residual_clip=2.0, mu=1.0)
        >>> found.mse.optimal < found.mse.published < found.mse.plain
        True
    """
    mu = _privacy(mu, epsilon, delta)
    clip_norm = _validate.size("clip_norm", clip_norm)
    residual_clip = _validate.size("residual_clip", residual_clip)
    return ReleaseComparison(
        mu=mu,
        mse=gep_mse(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_clip=residual_clip,
            mu=mu,
            residual_norm=residual_norm,
        ),
        best_split=split_noise(
            dim=dim, subspace_dim=subspace_dim, embedding_clip=clip_norm, residual_clip=residual_clip, mu=mu
        ),
        joint_clip=joint_clip(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_share=min(1.0, residual_clip / clip_norm),
            mu=mu,
        ),
        largest_residual_ratio=largest_residual_ratio(dim=dim, subspace_dim=subspace_dim),
        least_residual_energy=least_residual_energy(
            dim=dim, subspace_dim=subspace_dim, clip_norm=clip_norm, residual_clip=residual_clip, mu=mu
        ),
    )


def _privacy(mu: float | None, epsilon: float | None, delta: float | None) -> float:
    """``mu``, or the mu that (epsilon, delta) allows for."""
    if mu is not None and epsilon is None and delta is None:
        return _validate.size("mu", mu)
    if mu is not None or epsilon is None or delta is None:
        given = f"mu={mu!r}, epsilon={epsilon!r} and delta={delta!r}"
        raise ArgumentError("mu", "be given, or epsilon and delta in its place", mu, got=f"{given}")
    found = gaussian_mu(epsilon, delta)
    if not _validate.SMALLEST <= found <= _validate.LARGEST:
        raise ArgumentError(
            "epsilon and delta",
            f"allow for a mu in [{_validate.SMALLEST:g}, {_validate.LARGEST:g}]",
            epsilon,
            got=f"{epsilon!r} and {delta!r}: mu = {found:g}",
        )
    return found
