"""What a probe and a validation measure."""

from dataclasses import KW_ONLY, dataclass

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training.runs import DpSgdSettings


@dataclass(frozen=True)
class MeasureSettings:
    """What to measure on each gradient.

    Args:
        keep_shares: the shares k in (0, 1] of entries to keep; K = round(k d).
        draws: number of noise vectors, random masks and Gaussian reference vectors, 2 to 1e9.
        noise_multiplier: sigma, 0 or in [1e-6, 1e6].
        max_grad_norm: the clip C, in [1e-12, 1e12]; the noise has standard deviation sigma C.

    Raises:
        ValueError: a value outside its range, or no keep ratio.

    Example: noise multiplier 2 on gradients clipped to 1.5.
        >>> from dptheory.training.measure import MeasureSettings
        >>> MeasureSettings((0.1, 0.5), draws=100, noise_multiplier=2.0, max_grad_norm=1.5).sum_noise_std
        3.0
    """

    keep_shares: tuple[float, ...]
    _: KW_ONLY
    draws: int
    noise_multiplier: float
    max_grad_norm: float

    @property
    def sum_noise_std(self) -> float:
        """Standard deviation of one entry of Z, the noise on the clipped sum: sigma C."""
        return self.noise_multiplier * self.max_grad_norm

    def __post_init__(self) -> None:
        _validate.store(
            self,
            keep_shares=_argument_ranges.shares("keep_shares", self.keep_shares, ends="(]"),
            draws=_validate.integer("draws", self.draws, 2, 10**9),
            noise_multiplier=_argument_ranges.noise_multiplier("noise_multiplier", self.noise_multiplier),
            max_grad_norm=_argument_ranges.clip("max_grad_norm", self.max_grad_norm),
        )


@dataclass(frozen=True)
class ProbeSettings:
    """How the network of a probe was trained, and what was measured on its gradients.

    Args:
        training: how to train.
        measuring: with the noise and the clip of the training.
    """

    training: DpSgdSettings
    measuring: MeasureSettings


@dataclass(frozen=True)
class ValidateSettings:
    """How to train, and what to measure at the start, in the middle and at the end.

    Args:
        training: how to train; ``steps`` must be at least ``window`` + 3.
        drop_rate: share of entries that random freeze drops, in (0, 1); rounded to a whole number of entries.
        keep_shares: shares of entries that pruning and ranking keep, each in (0, 1).
        subspace_dims: dimensions k of GEP's subspace, each at least 1 and at most ``anchors``.
        pool: training examples whose gradients are the population that batches are drawn from, >= 2.
        anchors: auxiliary images (test images with random labels) for GEP's subspace, >= 1.
        window: steps that are summed before entries are ranked, >= 1.
        draws: batches, masks and noise vectors per row, 20 to 1e9.

    Raises:
        ValueError: a value outside its range.

    Example: moments of a run of 101 steps.
        >>> from dptheory.training.runs import DpSgdSettings
        >>> from dptheory.training.measure import ValidateSettings
        >>> ValidateSettings(DpSgdSettings(
        ...     steps=101, batch_size=50, noise_multiplier=2.0, max_grad_norm=1.5, learning_rate=0.1, seed=0)).moments
        {'start': 0, 'middle': 45, 'end': 90}
    """

    training: DpSgdSettings
    _: KW_ONLY
    drop_rate: float = 0.5
    keep_shares: tuple[float, ...] = (0.01, 0.1, 0.5)
    subspace_dims: tuple[int, ...] = (10, 50, 100)
    pool: int = 300
    anchors: int = 256
    window: int = 10
    draws: int = 50

    def __post_init__(self) -> None:
        _validate.instance("training", self.training, DpSgdSettings)
        _validate.real("training.noise_multiplier", self.training.noise_multiplier, 0.0, ends="()")
        _validate.store(
            self,
            window=_argument_ranges.count("window", self.window),
            drop_rate=_validate.real("drop_rate", self.drop_rate, 0.0, 1.0, ends="()"),
            pool=_validate.integer("pool", self.pool, 2, 10**9),
            anchors=_argument_ranges.count("anchors", self.anchors),
            draws=_validate.integer("draws", self.draws, 20, 10**9),
            keep_shares=_argument_ranges.shares("keep_shares", self.keep_shares, ends="()"),
        )
        dims = _validate.integers("subspace_dims", self.subspace_dims, 1, self.anchors)
        _validate.store(self, subspace_dims=tuple(dims))
        if self.training.steps < self.window + 3:
            raise ArgumentError(
                "training.steps",
                f"be at least window + 3 = {self.window + 3}",
                self.training.steps,
            )

    @property
    def clip_norm(self) -> float:
        """C."""
        return self.training.max_grad_norm

    @property
    def sum_noise_std(self) -> float:
        """sigma C, the standard deviation of the noise on an entry of the sum."""
        return self.training.noise_multiplier * self.training.max_grad_norm

    @property
    def moments(self) -> dict[str, int]:
        """Steps at whose weights is measured; the last leaves room for the steps that are ranked, and one after them."""
        last = self.training.steps - self.window - 1
        return {"start": 0, "middle": last // 2, "end": last}

    def stream(self, moment: int) -> int:
        """Independent seed for the measuring at a moment (0, 1, 2), beside the streams of the training."""
        return self.training.stream(10 + moment)
