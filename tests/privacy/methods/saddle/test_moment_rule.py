"""M(c + iu) by one rule: its error is within the bound, and the bound fails where the proof's conditions do."""

import math

import numpy as np
import pytest

from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods.saddle import _moment_rule
from dptheory.privacy.methods.saddle._moment_rule import envelope, moment_rule, widest_shift
from tests.privacy.methods.saddle.test_moments import reference, step

CASES = [(1.0, 0.02, "remove", 4.0), (0.4, 0.3, "add", 2.0), (2.0, 0.5, "replace", -0.4)]


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
@pytest.mark.parametrize("digits", [5.0, 30.0])
def test_the_error_is_within_its_bound(
    noise: float, rate: float, direction: Direction, c: float, digits: float
) -> None:
    one = step(noise, rate, direction)
    rule = moment_rule(one, c, widest_shift(one, c), digits=digits)
    moment = reference(noise, rate, direction, c).real
    assert abs(rule.log_moment - math.log(moment)) <= rule.moment_error < 3 * math.exp(-digits) + 1e-12
    for u in (0.7, 5.0, 80.0):
        found = complex(rule.weights @ np.exp(1j * u * rule.losses))
        assert abs(found - reference(noise, rate, direction, complex(c, u)) / moment) <= 2 * rule.error + 1e-13


def test_a_line_beyond_the_branch_points_breaks_the_bound() -> None:
    """Planted: the strip reaches |Im z| = 3.8 noise_multiplier, beyond the branch points at pi."""
    one = step(0.4, 0.3, "add")
    rule = moment_rule(one, 2.0, 1.9 * 0.4, digits=30.0)
    moment = reference(0.4, 0.3, "add", 2.0).real
    assert abs(rule.log_moment - math.log(moment)) > 2 * rule.moment_error


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
def test_the_modulus_never_exceeds_the_envelope(noise: float, rate: float, direction: Direction, c: float) -> None:
    one = step(noise, rate, direction)
    y = widest_shift(one, c)
    bound = envelope(one, c, 2 * y)
    rng = np.random.default_rng(0)
    for k in rng.integers(0, bound.edges.size - 1, 200):
        x = rng.uniform(bound.edges[k], bound.edges[k + 1])
        z = np.array([complex(x, 2 * y)])
        loss, log_density = _moment_rule.losses(one, z)
        modulus = (log_density - z * z / 2 + c * loss).real[0] - 0.5 * math.log(2 * math.pi)
        assert modulus + math.log(bound.edges[k + 1] - bound.edges[k]) <= bound.log_cells[k] + 1e-9
        assert modulus + math.log(bound.edges[k + 1] - bound.edges[k]) >= bound.log_cells[k] - 60


@pytest.mark.parametrize(("noise", "rate", "direction", "c"), CASES)
def test_the_modulus_stays_below_the_decay(noise: float, rate: float, direction: Direction, c: float) -> None:
    one = step(noise, rate, direction)
    rule = moment_rule(one, c, widest_shift(one, c))
    lower = moment_rule(one, c, 0.3 * widest_shift(one, c))
    for u in (0.5, 3.0, 20.0):
        bound = min(rule.log_decay(u), lower.log_decay(u))
        largest = max(abs(complex(rule.weights @ np.exp(1j * v * rule.losses))) for v in np.linspace(u, 4 * u, 60))
        assert largest <= math.exp(bound) * (1 + 1e-12)
        assert u < 20.0 or bound < -0.01  # it says something
