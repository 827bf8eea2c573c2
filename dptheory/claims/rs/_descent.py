"""The descent lemmas against runs: by enumeration, with Poisson batches, and with mask and noise."""

import math
from fractions import Fraction

from dptheory import convergence
from dptheory.claims import _poisson
from dptheory.claims._row import Sides
from dptheory.claims.rs import _runs
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs._runs import Settings

# --- RS: the bound on one step against steps with Poisson batches, or with mask and noise


def printed_holds(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> bool:
    """The printed inequality for one step with Poisson batches and C = G = 1, in fractions."""
    alignment, decrease = _poisson.one_step(gradient, gamma, examples, rate)
    return alignment <= decrease / gamma + gamma / 2


def poisson_bound(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> float:
    clipped = min(float(gradient), 1.0)
    moment = convergence.batch_second_moment(
        mean_norm=clipped, second_moment=clipped**2, batch_size=round(rate * examples), sampling_rate=float(rate)
    )
    decrease = float(_poisson.one_step(gradient, gamma, examples, rate)[1])
    return convergence.alignment_bound(
        decrease=decrease, learning_rate=float(gamma), smoothness=1.0, second_moment=moment
    ).value


POISSON_STEPS = [
    (Fraction(10), Fraction(1, 2), 100, Fraction(1, 100)),
    (Fraction(10), Fraction(1, 2), 6, Fraction(1, 3)),
    (Fraction(3, 4), Fraction(3, 2), 8, Fraction(1, 2)),
    (Fraction(10), Fraction(1, 2), 4, Fraction(1)),
]


def poisson_moment(gradients: tuple[int, ...], rate: Fraction, fixed: bool = False) -> float:
    mean = sum(gradients) / len(gradients)
    square = sum(g * g for g in gradients) / len(gradients)
    size = round(rate * len(gradients))
    if fixed:
        return convergence.batch_second_moment(
            mean_norm=abs(mean), second_moment=square, batch_size=size, sampling="fixed"
        )
    return convergence.batch_second_moment(
        mean_norm=abs(mean), second_moment=square, batch_size=size, sampling_rate=float(rate)
    )


def poisson_batches(gradient: Fraction, gamma: Fraction, examples: int, rate: Fraction) -> Sides:
    """Poisson batches break the printed constant, in fractions"""
    # without clipping |update|^2 is (3/4)^2 (1 + 1/8) in the third case; a batch of all examples is one of fixed size
    return gradient < 1 or rate == 1, lambda: printed_holds(gradient, gamma, examples, rate), True


def step_bound(step: _poisson.Step) -> float:
    """Lemma 3.4 with the largest second moment, one step with mask and noise on a quadratic."""
    clip, batch, sampling = float(step.clip), step.batch_size, step.sampling
    gamma, smoothness, rate = float(step.learning_rate), float(step.smoothness), 1 - step.kept / step.dim
    moment = convergence.batch_second_moment(mean_norm=clip, second_moment=clip**2, batch_size=batch, **sampling)  # type: ignore[arg-type]
    noise = convergence.noise_term(
        smoothness=smoothness,
        clip_norm=clip,
        noise_multiplier=float(step.noise_multiplier),
        dim=step.dim,
        batch_size=batch,
    )
    return convergence.alignment_bound(
        decrease=step.decrease,
        learning_rate=gamma,
        smoothness=smoothness,
        second_moment=moment,
        noise_term=noise,
        drop_rate=rate,
    ).value


def run_bound(examples: int, steps: int, moment: float) -> float:
    return convergence.alignment_bound(
        decrease=_poisson.run_alignment(examples, steps)[1] / steps,
        learning_rate=2.0,
        smoothness=1.0,
        second_moment=moment,
    ).value


def printed_descent(decrease: float, learning_rate: float, smoothness: float, clip: float) -> float:
    """Right side of Lemma 3.1 as printed: the second moment of the clipped update is put at C^2."""
    return decrease / learning_rate + learning_rate * smoothness * clip**2 / 2


def printed_noisy_descent(
    decrease: float, learning_rate: float, smoothness: float, clip: float, noise: float, rate: float
) -> float:
    """Right side of Lemma 3.4 as printed, noise = Delta_sigma."""
    return printed_descent(decrease, learning_rate, smoothness, clip) + (1 - rate) * learning_rate * noise


def printed_of_run(s: Settings) -> float:
    decrease = enumeration.run(s).decrease / s.steps
    return printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))


def descent_slack(s: Settings, share: float) -> float:
    """Right side of Lemma 3.4 minus left side, over the size of the terms; ``share`` of gamma G C^2 / 2 is kept."""
    found = enumeration.run(s)
    clipping = s.learning_rate * s.smoothness * s.clip**2 / 2
    noise = (1 - _runs.rate(s)) * s.learning_rate * _runs.noise(s)
    decrease = found.decrease / s.steps
    right = printed_noisy_descent(decrease, s.learning_rate, s.smoothness, s.clip, _runs.noise(s), _runs.rate(s))
    return (right - (1 - share) * clipping - found.alignment) / (abs(decrease) / s.learning_rate + clipping + noise)


def certified(
    learning_rate: float, smoothness: float, clip: float, mean_norm: float, rate: float, noise_energy: float
) -> float:
    """Refined bound for a batch of two and a decrease of 1; noise_energy = d (C sigma / B)^2."""
    moment = convergence.batch_second_moment(mean_norm=mean_norm, second_moment=clip**2, batch_size=2, sampling="fixed")
    noise = convergence.noise_term(
        smoothness=smoothness, clip_norm=clip, noise_multiplier=math.sqrt(noise_energy) * 2 / clip, dim=1, batch_size=2
    )
    return convergence.alignment_bound(
        decrease=1.0,
        learning_rate=learning_rate,
        smoothness=smoothness,
        second_moment=moment,
        noise_term=noise,
        drop_rate=rate,
    ).value
