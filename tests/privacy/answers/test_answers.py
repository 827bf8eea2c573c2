"""The three questions of a training: each answer against the accountant, and the answers against each other."""

import functools

import pytest

from dptheory import privacy
from dptheory.privacy.answers import EpsilonReport, NoiseAnswer, StepsAnswer

_BATCHES = [
    {},
    {"adjacency": "replace-one"},
    {"adjacency": "replace-one", "sampling": "without replacement"},
]


@pytest.mark.parametrize("batches", _BATCHES)
def test_what_is_spent(batches: dict[str, str]) -> None:
    _judge(batches, sampling_rate=1.0)


def test_what_a_subsampled_run_spends() -> None:
    _judge({}, sampling_rate=0.05)


def _judge(batches: dict[str, str], sampling_rate: float) -> None:
    run = {"noise_multiplier": 2.0, "sampling_rate": sampling_rate, "steps": 20, "delta": 1e-5}
    assert privacy.answers.epsilon_report(**run, **batches) == EpsilonReport(  # type: ignore[arg-type]
        bounds=privacy.epsilon_bounds(**run, **batches),  # type: ignore[arg-type]
        rdp=None if batches else privacy.rdp_epsilon(**run),  # type: ignore[arg-type]
    )


_NAMES = [tuple(batches.items()) for batches in _BATCHES]
_ONE = {"delta": 1e-5, "sampling_rate": 1.0}  # without subsampling the search takes no time


@functools.cache  # mutants of the answers ask for the same again
def _least(epsilon: float, batches: tuple[tuple[str, str], ...]) -> float:
    return privacy.least_noise_multiplier(epsilon=epsilon, **_ONE, steps=10, **dict(batches))  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", _NAMES)
@pytest.mark.parametrize("epsilon", [2.0, 0.5, 0.05])
def test_how_much_noise(batches: tuple[tuple[str, str], ...], epsilon: float) -> None:
    sigma, run = _least(epsilon, batches), {**_ONE, "steps": 10, **dict(batches)}
    found = privacy.answers.noise_for_budget(epsilon=epsilon, **run)  # type: ignore[arg-type]
    assert found == NoiseAnswer(
        noise_multiplier=sigma,
        bounds=privacy.epsilon_bounds(noise_multiplier=sigma, **run),  # type: ignore[arg-type]
    )
    assert found.bounds.upper <= epsilon


def test_the_noise_keeps_the_budget() -> None:
    run = {"delta": 1e-5, "sampling_rate": 0.1, "steps": 20}
    found = privacy.answers.noise_for_budget(epsilon=0.5, **run)  # type: ignore[arg-type]
    assert found.bounds == privacy.epsilon_bounds(noise_multiplier=found.noise_multiplier, **run)  # type: ignore[arg-type]
    assert found.bounds.upper <= 0.5


@functools.cache
def _most(batches: tuple[tuple[str, str], ...]) -> int:
    return privacy.max_steps(epsilon=2.0, noise_multiplier=40.0, **_ONE, **dict(batches))  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", _NAMES)
def test_how_many_steps(batches: tuple[tuple[str, str], ...]) -> None:
    found = privacy.answers.steps_for_budget(epsilon=2.0, noise_multiplier=40.0, **_ONE, **dict(batches))  # type: ignore[arg-type]
    assert found == StepsAnswer(steps=_most(batches), epochs=float(found.steps)) and found.steps > 10


def test_epochs_count_the_draws_of_a_record() -> None:
    found = privacy.answers.steps_for_budget(epsilon=2.0, delta=1e-5, noise_multiplier=2.0, sampling_rate=0.25)
    assert found.steps > 5 and found.epochs == found.steps / 4


def test_answers_in_ball_arithmetic() -> None:
    """Each is that of the calculators that it asks, in ball arithmetic too."""
    pytest.importorskip("flint")
    run = {"sampling_rate": 1.0, "delta": 1e-5, "certified": True}
    spent = privacy.answers.epsilon_report(noise_multiplier=10.0, steps=100, **run)  # type: ignore[arg-type]
    assert spent.bounds == _certified(10.0)
    assert spent.rdp == privacy.rdp_epsilon(noise_multiplier=10.0, sampling_rate=1.0, steps=100, delta=1e-5)
    noise = privacy.answers.noise_for_budget(epsilon=6.0, steps=100, **run)  # type: ignore[arg-type]
    assert noise.noise_multiplier == pytest.approx(10 / privacy.gaussian_mu(6.0, 1e-5), rel=1e-6)
    assert noise.bounds == _certified(noise.noise_multiplier) and noise.bounds.upper <= 6.0
    steps = privacy.answers.steps_for_budget(epsilon=6.0, noise_multiplier=10.0, **run)  # type: ignore[arg-type]
    assert steps.steps == int((10 * privacy.gaussian_mu(6.0, 1e-5)) ** 2) and steps.epochs == steps.steps


@functools.cache
def _certified(sigma: float) -> privacy.EpsilonBounds:
    found = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=1.0, steps=100, delta=1e-5, certified=True)
    assert found.method == "certified"
    return found
