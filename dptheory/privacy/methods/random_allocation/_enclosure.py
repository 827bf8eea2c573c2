r"""Epochs of random allocation, one participation, in ball arithmetic: enclosures that assume nothing but Arb.

The likelihood ratio S of an epoch is a mean of t lognormals, and :math:`E\,S^{1/2 - iu}`, u >= 0, serves both directions:
proofs/privacy/random_allocation.md, step 10. Needs python-flint.
"""

import functools
import math
from dataclasses import dataclass

from flint import acb, acb_mat, acb_poly, arb, ctx

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import RandomAllocation
from dptheory.privacy.methods.random_allocation._bounds import allocation_delta, allocation_epsilon
from dptheory.privacy.methods.saddle._enclosure import ball, down, up

_SPARE = 40.0
"""Nats by which everything is better known than delta."""
_HEIGHT, _TURN = 0.4, 8.0
"""Largest angle that the strip of the rule has to either side; and that angle times the largest u."""
_MOST_POWERS, _MOST_NODES = 400, 60_000
_MOST_PRODUCTS = 5_000_000
_WIDEST = 1e-6


def worst_delta(part: RandomAllocation, *, epsilon: float, among: tuple[Direction, ...]) -> tuple[float, float]:
    """An enclosure of the largest delta(epsilon) of "remove", "add" or both; ``part`` has whole epochs and one participation."""
    found = [_delta(part, one, epsilon) for one in among]
    return max(low for low, _ in found), max(high for _, high in found)


def worst_epsilon(part: RandomAllocation, *, delta: float, among: tuple[Direction, ...]) -> tuple[float, float]:
    """An enclosure of the least epsilon that holds in some directions; arguments and errors as for :func:`worst_delta`."""
    found = [_epsilon(part, one, delta) for one in among]
    return max(low for low, _ in found), max(high for _, high in found)


def _delta(part: RandomAllocation, direction: Direction, epsilon: float) -> tuple[float, float]:
    _refuse_replacement(direction)
    about = allocation_delta((part,), direction, epsilon).lower
    line = _line_for(part, epsilon, max(about, 1e-300))
    found = line.delta(direction, epsilon)
    if found[1] - found[0] > _WIDEST * found[1]:
        raise Unresolved(f"certified: delta in [{found[0]!r}, {found[1]!r}] only; the bracket in doubles holds", *found)
    return found


def _epsilon(part: RandomAllocation, direction: Direction, delta: float) -> tuple[float, float]:
    _refuse_replacement(direction)
    around = allocation_epsilon((part,), direction, delta)
    if around.upper == 0.0:
        if _delta(part, direction, 0.0)[1] <= delta:
            return 0.0, 0.0
        raise Unresolved(f"certified: delta(0) is not told from delta = {delta!r}; the bracket in doubles holds")
    if not around.upper < math.inf:
        raise Unresolved("certified: no bracket in doubles to begin from")
    line = _line_for(part, around.upper, delta)
    low, high = 0.5 * around.lower, 1.5 * around.upper
    for _ in range(60):
        middle = (low + high) / 2
        below, above = line.delta(direction, middle)
        if below > delta:
            low = middle
        elif above <= delta:
            high = middle
        else:
            break
    if (low > 0.0 and line.delta(direction, low)[0] < delta) or line.delta(direction, high)[1] > delta:
        raise Unresolved("certified: no bound of epsilon near that in doubles; the bracket in doubles holds")
    return low, high


def _refuse_replacement(direction: Direction) -> None:
    if direction == "replace":
        raise Unresolved("certified: where one record is replaced the bounds of random allocation are apart")


@dataclass(frozen=True, eq=False)
class BallLine:
    """The nodes u = kh with E S^(1/2 - iu) to the power of the epochs, as balls."""

    spacing: arb
    values: tuple[acb, ...]
    decay: arb
    """c of the bound exp(-c u^2) of the modulus."""
    bits: int

    def delta(self, direction: Direction, epsilon: float) -> tuple[float, float]:
        with ctx.workprec(self.bits):
            e, h = arb(epsilon), self.spacing
            total = arb(0)
            for k, value in enumerate(self.values):
                u = h * k
                turned = (value if direction == "add" else value.conjugate()) * acb(0, -u * e).exp()
                total += turned.real / (arb(1) / 4 + u * u) / (2 if k == 0 else 1)
            last = h * (len(self.values) - 1)
            tail = (e / 2 - self.decay * last * last).exp() / (arb.pi() * last)
            wrapped = (e.exp() + 1) / ((arb.pi() / h).exp() - 1)
            found = 1 - (e / 2).exp() * h / arb.pi() * total + ball(tail)
            return max(0.0, down(found)), min(1.0, up(found + wrapped))


def _line_for(part: RandomAllocation, epsilon: float, delta: float) -> BallLine:
    nats = math.log(1 / delta) + _SPARE
    # rounded, so that one line serves both directions and neighbouring questions
    return _line(part.noise_multiplier, part.steps_per_epoch, part.count, 8 * math.ceil((2 * epsilon + nats) / 8))


@functools.lru_cache(maxsize=8)
def _line(noise: float, steps: int, epochs: int, nats: int) -> BallLine:
    """``nats``: how small each error is to be."""
    last = math.sqrt(2 * nats * steps / epochs) * noise
    period = 2.0 * nats
    count = math.ceil(last * period / (2 * math.pi)) + 1
    height = min(_HEIGHT, _TURN / last)
    lost = 3 * height * last  # nats that the ray's angle costs
    bits = math.ceil((nats + lost) / math.log(2)) + 64
    with ctx.workprec(bits):
        h = 2 * arb.pi() / arb(period)
        shift = 1 / arb(noise)  # as a double it would be that of another noise
        moments = _moments(shift, steps, h, count, height, nats + lost)
        return BallLine(h, tuple(one**epochs for one in moments), shift**2 * epochs / (2 * steps), bits)


def _moments(s: arb, steps: int, h: arb, count: int, height: float, nats: float) -> list[acb]:
    """E S^(1/2 - ikh), k = 0 .. count."""
    d = arb(height)
    angle = arb.pi() / 2 - 2 * d
    # of outputs: the height of their strip, and their spacing, a multiple of that of y over s
    strip = min(1.999 * height / float(s), math.sqrt(2 * nats + 16))
    widest = 2 * math.pi * strip / (nats + 8 + strip**2 / 2)
    spacing = arb(min(2 * math.pi * height / (nats + 8), widest * float(s)))
    stride = max(1, math.floor(widest * float(s) / float(spacing)))
    second = ((s * s).exp() + steps - 1) / steps  # E S^2
    # where the integrand has fallen: below, it is at most E S^2 exp(3 y / 2); above, see _beyond
    first = math.floor(-(nats + 8) * 2 / 3 / float(spacing))
    turns = math.ceil(math.log(nats + 50) / float(spacing))
    wanted = (-arb(nats)).exp()
    while not (beyond := _beyond(s, steps, angle, spacing * turns)) < wanted:
        turns += math.ceil(0.5 / float(spacing))
        if turns - first > _MOST_NODES:
            raise Unresolved("certified: too many nodes; the bracket in doubles holds")
    size = turns - first + 1
    if size > _MOST_NODES or size * (count + 1) > _MOST_PRODUCTS:
        raise Unresolved(f"certified: {size} times {count} nodes are too many; the bracket in doubles holds")
    zeroth, once, twice = _laplace(s, steps, angle, arb(strip), spacing, stride, first, size, nats)
    rest = [one ** (steps - 2) if steps > 2 else acb(1) for one in zeroth]
    if steps == 1:
        transform = list(twice)
    else:
        transform = [
            (b2 * b0 + b1 * b1 * (steps - 1)) * b / steps
            for b0, b1, b2, b in zip(zeroth, once, twice, rest, strict=True)
        ]
    places = [acb(spacing * (first + j), angle) for j in range(size)]
    bases = [spacing * (place * 3 / 2).exp() * value for place, value in zip(places, transform, strict=True)]
    block = math.isqrt(count) + 1
    blocks = -(-(count + 1) // block)
    i = acb(0, 1)
    coarse = [
        base * (i * h * (block * k) * y).exp() for k in range(blocks) for base, y in zip(bases, places, strict=True)
    ]
    fine = [(i * h * k * y).exp() for y in places for k in range(block)]
    table = (acb_mat(blocks, size, coarse) * acb_mat(size, block, fine)).entries()
    # of the rule, from the strip's lower line, whose factor exp(-u (angle - d)) is the larger; and of what lies outside
    rule = 2 * (second * 2 / 3 + 8 / (arb(2).exp() * d.sin() ** 2)) / ((2 * arb.pi() * d / spacing).exp() - 1)
    outside = second * (spacing * first * 3 / 2).exp() / (1 - (-spacing * 3 / 2).exp()) * spacing + beyond
    found = []
    for k in range(count + 1):
        u = h * k
        error = ball(rule * (-u * (angle - d)).exp() + outside * (-u * angle).exp())
        found.append((table[k] + acb(error, error)) / acb(arb(3) / 2, u).gamma())
    return found


def _beyond(s: arb, steps: int, angle: arb, place: arb) -> arb:
    """Bound of the rule's terms beyond a node: S^2 exp(-aS) <= (k / e)^k a^-k S^(2 - k), and S is at least the geometric mean."""
    best = arb("inf")
    for k in (4, 8, 16, 32, 64, 128, 256, _MOST_POWERS):
        n = arb(k)
        log_bound = n * (n.log() - 1) + (n - 2) * s * s / 2 + (n - 2) ** 2 * s * s / (2 * steps)
        log_bound -= n * angle.cos().log() + (n - arb(3) / 2) * place
        bound = arb(log_bound.exp().upper()) / (n - arb(3) / 2)
        best = bound if not best < bound else best
    return best


def _laplace(
    s: arb, steps: int, angle: arb, strip: arb, spacing: arb, stride: int, first: int, size: int, nats: float
) -> tuple[list[acb], list[acb], list[acb]]:
    """E x^m exp(-lambda x / t), m = 0, 1, 2, at lambda = exp(y + i angle), y = spacing (first + j).

    ``strip``: at most twice the line's height over s, so that no argument passes pi / 2.
    """
    step = spacing * stride / s  # of z: so that lambda x depends on the sum of two indices alone
    reach = math.ceil((math.sqrt(2 * nats + 20) + 2 * float(s)) / float(step))
    constant = acb(-s * s / 2 - arb(steps).log(), angle)
    table = [
        (-(constant + spacing * i).exp()).exp() for i in range(first - stride * reach, first + size + stride * reach)
    ]
    shifted = acb_poly(table)
    root = (2 * arb.pi()).sqrt()
    found = []
    for m in range(3):
        weights = [acb(0)] * (2 * stride * reach + 1)
        for k in range(-reach, reach + 1):
            z = step * k
            weight = step / root * (-z * z / 2 + m * (s * z - s * s / 2)).exp()
            weights[stride * (reach - k)] = acb(weight)  # reversed: a correlation
        product = shifted * acb_poly(weights)
        moment = (arb(m * (m - 1)) * s * s / 2).exp()
        error = 2 * moment * (strip * strip / 2).exp() / ((2 * arb.pi() * strip / step).exp() - 1)
        error += 2 * moment * ((step * (reach - 1) - m * s) / arb(2).sqrt()).erfc()
        around = acb(ball(error), ball(error))
        found.append([product[2 * stride * reach + j] + around for j in range(size)])
    return found[0], found[1], found[2]
