"""Values that the test suites of other accountants hold, against ours."""

from dptheory import privacy

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
