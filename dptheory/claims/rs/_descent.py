"""The descent lemmas on runs by enumeration: the printed right sides, and the refined one that a certificate compares."""

import math

from dptheory import convergence
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _runs
from dptheory.claims.rs._enumeration import Settings


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
