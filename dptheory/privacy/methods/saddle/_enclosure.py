"""The integral on the saddle line in ball arithmetic: enclosures of delta and epsilon that assume nothing but Arb.

Where the line runs and where its nodes lie comes from the computation in doubles; every number that the result rests on is
a ball. Needs python-flint (``pip install dptheory[certified]``). Proof: proofs/privacy/saddle_line.md, step 9.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from flint import acb, acb_mat, arb, ctx

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps
from dptheory.privacy.methods._sampled_loss import StepLoss
from dptheory.privacy.methods.saddle._brackets import SaddleLine, largest_loss
from dptheory.privacy.methods.saddle._line import (
    Losses,
    Nodes,
    Plan,
    Product,
    cut,
    envelope,
    law,
    lower_shift,
    nodes,
    plan_line,
    saddle_at,
    step_losses,
    total_of,
    widest_shift,
)

NOISE = (0.4, 20.0)
RATE = (1e-4, 1.0)
COUNT = (100, 1_000_000)

_BITS = 128
_DIGITS = 42.0
_SPARE = 5.0  # nats by which the moments are better known than the plan asks of the integral
_WIDEST = 1e-6
_MOST_PRODUCTS = 500_000_000
_INSTEAD = "; the bracket in doubles holds there, under its assumption on rounding"


def worst_delta(composition: Steps, *, epsilon: float, among: tuple[Direction, ...]) -> tuple[float, float]:
    """An enclosure of the largest delta(epsilon) of some directions, of 100 to 10^6 steps of noise in [0.4, 20], rates in [1e-4, 1]."""
    _check(composition)
    found = [_delta(composition, epsilon, one) for one in among]
    return max(low for low, _ in found), max(high for _, high in found)


def worst_epsilon(composition: Steps, *, delta: float, among: tuple[Direction, ...]) -> tuple[float, float]:
    """An enclosure of the least epsilon that holds in some directions; arguments and errors as for :func:`worst_delta`."""
    _check(composition)
    first, *others = among
    lower, upper = _epsilon(composition, delta, first)
    for direction in others:
        if _delta(composition, lower, direction)[1] > delta:
            low, high = _epsilon(composition, delta, direction)
            lower, upper = max(lower, low), max(upper, high)
    return lower, upper


def _check(composition: Steps) -> None:
    for part in composition:
        if not (NOISE[0] <= part.noise_multiplier <= NOISE[1] and RATE[0] <= part.sampling_rate <= RATE[1]):
            raise Unresolved(
                f"certified: noise_multiplier must lie in {NOISE} and sampling_rate in {RATE}, got {part}{_INSTEAD}"
            )
    count = sum(part.count for part in composition)
    if not COUNT[0] <= count <= COUNT[1]:
        raise Unresolved(f"certified: the number of steps must lie in {COUNT}, got {count}{_INSTEAD}")


def _delta(composition: Steps, epsilon: float, direction: Direction) -> tuple[float, float]:
    if epsilon >= largest_loss(step_losses(composition, direction)):
        return 0.0, 0.0
    low, high = _line(composition, epsilon, direction).delta_bracket(epsilon)
    if high - low > _WIDEST * high:
        around = SaddleLine().delta(composition, direction, epsilon)
        raise Unresolved(f"certified: delta in [{low!r}, {high!r}] only; in doubles {around}", low, high)
    return low, high


def _epsilon(composition: Steps, delta: float, direction: Direction) -> tuple[float, float]:
    around = SaddleLine().epsilon_of_kinds(composition, direction, delta)
    if not around.settled:
        raise Unresolved(f"epsilon is known to lie in [{around.lower!r}, {around.upper!r}] only")
    if around.upper == 0.0:
        if _delta(composition, 0.0, direction)[1] <= delta:
            return 0.0, 0.0
        raise Unresolved(f"certified: delta(0) is not told from delta = {delta!r}{_INSTEAD}")
    epsilon = (around.lower + around.upper) / 2
    line = _line(composition, epsilon, direction)
    low, high = line.delta_bracket(epsilon)
    if high - low > _WIDEST * high:
        raise Unresolved(f"certified: delta({epsilon!r}) in [{low!r}, {high!r}] only{_INSTEAD}", 0.0, math.inf)
    gap = max(abs(high - delta), abs(low - delta), high - low)
    start = 1.01 * gap / line.slope(epsilon) + 2 * math.ulp(epsilon)
    return (
        _end(lambda e: line.delta_bracket(e)[0] >= delta, epsilon, -start),
        _end(lambda e: line.delta_bracket(e)[1] <= delta, epsilon, start),
    )


def _end(holds: Callable[[float], bool], epsilon: float, step: float) -> float:
    for _ in range(30):
        if epsilon + step <= 0:
            return 0.0
        if holds(epsilon + step):
            return epsilon + step
        step *= 1.5
    raise Unresolved(f"certified: no bound of epsilon near {epsilon!r}{_INSTEAD}")


@dataclass(frozen=True)
class BallLine:
    """The nodes s = c + ikh with their terms as balls, and bounds of everything that is not in them."""

    plan: Plan
    points: list[acb]
    terms: list[acb]
    """h / pi times M(s) exp(V s (s + 1) / 2), half of it at k = 0."""
    aliases: list[tuple[arb, arb]]
    tail: arb
    density_tail: arb
    left_out: arb

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        with ctx.workprec(_BITS):
            low, high = self._balls(arb(epsilon))
            return max(0.0, down(low)), min(1.0, up(high))

    def slope(self, epsilon: float) -> float:
        """About -d delta / d epsilon."""
        with ctx.workprec(_BITS):
            return abs(float(sum((t * (-s * epsilon).exp() / (s + 1)).real.mid() for s, t in self._pairs())))

    def _pairs(self) -> list[tuple[acb, acb]]:
        return list(zip(self.points, self.terms, strict=True))

    def _balls(self, epsilon: arb) -> tuple[arb, arb]:
        c, v = arb(self.plan.c), arb(self.plan.smoothing)
        damped = [(s, t * (-s * epsilon).exp()) for s, t in self._pairs()]
        tilt = (-c * epsilon).exp()
        value = sum(((t / (s * (s + 1))).real for s, t in damped), arb(0)) + ball(self.tail * tilt)
        smooth = arb(0)
        if v > 0:
            density = sum((t.real for _, t in damped), arb(0)) + ball(self.density_tail * tilt)
            smooth = v * (v / 8).exp() * density.upper()
        period = 2 * arb.pi() / arb(self.plan.h)
        aliases = arb(0)
        for wing, bound in self.aliases:
            distance = abs(wing - c) * period
            aliases += bound * (-wing * epsilon - distance).exp() / (1 - (-distance).exp())
        if self.plan.c > 0:
            return value - aliases - smooth, value + self.left_out
        return 1 + value - smooth - self.left_out, 1 + value + aliases + self.left_out


def _line(composition: Steps, epsilon: float, direction: Direction) -> BallLine:
    plan = line_plan(composition, epsilon=epsilon, direction=direction)
    with ctx.workprec(_BITS):
        return _ball_line(plan)


def line_plan(composition: Steps, *, epsilon: float, direction: Direction) -> Plan:
    """Where the line for epsilon runs, for an evaluation in another arithmetic."""
    steps = step_losses(composition, direction)
    log_delta = math.log(max(SaddleLine().delta(composition, direction, epsilon).upper, 1e-300))
    kept = cut(steps, log_delta)
    saddle = saddle_at(total_of(kept), epsilon)
    if saddle.c > 0:  # delta may be far below what the saddle says
        saddle = replace(saddle, log_value=min(saddle.log_value, log_delta))
    return plan_line(law(kept), saddle)


def _ball_line(plan: Plan) -> BallLine:
    c, h, v = arb(plan.c), arb(plan.h), arb(plan.smoothing)
    points = [acb(c, k * h) for k in range(plan.count + 1)]
    products = [acb(1)] * len(points)
    u = (plan.count + 1) * h
    decay = arb(1)
    for step in _steps(plan):
        rule = _ball_rule(step, plan.c, widest_shift(step, plan.c), max(_DIGITS, _SPARE - plan.log_wanted))
        if len(rule.losses) * len(points) > _MOST_PRODUCTS:
            raise Unresolved(f"certified: {len(rule.losses)} times {len(points)} nodes are too many{_INSTEAD}")
        values = rule.moments(h, plan.count)
        products = [p * m**step.count for p, m in zip(products, values, strict=True)]
        decay *= _least_decay(step, plan.c, rule, u) ** step.count
    terms = [h / arb.pi() * p * (v / 2 * s * (s + 1)).exp() for p, s in zip(products, points, strict=True)]
    terms[0] /= 2
    damping = (v / 2 * (c * (c + 1) - u * u)).exp()
    return BallLine(
        plan,
        points,
        terms,
        [(arb(wing), _chernoff(plan, wing)) for wing in plan.wings],
        decay * damping / (arb.pi() * plan.count * h),
        decay * damping * (h + 1 / (v * u)) / arb.pi() if plan.smoothing > 0 else arb(0),
        sum((step.count * _cut_mass(step) for step in _steps(plan)), arb(0)),
    )


def _steps(plan: Plan) -> Losses:
    assert isinstance(plan.measure, Product)  # of :func:`line_plan`
    return plan.measure.steps


def _cut_mass(step: StepLoss) -> arb:
    if step.cut == math.inf:
        return arb(0)
    k, q = arb(step.sharpness), arb(step.sampling_rate)
    return (k * k / 2 - k * arb(step.cut)).exp() * (1 - q + q * (k / arb(step.noise_multiplier)).exp())


def _chernoff(plan: Plan, wing: float) -> arb:
    """Upper bound of M(c') times the largest value of exp(-c' x) times the smoothed kernel."""
    c = arb(wing)
    bound = (arb(plan.smoothing) / 2 * c * (c + 1)).exp()
    if wing in (0.0, -1.0):
        return bound
    if wing > 0:
        bound *= (c * c.log() - (1 + c) * (1 + c).log()).exp()
    for step in _steps(plan):
        rule = _ball_rule(step, wing, widest_shift(step, wing), 5.0)
        bound *= arb(rule.moments(arb(0), 0)[0].real.upper()) ** step.count
    return bound


def _least_decay(step: StepLoss, c: float, rule: "BallRule", u: arb) -> arb:
    """Upper bound of |M(c + iv)| for all v >= u, on the rule's line or on a lower one."""
    bound = rule.decay(u)
    y = lower_shift(step, c, float(u))
    if y is not None:
        bound = bound.min(_ball_rule(step, c, y, 5.0).decay(u))
    return bound


@dataclass(frozen=True)
class BallRule:
    """The trapezoid rule for M(c + iu), u >= 0, as balls; ``error`` bounds its distance from M for every u."""

    y: float
    losses: list[acb]
    weights: list[acb]
    error: arb

    def moments(self, h: arb, count: int) -> list[acb]:
        """M(c + ikh), k = 0 .. count."""
        block = math.isqrt(count) + 1
        blocks = -(-(count + 1) // block)
        turns = [acb(0, 1) * h * loss for loss in self.losses]
        coarse = [
            w * (turn * (block * j)).exp() for j in range(blocks) for w, turn in zip(self.weights, turns, strict=True)
        ]
        fine = [(turn * j).exp() for turn in turns for j in range(block)]
        table = (acb_mat(blocks, len(turns), coarse) * acb_mat(len(turns), block, fine)).entries()
        around = acb(ball(self.error), ball(self.error))
        return [value + around for value in table[: count + 1]]

    def decay(self, u: arb) -> arb:
        falls = (abs(w) * (-u * loss.imag).exp() for w, loss in zip(self.weights, self.losses, strict=True))
        return arb((sum(falls, arb(0)) + self.error).upper())


def _ball_rule(step: StepLoss, c: float, y: float, digits: float) -> BallRule:
    at = nodes(step, c, y, digits)
    spacing, height = arb(at.spacing), arb(at.y)
    root = (2 * arb.pi()).sqrt()
    losses, weights = [], []
    for k in range(at.first, at.last + 1):
        z = acb(k * spacing, height)
        loss, log_density = _loss(step, z)
        losses.append(loss)
        weights.append((c * loss + log_density - z * z / 2).exp() * spacing / root)
    exponent = 2 * arb.pi() * height / spacing
    strip = _cells(step, c, arb(0)).integral() + _cells(step, c, 2 * height).integral()
    error = strip / (exponent.exp() - 1) + _cells(step, c, height).outside(at)
    return BallRule(y, losses, weights, arb(error.upper()))


def _loss(step: StepLoss, z: acb) -> tuple[acb, acb]:
    t, q = 1 / arb(step.noise_multiplier), arb(step.sampling_rate)

    def log_mixture(z: acb) -> acb:
        return acb((q * (t * z - t * t / 2).expm1()).log1p())

    if step.direction == "add":
        return -log_mixture(-z), acb(0)
    up = log_mixture(z)
    density = up if step.cut == math.inf else up - (step.sharpness * (z - arb(step.cut))).exp()
    return (up if step.direction == "remove" else up - log_mixture(-z)), density


@dataclass(frozen=True)
class _Cells:
    """Upper bounds of the integrand's modulus per length on cells, and beyond them: step 5 of the proof."""

    edges: list[float]
    bounds: list[arb]
    ends: tuple[arb, arb]
    slopes: tuple[arb, arb]

    def integral(self) -> arb:
        widths = (arb(b) - arb(a) for a, b in zip(self.edges, self.edges[1:], strict=False))
        inside = sum((w * bound for w, bound in zip(widths, self.bounds, strict=True)), arb(0))
        return inside + self.ends[0] / self._left() + self.ends[1] / self._right()

    def outside(self, at: Nodes) -> arb:
        """Bound of the sum of the moduli of the rule's terms beyond its first and last node."""
        spacing = arb(at.spacing)
        first, last = at.first * spacing, at.last * spacing
        total = self.ends[0] * (spacing + 1 / self._left()) + self.ends[1] * (spacing + 1 / self._right())
        for a, b, bound in zip(self.edges, self.edges[1:], self.bounds, strict=False):
            if not (arb(a) > first and arb(b) < last):
                total += (arb(b) - arb(a) + spacing) * bound
        return total

    def _left(self) -> arb:
        return _positive(-arb(self.edges[0]) - self.slopes[0])

    def _right(self) -> arb:
        return _positive(arb(self.edges[-1]) - self.slopes[1])


def _cells(step: StepLoss, c: float, y: arb) -> _Cells:
    t, q, s = 1 / arb(step.noise_multiplier), arb(step.sampling_rate), arb(c)
    theta = t * y
    _positive(arb.pi() / 2 - theta)
    # the edges of the computation in doubles; which edges, does not matter to the bound
    edges = [float(edge) for edge in envelope(step, c, float(y)).edges]
    up = 1 + s if step.direction != "add" else arb(0)
    down = s if step.direction != "remove" else arb(0)
    cosine, rest = theta.cos(), 1 - q

    def log_modulus(x: arb) -> arb:
        b = q * (t * x - t * t / 2).exp()
        return (rest * rest + b * b + 2 * rest * b * cosine).log() / 2

    balls = [arb(edge) for edge in edges]
    ups = [up * log_modulus(x) for x in balls] if step.direction != "add" else [arb(0)] * len(balls)
    downs = [-down * log_modulus(-x) for x in balls] if step.direction != "remove" else [arb(0)] * len(balls)
    kept = [arb(0)] * len(balls)
    if step.cut < math.inf:
        _positive((step.sharpness * y).cos())
        kept = [-(step.sharpness * (x - arb(step.cut))).exp() * (step.sharpness * y).cos() for x in balls]
    root = (2 * arb.pi()).sqrt()

    def modulus(exponent: arb) -> arb:
        return arb((exponent.exp() / root).upper())

    bounds = []
    for k in range(len(edges) - 1):
        near = 0.0 if edges[k] * edges[k + 1] < 0 else min(abs(edges[k]), abs(edges[k + 1]))
        largest = ups[k].max(ups[k + 1]) + downs[k].max(downs[k + 1]) + kept[k]
        bounds.append(modulus((y * y - arb(near) ** 2) / 2 + largest))
    left, right = (modulus((y * y - balls[k] ** 2) / 2 + ups[k] + downs[k] + (kept[k] if k else 0)) for k in (0, -1))
    return _Cells(edges, bounds, (left, right), _slopes(step, c, t, q, balls[-1], (step.sharpness * y).cos()))


def _slopes(step: StepLoss, c: float, t: arb, q: arb, edge: arb, cosine: arb) -> tuple[arb, arb]:
    up, down = (1 + arb(c)) * (step.direction != "add"), arb(c) * (step.direction != "remove")
    left = t * (-down).max(arb(0))
    share = arb(1)
    if step.sampling_rate < 1.0:
        share = share.min(q / (1 - q) * (-t * edge - t * t / 2).exp())
    right = t * (up + down.max(arb(0)) * share)
    if step.cut < math.inf:
        right -= step.sharpness * (step.sharpness * (edge - arb(step.cut))).exp() * cosine
    return left, right.max(arb(0))


def _positive(number: arb) -> arb:
    if not number > 0:
        raise Unresolved(f"certified: a bound of the strip fails{_INSTEAD}")
    return number


def ball(bound: arb) -> arb:
    """[-bound, bound]."""
    top = abs(bound).upper()
    return arb(0).union(top).union(-top)


def down(number: arb) -> float:
    return math.nextafter(float(number.lower()), -math.inf)


def up(number: arb) -> float:
    return math.nextafter(float(number.upper()), math.inf)
