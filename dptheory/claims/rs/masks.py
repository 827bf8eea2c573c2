"""RS: noise and gradients under a mask, per-epoch masks, momentum, symmetry by projections."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import betaincinv

from dptheory import convergence, gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rf._momentum import momentum_cases, noise_weights, squares
from dptheory.claims.rf.momentum import printed_velocity_variance

Array = NDArray[np.float64]

# --- rs.fig1 ----------------------------------------------------------------------------------------------------------


def printed_noise_ratio(dim: int, keep: int) -> float:
    """sqrt(1 - r), the ratio of the root mean squares."""
    return math.sqrt(keep / dim)


def _ratio_by_angle(dim: int, keep: int) -> float:
    """E sin a over the density of a, sin^{K-1} a cos^{d-K-1} a on (0, pi/2): |m * xi|^2 / |xi|^2 = sin^2 a is a Beta variable."""

    def integral(extra: int) -> float:
        return float(
            quad(
                lambda a: math.sin(a) ** (keep - 1 + extra) * math.cos(a) ** (dim - keep - 1), 0, math.pi / 2, epsabs=0
            )[0]
        )

    return integral(1) / integral(0)


def _noise_ratio(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    noise = rng.standard_normal((n, dim))
    return np.asarray(np.linalg.norm(noise[:, :keep], axis=1) / np.linalg.norm(noise, axis=1))


Batch = tuple[tuple[int, ...], ...]

_PAIRS: tuple[tuple[Batch, tuple[int, ...]], ...] = tuple(
    (batch, mask)
    for batch in (((1, 0), (-5, 12)), ((1, 0), (-3, 4)), ((1, 0), (5, 12)), ((-5, 12),), ((3, -4), (5, -12)))
    for mask in ((1, 0), (0, 1))
)


def _kept_square(batch: Batch, mask: tuple[int, ...], clip_first: bool) -> Fraction:
    """Squared norm of the sum over the batch of clipped gradients (C = 1) on the one entry of d = 2 that is kept."""
    total = Fraction(0)
    for g in batch:
        entry = Fraction(sum(m * x for m, x in zip(mask, g, strict=True)))
        norm = Fraction(math.isqrt(sum(x * x for x in g))) if clip_first else abs(entry)
        total += entry / max(norm, Fraction(1))
    return total**2


def _same_sign(batch: Batch, mask: tuple[int, ...]) -> bool:
    """No two examples pull the kept entry in opposite directions."""
    entries = [sum(m * x for m, x in zip(mask, g, strict=True)) for g in batch]
    return all(a * b >= 0 for a, b in itertools.combinations(entries, 2))


def _ratio_by_beta(dim: int, keep: int) -> float:
    """|m * xi|^2 / |xi|^2 is Beta(K/2, (d-K)/2): the mean root of equally likely values."""
    values = betaincinv(keep / 2, (dim - keep) / 2, (np.arange(20_000) + 0.5) / 20_000)
    return float(np.sqrt(values).mean())


_FIG1 = Claim(
    id="rs.fig1",
    title="less noise, larger gradients on the kept coordinates",
    source=Source("rs", "section 1.1, Fig. 1c and 1d"),
    statement=r"RS lowers the norm of the noise with the dimension ((c), read as the factor $\sqrt{1-r}$), and (d) the coordinates kept have larger clipped "
    "gradients than without RS.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "(c) as a root mean square; isotropic Gaussian noise",
        "(d) for a single example that is clipped and loses something to the mask; equality otherwise",
    ),
    correction=r"$E\|m\odot\xi\|^2 = (1-r)E\|\xi\|^2$, and $E\frac{\|m\odot\xi\|}{\|\xi\|} = \frac{\Gamma((K+1)/2)\Gamma(d/2)}{\Gamma(K/2)\Gamma((d+1)/2)}<\sqrt{1-r}$ "
    r"for $0<K<d$, $K = (1-r)d$. For one example the ratio of (d) is $\frac{\max(\|g\|,C)}{\max(\|m\odot g\|,C)}\in[1,\|g\|/\|m\odot g\|]$; the "
    "mean over a batch can shrink, even to 0.",
    printed=printed_noise_ratio,
    calculators=(gradients.noise_norm_ratio, gradients.relaxed_gradient_ratio),
    checks=(
        ExactCheck(
            name="noise ratio, second method: angle",
            cases=lambda: [(2, 1), (3, 1), (3, 2), (10, 3), (60, 30), (60, 59)],
            truth=_ratio_by_angle,
            statement=lambda dim, keep: gradients.noise_norm_ratio(dim, keep),
            wrong=printed_noise_ratio,
            tolerance=1e-9,
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="noise ratio, 3 of 12 kept",
            sampler=partial(_noise_ratio, dim=12, keep=3),
            claimed=lambda: gradients.noise_norm_ratio(12, 3),
            wrong=lambda: printed_noise_ratio(12, 3),
            row_bytes=200,
        ),
        ExactCheck(
            name="one example, in fractions",
            cases=lambda: [
                (g, mask)
                for g in ((3, 4), (5, -12), (1, 0))
                for mask in ((1, 0), (0, 1))
                if any(m * x for m, x in zip(mask, g, strict=True))
            ],
            truth=lambda g, mask: Fraction(
                math.isqrt(int(_kept_square((g,), mask, False) / _kept_square((g,), mask, True) * 3600)), 60
            ),
            statement=lambda g, mask: float(
                gradients.relaxed_gradient_ratio(
                    math.hypot(*g), abs(sum(m * x for m, x in zip(mask, g, strict=True))), 1.0
                )
            ),
            wrong=lambda g, mask: math.sqrt(2.0),  # |g| / |m * g| of a flat gradient, r = 1/2
            tolerance=1e-14,
        ),
        ExactCheck(
            name="a batch can shrink",
            cases=lambda: _PAIRS,
            truth=lambda batch, mask: _kept_square(batch, mask, False) >= _kept_square(batch, mask, True),
            statement=_same_sign,
            wrong=lambda batch, mask: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="noise ratio, users' sizes: the root of a beta variable",
            cases=lambda: [(20_000, 2_000), (550_000, 165_000)],
            truth=_ratio_by_beta,
            statement=lambda dim, keep: gradients.noise_norm_ratio(dim, keep),
            wrong=lambda dim, keep: 1.01 * printed_noise_ratio(dim, keep),
            tolerance=1e-6,
        ),
    ),
    proved=True,
    figure="noise_norm_ratio",
)

# --- rs.epoch_mask ----------------------------------------------------------------------------------------------------


def _epoch_moves(mu: Fraction, masks: tuple[tuple[int, ...], ...], steps: int) -> list[Fraction]:
    """How far each parameter moves in the last epoch (learning rate 1), gradient 1 on the coordinates kept."""
    velocity = [Fraction(0)] * len(masks[0])
    moved = velocity
    for mask in masks:
        moved = [Fraction(0)] * len(mask)
        for _ in range(steps):
            velocity = [mu * v + m for v, m in zip(velocity, mask, strict=True)]
            moved = [w + v for w, v in zip(moved, velocity, strict=True)]
    return moved


def _epoch_cases() -> Iterator[tuple[Fraction, tuple[tuple[int, ...], ...], int]]:
    masks: tuple[tuple[tuple[int, ...], ...], ...] = (
        ((1, 0), (0, 1)),
        ((1, 1, 1, 1), (1, 0, 0, 1)),
        ((1, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 0)),
    )
    yield from itertools.product((Fraction(0), Fraction(1, 2), Fraction(9, 10)), masks, (1, 10))


_EPOCH_MASK = Claim(
    id="rs.epoch_mask",
    title="coordinates updated in an epoch",
    source=Source("rs", "section 4.2; RF, section 3.2"),
    statement=r"With one mask an epoch there are certainly $(1-r)d$ coordinates updated in it.",
    verdict=Verdict.FALSE,
    conditions=(
        "with momentum, which the paper uses: it says itself in section 4 that a coordinate moves until its velocity has decayed",
    ),
    correction=r"Without momentum the $(1-r)d$ coordinates kept are the only ones to move. With $\mu>0$ a frozen coordinate of velocity $v$ moves by "
    r"$\gamma v\mu(1-\mu^T)/(1-\mu)$ in $T$ steps, so with noise every coordinate that was ever kept almost surely moves in every later epoch. What has $(1-r)d$ entries is the gradient.",
    printed=lambda mu, masks, steps: sum(masks[-1]),
    calculators=(convergence.coasting_distance,),
    checks=(
        ExactCheck(
            name="coordinates that move, counted",
            cases=_epoch_cases,
            truth=lambda mu, masks, steps: Fraction(sum(w != 0 for w in _epoch_moves(mu, masks, steps))),
            statement=lambda mu, masks, steps: Fraction(
                sum(max(column) if mu else column[-1] for column in zip(*masks, strict=True))
            ),
            wrong=lambda mu, masks, steps: Fraction(sum(masks[-1])),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="how far a frozen coordinate coasts",
            cases=lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (1, 5, 40)),
            truth=lambda mu, steps: _epoch_moves(mu, ((1,), (0,)), steps)[0],
            statement=lambda mu, steps: convergence.coasting_distance(
                1.0, float((1 - mu**steps) / (1 - mu)), float(mu), steps
            ),
            wrong=lambda mu, steps: 0.0,
            tolerance=1e-13,
        ),
        ExactCheck(
            name="how far it coasts in the end, in fractions",
            cases=lambda: itertools.product((Fraction(1, 2), Fraction(9, 10)), (Fraction(3, 2), Fraction(-4))),
            # the way x left at velocity v solves x(v) = mu v + x(mu v), x linear in v
            truth=lambda mu, velocity: Fraction(1, 4) * mu * velocity / (1 - mu),
            statement=lambda mu, velocity: convergence.coasting_distance(0.25, float(velocity), float(mu), math.inf),  # type: ignore[arg-type]
            wrong=lambda mu, velocity: convergence.coasting_distance(0.25, float(velocity), float(mu), 20),
            tolerance=1e-13,
        ),
    ),
    proved=True,
)

# --- rs.appH ----------------------------------------------------------------------------------------------------------


def printed_adam_variance(noise_std: float, mu: float, steps: int) -> float:
    """Variance of (1 + mu + ... + mu^{t-1}) (1 - mu) N(0, s^2), equation 121; tends to s^2."""
    return (1 - mu) ** 2 * printed_velocity_variance(noise_std, mu, steps)


def _adam_noise(rng: np.random.Generator, n: int, mu: float, steps: int) -> Array:
    velocity = np.zeros(n)
    for _ in range(steps):
        velocity = mu * velocity + (1 - mu) * rng.standard_normal(n)
    return np.asarray(np.square(velocity / (1 - mu**steps)))


def _stationary_weights(mu: float, what: str) -> float:
    """4 (1, mu, mu^2, ...) squared and added; with Adam each noise enters with the weight 1 - mu."""
    share = 1.0 if what == "velocity" else 1 - mu
    return 4.0 * math.fsum((share * mu**j) ** 2 for j in range(3000))


_APP_H = Claim(
    id="rs.appH",
    title="noise of momentum and of Adam",
    source=Source("rs", "Appendix H", tuple(range(117, 124))),
    statement=r"The velocity's noise tends to $\frac1{1-\mu}\mathcal N(0,C^2\sigma^2I)$; with Adam's $(1-\mu)\tilde g_t$ it tends to $\mathcal N(0,C^2\sigma^2I)$, so $C$ and "
    r"$\mu$ are decoupled in the noise.",
    verdict=Verdict.FALSE,
    conditions=(
        "fresh independent noise each step",
        "equation 120 is read as v_t / (1 - mu^t); as printed it divides the first velocity by 0",
    ),
    correction=r"SGD: as rf.momentum. Adam: $\mathrm{Var}\,v_t = \frac{1-\mu}{1+\mu}(1-\mu^{2t})C^2\sigma^2$, after bias correction $\frac{(1-\mu)(1+\mu^t)}{(1+\mu)(1-\mu^t)}C^2\sigma^2$: at "
    r"$\mu = 0.9$ in the end 19 times less than printed, and it depends on $\mu$.",
    printed=printed_adam_variance,
    calculators=(
        convergence.velocity_variance,
        convergence.displacement_variance,
        convergence.adam_velocity_variance,
        convergence.adam_corrected_variance,
    ),
    checks=(
        ExactCheck(
            name="Adam's velocity, weights of the single noises in fractions",
            cases=momentum_cases,
            truth=lambda mu, steps: (1 - mu) ** 2 * squares(noise_weights(mu, steps)[0]),
            statement=lambda mu, steps: convergence.adam_velocity_variance(1.0, float(mu), steps),
            wrong=lambda mu, steps: printed_adam_variance(1.0, float(mu), steps),
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="after bias correction, in fractions",
            cases=momentum_cases,
            truth=lambda mu, steps: (1 - mu) ** 2 * squares(noise_weights(mu, steps)[0]) / (1 - mu**steps) ** 2,
            statement=lambda mu, steps: convergence.adam_corrected_variance(1.0, float(mu), steps),
            wrong=lambda mu, steps: 1.0,
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="Adam at rest, with and without bias correction, in fractions",
            cases=lambda: itertools.product((Fraction(0), Fraction(1, 2), Fraction(9, 10)), (False, True)),
            # E v^2 = mu^2 E v^2 + (1 - mu)^2 s^2, s = 3/7; the correction is gone in the end
            truth=lambda mu, corrected: (1 - mu) ** 2 * Fraction(9, 49) / (1 - mu**2),
            statement=lambda mu, corrected: (
                convergence.adam_corrected_variance if corrected else convergence.adam_velocity_variance
            )(3 / 7, float(mu)),
            wrong=lambda mu, corrected: 9 / 49,  # as printed
            tolerance=1e-13,
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="simulated Adam, mu = 0.9, 20 steps",
            sampler=partial(_adam_noise, mu=0.9, steps=20),
            claimed=lambda: convergence.adam_corrected_variance(1.0, 0.9, 20),
            wrong=lambda: 1.0,
            row_bytes=64,
        ),
        ExactCheck(
            name="SGD: velocity and displacement over 20 steps, in fractions",
            cases=lambda: [(Fraction(9, 10), 0), (Fraction(9, 10), 1)],
            truth=lambda mu, which: squares(noise_weights(mu, 20)[which]),
            statement=lambda mu, which: (
                convergence.displacement_variance(1.0, 1.0, float(mu), 20)
                if which
                else convergence.velocity_variance(1.0, float(mu), 20)
            ),
            wrong=lambda mu, which: None if which else printed_velocity_variance(1.0, float(mu), 20),
            tolerance=1e-13,
        ),
        ExactCheck(
            name="without an end: the weights of 3,000 noises",
            cases=lambda: itertools.product((0.0, 0.5, 0.9, 0.99), ("velocity", "adam", "corrected")),
            truth=_stationary_weights,
            statement=lambda mu, what: {
                "velocity": convergence.velocity_variance,
                "adam": convergence.adam_velocity_variance,
                "corrected": convergence.adam_corrected_variance,
            }[what](2.0, mu),
            wrong=lambda mu, what: 4.0 / (1 - mu) ** 2,
            tolerance=1e-12,
        ),
    ),
    proved=True,
    figure="momentum_noise",
)

# --- rs.appF ----------------------------------------------------------------------------------------------------------

# Entries 3 with chance 1/4 and -1 with chance 3/4: mean 0, variance 3, third moment 6.
_ENTRY = ((3, Fraction(1, 4)), (-1, Fraction(3, 4)))
_SQUARE_SKEWNESS = Fraction(6**2, 3**3)


def _mean_square_skewness(dim: int) -> Fraction:
    """Mean over the sign vectors u of the squared skewness of <u, xi>, from the law of <u, xi> itself."""
    total = Fraction(0)
    for signs in itertools.product((-1, 1), repeat=dim):
        law = {Fraction(0): Fraction(1)}
        for sign in signs:
            law = _convolved(law, sign)
        second = sum((p * x * x for x, p in law.items()), Fraction(0))
        third = sum((p * x * x * x for x, p in law.items()), Fraction(0))
        total += third * third / (second * second * second)
    return total * Fraction(1, 2**dim)


def _convolved(law: dict[Fraction, Fraction], sign: int) -> dict[Fraction, Fraction]:
    grown: dict[Fraction, Fraction] = {}
    for (x, p), (value, chance) in itertools.product(law.items(), _ENTRY):
        grown[x + sign * value] = grown.get(x + sign * value, Fraction(0)) + p * chance
    return grown


def _overlap_with_mirror(dim: int) -> Fraction:
    """1 - total variation distance between the laws of xi and -xi."""
    law = {
        tuple(x for x, _ in entries): math.prod((p for _, p in entries), start=Fraction(1))
        for entries in itertools.product(_ENTRY, repeat=dim)
    }
    return sum((min(p, law.get(tuple(-x for x in point), Fraction(0))) for point, p in law.items()), Fraction(0))


def _square_skewness(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Squared skewness of <u, xi> for u uniform on the sphere and iid entries of skewness 1."""
    direction = rng.standard_normal((n, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(np.square((direction**3).sum(axis=1)))


_APP_F = Claim(
    id="rs.appF",
    title="symmetry seen in random projections",
    source=Source("rs", "Appendix F, Figs 6 to 9"),
    statement="Random two-dimensional projections of the gradient deviation look symmetric, which verifies that its law is approximately symmetric.",
    verdict=Verdict.FALSE,
    conditions=("as an inference from the pictures; whether the law is near a symmetric one is not settled by them",),
    correction=r"For independent entries of the same variance and skewness $\gamma_1$ a random projection has root mean square skewness $|\gamma_1|\sqrt{15/((d+2)(d+4))}$, $7\cdot10^{-6}|\gamma_1|$ "
    r"for $d = 5.5\cdot10^5$, while the law may be disjoint from its mirror image.",
    calculators=(gradients.projected_skewness,),
    checks=(
        ExactCheck(
            name="projections on sign vectors, by enumeration",
            cases=lambda: [(dim,) for dim in (1, 2, 3, 4, 6, 8)],
            truth=_mean_square_skewness,
            statement=lambda dim: _SQUARE_SKEWNESS / dim**2,
            wrong=lambda dim: _SQUARE_SKEWNESS,  # the projection shows the skewness of the law
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the same law has nothing in common with its mirror image",
            cases=lambda: [(dim,) for dim in (1, 2, 4)],
            truth=_overlap_with_mirror,
            statement=lambda dim: Fraction(0),
            wrong=lambda dim: Fraction(1),  # symmetric
            kind=Kind.COUNTEREXAMPLE,
        ),
        MeanCheck(
            name="projections on uniform directions, d = 10",
            sampler=partial(_square_skewness, dim=10),
            claimed=lambda: gradients.projected_skewness(10, 1.0) ** 2,
            wrong=lambda: 1 / 10**2,  # that of sign vectors
            row_bytes=240,
        ),
        ExactCheck(
            name="sixth moment of an entry of a direction, in fractions",
            cases=lambda: [(dim,) for dim in (2, 10, 550_000)],
            truth=lambda dim: (
                Fraction(dim) * Fraction(1 * 3 * 5, dim * (dim + 2) * (dim + 4))
            ),  # u_1^2 is Beta(1/2, (d-1)/2)
            statement=lambda dim: gradients.projected_skewness(dim, 1.0) ** 2,
            wrong=lambda dim: 1 / dim**2,
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

CLAIMS = (_FIG1, _EPOCH_MASK, _APP_H, _APP_F)
