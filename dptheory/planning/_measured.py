"""What measured gradients say of each method: intervals over the moments of a training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dptheory.gradients import DistortionAngle
from dptheory.planning._methods import Shape, dp_sgd, embedded, forecast_without, frozen, masked, sent, shapes
from dptheory.planning._records import Interval, MethodForecast
from dptheory.planning._setup import TrainingSetup, check_size
from dptheory.planning._signal import Signal, Step, curved_descent, curved_signal, jackknife, signals, step_curvature
from dptheory.planning._statistics import GradientStats, MethodMoments, MomentStats, checked

DESCENT = ("rf.mse_criterion", "rs.lem3.1")


@dataclass(frozen=True)
class Measured:
    """Statistics as a plan uses them: clips of DP-SGD, and the factor from the measured number of entries to the user's."""

    stats: GradientStats
    scale: float

    @property
    def clips(self) -> tuple[float, ...]:
        """Clips at which DP-SGD was measured, rising."""
        first = self.stats.moments[0]
        return tuple(sorted(one.clip_norm for one in first.methods if one.method == "dp-sgd"))

    def at(self, moment: MomentStats, method: str, setting: float, clip_norm: float | None) -> MethodMoments | None:
        """One method at one clip, between two that were measured by linear interpolation in log C; None where there is none."""
        assert clip_norm is not None
        rows = [one for one in moment.methods if one.method == method and one.setting == setting]
        rows.sort(key=lambda one: abs(math.log(one.clip_norm / clip_norm)))
        if not rows:
            return None
        near = rows[0]
        if abs(math.log(near.clip_norm / clip_norm)) < 1e-9:
            return self._scaled(near)
        other = [one for one in rows if (one.clip_norm - clip_norm) * (near.clip_norm - clip_norm) < 0.0]
        return self._scaled(_between(near, other[0], clip_norm)) if other else None

    def _scaled(self, one: MethodMoments) -> MethodMoments:
        return one if one.method == "biased-gep" else replace(one, noise_dim=one.noise_dim * self.scale)

    def descending(self, clip_norm: float) -> "Measured":
        """The same with the moments alone at which DP-SGD is seen to descend."""
        kept = tuple(moment for moment in self.stats.moments if self.descends(moment, clip_norm))
        return replace(self, stats=replace(self.stats, moments=kept))

    def descends(self, moment: MomentStats, clip_norm: float | None) -> bool:
        """Whether the mean points downhill with every fold left out."""
        row = self.at(moment, "dp-sgd", 0.0, clip_norm)
        return row is not None and min(row.alignments) > 0.0

    @property
    def descends_somewhere(self) -> bool:
        return any(self.descends(moment, clip) for moment in self.stats.moments for clip in self.clips)

    def settings(self, method: str) -> list[float]:
        """What was measured of a method at every moment."""
        found = [{one.setting for one in moment.methods if one.method == method} for moment in self.stats.moments]
        return sorted(set.intersection(*found)) if found else []


def _between(near: MethodMoments, far: MethodMoments, clip_norm: float) -> MethodMoments:
    share = math.log(clip_norm / near.clip_norm) / math.log(far.clip_norm / near.clip_norm)

    def mixed(name: str) -> tuple[float, ...]:
        pairs = zip(getattr(near, name), getattr(far, name), strict=True)
        return tuple((1.0 - share) * a + share * b for a, b in pairs)

    both = near.curvatures is not None and far.curvatures is not None
    curvatures = mixed("curvatures") if both else None
    return replace(
        near,
        clip_norm=clip_norm,
        alignments=mixed("alignments"),
        mean_squares=mixed("mean_squares"),
        second_moments=mixed("second_moments"),
        curvatures=None if curvatures is None else (curvatures[0], curvatures[1], curvatures[2]),
    )


def measured(setup: TrainingSetup, stats: GradientStats, borrowed: bool) -> Measured:
    """Statistics that fit the setup.

    Raises:
        ValueError: they are of another number of parameters and not borrowed, or the clip lies outside those measured.
    """
    checked(stats)
    if not borrowed:
        check_size(setup, stats.dim)
    found = Measured(stats, setup.entries / stats.dim)
    if setup.clip_norm is not None and not found.clips[0] <= setup.clip_norm <= found.clips[-1]:
        raise ValueError(
            f"clip_norm must lie in {found.clips[0]:g}..{found.clips[-1]:g}, where stats were measured, got {setup.clip_norm!r}"
        )
    return found


def cases(found: Measured) -> Callable[[float | None], Sequence[Signal]]:
    """For a clip: DP-SGD's signal at each moment, and with the measured curvature where that is positive at every clip.

    At a clip at which a moment is not seen to descend its signal is 0: of no use where another clip's is seen, and no case at all
    where none is.
    """
    curved = [
        all(
            one.curvatures is not None and min(one.curvatures) > 0.0 for one in moment.methods if one.method == "dp-sgd"
        )
        for moment in found.stats.moments
    ]

    def at(clip_norm: float | None) -> list[Signal]:
        rows = [found.at(moment, "dp-sgd", 0.0, clip_norm) for moment in found.stats.moments]
        seen = [found.descends(moment, clip_norm) for moment in found.stats.moments]
        there = [(row, known, sure) for row, known, sure in zip(rows, curved, seen, strict=True) if row is not None]
        flat = [_counted(signals(row)[0], sure) for row, _, sure in there]
        return flat + [_counted(curved_signal(row), sure) for row, known, sure in there if known]

    return at


def _counted(signal: Signal, seen: bool) -> Signal:
    return signal if seen else replace(signal, alignment=0.0)


def flat_signals(found: Measured, clip_norm: float) -> list[Signal]:
    """DP-SGD's signal at each moment, without curvature."""
    rows = [found.at(moment, "dp-sgd", 0.0, clip_norm) for moment in found.stats.moments]
    return [signals(row)[0] for row in rows if row is not None]


def forecasts(setup: TrainingSetup, found: Measured, step: Step, clip_norm: float) -> tuple[MethodForecast, ...]:
    """Each method at the best of its measured settings: with curvature before without, then by lower ends, then by upper ones.

    Without a setting: what holds anyhow.
    """
    if setup.layer_sizes is None and setup.entries == found.stats.dim:
        setup = replace(setup, layer_sizes=found.stats.layer_sizes)
    result = []
    for shape in shapes(setup, step, clip_norm):
        settings = found.settings(shape.method)
        candidates = [_forecast(setup, found, step, clip_norm, shape.method, setting) for setting in settings]
        there = [one for one in candidates if one is not None]
        if there:
            result.append(max(there, key=_worth))
        else:
            result.append(forecast_without(setup, shape, step))
    return tuple(result)


def _worth(one: MethodForecast) -> tuple[float, ...]:
    curved = one.curved_descent
    if curved is None:
        return 0.0, one.descent.lower, one.descent.upper
    return 1.0, one.lower, curved.lower, curved.upper, one.descent.upper


def _shape(setup: TrainingSetup, found: Measured, step: Step, clip: float, method: str, setting: float) -> Shape | None:
    dim = setup.entries
    match method:
        case "dp-sgd":
            return dp_sgd(dim)
        case "random-sparsification":
            return masked(method, dim, setting)
        case "layer-freezing":
            same = setup.layer_sizes == found.stats.layer_sizes
            return frozen(found.stats.layer_sizes, int(setting)) if same else None
        case _:
            return embedded(method, dim, int(setting), step, clip) if setting <= dim else None


def _forecast(
    setup: TrainingSetup, found: Measured, step: Step, clip: float, method: str, setting: float
) -> MethodForecast | None:
    shape = _shape(setup, found, step, clip, method, setting)
    rows = [
        (found.at(moment, method, setting, clip), found.at(moment, "dp-sgd", 0.0, clip))
        for moment in found.stats.moments
    ]
    there = [(row, plain) for row, plain in rows if row is not None and plain is not None]
    if shape is None or len(there) < len(rows):
        return None
    descents = [_ratio(row, plain, step) for row, plain in there]
    noises = [signals(row)[0].noise_energy(step) / clip**2 for row, _ in there]
    errors = [_sampling(row, step) / clip**2 + noise for (row, _), noise in zip(there, noises, strict=True)]
    return MethodForecast(
        method=method,
        parts=shape.parts,
        noise_energy=_hull([(one, one) for one in noises], shape.claims),
        error=_hull([(one, one) for one in errors], (*shape.claims, "rs.lem3.1")),
        cosine=_cosines(shape, [row for row, _ in there], step),
        descent=_hull(descents, DESCENT),
        curved_descent=_curved(there, step),
        index_epsilon=0.0,
        memory=shape.memory,
        communication=sent(setup.entries, shape),
        best_rank=0,
        worst_rank=0,
        verdict="",
    )


def _hull(pairs: Sequence[tuple[float, float]], claims: tuple[str, ...]) -> Interval:
    """From the lowest to the highest over the moments."""
    return Interval(lower=min(low for low, _ in pairs), upper=max(high for _, high in pairs), claims=claims)


def _ratio(row: MethodMoments, plain: MethodMoments, step: Step) -> tuple[float, float]:
    """Interval of the descent over DP-SGD's, which is positive at every moment that counts."""
    pairs = zip(signals(row), signals(plain), strict=True)
    low, high = jackknife([one.descent(step) / base.descent(step) for one, base in pairs])
    return max(0.0, low), high


def _sampling(row: MethodMoments, step: Step) -> float:
    """Mean squared distance of a batch's mean from its expectation."""
    return (1.0 - step.sampling_rate) * row.second_moments[0] / step.batch_size


def _cosines(shape: Shape, rows: Sequence[MethodMoments], step: Step) -> Interval:
    """Where noise is as long in all of its directions; for other noise no law is known."""
    if shape.noise_dim != shape.released:
        return Interval(lower=0.0, upper=1.0, claims=("lf.angle_law",))
    found = []
    for row in rows:
        std = step.noise_multiplier * row.clip_norm / step.batch_size
        snr = math.sqrt(max(0.0, row.mean_squares[0])) / std
        found.append(DistortionAngle(shape.released, snr=snr).expected_cos())
    return _hull([(one, one) for one in found], ("lf.angle_law",))


def _curved(there: Sequence[tuple[MethodMoments, MethodMoments]], step: Step) -> Interval | None:
    ratios = []
    for row, plain in there:
        gained, base = curved_descent(row, step), curved_descent(plain, step)
        if gained is None or base is None or base <= 0.0:
            return None
        ratios.append((gained / base, gained / base))
    return _hull(ratios, ("rf.mse_criterion",))


def learning_rates(found: Measured, step: Step, clip_norm: float) -> tuple[float, ...] | None:
    """The best rate of one step, <w, m> / E g' H g, at each moment that has one; None where none has."""
    rates = []
    for moment in found.stats.moments:
        row = found.at(moment, "dp-sgd", 0.0, clip_norm)
        slope = None if row is None else step_curvature(row, step)
        if row is not None and slope is not None and row.alignments[0] > 0.0:
            rates.append(row.alignments[0] / slope)
    return tuple(rates) or None
