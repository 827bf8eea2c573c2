"""Bounds against references that share no code with them, and against published values."""

import math
import random
from typing import Any

import pytest

from dptheory import privacy
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.references._cross_check import pld_bracket
from dptheory.privacy.methods.references._prv import prv_or_none

# --- Brackets over the whole range of the arguments, against references that share no code with them ---


Setting = dict[str, Any]


def drawn(rng: random.Random) -> Setting:
    """Noise .05 to 1000, rate 1e-8 to 1, 1 to 10^6 steps, delta 1e-30 to .99."""
    noise, rate = 10 ** rng.uniform(math.log10(0.05), 3), 10 ** rng.uniform(-8, 0)
    delta = 10 ** rng.uniform(-30, -2) if rng.random() < 0.9 else rng.uniform(0.01, 0.99)
    return {
        "noise_multiplier": noise,
        "sampling_rate": rate,
        "steps": int(10 ** rng.uniform(0, 6)),
        "delta": delta,
        "direction": rng.choice(["remove", "add", "replace"]),
    }


def in_core(rng: random.Random) -> Setting:
    """Noise .4 to 20, rate 1e-4 to 1, 100 to 10^6 steps, delta 1e-15 to .1: what is promised to 1e-9."""
    noise = math.exp(rng.uniform(math.log(0.4), math.log(20.0)))
    return {
        "noise_multiplier": noise,
        "sampling_rate": 10 ** rng.uniform(-4, 0),
        "steps": int(10 ** rng.uniform(2, 6)),
        "delta": 10 ** rng.uniform(-15, -1),
        "direction": rng.choice(["remove", "add", "replace"]),
    }


def public(setting: Setting) -> Setting:
    """The arguments of epsilon_bounds."""
    if setting["direction"] == "replace":
        return {**setting, "direction": "worst", "adjacency": "replace-one"}
    return setting


def witnesses(setting: Setting) -> list[tuple[float, float]]:
    """Brackets by prv-accountant and dp-accounting (which knows no direction), where they give one."""
    loss = Loss(setting["direction"], setting["noise_multiplier"], setting["sampling_rate"])
    found = [prv_or_none(loss, setting["steps"], setting["delta"], 0.02)]
    if setting["direction"] != "add" and setting["steps"] < 3000:
        found.append(pld_bracket(loss, setting["steps"], setting["delta"]))
    return [one for one in found if one is not None]


def width_in_delta(setting: Setting, found: privacy.EpsilonBounds) -> float:
    """How far delta at either end may be from the one that was asked for, relative."""
    if found.upper == 0:
        return 0.0
    given = {name: value for name, value in public(setting).items() if name != "delta"}
    least, most = (privacy.delta_bounds(epsilon=end, **given) for end in (found.upper, found.lower))
    below, above = 1 - least.lower / setting["delta"], most.upper / setting["delta"] - 1
    return max(below, above if found.lower > 0 else 0.0)


def judged(settings: list[Setting], promised: float) -> tuple[list[str], list[str]]:
    """Brackets without what the witnesses allow, and brackets wider than promised."""
    missed, wide = [], []
    for setting in settings:
        found = privacy.epsilon_bounds(**public(setting))
        slack = 1e-9 * found.upper + 1e-12
        missed += [
            f"{setting}: {found} against {low, high}"
            for low, high in witnesses(setting)
            if not (low <= found.upper + slack and found.lower <= high + slack)
        ]
        width = width_in_delta(setting, found)
        if width > 2 * promised and found.upper - found.lower > 1e-9 * found.upper:
            wide.append(f"{setting}: {found}, {width:.1e} in delta")
    return missed, wide


def certified_misses(settings: list[Setting]) -> list[str]:
    missed = []
    for setting in settings:
        found = privacy.epsilon_bounds(**public(setting))
        try:
            certain = privacy.epsilon_bounds(**public(setting), certified=True)
        except ValueError as refused:
            assert "certified must be False here" in str(refused)
            continue
        if max(found.lower, certain.lower) > min(found.upper, certain.upper):
            missed.append(f"{setting}: {found} against {certain}")
    return missed


def test_the_whole_range() -> None:
    rng = random.Random(4)
    missed, wide = judged([drawn(rng) for _ in range(10)][3:], 1e-4)  # the third takes ten seconds
    assert (missed, wide) == ([], [])


def test_a_witness_whose_exponentials_underflow() -> None:
    """dp-accounting gave 2282.338 for a lower bound; epsilon is 2282.32137, by the number of hits, whose losses are normal."""
    noise, rate = 0.050615908177472656, 0.05519770007810546
    low, high = pld_bracket(Loss("remove", noise, rate), 19, 2.1519187099376483e-11)
    assert low <= 2282.32136 <= high
    found = privacy.epsilon_bounds(
        noise_multiplier=noise,
        sampling_rate=rate,
        steps=19,
        delta=2.1519187099376483e-11,
        direction="remove",
        rtol=1e-11,
    )
    assert found.lower <= 2282.3213693317 <= found.upper and found.upper - found.lower < 1e-7


def test_two_steps_of_rare_sampling_stay_narrow() -> None:
    """A rule for choosing the line that was quicker and looked no worse made it 3 % wide."""
    found = privacy.epsilon_bounds(
        noise_multiplier=0.8004610617798327, sampling_rate=9.249143588435409e-05, steps=2, delta=2.3582210949474827e-10
    )
    assert found.lower < 0.0464472708 < found.upper < found.lower * (1 + 1e-4)


def test_a_line_without_a_spacing_is_left_to_other_lines() -> None:
    """It divided by zero."""
    found = privacy.epsilon_bounds(
        noise_multiplier=0.09097695351942287, sampling_rate=1.2398009976889545e-07, steps=7176, delta=1.5692006285690654e-16,
        direction="add",
    )  # fmt: skip
    assert found.lower <= 0.00088968125109265 <= found.upper < found.lower * (1 + 1e-9)


def test_the_core() -> None:
    rng = random.Random(5)
    settings = [in_core(rng) for _ in range(6)]
    missed, wide = judged(settings, 1e-9)
    assert (missed, wide) == ([], [])


def test_the_core_certified() -> None:
    rng = random.Random(6)
    assert certified_misses([in_core(rng) for _ in range(2)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_the_whole_range_in_depth(part: int) -> None:
    """1,000 settings: none without what the witnesses allow, at most one of a hundred wider than promised."""
    rng = random.Random(100 + part)
    missed, wide = judged([drawn(rng) for _ in range(50)], 1e-4)
    assert missed == []
    assert len(wide) <= 2, wide


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_the_core_in_depth(part: int) -> None:
    rng = random.Random(200 + part)
    settings = [in_core(rng) for _ in range(20)]
    missed, wide = judged(settings, 1e-9)
    assert (missed, wide) == ([], [])
    assert certified_misses(settings) == []


# --- Values that the test suites of other accountants hold, against ours ---


PRV_ABOVE = (0.0, 0.012)
"""Opacus holds upper bounds by prv-accountant, made for an error of .01: above epsilon by about that."""

OPACUS_PRV = {  # (noise, rate, steps): epsilon at delta 1e-6; Opacus 1.6.0, opacus/tests/prv_accountant.py, msr_values
    (0.8, 0.001, 100): 0.270403364058018680360362395731,
    (3.0, 0.001, 100): 0.0215200934390882663016508757892,
    (0.8, 0.05, 100): 6.74105193941409996938318727189,
    (2.0, 0.05, 100): 1.28363737962406521120328761754,
    (0.8, 0.2, 100): 24.3336641779225644199868838768,
    (3.0, 0.2, 100): 3.38122051022184422208738396876,
    (1.5, 0.001, 1000): 0.0998206602308474855167474970585,
    (1.5, 0.05, 1000): 6.20996924657726712126759593957,
    (0.8, 0.001, 20000): 1.29600925757016161021795142005,
    (3.0, 0.001, 20000): 0.194031030686054706269061398416,
    (1.5, 0.05, 20000): 38.3066179140872336006395926233,
    (2.0, 0.001, 50000): 0.491354910211401318953505779064,
    (1.5, 0.05, 50000): 73.1901767238329625797632616013,
    (3.0, 0.05, 50000): 24.9420056431444763234139827546,
}

DP_ACCOUNTING = {  # (noise over sensitivity, rate, direction, epsilon): delta of one step; dp-accounting 0.6.0,
    # dp_accounting/pld/privacy_loss_mechanism_test.py, test_gaussian_get_delta_for_epsilon
    (1.0, 0.8, "add", 1.0): 0.0231362104090899,
    (1 / 3, 0.7, "add", 1.0): 0.1195051215523554,
    (1.0, 0.3, "add", 2.0): 0.0,
    (1.0, 0.8, "remove", 1.0): 0.0816951786585355,
    (1 / 3, 0.7, "remove", 1.0): 0.5356298793262404,
    (1 / 3, 0.4, "remove", 1.0): 0.2888308005139968,
    (1.0, 0.3, "remove", 2.0): 0.0003341102928869332,
    (2.0, 0.8, "replace", 1.0): 0.05808665654484252,
    (1.5, 0.8, "replace", 1.0): 0.13711260900644096,
    (2 / 3, 0.7, "replace", 1.0): 0.4013057526509164,
    (0.5, 0.4, "replace", 1.0): 0.20752885274183325,
    (2.0, 0.3, "replace", 2.0): 2.4770380148941894e-09,
}


def of_opacus() -> dict[str, tuple[float, float, float]]:
    """Name of a value to how far it may lie from ours, and how far it does."""
    found = {}
    for (noise, rate, steps), value in OPACUS_PRV.items():
        ours = privacy.epsilon_bounds(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=1e-6)
        found[f"Opacus PRV {noise, rate, steps}"] = (*PRV_ABOVE, value - ours.upper)
    run = {"sampling_rate": 0.04, "delta": 1e-5}
    # opacus/tests/accountants_test.py: test_prv_accountant, test_rdp_accountant, test_get_noise_multiplier_prv_steps, _epochs
    ours = privacy.epsilon_bounds(noise_multiplier=1.5, steps=2249, **run)  # type: ignore[arg-type]
    found["Opacus test_prv_accountant"] = (*PRV_ABOVE, 6.777395712150674 - ours.upper)
    rdp = privacy.rdp_epsilon(noise_multiplier=1.5, steps=2250, **run)  # type: ignore[arg-type]
    found["Opacus test_rdp_accountant"] = (0.0, 1e-3, 7.32911117143 - rdp)  # on a grid of orders: above ours
    for steps, value in ((2000, 1.2915), (2250, 1.34765625)):
        sigma = privacy.least_noise_multiplier(epsilon=8.0, steps=steps, **run)  # type: ignore[arg-type]
        found[f"Opacus noise for {steps} steps"] = (0.0, 0.002, value - sigma)
    return found


def of_dp_accounting() -> dict[str, tuple[float, float, float]]:
    found = {}
    for (noise, rate, direction, epsilon), value in DP_ACCOUNTING.items():
        more = {"adjacency": "replace-one"} if direction == "replace" else {"direction": direction}
        ours = privacy.delta_bounds(noise_multiplier=noise, sampling_rate=rate, steps=1, epsilon=epsilon, **more)  # type: ignore[arg-type]
        error = 1e-9 * value + 1e-300
        found[f"dp-accounting {noise, rate, direction, epsilon}"] = (
            -error,
            error,
            value - (ours.lower + ours.upper) / 2,
        )
    # pld_privacy_accountant_test.py, test_poisson_subsampled_gaussian: five digits of an upper bound
    three = privacy.delta_bounds(noise_multiplier=0.5, sampling_rate=0.2, steps=3, epsilon=1.0)
    found["dp-accounting three steps"] = (0.0, 1e-5, 0.15594 - three.upper)
    return found


def test_published_values() -> None:
    found = {**of_opacus(), **of_dp_accounting()}
    assert {name: one for name, one in found.items() if not one[0] <= one[2] <= one[1]} == {}
