"""Private selections: limits, order, quadrature and the command line."""

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from typer.testing import CliRunner

from dptheory import pruning
from dptheory.cli import app
from dptheory.pruning import random_k_mse, selection_gain_bound, top_k_energy, top_k_mse
from dptheory.pruning._selection import _most_gain
from tests.refused import refused


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("ratio", [0.01, 0.4, 2.0, 30.0])
def test_noisy_magnitudes_by_quadrature(share: float, ratio: float) -> None:
    from scipy.optimize import brentq

    def part(t: float, weight: float) -> float:
        def integrand(x: float) -> float:
            return float(2 * norm.pdf(x) * (x * x - 1 if weight else 1) * norm.sf((t - x) / ratio))

        cuts = sorted({min(max(t + c * ratio, 0.0), 12.0) for c in (-4, -1, 0, 1, 4)})
        return float(quad(integrand, 0, 12, points=cuts, limit=300, epsabs=1e-13)[0])

    t = brentq(lambda t: part(t, 0) - share, -12 * ratio - 1, 12 + 12 * ratio, xtol=1e-13)
    a = norm.isf(share / 2)
    assert pruning.magnitude_gain(keep_share=share, noise_ratio=ratio) == pytest.approx(
        part(t, 1) / (2 * a * norm.pdf(a)), rel=1e-6
    )


@pytest.mark.parametrize("gain", [pruning.magnitude_gain, pruning.gumbel_gain])
def test_gain_falls_with_the_noise(gain) -> None:  # type: ignore[no-untyped-def]
    assert gain(keep_share=0.1, noise_ratio=0.0) == 1
    values = [gain(keep_share=0.1, noise_ratio=float(s)) for s in np.logspace(-4, 6, 30)]
    assert (np.diff(values) <= 1e-12).all() and 0 < values[-1] < 1e-5 and values[0] > 0.999


def test_released_gain() -> None:
    assert pruning.released_gain(sigma_g=1.0, noise_std=0.0) == 1
    assert pruning.released_gain(sigma_g=3.0, noise_std=4.0) == pytest.approx(9 / 25)
    random = 90 + 10 * 4.0
    assert pruning.released_top_k_mse(100, 10, sigma_g=1.0, noise_std=2.0) > random
    assert pruning.released_top_k_mse(100, 10, sigma_g=3.0, noise_std=2.0) < 9 * 90 + 10 * 4.0
    assert pruning.released_top_k_mse(100, 10, sigma_g=2.0, noise_std=2.0) == pytest.approx(400)


def test_noise_of_next_to_nothing_costs_no_gain() -> None:
    """Ratios below 1e-70 were refused by the name of an argument that the function does not have."""
    gains = pruning.selection_gains(
        zcdp_rho=1e-70, dim=256, keep=26, groups=10, sigma_g=1e70, clip_norm=1e-70, noise_multiplier=0.0
    )
    assert (gains.magnitude, gains.gumbel, gains.released) == (1.0, 1.0, 1.0) and 0.0 < gains.mallows < 1e-30


def test_crossing_with_the_mallows_mechanism() -> None:
    rho, dim, keep, groups, k = 1e-6, 1000, 100, 50, 0.1
    a, z = norm.isf(k / 2), norm.isf(k)
    norm_ratio = math.sqrt(k * math.pi / 2) * (1 - k) * 2 * a * norm.pdf(a) / norm.pdf(z)
    gains = pruning.selection_gains(
        zcdp_rho=rho,
        dim=dim,
        keep=keep,
        groups=groups,
        sigma_g=norm_ratio / math.sqrt(dim * groups),
        clip_norm=1.0,
        noise_multiplier=1.0,
    )
    assert gains.magnitude == pytest.approx(gains.mallows, rel=2e-3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pruning.magnitude_noise(0.0), "zcdp_rho"),
        (lambda: pruning.gumbel_rate(zcdp_rho=1.0, keep=0), "keep"),
        (lambda: pruning.magnitude_gain(keep_share=0.0, noise_ratio=1.0), "keep_share"),
        (lambda: pruning.gumbel_gain(keep_share=1e-300, noise_ratio=1.0), "keep_share"),
        (lambda: pruning.gumbel_gain(keep_share=0.5, noise_ratio=-1.0), "noise_ratio"),
        (lambda: pruning.released_gain(sigma_g=0.0, noise_std=1.0), "sigma_g"),
        (lambda: pruning.released_top_k_mse(4, 5, sigma_g=1.0, noise_std=1.0), "keep"),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=1.0, dim=4, keep=2, groups=0, sigma_g=1.0, clip_norm=1.0, noise_multiplier=1.0
            ),
            "groups",
        ),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=1.0, dim=4, keep=4, groups=1, sigma_g=1.0, clip_norm=1.0, noise_multiplier=1.0
            ),
            "keep",
        ),
        (
            lambda: pruning.selection_gains(
                zcdp_rho=-1.0, dim=4, keep=2, groups=1, sigma_g=1.0, clip_norm=1.0, noise_multiplier=1.0
            ),
            "zcdp_rho",
        ),
    ],
)
def test_bad_input_is_named(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(says):
        call()


def test_command() -> None:
    run = CliRunner().invoke
    common = [
        "privacy",
        "index",
        "--dim",
        "64",
        "--keep",
        "6",
        "--epsilon",
        "1",
        "--steps",
        "10",
        "--groups",
        "3",
        "--json",
    ]
    plain = json.loads(run(app, common).output)
    assert plain["theta, basic composition"] < plain["theta, exact composition"]
    joint = json.loads(run(app, [*common, "--sampling-rate", "0.1", "--noise-multiplier", "4"]).output)
    assert joint["theta, values and indices of one sample (RDP)"] > joint["theta, exact composition"]
    assert run(app, [*common, "--sampling-rate", "0.1"]).exit_code == 2


_GAINS = {"zcdp_rho": 0.1, "dim": 1000, "keep": 200, "groups": 10, "clip_norm": 10.0, "noise_multiplier": 0.0}


def test_the_noise_that_is_too_large_is_the_one_named() -> None:
    with refused("zcdp_rho", "1e+09", "0.1", "2.23607e+09"):
        pruning.selection_gains(**_GAINS, sigma_g=1e-7)  # type: ignore[arg-type]
    with refused("groups", "1..1000000000000"):
        pruning.selection_gains(**_GAINS | {"groups": 10**400}, sigma_g=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.5, 0.999, 0.99999])
def test_next_to_no_noise_costs_no_gain(share: float) -> None:
    for gain in (pruning.magnitude_gain, pruning.gumbel_gain):
        assert gain(keep_share=share, noise_ratio=1e-70) == pytest.approx(1.0, abs=1e-15 / (1 - share))


def test_one_entry_of_a_billion_keeps_the_largest_noise() -> None:
    """(noise^2 - 1) (E max x^2 - 1) on top of random-k; the difference of two errors of 1e9 lost seven digits of it."""
    dim = 10**9
    found = pruning.released_top_k_mse(dim, 1, sigma_g=1.0, noise_std=1e6) - (dim - 1 + 1e12)
    largest = 1.0 + found / (1e12 - 1.0)  # E max x^2
    assert largest == pytest.approx(float(pruning.top_k_energy(dim, 1, sigma_g=1.0)), rel=1e-12)


# --- What any private selection can retain: limits, order, scale


def _bound(rho: float, *, dim: int = 256, keep: int = 26, ratio: float = 0.3, clip_norm: float = 1.0) -> float:
    return selection_gain_bound(
        zcdp_rho=rho, dim=dim, keep=keep, groups=7, sigma_g=ratio * clip_norm, clip_norm=clip_norm
    )


def test_bound_rises_from_nothing_to_all() -> None:
    for dim, keep in ((2, 1), (256, 1), (256, 26), (256, 255), (10**9, 1), (10**9, 10**9 - 1)):
        bounds = [_bound(float(rho), dim=dim, keep=keep) for rho in np.logspace(-70, 70, 29)]
        assert (np.diff(bounds) >= 0).all() and bounds[-1] == 1, (dim, keep)
        assert 0 < bounds[0] < 1e-20, (dim, keep)


def test_bound_is_at_most_the_root_of_the_information() -> None:
    for dim, keep in ((256, 1), (256, 26), (256, 128), (256, 240)):
        gain = float(random_k_mse(dim, keep, sigma_g=1.0) - top_k_mse(dim, keep, sigma_g=1.0)) / dim
        for rho in (1e-20, 1e-3, 0.1, 1.0):
            nats = rho * (0.3 * math.sqrt(1 - 2 / math.pi) + 1 / math.sqrt(7 * dim)) ** 2
            assert _bound(rho, dim=dim, keep=keep) <= math.sqrt(nats) / gain * (1 + 1e-9), (dim, keep, rho)


def test_bound_depends_on_the_ratio_alone() -> None:
    assert _bound(0.1) == pytest.approx(_bound(0.1, clip_norm=1e-60), rel=1e-12)


def test_one_entry_kept_of_many() -> None:
    """What top-k gains is not the difference of two mean squared errors of the size of the group."""
    dim = 10**9
    for nats in (1e-20, 1e-9):
        rho = nats / (math.sqrt(1 - 2 / math.pi) * 0.3 + 1 / math.sqrt(7 * dim)) ** 2
        gain = float(top_k_energy(dim, 1, sigma_g=1.0) - 1) / dim
        assert _bound(rho, dim=dim, keep=1) == pytest.approx(_most_gain(1 / dim, nats) / gain, rel=1e-11, abs=0)
