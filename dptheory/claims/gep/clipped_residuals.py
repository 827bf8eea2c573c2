import itertools
import math
from fractions import Fraction

import numpy as np
import scipy

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _noisy_steps as noisy

row = new_row(
    id="gep.clipped_residuals",
    source=Source("gep", "new, on Theorem 3.3 with clipped residuals"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.biased_descent_risk, embedding.best_residual_clip),
)


def _risk(beta: float, distance: float, steps: int, energy: float, bias: float) -> embedding.BiasedDescentRisk:
    return embedding.biased_descent_risk(
        smoothness=beta, initial_distance=distance, steps=steps, noise_energy=energy, bias=bias
    )


def _unbiased(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """The wrong statement that the bias does nothing."""
    return embedding.worst_descent_risk(
        smoothness=beta, initial_distance=distance, steps=steps, noise_energy=energy
    ).mean_value


def _clipped_run(beta: Fraction, distance: Fraction, steps: int, noise: Fraction, bias: Fraction) -> Fraction:
    """Mean of L(theta_t): four samples with losses 4 h + a x, -a x, -a x, -a x, and beta y^2 / 2 each, a public y axis.

    Residuals (along x) are clipped, sample by sample; the noise on the mean, +-``noise``, is along y, every sign.
    """
    slope = min(beta * distance, (beta * distance + (steps + 1) * bias / 2) / (steps + 2))
    clip = 4 * abs(slope - bias) + Fraction(1, 7)
    pull = (clip / 4 - slope + bias) * Fraction(4, 3)
    place, left = distance, Fraction(0)
    for _ in range(steps):
        inner = Fraction(noisy.slope_at(place, beta, slope))
        residuals = [4 * inner + 3 * pull, -pull, -pull, -pull]
        clipped = [max(-clip, min(clip, residual)) for residual in residuals]
        assert sum(abs(r) - abs(c) for r, c in zip(residuals, clipped, strict=True)) == 4 * bias  # mean excess b
        place -= sum(clipped, Fraction(0)) / 4 / beta
        left += Fraction(noisy.value_at(place, beta, slope))
    for signs in itertools.product((1, -1), repeat=steps):
        height = Fraction(0)
        for sign in signs:
            height -= (beta * height + sign * noise) / beta
            left += beta * height * height / 2 / 2**steps
    return left / steps


@row.equal(
    lambda: [
        (Fraction(beta), Fraction(d), t, Fraction(noise), Fraction(bias))
        for beta in (1, Fraction(5, 2))
        for d, noise, bias in (
            (1, 0, Fraction(1, 10)),
            (2, Fraction(1, 3), Fraction(1, 2)),
            (1, 3, 2),
            (1, 1, 0),
            (1, 1, 5),
        )
        for t in (1, 2, 3, 8)
    ],
    tolerance=1e-12,
)
def _(beta: Fraction, d: Fraction, t: int, noise: Fraction, bias: Fraction) -> Sides:
    """item 2: W on the loss that has it, residuals clipped sample by sample, in fractions"""
    case = (float(beta), float(d), t, float(noise) ** 2, float(bias))
    return _risk(*case).lower, lambda: _clipped_run(beta, d, t, noise, bias), _unbiased(*case)


@row.certificate(
    (1.0, 1.0, 1, 0.1, 0.5),
    (2.0, 1.0, 2, 0.0, 0.2),
    (1.0, 1.0, 3, 0.0, 0.1),
    problem=noisy.biased_values,
    wrong=_unbiased,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """item 2: W is the worst case of a few steps with small bias"""
    return _risk(beta, distance, steps, energy, bias).lower


@row.certificate(
    (1.0, 1.0, 2, 1.0, 0.5),
    (1.0, 1.0, 2, 4.0, 1.0),
    (1.0, 0.1, 4, 0.0, 1.0),
    problem=noisy.biased_values,
    wrong=_unbiased,
    looseness=1.7,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> float:
    """item 1: U against the worst case of a few steps"""
    return _risk(beta, distance, steps, energy, bias).upper


def _searched(steps: float, curvature: float, share: float, noise: float, bias: float) -> float:
    """Mean excess from D = 1 on a quadratic plus a rounded |x| with biases away from the minimiser, every sign of the noise."""
    steps, rest = round(steps), 1 - curvature
    total, paths = 0.0, [1.0]
    for _ in range(steps):
        moved = [x - curvature * x - noisy.slope_at(x, rest, share * rest) + math.copysign(bias, x) for x in paths]
        paths = [x + sign * noise for x in moved for sign in (1, -1)]
        values = (curvature * x * x / 2 + float(noisy.value_at(x, rest, share * rest)) for x in paths)
        total += sum(values) / len(paths)
    return total / steps


def _upper_slack(steps: float, curvature: float, share: float, noise: float, bias: float) -> float:
    found = _searched(steps, curvature, share, noise, bias)
    return 1 - found / _risk(1.0, 1.0, round(steps), noise**2, bias).upper


def _no_drift_slack(steps: float, curvature: float, share: float, noise: float, bias: float) -> float:
    """The wrong statement that a bias of b costs no more than b D / 2 on top of the risk without."""
    bound = _unbiased(1.0, 1.0, round(steps), noise**2, bias) + bias / 2
    return 1 - _searched(steps, curvature, share, noise, bias) / bound


row.inequality(
    {
        "steps": Range(1, 7, integer=True),
        "curvature": Range(0.0, 0.999),
        "share": Range(0.01, 3.0, log=True),
        "noise": Range(0.0, 3.0),
        "bias": Range(0.0, 3.0),
    },
    wrong=_no_drift_slack,
    name="item 1 on rounded |x| plus a quadratic, biases outwards, every sign of the noise",
)(_upper_slack)


@row.equal(
    (1.0, 1.0, 1, 1.0, 1.0),
    (2.0, 3.0, 50, 0.5, 0.1),
    (1.0, 0.0, 7, 2.0, 0.3),
    (0.5, 1.0, 4000, 1e-4, 1e-3),
    (1.0, 1.0, 3, 0.25, 5.0),
    tolerance=1e-12,
)
def _(beta: float, distance: float, steps: int, energy: float, bias: float) -> Sides:
    """U, term by term in fractions of squares"""
    found = _risk(beta, distance, steps, energy, bias)
    root = Fraction(math.isqrt(int(Fraction(energy) * steps * 10**40)), 10**20)
    b, d, g = Fraction(bias), Fraction(distance), Fraction(beta)
    terms = (
        g * d * d / (2 * steps) + Fraction(energy) / (2 * g) + b * d + steps * b * b / (2 * g) + 2 * b * root / (3 * g)
    )
    return found.upper, terms, found.lower


def _twice_slack(steps: float, ratio: float, factor: float = 2.0) -> float:
    """W against U at the best T, an integer; b = 1, s = ratio, beta = 1."""
    steps = round(steps)
    root = math.sqrt(ratio**2 + 4 * ratio / 3 + 1)
    found = _risk(1.0, steps * root, steps, steps * ratio**2, 1.0)
    return factor * found.lower / found.upper - 1


def _one_and_a_half_slack(**point: float) -> float:
    return _twice_slack(**point, factor=1.5)


row.inequality(
    {"steps": Range(17, 10**6, log=True), "ratio": Range(1e-3, 1e3, log=True)},
    wrong=_one_and_a_half_slack,
    name="item 3: twice W is at least U at the best T from 17 on",
)(_twice_slack)


def _norms(law: str, samples: int) -> list[float]:
    """Quantiles of a law of residual norms in [0, 1]."""
    levels = [(place + 0.5) / samples for place in range(samples)]
    if law == "two":
        return [0.05 if level < 0.98 else 0.6 for level in levels]
    return [0.05 * min(20.0, -math.log(1 - level)) if law == "exponential" else 0.3 * level for level in levels]


_SETTINGS = tuple(
    (law, dim, n, mu)
    for law in ("two", "exponential", "uniform")
    for dim, n, mu in ((200, 50, 2.0), (269_722, 50_000, 1.0), (269_722, 50_000, 0.02), (25_000, 100, 0.5))
)


def _best(law: str, dim: int, n: int, mu: float) -> embedding.BestResidualClip:
    """Over two subspaces; with the second one the residuals are half as long."""
    rows = _norms(law, 400)
    return embedding.best_residual_clip(
        residual_norms=[rows, [norm / 2 for norm in rows]], subspace_dims=[dim // 100, dim // 10], dim=dim, train_size=n,
        smoothness=2.0, initial_distance=3.0, mu=mu, lipschitz=1.5,
    )  # fmt: skip


def _found(law: str, dim: int, n: int, mu: float) -> dict[str, float]:
    """The same by minimising U over clip and T for each subspace."""
    best: dict[str, float] = {"value": math.inf}
    for k, scale in ((dim // 100, 1.0), (dim // 10, 0.5)):
        rows = scale * np.array(_norms(law, 400))

        def parts(clip: float, k: int = k, rows: np.ndarray = rows) -> tuple[float, float]:
            return (math.sqrt(k) * 1.5 + math.sqrt(dim - k) * clip) / (mu * n), float(np.maximum(rows - clip, 0).mean())

        def real(clip: float, parts=parts) -> float:  # type: ignore[no-untyped-def]
            s, b = parts(clip)
            return float(3.0 * (b + math.sqrt(s * s + 4 * b * s / 3 + b * b)))

        inside = scipy.optimize.minimize_scalar(
            real, bounds=(0.0, float(rows.max())), method="bounded", options={"xatol": 1e-12}
        ).x
        clip = float(min((0.0, inside, *rows.tolist()), key=real))
        s, b = parts(clip)
        steps = max(1, round(6.0 / math.sqrt(s * s + 4 * b * s / 3 + b * b)))
        values = {t: _risk(2.0, 3.0, t, t * s * s, b).upper for t in (steps - 1, steps, steps + 1) if t}
        steps = min(values, key=values.__getitem__)
        if values[steps] < best["value"]:
            best = {"value": values[steps], "residual_clip": clip, "subspace_dim": k, "steps": steps, "bias": b}
            best["noise_energy"] = steps * s * s
    return best


@row.equal(
    *(
        (*one, field)
        for one in _SETTINGS
        for field in ("value", "residual_clip", "subspace_dim", "steps", "bias", "noise_energy")
    ),
    tolerance=1e-5,
)
def _(law: str, dim: int, n: int, mu: float, field: str) -> Sides:
    """best clip, subspace and T, by search"""
    found = float(getattr(_best(law, dim, n, mu), field))
    return found, lambda: _found(law, dim, n, mu)[field], 1.005 * found + 1e-3


@row.equal(*((*one, twice) for one in _SETTINGS[:3] for twice in (False, True)))
def _(law: str, dim: int, n: int, mu: float, twice: bool) -> Sides:
    """which subspaces are as good: the best one alone, or both where it is given twice"""
    rows = _norms(law, 400)
    best = _best(law, dim, n, mu)
    scale = 1.0 if best.subspace_dim == dim // 100 else 0.5
    same = [norm * scale for norm in rows]
    other = [1.5] * 400
    found = embedding.best_residual_clip(
        residual_norms=[same, same if twice else other], subspace_dims=[best.subspace_dim] * 2, dim=dim, train_size=n,
        smoothness=2.0, initial_distance=3.0, mu=mu, lipschitz=1.5,
    )  # fmt: skip
    chosen = int(_found(law, dim, n, mu)["subspace_dim"])
    return sum(found.alike_dims), chosen * (1 + twice), chosen * (2 - twice)


@row.equal(*_SETTINGS[:6])
def _(law: str, dim: int, n: int, mu: float) -> Sides:
    """item 4: the share of residuals that the best clip clips"""
    best = _best(law, dim, n, mu)
    rows = np.array(_norms(law, 400)) * (1.0 if best.subspace_dim == dim // 100 else 0.5)
    share = math.sqrt(dim - best.subspace_dim) / (mu * n)
    above = float((rows > best.residual_clip * (1 + 1e-9)).mean())
    at_least = float((rows >= best.residual_clip * (1 - 1e-9)).mean())
    holds = above <= 0.6 * share and (best.residual_clip == 0 or at_least >= share / 3)
    return holds, True, above <= 0.3 * share and at_least >= 0.5 * share


@row.equal(*((m, mu) for m in (1, 5, 7, 20) for mu in (1.0, 0.5)))
def _(m: int, mu: float) -> Sides:
    """item 4: does a clip below the largest residual lower the bound? q = 100, m samples of 50 at the largest residual"""
    found = embedding.best_residual_clip(
        residual_norms=[[0.5] * m + [0.1] * (50 - m)], subspace_dims=[1], dim=101, train_size=50, smoothness=1.0,
        initial_distance=1.0, mu=mu,
    )  # fmt: skip
    return found.residual_clip < 0.5, m < Fraction(6) / Fraction(mu), m < Fraction(10) / Fraction(mu)
