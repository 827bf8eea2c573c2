import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

row = new_row(
    id="rf.poisson_quadratic",
    source=Source("rf", "new, on section 3.4"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.poisson_quadratic_moments,),
)

_F = Fraction
Record = tuple[Fraction, Fraction]
_RECORDS: tuple[Record, ...] = ((_F(1), _F(1)), (_F(1, 2), _F(-2)), (_F(3, 2), _F(1)))  # h_i and c_i, mean c_i = 0
_EQUAL: tuple[Record, ...] = ((_F(1), _F(1)), (_F(1), _F(-1)))


def _enumerated(
    records: Sequence[Record], rate: Fraction, gamma: Fraction, mu: Fraction, noise: Fraction, steps: int
) -> tuple[Fraction, Fraction]:
    """E w_T and E w_T^2 from w_0 = 2: every batch and sign of the noise in turn."""
    law = {(_F(2), _F(0)): _F(1)}
    size = rate * len(records)
    for _ in range(steps):
        after: dict[tuple[Fraction, Fraction], Fraction] = {}
        ways = itertools.product(law.items(), itertools.product((0, 1), repeat=len(records)), (noise, -noise))
        for ((w, v), chance), drawn, kick in ways:
            found = sum((h * w - c for (h, c), one in zip(records, drawn, strict=True) if one), _F(0)) / size
            fast = mu * v + found + kick
            share = chance * math.prod((rate if one else 1 - rate for one in drawn), start=_F(1)) / 2
            state = w - gamma * fast, fast
            after[state] = after.get(state, _F(0)) + share
        law = after
    return (
        sum((p * w for (w, _), p in law.items()), _F(0)),
        sum((p * w * w for (w, _), p in law.items()), _F(0)),
    )


@row.equal(
    *(
        (records, rate, mu, noise, steps, part)
        for records, rate in ((_EQUAL, _F(1, 2)), (_RECORDS, _F(1, 3)), (_RECORDS, _F(2, 3)))
        for mu, noise, steps in ((_F(0), _F(0), 3), (_F(1, 2), _F(1, 3), 2), (_F(3, 4), _F(0), 3))
        for part in (0, 1)
    ),
    tolerance=1e-12,
)
def _(records: Sequence[Record], rate: Fraction, mu: Fraction, noise: Fraction, steps: int, part: int) -> Sides:
    """both moments in fractions, every batch and sign of the noise in turn"""
    gamma = _F(1, 2)
    n = len(records)
    found = convergence.poisson_quadratic_moments(
        float(sum((h for h, _ in records), _F(0)) / n),
        start=2.0,
        learning_rate=float(gamma),
        steps=steps,
        batch_size=round(rate * n),
        momentum=float(mu),
        sampling_rate=float(rate),
        curvature_square=float(sum((h * h for h, _ in records), _F(0)) / n),
        offset_square=float(sum((c * c for _, c in records), _F(0)) / n),
        curvature_offset=float(sum((h * c for h, c in records), _F(0)) / n),
        noise_std=float(noise),
    )[part]
    return found, lambda: _enumerated(records, rate, gamma, mu, noise, steps)[part], 1.001 * found


@row.equal((0.0, 10), (0.9, 3000), (0.5, 100_000), tolerance=1e-8)
def _(mu: float, steps: int) -> Sides:
    """the whole data in each step: the noisy quadratic model, in long runs too"""
    h, gamma, noise = 0.7, 0.05, 0.3
    found = convergence.poisson_quadratic_moments(
        h, start=3.0, learning_rate=gamma, steps=steps, batch_size=50, momentum=mu, sampling_rate=1.0, noise_std=noise
    )[1]
    other = convergence.noisy_quadratic_loss(
        [h], gradient_energy=(3 * h) ** 2, learning_rate=gamma, steps=steps, momentum=mu, noise_std=noise
    )
    return found, lambda: 2 * float(other) / h, 1.001 * found


@row.equal(
    *((size, rate, mu) for size, rate in ((16, 0.0), (1000, 0.01), (4, 0.5)) for mu in (0.0, 0.9)), tolerance=1e-9
)
def _(size: int, rate: float, mu: float) -> Sides:
    """at rest, without momentum and with: the closed form of item 2"""
    h, gamma, squared, offset, noise = 0.8, 0.5, 0.9, 2.0, 0.1
    beta, z = (1 - rate) / size, gamma * h
    found = convergence.poisson_quadratic_moments(
        h,
        start=1.0,
        learning_rate=gamma,
        steps=100_000,
        batch_size=size,
        momentum=mu,
        sampling_rate=rate,
        curvature_square=squared,
        offset_square=offset,
        noise_std=noise,
    )[1]
    summed = (1 + mu) / ((1 - mu) * z * (2 * (1 + mu) - z))
    kick = gamma**2 * summed * (beta * offset + noise**2)
    return found, kick / (1 - beta * gamma**2 * squared * summed), kick


@row.equal((0.9, 16, True), (0.97, 16, False), (0.97, 64, True), kind=Kind.COUNTEREXAMPLE)
def _(mu: float, size: int, settles: bool) -> Sides:
    """a rate of one over the curvature: with momentum the batch's size alone can keep the weights from rest"""
    run = dict(start=0.0, learning_rate=1.0, steps=20_000, momentum=mu, noise_std=1.0)
    found = convergence.poisson_quadratic_moments(1.0, batch_size=size, **run)[1]  # type: ignore[arg-type]
    plain = convergence.poisson_quadratic_moments(1.0, batch_size=10**12, **run)[1]  # type: ignore[arg-type]
    return settles, bool(found < 10 * plain), bool(found < 1.07 * plain) if settles else bool(plain < math.inf)


@row.equal((1.0, True), (2.0, False), (15.0, False), kind=Kind.COUNTEREXAMPLE)
def _(spread: float, little: bool) -> Sides:
    """batches of 16 at a rate of one over the mean curvature add below 7 % where all records share it, not where theirs differ"""
    run = dict(start=0.0, learning_rate=1.0, steps=20_000, noise_std=1.0, batch_size=16)
    found = convergence.poisson_quadratic_moments(1.0, curvature_square=spread, **run)[1]  # type: ignore[arg-type]
    return little, bool(found < 1.07), not little


# --- clipping ----------------------------------------------------------------------------------------------------------


def _responses(z: float, mu: float, steps: int) -> tuple[float, list[float]]:
    """c and k_t of rf.noisy_quadratic for the last weights at a constant rate."""
    c, b, kicks = 1.0, 0.0, []
    for _ in range(steps):
        k = b - c
        kicks.append(k)
        c, b = c + z * k, mu * k
    return c, kicks[::-1]


def _slack(
    gamma: float, mu: float, clip: float, spread: float, offset: float, share: float, scale: float = 1.0
) -> float:
    """Item 3 for L = w^2 / 2, batches of one record with deviations +-spread + offset, four steps from w = 1, all in turn."""
    steps = 4
    places, speeds, chances = np.ones(1), np.zeros(1), np.ones(1)
    errors, variances = [], []
    for _ in range(steps):
        both = np.array([np.clip(places + offset + sign * spread, -clip, clip) for sign in (1, -1)])
        mean = both.mean(axis=0)
        errors.append(math.sqrt(float(chances @ (mean - share * places) ** 2)))
        variances.append(float(chances @ ((both - mean) ** 2).mean(axis=0)))
        speeds = (mu * speeds + both).ravel()
        places = np.tile(places, 2) - gamma * speeds
        chances = np.tile(chances, 2) / 2
    c, kicks = _responses(gamma * share, mu, steps)
    model = c**2 + gamma**2 * math.fsum(k * k * s for k, s in zip(kicks, variances, strict=True))
    allowed = gamma * math.fsum(abs(k) * e for k, e in zip(kicks, errors, strict=True))
    off = abs(math.sqrt(float(chances @ places**2)) - math.sqrt(model))
    return (scale * allowed - off) / max(allowed, 1e-6)


def _tenth_less(**point: float) -> float:
    return _slack(**point, scale=0.7)


row.inequality(
    {
        "gamma": Range(0.02, 1, log=True),
        "mu": Range(0, 0.9),
        "clip": Range(0.1, 3, log=True),
        "spread": Range(0, 3),
        "offset": Range(-1, 1),
        "share": Range(0.05, 1),
    },
    wrong=_tenth_less,
    tolerance=1e-9,
    name="a clipped run is no farther from the linear model than item 3 allows, every deviation in turn",
)(_slack)


def _closed(
    rate: float, mu: float, near: float, far: float, rare: float, cut: float, start: float, scale: float = 1.0
) -> float:
    """Item 5 for L = w^2 / 2, C = 1, deviations +-near, or +-far with chance ``rare``: its slack in four steps, over all paths."""
    gamma = rate * (1 - math.sqrt(mu)) ** 2
    ways = np.array([near, -near, far, -far])
    chances = np.array([1 - rare, 1 - rare, rare, rare]) / 2
    error = float(chances @ np.maximum(np.abs(ways) - cut, 0.0))
    state, inside, slack = np.array([[start, 0.0, start, 0.0]]), np.ones(1, bool), 1.0
    for _ in range(4):
        inside = inside & (np.abs(state[:, 2]) <= 1 - cut - error)
        both = np.clip(state[:, :1] + ways, -1, 1)
        kicks = (both - both @ chances[:, None]).ravel()
        state, inside = np.repeat(state, 4, 0), np.repeat(inside, 4)
        fast = mu * state[:, 1] + both.ravel(), mu * state[:, 3] + state[:, 2] + kicks
        state = np.stack([state[:, 0] - gamma * fast[0], fast[0], state[:, 2] - gamma * fast[1], fast[1]], axis=1)
        off = np.abs(state[inside, 0] - state[inside, 2])
        slack = min([slack, *((scale * error - off) / max(error, 1e-3))])
    return slack


row.inequality(
    {
        "rate": Range(0.05, 1),
        "mu": Range(0, 0.9),
        "near": Range(0, 0.5),
        "far": Range(0.5, 5),
        "rare": Range(0, 0.2),
        "cut": Range(0.1, 0.9),
        "start": Range(-1, 1),
    },
    wrong=lambda **point: _closed(**point, scale=0.3),
    tolerance=1e-9,
    name="while the model's gradients are short the clipped run stays by it, every path in turn",
)(_closed)


@row.equal((0.01, 100.0), (0.1, 1000.0), kind=Kind.COUNTEREXAMPLE)
def _(gamma: float, start: float) -> Sides:
    """far from the minimum no linear model with the slope of the start holds: the run is there, the model is not"""
    steps = round(start / gamma)
    place = start
    for _ in range(steps):
        place -= gamma * max(-1.0, min(1.0, place))
    model = start * (1 - gamma / start) ** steps
    return True, abs(place) <= 1.0 and model > 0.36 * start, model <= 1.0


@row.equal((1, 5), (3, 10), kind=Kind.COUNTEREXAMPLE)
def _(spread: int, start: int) -> Sides:
    """all clipped at the start, and the model rests at 0: the run does not, w and deviations in units of C, every path in turn"""
    law, steps = {start: 1.0}, 400
    for _ in range(steps):
        after: dict[int, float] = {}
        for (place, chance), sign in itertools.product(law.items(), (1, -1)):
            to = place - max(-1, min(1, place + sign * spread))
            after[to] = after.get(to, 0.0) + chance / 2
        law = after
    run = math.fsum(chance * place**2 for place, chance in law.items())
    model = (start * (1 - 1 / start) ** steps) ** 2
    settled = math.isclose(run, spread * (spread + 1) / 3, rel_tol=1e-6)
    return True, settled and model < 1e-12, model >= run
