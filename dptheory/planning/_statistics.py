"""What was measured on per-sample gradients: the record, and the file that holds it."""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.planning._private_statistics import PrivateStats

FORMAT, PRIVATE = "dptheory-statistics-1", "dptheory-private-statistics-1"
_LONGEST = 100_000
"""Numbers in one list of a file."""


@dataclass(frozen=True, kw_only=True)
class MethodMoments:
    """What one method releases at one clip, noise apart; first over all records, then with each fold of them left out.

    All means are over pairs of different records, so that they are unbiased for the data set.

    Attributes:
        method: its name in a configuration of a run.
        setting: its hyperparameter: share dropped or kept, layers frozen, dimension of the subspace; 0 for DP-SGD.
        clip_norm: C.
        alignments: inner product of the true gradient and the mean of what is released.
        mean_squares: squared norm of that mean.
        second_moments: mean squared norm of one record's contribution.
        noise_dim: energy of the noise over (sigma C)^2: the number of entries that get noise, or what stands for it.
        curvatures: of the loss along the mean (m' H m), along one record's contribution (E c' H c), and along noise of
            (sigma C)^2 = 1; None where it was not measured.
    """

    method: str
    setting: float
    clip_norm: float
    alignments: tuple[float, ...]
    mean_squares: tuple[float, ...]
    second_moments: tuple[float, ...]
    noise_dim: float
    curvatures: tuple[float, float, float] | None


@dataclass(frozen=True, kw_only=True)
class MomentStats:
    """Per-sample gradients at one moment of a training.

    Attributes:
        name: "start", "middle", "end", or what its maker calls it.
        step: updates made before.
        grad_norm: norm of the mean gradient; 0 where its square cannot be told from 0.
        norm_quantiles: (level, norm of one record's gradient), levels rising.
        clip_probabilities: (clip, share of the records whose gradient is longer), clips rising.
        entry_shares: (share of the entries, the largest ones of the mean gradient; their share of its squared norm).
        layer_shares: of each layer in the squared norm of the mean gradient.
        spectrum: (subspace dimension, share of the records' squared norms that the subspace of the anchors holds).
        skewness: of the records' gradients along the mean gradient; 0 for a symmetric law.
        methods: what each method releases.
    """

    name: str
    step: int
    grad_norm: float
    norm_quantiles: tuple[tuple[float, float], ...]
    clip_probabilities: tuple[tuple[float, float], ...]
    entry_shares: tuple[tuple[float, float], ...]
    layer_shares: tuple[float, ...]
    spectrum: tuple[tuple[int, float], ...]
    skewness: float
    methods: tuple[MethodMoments, ...]


@dataclass(frozen=True, kw_only=True)
class GradientStats:
    """Statistics of per-sample gradients, measured on public data.

    Attributes:
        name: as "small-cnn/fashion-mnist".
        data, network: on what they were measured.
        public: whether nothing has to protect the records, which must be true; of private ones there are :class:`PrivateStats`.
        examples: how many records each moment was measured on.
        layer_sizes: parameters of each layer, from the input on.
        moments: at least one, in the order of the training.
    """

    name: str
    data: str
    network: str
    public: bool
    examples: int
    layer_sizes: tuple[int, ...]
    moments: tuple[MomentStats, ...]

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return sum(self.layer_sizes)


def checked(stats: GradientStats) -> GradientStats:
    """Statistics whose numbers are in range and go together.

    Raises:
        ValueError: they are not; the message names the entry.
    """
    _validate.integers("stats.layer_sizes", stats.layer_sizes, 1, 10**9)
    _validate.integer("stats.examples", stats.examples, 2, 10**9)
    if not stats.public:
        raise ValueError("stats.public must be true, got False: for private records there is dptheory probe --private")
    clips = {_clips(moment) for moment in stats.moments}
    if len(clips) != 1 or clips == {()}:
        raise ValueError(
            f"stats.moments must all have dp-sgd measured, at the same clips, got clips {_validate.shown(sorted(clips))}"
        )
    for moment in stats.moments:
        for name in ("norm_quantiles", "clip_probabilities", "entry_shares"):
            numbers = [number for pair in getattr(moment, name) for number in pair]
            _validate.nonnegative(f"stats.moments.{name}", numbers)
        for one in moment.methods:
            _check_moments(one)
    return stats


def _check_moments(one: MethodMoments) -> None:
    counts = [len(one.alignments), len(one.mean_squares), len(one.second_moments)]
    if counts[0] < 3 or len(set(counts)) != 1:
        raise ValueError(
            f"stats.moments.methods must hold all records and two folds or more, as many of each kind, got {counts}"
        )
    _validate.size("stats.moments.methods.clip_norm", one.clip_norm, 1e-12, 1e12)
    _validate.real("stats.moments.methods.setting", one.setting, 0.0, 1e9)
    _validate.real("stats.moments.methods.noise_dim", one.noise_dim, 0.0, 1e12)
    for name in ("alignments", "mean_squares"):
        _validate.bounded(f"stats.moments.methods.{name}", getattr(one, name))
    _validate.nonnegative("stats.moments.methods.second_moments", one.second_moments)
    if one.curvatures is not None:
        _validate.bounded("stats.moments.methods.curvatures", one.curvatures)


def _clips(moment: MomentStats) -> tuple[float, ...]:
    return tuple(sorted(one.clip_norm for one in moment.methods if one.method == "dp-sgd"))


def statistics_text(stats: GradientStats | PrivateStats) -> str:
    """Statistics as JSON: what :func:`read_statistics` reads. Numbers have five digits, those of private records all they have.

    Args:
        stats: of one network.

    Returns:
        The text of a file, with a line end.

    Raises:
        ValueError: ``stats`` is something else.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: what is written is read again.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.planning import read_statistics, shipped_statistics, statistics_text
        >>> stats = shipped_statistics("small-cnn/mnist")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "stats.json"
        ...     _ = path.write_text(statistics_text(stats))
        ...     read_statistics(path) == stats
        True
    """
    if isinstance(stats, PrivateStats):
        plain = {"format": PRIVATE, **dataclasses.asdict(stats)}
    else:
        plain = {"format": FORMAT, **_rounded(dataclasses.asdict(_validate.instance("stats", stats, GradientStats)))}
    return json.dumps(plain, allow_nan=False) + "\n"


def read_statistics(path: Path) -> GradientStats | PrivateStats:
    """Statistics from a file.

    Args:
        path: what :func:`statistics_text` or ``dptheory probe --stats`` wrote.

    Returns:
        The statistics; :class:`PrivateStats` where they were measured with ``--private``.

    Raises:
        ValueError: the file holds something else; the message names the entry.
        OSError: the file cannot be read.

    Source: new, on RF, section 2.2 (rf.mse_criterion).

    Example: a file that is none.
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dptheory.planning import read_statistics
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "stats.json"
        ...     _ = path.write_text('{"format": "something else"}')
        ...     try:
        ...         read_statistics(path)
        ...     except ValueError as error:
        ...         print(str(error).removeprefix(str(path)))
         must hold the format dptheory-statistics-1 or dptheory-private-statistics-1, got 'something else'
    """
    _validate.instance("path", path, Path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be JSON, got {error}") from None
    kind = found.get("format") if isinstance(found, dict) else found
    if not isinstance(found, dict) or kind not in (FORMAT, PRIVATE):
        raise ValueError(f"{path} must hold the format {FORMAT} or {PRIVATE}, got {_validate.shown(kind)}")
    del found["format"]
    try:
        if kind == PRIVATE:
            return typing.cast(PrivateStats, _read("stats", PrivateStats, found))
        return checked(_read("stats", GradientStats, found))
    except ValueError as error:
        raise ValueError(f"{path} must hold statistics, got {error}") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.5g}")
        case tuple() | list():
            return [_rounded(one) for one in value]
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case _:
            return value


def _read(name: str, kind: Any, value: Any) -> Any:
    """``value`` of JSON as ``kind``: a record, a tuple, a number, a word, or one of these or None."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _record(name, typing.cast(type, kind), value)
    if origin is types.UnionType:
        return None if value is None else _read(name, inside[0], value)
    if origin is tuple:
        count = None if inside[-1] is ... else len(inside)
        if not isinstance(value, list) or len(value) > _LONGEST or (count is not None and len(value) != count):
            raise ValueError(f"{name} must be a list{f' of {count}' if count else ''}, got {_validate.shown(value)}")
        kinds = inside if count else [inside[0]] * len(value)
        return tuple(_read(f"{name}[{i}]", k, one) for i, (k, one) in enumerate(zip(kinds, value, strict=True)))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be of type {kind.__name__}, got {_validate.shown(value)}")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return value


def _record(name: str, kind: type, value: Any) -> Any:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(value, dict) or set(value) != set(names):
        given = sorted(value) if isinstance(value, dict) else value
        raise ValueError(f"{name} must have the entries {', '.join(names)}, got {_validate.shown(given)}")
    return kind(**{field: _read(f"{name}.{field}", hints[field], value[field]) for field in names})
