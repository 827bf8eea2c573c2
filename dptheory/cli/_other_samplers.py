"""Epsilon of runs with other batches, other units and a choice among runs: one bound each."""

from typing import Any

from dptheory import privacy
from dptheory.cli._privacy_options import SHUFFLED, Given
from dptheory.errors import ArgumentError


def other_sampler(
    given: Given,
    delta: float,
    *,
    records_per_user: int | None,
    max_batch_size: int | None,
    mean_runs: float | None,
    runs_law: str | None,
) -> tuple[str, dict[str, Any], str]:
    """A title, the bounds by their names, and what has to be said of them."""
    plain, adjacency, sampling, plot = given.plain, given.neighbours, given.sampling, given.plot
    train_size = given.train_size
    asked = {
        "records_per_user": records_per_user,
        "max_batch_size": max_batch_size,
        "mean_runs": mean_runs,
        "sampling": sampling if sampling == SHUFFLED else None,
    }
    chosen = [name for name, value in asked.items() if value is not None]
    if max_batch_size is not None and train_size is None:
        raise ValueError(f"train_size must be given with --max-batch-size {max_batch_size}")
    if runs_law is not None and mean_runs is None:
        raise ValueError(f"runs_law must be left out without --mean-runs, got {runs_law!r}")
    if len(chosen) > 1:
        raise ValueError(f"{chosen[1]} must be left out with --{chosen[0].replace('_', '-')}, got {asked[chosen[1]]!r}")
    if given.certified:
        raise ValueError(f"certified must be left out with --{chosen[0].replace('_', '-')}: its bound is no enclosure")
    if plot is not None:
        raise ValueError(f"plot must be left out with --{chosen[0].replace('_', '-')}, got {str(plot)!r}")
    if chosen == ["sampling"]:
        return _shuffled(given, delta)
    if adjacency != "add-remove" or sampling != "poisson":
        name, value = ("adjacency", adjacency) if adjacency != "add-remove" else ("sampling", sampling)
        wanted = "'add-remove'" if name == "adjacency" else "'poisson'"
        raise ValueError(f"{name} must be {wanted} with --{chosen[0].replace('_', '-')}, got {value!r}")
    run: dict[str, Any] = {"noise_multiplier": plain[0], "sampling_rate": plain[1], "steps": plain[2], "delta": delta}
    if records_per_user is not None:
        found = privacy.samplers.user_epsilon_upper_bound(**run, records_per_user=records_per_user)
        return f"Epsilon of a user with at most {records_per_user} records", {"upper": found}, ""
    if max_batch_size is not None and train_size is not None:
        found = privacy.samplers.truncated_epsilon_upper_bound(
            **run,
            train_size=train_size,
            max_batch_size=max_batch_size,
        )
        return f"Epsilon with batches cut to {max_batch_size} records", {"upper": found}, ""
    found = privacy.samplers.selection_epsilon_upper_bound(
        **run,
        mean_runs=0.0 if mean_runs is None else mean_runs,
        runs_law="geometric" if runs_law is None else runs_law,
    )
    return f"Epsilon of the best of {mean_runs:g} runs on average", {"upper": found}, ""


_OF_SHUFFLING = """.
lower: by an attack on batches that are shuffled afresh in each epoch.
upper: of any order, kept or not, that is told to the attacker; all batches keep their sizes (a record is emptied or replaced).
Sign the upper end, or draw Poisson batches, which would cost the last number: at rate 1/{batches}, as many steps{poisson}."""


def _shuffled(given: Given, delta: float) -> tuple[str, dict[str, Any], str]:
    (noise_multiplier, rate, steps), adjacency = given.plain, given.neighbours
    batches = round(1 / rate) if 1e-6 <= rate <= 1 else 0
    if batches < 1 or abs(batches * rate - 1) > 1e-9:
        raise ValueError(
            "sampling_rate must be 1 over a whole number of batches with --sampling shuffled "
            f"(or give --batch-size, --train-size and --epochs), got {rate!r}"
        )
    if steps < 1 or steps % batches:
        raise ValueError(f"steps must be a multiple of the {batches} batches with --sampling shuffled, got {steps}")
    epochs = steps // batches
    try:
        found = privacy.samplers.shuffled_epsilon_lower_bound(
            noise_multiplier=noise_multiplier, batches=batches, epochs=epochs, delta=delta, adjacency=adjacency
        )
    except ArgumentError as error:
        raise error.renamed("steps / batches, the epochs,") if error.argument == "epochs" else error from None
    poisson = privacy.epsilon_bounds(
        noise_multiplier=noise_multiplier, sampling_rate=rate, steps=steps, delta=delta, adjacency=adjacency
    )
    told = privacy.samplers.shuffled_epsilon_upper_bound(
        noise_multiplier=noise_multiplier, epochs=epochs, delta=delta, adjacency=adjacency
    )
    values = {"lower": found, "upper": told, "epsilon of Poisson batches instead": poisson.upper}
    whole = given.batch_size is None or batches * given.batch_size == given.train_size
    other = "" if whole else f" (--sampling poisson counts {given.batch_size}/{given.train_size})"
    note = _OF_SHUFFLING.format(batches=batches, poisson=other)
    return f"Epsilon of {epochs} epochs of {batches} shuffled batches", values, note
