"""What a person knows before training."""

from dataclasses import dataclass

from dptheory import _validate
from dptheory.privacy import DELTA, MAX_STEPS, RATE

_MAX_DIM = 10**9
_MAX_EPOCHS = 10_000


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """A data set, a network, a privacy budget, and what is fixed already; None leaves a choice to :func:`plan`.

    Args:
        num_examples: training records N, 2..1e9; taken as public, as the sampling rate is batch_size / N.
        epsilon: the budget, in [0.01, 1000]; neighbours are add-remove, batches Poisson.
        delta: of the budget, in [1e-30, 0.99].
        dim: number of parameters d, 2..1e9; may be left out where ``layer_sizes`` are given.
        layer_sizes: parameters of each layer, from the input on; needed to forecast layer freezing.
        batch_size: expected size B of the Poisson batches, 1..N.
        epochs: passes over the data, 1..10,000.
        clip_norm: C, in [1e-12, 1e12].
        learning_rate: of plain SGD, in [1e-15, 1e6].
        max_epochs: most passes that can be afforded, 1..10,000; only looked at where ``epochs`` is free.

    Raises:
        ValueError: an argument outside its range; neither ``dim`` nor ``layer_sizes``, or two that do not agree; more than a
            million steps.

    Source: new, on RS, Theorem 3.5 (rs.tuned).

    Example: RF's CNN on CIFAR-10; batch size, epochs, clip and learning rate are left to the plan.
        >>> from dptheory.planning import TrainingSetup
        >>> TrainingSetup(num_examples=50_000, epsilon=3.0, delta=1e-5, layer_sizes=[500_000, 50_570]).dim
        550570
    """

    num_examples: int
    epsilon: float
    delta: float
    dim: int | None = None
    layer_sizes: tuple[int, ...] | None = None
    batch_size: int | None = None
    epochs: int | None = None
    clip_norm: float | None = None
    learning_rate: float | None = None
    max_epochs: int = 100

    def __post_init__(self) -> None:
        records = _validate.integer("num_examples", self.num_examples, 2, 10**9)
        _validate.store(
            self,
            num_examples=records,
            epsilon=_validate.real("epsilon", self.epsilon, 0.01, 1000.0),
            delta=_validate.real("delta", self.delta, *DELTA),
            max_epochs=_validate.integer("max_epochs", self.max_epochs, 1, _MAX_EPOCHS),
        )
        if self.batch_size is not None:
            least = max(1, -(-records * RATE[0] // 1))
            _validate.store(self, batch_size=_validate.integer("batch_size", self.batch_size, int(least), records))
        if self.epochs is not None:
            _validate.store(self, epochs=_validate.integer("epochs", self.epochs, 1, _MAX_EPOCHS))
        if self.clip_norm is not None:
            _validate.store(self, clip_norm=_validate.size("clip_norm", self.clip_norm, 1e-12, 1e12))
        if self.learning_rate is not None:
            _validate.store(self, learning_rate=_validate.size("learning_rate", self.learning_rate, 1e-15, 1e6))
        self._store_sizes()
        batch, epochs = self.batch_size, self.epochs
        if batch is not None and epochs is not None and steps_of(epochs, batch / records) > MAX_STEPS:
            raise ValueError(f"epochs must make at most {MAX_STEPS} steps of batch_size={batch}, got {epochs}")

    def _store_sizes(self) -> None:
        if self.layer_sizes is None:
            if self.dim is None:
                raise ValueError("dim must be given, or layer_sizes in its place, got neither")
            _validate.store(self, dim=_validate.integer("dim", self.dim, 2, _MAX_DIM))
            return
        sizes = _validate.integers("layer_sizes", self.layer_sizes, 1, _MAX_DIM)
        if not 2 <= sum(sizes) <= _MAX_DIM:
            raise ValueError(f"layer_sizes must sum to 2..{_MAX_DIM}, got {_validate.shown(self.layer_sizes)}")
        if self.dim is not None and _validate.integer("dim", self.dim, 2, _MAX_DIM) != sum(sizes):
            raise ValueError(f"dim must be the sum of layer_sizes, {sum(sizes)}, got {self.dim}")
        _validate.store(self, layer_sizes=tuple(sizes), dim=sum(sizes))

    @property
    def entries(self) -> int:
        """Number of parameters d, however it was given."""
        assert self.dim is not None
        return self.dim


def check_size(setup: TrainingSetup, dim: int) -> None:
    """Refuse statistics of another number of parameters than the setup's."""
    if dim != setup.entries:
        given = "dim says" if setup.layer_sizes is None else "layer_sizes say"
        raise ValueError(f"stats must be of a network of {setup.entries} parameters as {given}, got {dim}")


def steps_of(epochs: int, rate: float) -> int:
    """Steps of so many passes, counted as a run of ``training`` counts them."""
    return max(epochs, round(epochs / rate))
