r"""delta(epsilon) of Poisson-subsampled Gaussian steps by the inversion integral on a line, every error bounded.

With :math:`M = \prod_j M_j^{T_j}`, s = c + iu, c > -1, c != 0, and [c < 0] = 1 where c < 0, else 0,

.. math:: \delta(\epsilon) = [c < 0] + \frac1{2\pi}\int_{-\infty}^\infty \frac{M(s)\, e^{-s\epsilon}}{s (s + 1)}\, du .

The trapezoid rule with spacing h is exact but for aliases of one sign, which Chernoff's bound covers. A factor
exp(V s (s + 1) / 2) smooths delta where M decays slowly: what it adds to delta lies between 0 and :math:`V e^{V/8}` times
the smoothed density of the loss at epsilon. proofs/privacy/saddle_line.md proves each bound, and names what is assumed of
rounding.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dptheory.privacy._bounds import Unresolved
from dptheory.privacy.methods.saddle._measures import AtLine, Measure, Product, log_chernoff
from dptheory.privacy.methods.saddle._moments import ELEMENTARY, HALF, Complexes, Reals
from dptheory.privacy.methods.saddle._points import Saddle, log_peak

_LARGEST = 600.0
_LOG_WANTED = math.log(1e-12)
"""Each error is made about this small against delta (or 1 - delta where c < 0)."""
MOST = 2**17
_MOST_PRODUCTS = 150_000_000


@dataclass(frozen=True)
class Line:
    """The integral's nodes s = c + ikh, k = 0 .. count, for one direction; serves every epsilon near the one it was made for.

    Attributes:
        c, h: the line and its spacing.
        smoothing: V >= 0.
        log_terms: log of M(s) exp(V s (s + 1) / 2).
        log_moduli_error: log of the bound of |M(s)| with its error over |M(s)|.
        aliases: (c', bound of log M(c') + log peak + V c' (c' + 1) / 2) on both sides of c.
        log_tail, log_density_tail: log of a bound of the sums beyond the last node, without exp(-c epsilon).
        left_out: bound of the probability that the cuts leave out.
        products: how many complex products its nodes took: what it cost.
    """

    c: float
    h: float
    smoothing: float
    log_terms: Complexes
    log_errors: Reals
    aliases: tuple[tuple[float, float], ...]
    log_tail: float
    log_density_tail: float
    left_out: float
    products: int = 0

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        """Bounds of delta(epsilon); 0 and 1 where the line is so far from its saddle that its terms overflow."""
        if not self._finite(epsilon):
            return 0.0, 1.0
        value, error = self._sum(epsilon, density=False)
        aliases = self._aliases(epsilon)
        smooth = 0.0
        if self.smoothing > 0:
            density, density_error = self._sum(epsilon, density=True)
            smooth = self.smoothing * math.exp(self.smoothing / 8) * (density + density_error) * (1 + ELEMENTARY)
        low, high = value - error - smooth, value + error
        low, high = (low - aliases, high) if self.c > 0 else (low, high + aliases)
        if self.c < 0:
            low, high = low + 1 - HALF - self.left_out, high + 1 + HALF
        return max(low, 0.0), min(high + self.left_out, 1.0)

    def middle(self, epsilon: float) -> tuple[float, float]:
        """About delta(epsilon) and its derivative; 0 where its terms overflow."""
        if not self._finite(epsilon):
            return 0.0, 0.0
        s, weights = self._nodes()
        terms = weights * np.exp(self.log_terms - s * epsilon) / (s * (s + 1))
        value = float(terms.real.sum())
        correction = 0.0
        if self.smoothing > 0:
            correction = self.smoothing / 2 * self._sum(epsilon, density=True)[0]
        return value - correction + (self.c < 0), -float((terms * s).real.sum())

    def _finite(self, epsilon: float) -> bool:
        logs = [float((self.log_terms.real + self.log_errors).max()), self.log_tail]
        if self.smoothing > 0:
            logs.append(self.log_density_tail)
        wings = (log_bound - c * epsilon - abs(c - self.c) * 2 * math.pi / self.h for c, log_bound in self.aliases)
        return max(max(logs) - self.c * epsilon, *wings, 0.0) < _LARGEST

    def _nodes(self) -> tuple[Complexes, Reals]:
        s = self.c + 1j * self.h * np.arange(self.log_terms.size)
        weights = np.full(s.size, self.h / math.pi)
        weights[0] /= 2
        return s, weights

    def _sum(self, epsilon: float, *, density: bool) -> tuple[float, float]:
        """The trapezoid sum and a bound of its error by truncation, by the errors of M, and by rounding."""
        s, weights = self._nodes()
        exponent = self.log_terms - s * epsilon
        kernel: Complexes = np.ones_like(s) if density else 1 / (s * (s + 1))
        terms = weights * np.exp(exponent) * kernel
        moduli = np.abs(terms)
        # (|M| + error)^T - |M|^T: by its logarithm, as |M| may be far below its error
        large = self.log_errors > 1.0
        of_moments = moduli * np.expm1(np.where(large, 0.0, self.log_errors))
        of_moments += large * weights * np.exp(exponent.real + self.log_errors) * np.abs(kernel)
        of_terms = ELEMENTARY * (8 + np.abs(self.log_terms) + np.abs(s * epsilon))
        rounding = float((of_moments + moduli * of_terms).sum()) + HALF * s.size * float(moduli.sum())
        tail = math.exp((self.log_density_tail if density else self.log_tail) - self.c * epsilon)
        return float(terms.real.sum()), (rounding + tail) * (1 + s.size * ELEMENTARY)

    def _aliases(self, epsilon: float) -> float:
        period = 2 * math.pi / self.h
        total = 0.0
        for c, log_bound in self.aliases:
            distance = abs(c - self.c) * period
            total += math.exp(log_bound - c * epsilon - distance) / -math.expm1(-distance)
        return total * (1 + 1e-9)


_MOST_SMOOTHING = 1000.0
"""Beyond it the bound of what smoothing changes is not a number."""


@dataclass(frozen=True)
class Plan:
    """Where the nodes lie: s = c + ikh, k = 0 .. count; V; and c' on both sides of c for Chernoff's bound.

    Attributes:
        log_wanted: how small the errors are to be against M(c) exp(-c epsilon).
    """

    measure: Measure
    c: float
    h: float
    count: int
    smoothing: float
    wings: tuple[float, ...]
    moments: AtLine
    log_decay: float
    log_wanted: float


def plan_line(measure: Measure, saddle: Saddle, most: int = MOST) -> Plan:
    """A line through the saddle, fine and long enough for errors of about 1e-12 of delta there."""
    c, epsilon = saddle.c, saddle.epsilon
    if isinstance(measure, Product):
        measure = _uncut(measure, c)
    log_wanted = saddle.log_value + _LOG_WANTED
    wings, period = _period(measure, saddle, log_wanted)
    if not 0.0 < period < math.inf:
        raise Unresolved(f"no spacing for the line at {c!r}: its aliases have the bound {period!r}")
    h = 2 * math.pi / period
    moments = measure.at(c)
    log_wanted -= moments.log_moment - c * epsilon
    count, log_decay, smoothing = _length(moments, saddle, h, log_wanted, most)
    if smoothing > _MOST_SMOOTHING:
        raise Unresolved(f"the line at {c!r} would be smoothed by {smoothing!r}")
    return Plan(measure, c, h, count, smoothing, wings, moments, log_decay, log_wanted)


def line_at(measure: Measure, saddle: Saddle, most: int = MOST) -> Line:
    plan = plan_line(measure, saddle, most)
    measure, c, h, smoothing = plan.measure, plan.c, plan.h, plan.smoothing
    log_tail, log_density_tail = _log_tails(c, h, plan.count, smoothing, plan.moments.log_moment + plan.log_decay)
    s = c + 1j * h * np.arange(plan.count + 1)
    log_terms, log_errors = plan.moments.terms(h, plan.count)
    log_terms = log_terms + smoothing / 2 * s * (s + 1)
    aliases = tuple((c, log_chernoff(measure, c) + smoothing / 2 * c * (c + 1)) for c in plan.wings)
    products = plan.moments.size * (plan.count + 1)
    return Line(c, h, smoothing, log_terms, log_errors, aliases, log_tail, log_density_tail, measure.left_out, products)


def _uncut(measure: Product, c: float) -> Product:
    """Without cuts that are so far out that they cost more than they save."""
    steps = measure.steps
    if all(step.whole and (1 + c) * step.shift < step.cut - 6.0 for step in steps):
        return Product(tuple(replace(step, cut=math.inf) for step in steps), 0.0)
    return measure


def _period(measure: Measure, saddle: Saddle, log_wanted: float) -> tuple[tuple[float, ...], float]:
    """Two c' on both sides of c, and the period 2 pi / h at which Chernoff's bound of the aliases is small enough."""
    c = saddle.c
    low, high = (0.0, math.inf) if c > 0 else (-1.0, 0.0)
    wings, period = [], 0.0
    for side, limit in ((-1.0, c - low), (1.0, high - c)):
        least, chosen, distance = math.inf, c, 0.3 / saddle.width
        while True:
            wing = c + side * distance if distance < limit else (low if side < 0 else high)
            log_bound = measure.about(wing) + log_peak(wing) - wing * saddle.epsilon
            needed = (log_bound - log_wanted + 1.0) / abs(wing - c)
            settled = needed > 0.98 * least
            if needed < least:
                least, chosen = needed, wing
            if settled or distance >= limit:
                break
            distance *= 1.25
        wings.append(chosen)
        period = max(period, least)
    return tuple(wings), period


def _length(moments: AtLine, saddle: Saddle, h: float, log_wanted: float, most: int) -> tuple[int, float, float]:
    """Number of nodes, log of the bound of |M| / M(c) beyond them, and V.

    ``log_wanted``: how small the tail is to be against M(c).
    """
    count = max(4, math.ceil(math.sqrt(2 * max(-_LOG_WANTED, 1.0)) / (saddle.width * h)))
    most = min(most, max(1, most // MOST) * _MOST_PRODUCTS // moments.size)
    while True:
        count = min(count, most)
        log_decay = moments.log_decay((count + 1) * h)
        missing = log_decay - math.log(count * h * math.pi) - log_wanted
        if missing <= 0:
            return count, log_decay, 0.0
        if count == most:
            break
        count = math.ceil(1.15 * count) if missing < 5 else 2 * count if missing > 20 else math.ceil(1.4 * count)
    u = (count + 1) * h
    # V costs a width of V c (c + 1) or so: as small as a tail of 1e-8 allows
    return count, log_decay, 2 * max(missing - 9.0, 4.0) / u**2


def _log_tails(c: float, h: float, count: int, smoothing: float, log_modulus: float) -> tuple[float, float]:
    """log of bounds of (h / pi) sum over k > count of the moduli: of delta's terms, and of the density's."""
    u = (count + 1) * h
    damping = smoothing / 2 * (c * (c + 1) - u * u)
    log_tail = log_modulus + damping - math.log(math.pi * count * h)
    if smoothing == 0:
        return log_tail, math.inf
    return log_tail, log_modulus + damping + math.log((h + 1 / (smoothing * u)) / math.pi)
