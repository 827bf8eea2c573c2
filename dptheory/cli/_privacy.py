"""`dptheory privacy`: epsilon, delta, noise, steps and trade-off of DP-SGD."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptheory.cli._common import show_values, user_errors
from dptheory.cli._curves import draw, picture, require_picture
from dptheory.cli._index import index
from dptheory.cli._other_samplers import SHUFFLED, other_sampler
from dptheory.cli._privacy_options import (
    Adjacency,
    AsJson,
    Certified,
    CompositionFile,
    Delta,
    Epsilon,
    NoiseMultiplier,
    Plot,
    Sampling,
    SamplingRate,
    Steps,
    StepTexts,
    alike,
    composition_given,
    known_neighbours,
    plain_run,
)
from dptheory.cli._statement import statement

if TYPE_CHECKING:
    from dptheory.privacy import Composition

privacy = typer.Typer(
    help="What training costs in privacy, and how much noise a budget asks for.", no_args_is_help=True
)

_PLACES = 24
_RUN = "--noise-multiplier 1 --sampling-rate 0.02 --steps 1000"


@privacy.command(
    "epsilon",
    epilog=f"Example: dptheory privacy epsilon {_RUN} --delta 1e-5; "
    "or dptheory privacy epsilon --step 2,0.04,500 --step 1,0.02,500 --delta 1e-5",
)
def show_epsilon(
    delta: Delta,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    step: StepTexts = None,
    composition: CompositionFile = None,
    adjacency: Adjacency = None,
    sampling: Annotated[
        str, typer.Option(help="poisson, 'without replacement' (batches of a fixed size), or shuffled (a lower bound).")
    ] = "poisson",
    records_per_user: Annotated[
        int | None, typer.Option(help="Protect a user with at most so many records: an upper bound.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(help="Poisson batches are cut to this size, with --train-size: an upper bound.")
    ] = None,
    train_size: Annotated[int | None, typer.Option(help="Number of records, with --max-batch-size.")] = None,
    mean_runs: Annotated[
        float | None,
        typer.Option(help="The best of a random number of runs with this mean is published: an upper bound."),
    ] = None,
    runs_law: Annotated[
        str | None, typer.Option(help="Law of that number: geometric, logarithmic or poisson; geometric if left out.")
    ] = None,
    certified: Certified = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Bounds of epsilon: of steps that are alike, of steps that differ, and for other samplers and units."""
    from dptheory import privacy as accounting

    others: dict[str, Any] = {
        "records_per_user": records_per_user,
        "max_batch_size": max_batch_size,
        "train_size": train_size,
        "mean_runs": mean_runs,
        "runs_law": runs_law,
    }
    with user_errors():
        require_picture(plot)
        run = composition_given(
            step,
            composition,
            adjacency,
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            steps=steps,
            sampling=None if sampling == "poisson" else sampling,
            **others,
        )
        if run is not None:
            _show_bounds("Epsilon", dataclasses.asdict(run.epsilon(delta, certified=certified)), as_json)
            return _privacy_curve(plot, run, delta=delta)
        plain = plain_run(noise_multiplier, sampling_rate, steps)
        if sampling == SHUFFLED or any(value is not None for value in others.values()):
            title, values = other_sampler(
                plain,
                delta,
                adjacency=known_neighbours(adjacency),
                sampling=sampling,
                certified=certified,
                plot=plot,
                **others,
            )
            return show_values(title, values, as_json)
        found = accounting.answers.epsilon_report(
            noise_multiplier=plain[0],
            sampling_rate=plain[1],
            steps=plain[2],
            delta=delta,
            adjacency=known_neighbours(adjacency),
            sampling=sampling,
            certified=certified,
        )
        values = dataclasses.asdict(found.bounds)
        if found.rdp is not None:
            values["upper bound by Renyi privacy"] = found.rdp
        _show_bounds("Epsilon", values, as_json)
        _privacy_curve(plot, alike(plain, adjacency) if sampling == "poisson" else None, delta=delta)


@privacy.command("delta", epilog=f"Example: dptheory privacy delta {_RUN} --epsilon 3")
def show_delta(
    epsilon: Epsilon,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    step: StepTexts = None,
    composition: CompositionFile = None,
    adjacency: Adjacency = None,
    sampling: Sampling = "poisson",
    certified: Certified = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Bounds of delta at a given epsilon."""
    from dptheory import privacy as accounting

    with user_errors():
        require_picture(plot)
        run = composition_given(
            step,
            composition,
            adjacency,
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            steps=steps,
            sampling=None if sampling == "poisson" else sampling,
        )
        if run is not None:
            _show_bounds("Delta", dataclasses.asdict(run.delta(epsilon, certified=certified)), as_json)
            return _privacy_curve(plot, run, epsilon=epsilon)
        plain = plain_run(noise_multiplier, sampling_rate, steps)
        found = accounting.delta_bounds(
            noise_multiplier=plain[0],
            sampling_rate=plain[1],
            steps=plain[2],
            epsilon=epsilon,
            adjacency=known_neighbours(adjacency),
            sampling=sampling,
            certified=certified,
        )
        _show_bounds("Delta", dataclasses.asdict(found), as_json)
        _privacy_curve(plot, alike(plain, adjacency) if sampling == "poisson" else None, epsilon=epsilon)


@privacy.command(
    "sigma",
    epilog="Example: dptheory privacy sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.02 --steps 2000; "
    "or dptheory privacy sigma --epsilon 3 --delta 1e-5 --step 2,0.02,1000 --step 1,0.02,1000",
)
def show_sigma(
    epsilon: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    step: StepTexts = None,
    composition: CompositionFile = None,
    adjacency: Adjacency = None,
    sampling: Sampling = "poisson",
    certified: Certified = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier that keeps the budget; for steps that differ the factor on all of theirs."""
    from dptheory import privacy as accounting

    with user_errors():
        require_picture(plot)
        run = composition_given(
            step,
            composition,
            adjacency,
            sampling_rate=sampling_rate,
            steps=steps,
            sampling=None if sampling == "poisson" else sampling,
        )
        if run is not None:
            scale = run.noise_scale(epsilon=epsilon, delta=delta, certified=certified)
            scaled = run.scaled(scale)
            noises = [part.noise_multiplier for part in scaled.parts if hasattr(part, "noise_multiplier")]
            values: dict[str, Any] = {"factor on the noise multipliers": scale}
            values["noise multipliers"] = noises
            values |= dataclasses.asdict(scaled.epsilon(delta, certified=certified))
            show_values("Noise", values, as_json)
            return _budget_curve(
                plot,
                lambda factor: run.scaled(factor).epsilon(delta).upper,
                around=scale,
                epsilon=epsilon,
                label="factor on the noise multipliers",
            )
        _, rate, count = plain_run(1.0, sampling_rate, steps)
        found = accounting.answers.noise_for_budget(
            epsilon=epsilon,
            delta=delta,
            sampling_rate=rate,
            steps=count,
            adjacency=known_neighbours(adjacency),
            sampling=sampling,
            certified=certified,
        )
        least, most = accounting.NOISE
        values = {"noise multiplier": found.noise_multiplier, **dataclasses.asdict(found.bounds)}
        if found.noise_multiplier == least:
            values["note"] = f"{least} is the least that is accounted for: it keeps the budget, and less may"
        show_values("Noise", values, as_json)
        _budget_curve(
            plot,
            lambda sigma: (
                accounting.epsilon_bounds(
                    noise_multiplier=min(max(sigma, least), most),
                    sampling_rate=rate,
                    steps=count,
                    delta=delta,
                    adjacency=known_neighbours(adjacency),
                    sampling=sampling,
                ).upper
            ),
            around=found.noise_multiplier,
            epsilon=epsilon,
            label="noise multiplier",
        )


@privacy.command(
    "steps",
    epilog="Example: dptheory privacy steps --epsilon 3 --delta 1e-5 --noise-multiplier 1.5 --sampling-rate 0.02",
)
def show_steps(
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: Annotated[float, typer.Option(help="Noise multiplier.")],
    sampling_rate: Annotated[float, typer.Option(help="Sampling rate.")],
    adjacency: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
    sampling: Sampling = "poisson",
    certified: Certified = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """The most steps that keep the budget."""
    from dptheory import privacy as accounting

    with user_errors():
        require_picture(plot)
        found = accounting.answers.steps_for_budget(
            epsilon=epsilon,
            delta=delta,
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            adjacency=adjacency,
            sampling=sampling,
            certified=certified,
        )
        values = dataclasses.asdict(found)
        if found.steps == accounting.MAX_STEPS:
            values["note"] = "so many are the most that is accounted for: they keep the budget, and more may"
        show_values("Steps", values, as_json)
        _budget_curve(
            plot,
            lambda steps: (
                accounting.epsilon_bounds(
                    noise_multiplier=noise_multiplier,
                    sampling_rate=sampling_rate,
                    steps=min(max(1, round(steps)), accounting.MAX_STEPS),
                    delta=delta,
                    adjacency=adjacency,
                    sampling=sampling,
                ).upper
            ),
            around=float(max(found.steps, 1)),
            epsilon=epsilon,
            label="steps",
        )


@privacy.command("tradeoff", epilog=f"Example: dptheory privacy tradeoff {_RUN} --plot tradeoff.png")
def show_tradeoff(
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    step: StepTexts = None,
    composition: CompositionFile = None,
    false_positive_rate: Annotated[
        float, typer.Option(help="Share of the records outside the data that the attacker accuses.")
    ] = 0.01,
    adjacency: Adjacency = None,
    certified: Certified = False,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """What the best attacker can do, in plain words; --json for the bounds, --plot for the whole curve."""
    with user_errors():
        require_picture(plot)
        run = composition_given(
            step, composition, adjacency, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps
        )
        run = run or alike(plain_run(noise_multiplier, sampling_rate, steps), adjacency)
        found = run.attack(false_positive_rate=false_positive_rate, certified=certified)
        if as_json:
            show_values("Attack", dataclasses.asdict(found), as_json)
        else:
            typer.echo(str(found))
        if plot is not None:
            with picture(plot) as axes:
                run.plot(ax=axes)


privacy.command(
    "statement",
    epilog=f"Example: dptheory privacy statement runs/mine; or dptheory privacy statement {_RUN} --delta 1e-5",
)(statement)
privacy.command(
    "index", epilog="Example: dptheory privacy index --dim 256 --keep 26 --epsilon 1 --groups 100 --steps 10"
)(index)


def _show_bounds(title: str, values: dict[str, Any], as_json: bool) -> None:
    show_values(f"{title}; report the upper bound", values, as_json)


def _privacy_curve(
    plot: Path | None, run: "Composition | None", *, delta: float | None = None, epsilon: float | None = None
) -> None:
    """Delta over epsilon, at most, around the point that was asked for."""
    if plot is None:
        return
    if run is None:
        raise ValueError(f"plot must be left out for sampling 'without replacement', got {str(plot)!r}")
    if epsilon is None:
        epsilon = run.epsilon(delta or 0.0).upper
    at = run.delta(epsilon).upper if delta is None else delta
    most = max(1.5 * epsilon, 0.1)
    draw(
        plot,
        lambda place: max(run.delta(place).upper, 1e-300),
        [most * number / _PLACES for number in range(_PLACES + 1)],
        marked=(epsilon, at),
        labels=("epsilon", "delta, at most"),
        logarithmic=True,
    )


def _budget_curve(plot: Path | None, curve: Any, *, around: float, epsilon: float, label: str) -> None:
    """Epsilon, at most, from half to twice of what keeps the budget."""
    if plot is not None:
        places = [around * 2.0 ** (2 * number / _PLACES - 1) for number in range(_PLACES + 1)]
        draw(plot, curve, places, marked=(around, epsilon), labels=(label, "epsilon, at most"))
