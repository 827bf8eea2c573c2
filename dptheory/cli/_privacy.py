"""`dptheory privacy`: epsilon, noise multiplier and number of steps of DP-SGD."""

import dataclasses
from typing import Annotated

import typer

from dptheory.cli._common import show_values, user_errors
from dptheory.cli._index import index

privacy = typer.Typer(
    help="What training costs in privacy, and how much noise a budget asks for.", no_args_is_help=True
)

NoiseMultiplier = Annotated[
    float, typer.Option(help="Noise multiplier: standard deviation of the noise over the clipping norm.")
]
SamplingRate = Annotated[float, typer.Option(help="Sampling rate: batch size over number of training examples.")]
Steps = Annotated[int, typer.Option(help="Number of steps.")]
Epsilon = Annotated[float, typer.Option(help="The budget epsilon.")]
Delta = Annotated[float, typer.Option(help="The budget delta.")]
Adjacency = Annotated[str, typer.Option(help="add-remove or replace-one.")]
Sampling = Annotated[str, typer.Option(help="poisson or 'without replacement'.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@privacy.command(
    "epsilon",
    epilog="Example: dptheory privacy epsilon --noise-multiplier 1 --sampling-rate 0.02 --steps 1000 --delta 1e-5",
)
def show_epsilon(
    noise_multiplier: NoiseMultiplier,
    sampling_rate: SamplingRate,
    steps: Steps,
    delta: Delta,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    as_json: AsJson = False,
) -> None:
    """Bounds of epsilon."""
    from dptheory import privacy as accounting

    with user_errors():
        found = accounting.epsilon_report(
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            adjacency=adjacency,
            sampling=sampling,
        )
    values = dataclasses.asdict(found.bounds)
    if found.rdp is not None:
        values["upper bound by Renyi privacy"] = found.rdp
    show_values("Epsilon; report the upper bound", values, as_json)


@privacy.command(
    "noise-multiplier",
    epilog="Example: dptheory privacy noise-multiplier --epsilon 3 --delta 1e-5 --sampling-rate 0.02 --steps 2000",
)
def show_sigma(
    epsilon: Epsilon,
    delta: Delta,
    sampling_rate: SamplingRate,
    steps: Steps,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier that keeps the budget."""
    from dptheory import privacy as accounting

    with user_errors():
        found = accounting.noise_for_budget(
            epsilon=epsilon,
            delta=delta,
            sampling_rate=sampling_rate,
            steps=steps,
            adjacency=adjacency,
            sampling=sampling,
        )
    values = {"noise multiplier": found.noise_multiplier, **dataclasses.asdict(found.bounds)}
    show_values("Noise", values, as_json)


@privacy.command(
    "steps",
    epilog="Example: dptheory privacy steps --epsilon 3 --delta 1e-5 --noise-multiplier 1.5 --sampling-rate 0.02",
)
def show_steps(
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: NoiseMultiplier,
    sampling_rate: SamplingRate,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    as_json: AsJson = False,
) -> None:
    """The most steps that keep the budget."""
    from dptheory import privacy as accounting

    with user_errors():
        found = accounting.steps_for_budget(
            epsilon=epsilon,
            delta=delta,
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            adjacency=adjacency,
            sampling=sampling,
        )
    show_values("Steps", dataclasses.asdict(found), as_json)


privacy.command(
    "index", epilog="Example: dptheory privacy index --dim 256 --keep 26 --epsilon 1 --groups 100 --steps 10"
)(index)
