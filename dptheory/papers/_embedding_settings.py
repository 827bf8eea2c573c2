"""GEP's settings for ResNet20 (its section 4), and those of the authors' released example."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dptheory.papers import _data

if TYPE_CHECKING:
    from dptheory.embedding import GepMse

RESNET20_DIM = 269_722
"""Counted from the architecture (He et al. for CIFAR-10, identity shortcuts, normalisation with scale and shift); GEP prints
no number. RF, Table 2, says 268K, which is the count without scale and shift."""

RESNET20_GROUPS = (464, 14_016, 51_072, 203_520, 650)
"""Parameters of the five groups of section 4: input layer, three stages, output layer; counted likewise."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingPreset:
    """One setting.

    Attributes:
        name: "gep.cifar10.k1000".
        source: where it is printed.
        dim: p.
        subspace_dim: k.
        clip_norm: threshold of the gradients, and so, as GEP prints no other, of the embeddings.
        residual_clip: threshold of the residuals.
        batch_size: n.
        delta: of the privacy budget; None where the source gives none.
        budgets: (epsilon, epochs) pairs; empty where the source gives none.
    """

    name: str
    source: str
    dim: int
    subspace_dim: int
    clip_norm: float
    residual_clip: float
    batch_size: int = 1000
    delta: float | None = None
    budgets: tuple[tuple[float, int], ...] = ()

    def noise(self, *, mu: float = 1.0) -> "GepMse":
        r"""Mean squared norm of the noise on the sum of gradients, for each way of releasing it; biases are left out.

        Args:
            mu: privacy of one step before subsampling, add-remove. GEP releases the concatenation of both parts, each divided by
                its clip, with sensitivity sqrt(2): noise multiplier sigma is mu = 1/sigma, noise sqrt(2) sigma S_i on part i.

        Returns:
            The mean squared norm for each way of releasing.

        Raises:
            ValueError: an argument outside its range.

        Source: new, on GEP, section 4 (gep.versus).

        Example: GEP on CIFAR-10 with its smallest subspace: published noise over that of plain perturbation.
            >>> from dptheory.papers import embedding_presets
            >>> preset = embedding_presets()[0]
            >>> noise = preset.noise(mu=1.0)
            >>> preset.name, round(noise.published / noise.plain, 3)
            ('gep.cifar10.k500', 0.084)
        """
        from dptheory.embedding import gep_mse  # reading what is printed needs no calculator

        return gep_mse(
            dim=self.dim,
            subspace_dim=self.subspace_dim,
            clip_norm=self.clip_norm,
            residual_clip=self.residual_clip,
            mu=mu,
        )


def embedding_presets() -> tuple[EmbeddingPreset, ...]:
    """Both data sets with every k of section 4, then the released example.

    Returns:
        The presets.

    Example: the last is the authors' released example.
        >>> from dptheory.papers import embedding_presets
        >>> [preset.name for preset in embedding_presets()][-1]
        'gep.code.k1000'
    """
    return (*_of_section_4("gep.cifar10"), *_of_section_4("gep.svhn"), _released_example())


@dataclass(frozen=True, kw_only=True)
class EmbeddingNoise:
    """A setting and the squared norm of the noise that each way of releasing the sum puts on it.

    Attributes:
        preset: the setting.
        noise: as of :meth:`EmbeddingPreset.noise`.
    """

    preset: EmbeddingPreset
    noise: "GepMse"


def embedding_noise(*, mu: float = 1.0) -> tuple[EmbeddingNoise, ...]:
    r"""All settings of :func:`embedding_presets` and their noise at one privacy, by :func:`dptheory.embedding.gep_mse`.

    Args:
        mu: privacy of one step before subsampling, in [1e-70, 1e70]; add-remove; 1 / noise multiplier.

    Returns:
        One result per setting, in the order of :func:`embedding_presets`.

    Raises:
        ValueError: mu outside its range.

    Source: GEP, section 4 (gep.versus).

    Example: the first setting of GEP's table.
        >>> from dptheory.papers import embedding_noise
        >>> found = embedding_noise(mu=0.5)[0]
        >>> found.preset.name, found.noise == found.preset.noise(mu=0.5)
        ('gep.cifar10.k500', True)
    """
    return tuple(EmbeddingNoise(preset=one, noise=one.noise(mu=mu)) for one in embedding_presets())


def _of_section_4(group: str) -> tuple[EmbeddingPreset, ...]:
    runs = _data.settings(group)
    one = runs[0]
    return tuple(
        EmbeddingPreset(
            name=f"{group}.k{subspace_dim}",
            source=one.source,
            dim=RESNET20_DIM,
            subspace_dim=subspace_dim,
            clip_norm=one.number("clip_norm"),
            residual_clip=one.number("residual_clip"),
            batch_size=one.whole("batch_size"),
            delta=one.delta,
            budgets=tuple((run.number("epsilon"), run.whole("epochs")) for run in runs),
        )
        for subspace_dim in one.subspace_dims
    )


def _released_example() -> EmbeddingPreset:
    one = _data.setting("rf.gep.eps8")
    columns = dict(one.others)
    return EmbeddingPreset(
        name=f"gep.code.k{columns['Subspace']}",
        source="GEP, released example; RF, Table 8",
        dim=RESNET20_DIM,
        subspace_dim=int(columns["Subspace"]),
        clip_norm=float(columns["Clip0"]),
        residual_clip=float(columns["Clip1"]),
        batch_size=one.whole("batch_size"),
    )
