"""The enclosure in ball arithmetic."""

import dataclasses

import pytest

from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Step

pytest.importorskip("flint")

from flint import acb, arb, ctx

from dptheory.privacy.methods.saddle._enclosure import BallLine, _line, worst_delta, worst_epsilon

BOTH: tuple[Direction, ...] = ("remove", "add")
RUN = (Step(noise_multiplier=1.0, sampling_rate=0.02, count=1000),)


def test_it_lies_within_the_bracket_in_doubles() -> None:
    certain, bracket = worst_epsilon(RUN, delta=1e-5, among=BOTH), methods.epsilon_of(RUN, BOTH, 1e-5)
    assert bracket.lower <= certain[0] < certain[1] <= bracket.upper
    assert certain[1] - certain[0] < 1e-12
    # the interval of another program, in balls of 96 bits
    assert max(certain[0], 3.899087994199775) <= min(certain[1], 3.899087994200032)


@pytest.mark.parametrize("among", [BOTH, ("replace",)], ids=["add-remove", "replace-one"])
def test_mixed_steps(among: tuple[Direction, ...]) -> None:
    mixed = (*RUN, Step(noise_multiplier=2.0, sampling_rate=0.3, count=50))
    certain = worst_delta(mixed, epsilon=6.0, among=among)
    bracket = methods.delta_of(mixed, among, 6.0)
    assert bracket.lower <= certain[0] < certain[1] <= bracket.upper


def test_below_the_pole() -> None:
    """c < 0: nearly all the mass."""
    run = (Step(noise_multiplier=0.6, sampling_rate=0.5, count=200),)
    low, high = worst_delta(run, epsilon=20.0, among=BOTH)
    found = methods.delta_of(run, BOTH, 20.0)
    assert max(low, found.lower) <= min(high, found.upper) and high - low < 1e-11
    assert found.upper - found.lower < 1e-11


def test_the_moments_contain_what_arb_integrates() -> None:
    """M(c + iu) of "add" by Arb's own integration, which shares nothing with the rule."""
    line = _line(RUN, 2.0, "add")
    with ctx.workprec(100):
        t, q, k = arb(1), arb(0.02), 3
        s = line.points[k]

        def integrand(z: acb, _: bool) -> acb:
            return (-s * (1 - q + q * (-t * z - t * t / 2).exp()).log() - z * z / 2).exp()

        moment = acb.integral(integrand, -30, 30) / (2 * arb.pi()).sqrt()
        term = arb(line.plan.h) / arb.pi() * moment**1000
        assert line.terms[k].overlaps(term) or abs(line.terms[k] - term) < 1e-12 * abs(term)


@pytest.mark.parametrize("left_out", ["tail", "aliases"])
def test_each_bound_matters(left_out: str) -> None:
    """Planted: fewer nodes, or a coarser spacing, with the bound of the error left out."""
    whole = _line(RUN, 2.0, "remove")
    truth = whole.delta_bracket(2.0)
    if left_out == "tail":
        few = len(whole.terms) // 6
        broken = dataclasses.replace(whole, points=whole.points[:few], terms=whole.terms[:few])
    else:
        plan = dataclasses.replace(whole.plan, h=3 * whole.plan.h)
        terms = [3 * term for term in whole.terms[::3]]
        broken = BallLine(plan, whole.points[::3], terms, [], whole.tail, whole.density_tail, whole.left_out)
    low, high = broken.delta_bracket(2.0)
    assert high < truth[0] or truth[1] < low


@pytest.mark.parametrize(
    ("noise", "rate", "count"), [(0.3, 0.02, 1000), (1.0, 1e-5, 1000), (1.0, 0.02, 99), (1.0, 0.02, 2_000_000)]
)
def test_it_refuses_what_lies_outside(noise: float, rate: float, count: int) -> None:
    run = (Step(noise_multiplier=noise, sampling_rate=rate, count=count),)
    with pytest.raises(Unresolved, match="doubles holds"):
        worst_epsilon(run, delta=1e-5, among=BOTH)
