"""Sums of many losses on a lattice that are alike: by a table of one, and for every law by a sum over a contour."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.privacy._bounds import MAX_RELEASES, total_loss
from dptheory.privacy.methods._closed_forms import LEAST
from dptheory.privacy.methods._log_sum import expm1_minus, log_moments, log_sum

Array = NDArray[np.float64]
Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ROUNDED = 2.0**-50  # relative error of an elementary function, and of a product with one: assumed
_WANTED = 35.0  # nats below delta at which the rule for a run leaves out
_FLATTEST, _STEEPEST = 1e-40, 60.0  # of the tilt, nats per lattice step
_MOST_NODES, _ROWS = 2**15, 2**12
_MANY_NODES = 500  # beyond so many it pays to look for fewer,
_NARROWEST = 0.02  # where characteristic functions are so wide
_LEAST_LOG_DELTA = -650.0
_OVERFLOW = 700.0
_BLOCK = 2**20  # numbers held at once
_RARE = 1e-40  # probability
_UNEVEN = 1e-9  # of the sum of a law's probabilities: by rounding
_FARTHEST = 2**52
_UNDERFLOWN = 1e-315  # at most, of products and sums of numbers up to 1 in a direct convolution
_MAX_GRID = 2**26
_DIRECT_GRID = 8_000  # up to this size the powers are convolved directly: every entry keeps its relative precision
_TRIM = 200.0  # nats: entries rarer than e^-200 take no part in a convolution
_WINDOW = 60.0  # nats: mass of the tilted sum outside the Fourier window is below 2 e^-60
ROUNDING = 2e-12  # relative, of a table's Renyi divergences: twice what was measured


class Tilted:
    """A law tilted by e^(tilt S), as a sum over a contour asks for it."""

    tilt: float
    mean: float
    """About its own; phases are counted from there."""
    top: int
    """The largest value of S."""
    variance: float
    """About that of S."""
    most_variance: float
    """An upper bound of that."""
    most_transformed = 0
    """Nodes of a circle whose ratios are found all together."""
    total_variation = math.inf
    """At least that of its probabilities from those two places on."""

    def log_ratios(self, angle: Reals, turn: int) -> tuple[Complexes, Reals]:
        """log of E e^(i psi (S - mean)), psi = angle + pi turn and the sign of the top left out, and the error of its modulus's log."""
        raise NotImplementedError

    def node_ratios(self, nodes: range, size: int, turn: int) -> tuple[Complexes, Reals]:
        """The same at nodes of a circle of ``size``."""
        return self.log_ratios(2.0 * math.pi / size * np.array(nodes, dtype=np.float64), turn)

    def windows(self, size: int, count: int, nats: float) -> tuple[int, int, float]:
        """How many nodes from angle 0 on, and from angle pi on, and the log of a bound of the others' ratios to ``count``."""
        best = size // 2 + 1, 0, -math.inf
        for arcs in (self._arcs, self._seen_arcs):
            plain, turned, log_omitted = arcs(count, nats)
            first, last = (math.ceil(arc * size / (2.0 * math.pi)) + 2 if arc else 0 for arc in (plain, turned))
            if first + last < sum(best[:2]):  # no node is counted twice
                best = first, last, log_omitted
            if sum(best[:2]) <= _MANY_NODES:
                break
        return best

    def _arcs(self, count: int, nats: float) -> tuple[float, float, float]:
        """Angles from 0 on, and from pi on, outside which ratios to ``count`` are small, with the log of their bound."""
        return math.pi, 0.0, -math.inf

    def _seen_arcs(self, count: int, nats: float) -> tuple[float, float, float]:
        """The same by ratios at many angles, and by how much their squares rise between: of small groups, very often."""
        variance = self.most_variance
        wide, start = min(1.0 / math.sqrt(variance), math.pi / 2.0), math.sqrt(2.0 * nats / (count * variance))
        far, log_far = self._smooth(count, nats)
        if start >= wide or (wide < _NARROWEST and far > 10.0 * wide):
            return math.pi, 0.0, -math.inf
        far = max(far, wide)
        ends = np.geomspace(start, wide, 2 + math.ceil(10.0 * math.log(wide / start)))
        half = np.append(ends, np.linspace(wide, far, 2 + math.ceil(10.0 * (far - wide) / wide))[1:])
        places = np.concatenate([half, math.pi - half[::-1], [math.pi]])
        steps = np.diff([places**2, -((math.pi - places) ** 2)]).min(axis=0)
        rises = np.minimum(variance * steps, math.sqrt(2.0 * variance) * np.diff(places))
        logs, errors = self.log_ratios(places[:-1], 0)
        bounds = 0.5 * count * np.log(np.exp(2.0 * (logs.real + errors)) + rises)
        bounds[half.size - 1] = min(float(bounds[half.size - 1]), log_far)
        ends = np.concatenate([[-1], np.flatnonzero(bounds > -nats), [bounds.size]])
        widest = int(np.argmax(np.diff(ends)))
        first, last = int(ends[widest]) + 1, int(ends[widest + 1])
        if first == last:
            return math.pi, 0.0, -math.inf
        return float(places[first]), math.pi - float(places[last]), float(bounds[first:last].max())

    def _smooth(self, count: int, nats: float) -> tuple[float, float]:
        """From which angle to pi less it ratios to ``count`` are small, by the total variation, and the log of their bound."""
        least = min(0.5 * self.total_variation * math.exp(min(nats / count, _OVERFLOW)), 1.0)
        return math.asin(least), -nats if least < 1.0 else math.inf


class Law(Protocol):
    """The loss ``spacing * (origin + S)`` of one release, for sums over a contour."""

    @property
    def spacing(self) -> float:
        """Of the lattice."""

    @property
    def top(self) -> int:
        """The largest loss over ``spacing``."""

    @property
    def origin(self) -> int:
        """What S is counted from, near the mean."""

    def log_moment(self, tilt: float) -> tuple[float, float]:
        """log E e^(tilt S), and a bound of its error."""

    def tilted(self, tilt: float) -> Tilted:
        """The law tilted by e^(tilt S)."""


@dataclass(frozen=True)
class Losses:
    """The sum of ``count`` losses from epsilon on: ``first`` steps of the lattice are the first loss beyond, by ``beyond``."""

    spacing: float
    first: int
    beyond: float
    count: int

    def kernel(self, z: Complexes) -> Complexes:
        """sum over n >= first of (1 - e^(epsilon - spacing n)) e^(-z (n - first))."""
        falls = np.exp(-z)
        gains = -math.expm1(-self.beyond) - falls * (math.exp(-self.beyond) * math.expm1(self.beyond - self.spacing))
        return np.asarray(gains / (np.expm1(-z) * np.expm1(-z - self.spacing)))

    def tilt(self, law: Law) -> float:
        """About where moment times kernel is least, near the saddle point: no bound. log M - tilt n0 + log kernel is convex."""

        def height(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            kernel = float(self.kernel(np.array([tilt + 0j]))[0].real)
            return self.count * law.log_moment(tilt)[0] - tilt * self.first + math.log(kernel)

        ends = math.log(max(1e-12 * min(self.spacing, 1.0), _FLATTEST)), math.log(_STEEPEST)
        found = scipy.optimize.minimize_scalar(height, bounds=ends, method="bounded", options={"xatol": 0.003})
        return math.exp(float(found.x))

    def delta_bounds(self, law: Law) -> tuple[float, float]:
        tilt, count = self.tilt(law), self.count
        at, (log_moment, error) = law.tilted(tilt), law.log_moment(tilt)
        log_scale = count * log_moment - tilt * self.first
        log_doubt = count * error + ROUNDED * (tilt * abs(self.first) + count * abs(log_moment) + 8.0)  # of the scale
        chernoff = min(1.0, math.nextafter(math.exp(min(0.0, log_scale + log_doubt)), math.inf))
        if max(log_scale, log_doubt) > _OVERFLOW:
            return 0.0, chernoff
        log_kernel = math.log(float(self.kernel(np.array([tilt + 0j]))[0].real))
        log_spread = 0.5 * math.log1p(2.0 * math.pi * count * at.variance)
        log_delta = log_scale + log_kernel - log_spread  # about
        size, log_aliases = self._size(law, at, log_delta)
        plain, turned, log_omitted = at.windows(size, count, _WANTED + log_spread)
        if log_delta < _LEAST_LOG_DELTA or plain + turned > (size if size <= at.most_transformed else _MOST_NODES):
            return 0.0, chernoff
        value = wrong = 0.0
        for number, turn in ((plain, 0), (turned, 1)):
            for start in range(0, number, _ROWS):
                found, doubt = self._sum(at, range(start, min(start + _ROWS, number)), size, turn)
                value, wrong = value + found, wrong + doubt
        scale = math.exp(log_scale)
        wrong += math.exp(log_kernel + log_omitted)
        doubt = math.exp(log_doubt)
        low, high = scale * (value - wrong) / doubt - math.exp(log_aliases), scale * (value + wrong) * doubt
        return max(0.0, low), min(high, chernoff)

    def _size(self, law: Law, at: Tilted, log_delta: float) -> tuple[int, float]:
        """An even number of nodes on the whole circle, and the log of a bound of what the rule adds to delta."""
        tilt = at.tilt
        steeper = tilt + min(6.0 / math.sqrt(self.count * at.variance), 40.0)
        log_moment, error = law.log_moment(steeper)
        log_above = self.count * (log_moment + error) - steeper * (self.first - ROUNDED * abs(self.first)) + 1e-9
        wanted = _WANTED - log_delta
        size = 2 * math.ceil(max(wanted / tilt, (wanted + log_above) / (steeper - tilt), 16.0) / 2.0)
        below, above = -tilt * size, log_above - (steeper - tilt) * size
        below -= math.log(-math.expm1(-tilt * size))
        above -= math.log(-math.expm1(-(steeper - tilt) * size))
        return size, float(np.logaddexp(below, above)) + 1e-9

    def _sum(self, at: Tilted, nodes: range, size: int, turn: int) -> tuple[float, float]:
        """The nodes' part of delta over its scale, and a bound of its error."""
        angle = 2.0 * math.pi / size * np.array(nodes, dtype=np.float64)
        logs, errors = at.node_ratios(nodes, size, turn)
        z = np.asarray(at.tilt + 1j * (angle + math.pi * turn), dtype=np.complex128)
        turns = angle * (self.count * at.mean - self.first)
        kernel = self.kernel(z)
        weights = np.full(angle.size, 2.0 / size)
        weights[(angle == 0.0) | (np.array(nodes) == size // 2)] = 1.0 / size
        sign = -1.0 if turn and (at.top * self.count + self.first) % 2 else 1.0
        terms = sign * weights * kernel * np.exp(self.count * logs + 1j * turns)
        exponents = self.count * np.abs(logs) + angle * (self.count * abs(at.mean) + abs(self.first))
        # (|R| + error)^count - |R|^count, where |R| may be far below its error
        grown, lost = self.count * errors, self.count * errors > 1.0
        doubts = np.abs(terms) * (np.expm1(np.where(lost, 0.0, grown)) + ROUNDED * (16.0 + exponents))
        doubts += lost * weights * np.abs(kernel) * np.exp(self.count * logs.real + grown)
        doubts += ROUNDED * float(self.kernel(np.array([at.tilt + 0j]))[0].real) * np.abs(terms / kernel)
        return math.fsum(terms.real), math.fsum(doubts)


def delta_bounds(law: Law, *, epsilon: float, count: int) -> tuple[float, float]:
    """Bounds of delta of ``count`` releases (tight.md, step 13)."""
    if law.spacing == 0.0 or epsilon >= total_loss(law.spacing, law.top * count):
        return 0.0, 0.0
    first = math.floor(Fraction(epsilon) / Fraction(law.spacing)) + 1
    losses = Losses(
        law.spacing, first - count * law.origin, float(first * Fraction(law.spacing) - Fraction(epsilon)), count
    )
    return losses.delta_bounds(law)


def epsilon_bounds(
    law: Law, bounds: Callable[..., tuple[float, float]], *, delta: float, count: int
) -> tuple[float, float]:
    """Bounds of epsilon from those of delta, ``bounds(epsilon=...)``."""
    largest = total_loss(law.spacing, law.top * count)
    if delta == 0.0 or largest == 0.0:
        return largest, largest

    def upper(epsilon: float) -> float:
        return bounds(epsilon=epsilon)[1]

    def excess(epsilon: float) -> float:
        return math.log(max(upper(epsilon), 5e-324)) - math.log(delta)

    high, rate = _chernoff(law, delta, count)
    step = max(3.0 * rate, LEAST)
    high = min(max(high, 0.0), largest)
    wider = max(1e-13 * max(high, rate), LEAST)
    while high < largest and not upper(high) <= delta:  # by rounding
        high, wider = min(high + wider, largest), 4.0 * wider
    low = max(high - step, 0.0)
    while low > 0.0 and excess(low) <= 0.0:
        high, low, step = low, max(low - step, 0.0), 2.0 * step
    if excess(low) <= 0.0:
        return 0.0, 0.0
    least, most = bounds(epsilon=high)
    known = rate * math.log(most / least) / 3.0 if least > 0.0 else 0.0  # no step need be finer
    known = max(known, min(1e-300, 1e-16 * high), LEAST)
    found = float(scipy.optimize.brentq(excess, low, high, xtol=known, rtol=1e-13))
    fine = max(known, 1e-13 * found)
    above, step = found, fine
    while above < high and upper(above) > delta:
        above, step = above + step, 4.0 * step
    below, step = found, fine
    while below > 0.0 and bounds(epsilon=below)[0] < delta:
        below, step = below - step, 4.0 * step
    return max(below, 0.0), min(above, high)


def _chernoff(law: Law, delta: float, count: int) -> tuple[float, float]:
    """An epsilon whose delta is at most this, and how much more makes delta smaller by a factor of about e."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        log_moment, error = law.log_moment(tilt)
        return law.spacing * (count * law.origin + (count * (log_moment + error) - math.log(delta)) / tilt)

    guess = math.sqrt(-2.0 * math.log(delta) / (count * law.tilted(0.0).variance))
    middle = math.log(min(guess, 1.0))
    found = scipy.optimize.minimize_scalar(
        bound, bounds=(middle - 3.0, math.log(_STEEPEST)), method="bounded", options={"xatol": 0.01}
    )
    return float(found.fun) * (1.0 + 1e-9), law.spacing / math.exp(float(found.x))


# --- A law as a table


@dataclass(frozen=True, eq=False)
class Table:
    """P(S = j) of a privacy loss ``spacing * S``: its moments and ratios are less 1 by sums of relative errors (tight.md, step 15)."""

    spacing: float
    top: int
    j: Array
    masses: Array
    errors: Array
    """Relative, of each mass."""
    omitted: float
    """At most the mass that is left out."""
    mean_terms: Array
    """They add up to E S, each with the relative error of its mass."""

    @functools.cached_property
    def mean(self) -> float:
        return float(self.mean_terms.sum())

    @functools.cached_property
    def _mean_error(self) -> float:
        return float((np.abs(self.mean_terms) * (self.errors + 2.0**-47)).sum())

    @functools.cached_property
    def origin(self) -> int:
        return round(self.mean)

    def log_moment(self, tilt: float) -> tuple[float, float]:
        """E e^(tilt S) - 1 = E (e^(tilt S) - 1 - tilt S) + tilt E S: what cancels, the mean alone has."""
        x = tilt * (self.j - self.origin)
        if self.origin or float(x[-1]) > _OVERFLOW:
            at = self.tilted(tilt)
            found = log_sum(np.log(np.maximum(self.masses, LEAST)) + x)
            return found, at.share + 2.0 * self.omitted * (1.0 + max(float(x[-1]), 0.0))
        terms, linear = self.masses * expm1_minus(x), tilt * self.mean
        grown = float(terms.sum()) + linear
        shares = self.errors + 2.0**-45 + 2.0**-52 * np.abs(x)  # of the mean as of the larger terms
        wrong = float((terms * shares).sum()) + tilt * self._mean_error
        return math.log1p(grown), wrong / (1.0 + grown) + 2.0 * self.omitted * (1.0 + max(float(x[-1]), 0.0))

    def tilted(self, tilt: float) -> "_TableTilted":
        return _TableTilted.of(self, tilt)


@dataclass(frozen=True, eq=False)
class _TableTilted(Tilted):
    tilt: float
    table: Table
    law: Array
    share: float
    """Root of the mean square of the relative errors."""
    mean: float
    variance: float
    most_transformed = 2**22

    @classmethod
    def of(cls, table: Table, tilt: float) -> "_TableTilted":
        log_masses, moved = np.log(np.maximum(table.masses, LEAST)), tilt * (table.j - table.origin)
        law = np.exp(log_masses + moved - (log_masses + moved).max())
        law /= law.sum()
        mean = float((law * (table.j - table.origin)).sum())
        away = table.j - table.origin - mean
        shares = table.errors + 2.0**-47 + 2.0**-52 * (np.abs(log_masses) + np.abs(moved))
        share, variance = float((law * shares**2).sum()), float((law * away**2).sum())
        return cls(tilt, table, law, math.sqrt(share), mean, variance + 1e-200)

    @property
    def top(self) -> int:  # type: ignore[override]
        return self.table.top - self.table.origin

    @property
    def most_variance(self) -> float:  # type: ignore[override]
        return self.variance * (1.0 + 1e-6) + 1e-30

    @functools.cached_property
    def total_variation(self) -> float:  # type: ignore[override]
        padded = np.concatenate([np.zeros(2), self.law, np.zeros(2)])
        return float(np.abs(padded[2:] - padded[:-2]).sum()) + 4.0 * self.share + 1e-12

    def log_ratios(self, angle: Reals, turn: int) -> tuple[Complexes, Reals]:
        seen = self.law > _RARE  # of the others the phases do not matter
        law, j = self.law[seen], self.table.j[seen] - self.table.origin
        away, odd = j - self.mean, (self.top - j) % 2.0 if turn else np.zeros(1)
        less, sine = np.empty(angle.shape), np.empty(angle.shape)
        rows = max(1, _BLOCK // away.size)
        for start in range(0, angle.size, rows):
            few = slice(start, start + rows)
            half = np.multiply.outer(0.5 * angle[few], away)
            low, high = np.sin(half), np.cos(half)
            less[few] = 2.0 * (law * np.where(odd, high, low) ** 2).sum(axis=1)
            sine[few] = 2.0 * (law * (1.0 - 2.0 * odd) * low * high).sum(axis=1)
        return self._logs(less, sine, 2.0**-47 * (less + angle * math.sqrt(self.variance)) + _RARE * 4.0 * seen.size)

    def _logs(self, less: Reals, sine: Reals, wrong: Reals) -> tuple[Complexes, Reals]:
        """Of 1 - less + i sine, known within ``wrong`` but for the errors of masses."""
        fallen = np.clip(less * (2.0 - less) - sine**2, 0.0, 1.0)  # 1 less the square of the modulus
        far = fallen > 0.5
        square = np.where(far, (1.0 - less) ** 2 + sine**2, 1.0)
        log_modulus = 0.5 * np.where(far, np.log(np.maximum(square, 1e-300)), np.log1p(-fallen * ~far))
        logs = log_modulus + 1j * np.arctan2(sine, 1.0 - less)
        return np.asarray(logs), np.log1p((wrong + self.share * np.sqrt(fallen)) / np.exp(log_modulus))

    def node_ratios(self, nodes: range, size: int, turn: int) -> tuple[Complexes, Reals]:
        few = nodes.stop < min(_ROWS, size // 2 + 1) or size * self.law.size < _BLOCK
        if turn or few or size > self.most_transformed:  # so few of very many releases: their errors would be a factor
            return super().node_ratios(nodes, size, turn)
        found = _transform(self, size)[nodes.start : nodes.stop]
        return self._logs(1.0 - found.real, found.imag, np.full(found.shape, 2.0**-49 * (2.0 + math.log2(size))))


@functools.lru_cache(maxsize=2)
def _transform(at: _TableTilted, size: int) -> Complexes:
    """Ratios at all nodes of half a circle."""
    whole = round(at.mean)
    folded = np.bincount((at.table.j - at.table.origin - whole).astype(np.int64) % size, weights=at.law, minlength=size)
    turns = 2.0 * math.pi / size * np.arange(size // 2 + 1) * (whole - at.mean)
    return np.asarray(np.conj(scipy.fft.rfft(folded)) * np.exp(1j * turns))


@dataclass(frozen=True, eq=False, kw_only=True)
class LatticeLoss:
    """Law of the privacy loss ``spacing * j``, j = low, low + 1, ..., of two references of the index mechanism.

    Any other law on a lattice may be written so: of one that :func:`loss_law` did not make, nothing is taken for granted.

    Args:
        spacing: step of the lattice, 2 theta, >= 0; inf where the two output laws have no common support.
        low: j of the first entry, of size at most 2^52.
        log_pmf: log P(j), of which the sum of P is 1, or less by at most what ``log_omitted`` says, each within 1e-9; -inf where
            the loss does not take that value. What rounding leaves of it is divided out.
        top: largest j that the loss can take, where the entries beyond are left out; of size at most 2^52.
        log_omitted: log of a bound on the mass left out, <= 0.

    Raises:
        ValueError: a table that is no law: sums other than 1, NaN, infinite probabilities, an entry beyond ``top``.

    Source: GIP, Theorems 1 and 2 (gip.tight).

    Example: randomized response of pure epsilon 1, whose losses are -1 and 1: by hand, tanh(1/2).
        >>> import numpy as np
        >>> from dptheory.privacy.index_sets import LatticeLoss
        >>> right = 1 / (1 + np.exp(-1))
        >>> law = LatticeLoss(spacing=1.0, low=-1, log_pmf=np.array([np.log(1 - right), -np.inf, np.log(right)]), top=1)
        >>> round(law.delta(epsilon=0.0), 6)
        0.462117
    """

    spacing: float
    low: int
    log_pmf: Array
    top: int
    log_omitted: float = -math.inf
    _error = 0.0  # a bound of the relative error of each probability, of those that loss_law formed; 0 of any others

    def __post_init__(self) -> None:
        spacing = _validate.real("spacing", self.spacing, 0.0)
        log_omitted = _validate.real("log_omitted", self.log_omitted, -math.inf, 0.0)
        log_pmf = _validate.numbers_and_infinities("log_pmf", self.log_pmf)
        some = log_pmf.ndim == 1 and (log_pmf > -math.inf).any() and (log_pmf <= _UNEVEN).all()
        if not (some and 1.0 - math.exp(log_omitted) - _UNEVEN <= np.exp(log_pmf).sum() <= 1.0 + _UNEVEN):
            must = f"be logs of probabilities in one row, of which the sum is 1 within {_UNEVEN:g}, but for what log_omitted bounds"
            raise ArgumentError("log_pmf", must, self.log_pmf)
        low, top = (_validate.integer(name, getattr(self, name), -_FARTHEST, _FARTHEST) for name in ("low", "top"))
        last = low + int(np.flatnonzero(log_pmf > -math.inf)[-1])
        if top < last:
            raise ArgumentError("top", f"be at least the largest loss that log_pmf holds, {last}", top)
        _validate.store(self, spacing=spacing, low=low, log_pmf=log_pmf, top=top, log_omitted=log_omitted)

    def delta(self, *, epsilon: float, count: int = 1) -> float:
        r"""Smallest delta with which ``count`` adaptive releases are (epsilon, delta)-private for this pair.

        .. math:: \delta(\epsilon) = E[(1 - e^{\epsilon - L})^+], \quad L \text{ the sum of count independent losses}

        The lattice makes the sum exact; what is left is rounding, and losses that the table leaves out, with a mass of at most about
        1e-90 count: both are added, so that delta is never too small.

        Args:
            epsilon: >= 0.
            count: number of releases, 1..1e12.

        Returns:
            delta, in [0, 1].

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand: at epsilon 0 the total variation distance of (3/4, 1/4) and (1/4, 3/4).
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> round(law.delta(epsilon=0.0), 6)
            0.5
        """
        epsilon = _validate.real("epsilon", epsilon, 0.0)
        count = _validate.integer("count", count, 1, MAX_RELEASES)
        if self.spacing == 0.0 or epsilon >= total_loss(self.spacing, self.top * count):
            return 0.0
        if math.isinf(self.spacing):
            return 1.0
        return table_bounds(self, epsilon=epsilon, count=count)[1]

    def epsilon(self, *, delta: float, count: int = 1) -> float:
        """Smallest epsilon >= 0 at which :meth:`delta` is at most ``delta``, rounded up: ``delta`` of it is at most ``delta``.

        The largest loss where ``delta`` is below the mass of the losses that take no part in the sum, or so small that no number
        next below the largest loss keeps it.

        Args:
            delta: in [0, 1); 0 gives the pure epsilon, the largest loss.
            count: number of releases, 1..1e12.

        Returns:
            Epsilon in nats, >= 0.

        Raises:
            ValueError: as :meth:`delta`.

        Source: GIP, Theorem 2 (gip.tight).

        Example: 100 releases of pure epsilon log 3 each: far from 110 at any delta above 0.
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> [round(law.epsilon(delta=delta, count=100), 2) for delta in (0.0, 1e-5)]
            [109.86, 90.78]
        """
        delta = _validate.real("delta", delta, 0.0, 1.0, ends="[)")
        count = _validate.integer("count", count, 1, MAX_RELEASES)
        largest = max(0.0, total_loss(self.spacing, self.top * count))
        if delta == 0.0 or largest == 0.0 or math.isinf(largest):
            return largest
        bounds = functools.partial(table_bounds, self, count=count)
        return epsilon_bounds(table_of(self), bounds, delta=delta, count=count)[1]

    def renyi(self, *, order: float) -> float:
        """Renyi divergence of this order; an upper bound where entries were left out, else exact; of index sets at most the zCDP one.

        Args:
            order: in (1, inf]; above 1e9 the largest loss, which is what inf gives.

        Returns:
            The divergence in nats.

        Source: GIP, Theorem 2 (gip.tight).

        Example: by hand, at order 2: log((3/4)^2 / (1/4) + (1/4)^2 / (3/4)) = log(7/3).
            >>> import math
            >>> from dptheory.privacy.index_sets import loss_law
            >>> from dptheory.pruning import SubsetMallows
            >>> law = loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2))
            >>> round(law.renyi(order=2.0), 4)
            0.8473
        """
        order = _validate.real("order", order, 1.0, ends="(]")
        if order > 1e9:
            return max(0.0, total_loss(self.spacing, self.top))
        return float(renyi_curve(self, np.array([order]))[0])


@functools.lru_cache(maxsize=16)
def table_of(loss: LatticeLoss) -> Table:
    """For sums; of finite positive spacing."""
    j, kept = loss.low + np.arange(loss.log_pmf.size, dtype=np.float64), np.maximum(loss.log_pmf, -800.0)
    errors = loss._error + ROUNDED + 2.0**-52 * np.abs(kept)
    omitted, masses = math.exp(loss.log_omitted), _masses(loss)
    mean_terms = j * masses
    if loss._error:  # of two index sets: P(-j) = e^(-spacing j) P(j), so that E S has no term below 0
        up = np.maximum(j, 0.0)
        mean_terms = up * masses * -np.expm1(-loss.spacing * up)
    return Table(loss.spacing, loss.top, j, masses, errors, omitted, mean_terms)


def _masses(loss: LatticeLoss) -> Array:
    """P(j)."""
    return np.asarray(np.exp(loss.log_pmf) / _total(loss))


def _total(loss: LatticeLoss) -> float:
    """What the probabilities are divided by: of many losses a sum other than 1 is a factor, to the power of their number."""
    total = float(np.exp(loss.log_pmf).sum())
    return 1.0 if loss._error or 1.0 - math.exp(loss.log_omitted) <= total <= 1.0 else total


def table_bounds(loss: LatticeLoss, *, epsilon: float, count: int) -> tuple[float, float]:
    """Bounds of delta of so many releases; of finite positive spacing."""
    omitted = count * table_of(loss).omitted
    if epsilon >= total_loss(loss.spacing, loss.top * count):
        return 0.0, 0.0
    if count > 1 and (loss.log_pmf.size - 1) * count >= _DIRECT_GRID:
        lower, upper = delta_bounds(table_of(loss), epsilon=epsilon, count=count)
        return lower, min(1.0, upper + omitted)
    found = _direct_delta(loss, epsilon, count)
    wrong = count * float(table_of(loss).errors.max()) + (2.0**-36 if count > 1 else 2.0**-46)
    upper = found * math.exp(1.001 * wrong) + omitted + _UNDERFLOWN
    if upper < 1e6 * _UNDERFLOWN:
        return 0.0, min(upper, delta_bounds(table_of(loss), epsilon=epsilon, count=count)[1] + omitted)
    return max(0.0, found * math.exp(-wrong) - _UNDERFLOWN), min(1.0, upper)


def renyi_curve(loss: LatticeLoss, orders: Array) -> Array:
    """:meth:`LatticeLoss.renyi` at several orders in (1, 1e9], a vector."""
    largest = max(0.0, loss.spacing * loss.top)
    if largest == 0.0 or math.isinf(largest):
        return np.full(orders.shape, largest)
    excess = orders - 1.0
    main = log_moments(loss.low, loss.log_pmf - math.log(_total(loss)), loss.spacing, excess, paired=loss._error > 0.0)
    found = np.logaddexp(main, loss.log_omitted + excess * largest) / excess
    most = np.minimum(largest, 0.5 * orders * loss.spacing * largest) if loss._error else largest  # of index sets: zCDP
    return np.minimum(most, np.maximum(found, 0.0))


def composed(*, loss: LatticeLoss, count: int) -> tuple[int, Array]:
    """First lattice point and log P of the sum of ``count`` losses; absolute error of the probabilities about 1e-16 count.

    Args:
        loss: one loss, of finite positive spacing.
        count: 1..1e12.

    Returns:
        The first point, and the log probabilities from there on.

    Raises:
        ValueError: count outside its range, or a sum too wide for 2^26 grid points.

    Source: GIP, Theorem 2 (gip.tight).

    Example: by hand: two losses of log 3 or -log 3 sum to -2, 0 or 2 steps with 1, 6 and 9 of 16 parts.
        >>> import math
        >>> import numpy as np
        >>> from dptheory.privacy.index_sets import composed, loss_law
        >>> from dptheory.pruning import SubsetMallows
        >>> low, log_pmf = composed(loss=loss_law(mechanism=SubsetMallows(2, 1, theta=math.log(3) / 2)), count=2)
        >>> low, (16 * np.exp(log_pmf)).round(4) + 0.0
        (-2, array([1., 0., 6., 0., 9.]))
    """
    sums = _Trimmed.of(loss).sums(_validate.integer("count", count, 1, MAX_RELEASES), 0.0)
    return sums.low, sums.log_pmf


@dataclass(frozen=True)
class _Sums:
    """log P(S) for S = low, low + 1, ..."""

    low: int
    log_pmf: Array


def _direct_delta(loss: LatticeLoss, epsilon: float, count: int) -> float:
    low, masses = count * loss.low, _convolved(loss, count)
    first = math.floor(Fraction(epsilon) / Fraction(loss.spacing)) + 1
    tail = masses[max(first - low, 0) :]
    beyond = float(Fraction(loss.spacing) * max(first, low) - Fraction(epsilon))
    return float((tail * -np.expm1(-beyond - loss.spacing * np.arange(tail.size, dtype=np.float64))).sum())


@functools.lru_cache(maxsize=8)
def _convolved(loss: LatticeLoss, count: int) -> Array:
    return _power(_masses(loss), count)


@dataclass(frozen=True)
class _Trimmed:
    """A loss without its rarest entries, with the sums that composition needs."""

    j: Array
    log_pmf: Array
    left_out: float
    """Mass of the entries that are missing."""

    @classmethod
    def of(cls, loss: LatticeLoss) -> "_Trimmed":
        likely = np.flatnonzero(loss.log_pmf > loss.log_pmf.max() - _TRIM)
        kept = loss.log_pmf[likely[0] : likely[-1] + 1]
        j = loss.low + np.arange(likely[0], likely[-1] + 1, dtype=np.float64)
        rare = np.concatenate([loss.log_pmf[: likely[0]], loss.log_pmf[likely[-1] + 1 :]])
        return cls(j, kept - log_sum(kept), float(np.exp(rare).sum()) + math.exp(loss.log_omitted))

    def cumulant(self, tilt: float) -> float:
        return log_sum(self.log_pmf + tilt * self.j)

    def tilted(self, tilt: float) -> Array:
        law = np.exp(self.log_pmf + tilt * self.j - self.cumulant(tilt))
        return np.asarray(law / law.sum())

    def sums(self, count: int, tilt: float) -> _Sums:
        """Law of the sum of ``count`` losses where the tilted law has its mass."""
        width = self.j.size - 1
        if width * count < _DIRECT_GRID:
            with np.errstate(divide="ignore"):
                return _Sums(int(self.j[0]) * count, np.log(_power(self.tilted(0.0), count)))
        law = self.tilted(tilt)
        return self._fourier(law, float(law @ self.j), count, tilt, self.window(count, tilt))

    def window(self, count: int, tilt: float) -> int:
        """Lattice points that hold all but 2 e^-_WINDOW of the tilted sum, by Bernstein's inequality, or all of them."""
        law, width = self.tilted(tilt), self.j.size - 1
        spread = count * float(law @ np.square(self.j - float(law @ self.j)))
        reach = width * _WINDOW / 3.0 + math.sqrt((width * _WINDOW / 3.0) ** 2 + 2.0 * spread * _WINDOW)
        return min(2 * math.ceil(reach) + 3, count * width + 1)

    def _fourier(self, law: Array, mean: float, count: int, tilt: float, size: int) -> _Sums:
        if size > _MAX_GRID:
            raise ArgumentError(
                "count", f"leave a grid of at most {_MAX_GRID} points", count, got=f"{size} points for count={count}"
            )
        length = scipy.fft.next_fast_len(max(size, law.size), real=True)
        # Count from the whole number next to the mean, so that phases stay small; place the rest of the mean at the end.
        whole = round(mean)
        padded = np.zeros(length)
        padded[: law.size] = law
        shifted = np.roll(padded, int(self.j[0]) - whole)
        power = scipy.fft.irfft(scipy.fft.rfft(shifted) ** count, n=length)
        centre = round(count * (mean - whole))
        low = centre - length // 2
        power = np.roll(power, -low)
        start = count * whole + low
        s = start + np.arange(length, dtype=np.float64)
        inside = (s >= count * self.j[0]) & (s <= count * self.j[-1])
        with np.errstate(divide="ignore"):
            log_pmf = np.log(np.maximum(power, 0.0)) + count * self.cumulant(tilt) - tilt * s
        return _Sums(start, np.where(inside, log_pmf, -np.inf))


def _power(law: Array, count: int) -> Array:
    """count-fold convolution by repeated squaring; all terms are >= 0, so nothing cancels."""
    result, square = np.ones(1), law
    while count:
        if count & 1:
            result = np.convolve(result, square)
        count >>= 1
        if count:
            square = np.convolve(square, square)
    return np.asarray(result)
