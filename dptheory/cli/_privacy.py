"""`dptheory privacy`: epsilon, noise multiplier and number of steps of DP-SGD."""

import dataclasses
from typing import Annotated

import typer

from dptheory.cli._common import show_values, user_errors
from dptheory.cli._index import index

privacy = typer.Typer(
    help="What training costs in privacy, and how much noise a budget asks for.", no_args_is_help=True
)

Sigma = Annotated[float, typer.Option(help="Noise multiplier: standard deviation of the noise over the clipping norm.")]
Rate = Annotated[float, typer.Option(help="Sampling rate: batch size over number of training examples.")]
Steps = Annotated[int, typer.Option(help="Number of steps.")]
Epsilon = Annotated[float, typer.Option(help="The budget epsilon.")]
Delta = Annotated[float, typer.Option(help="The budget delta.")]
Adjacency = Annotated[str, typer.Option(help="add-remove or replace-one.")]
Sampling = Annotated[str, typer.Option(help="poisson or 'without replacement'.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@privacy.command("epsilon", epilog="Example: dptheory privacy epsilon --sigma 1 --rate 0.02 --steps 1000 --delta 1e-5")
def show_epsilon(
    sigma: Sigma,
    rate: Rate,
    steps: Steps,
    delta: Delta,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    width: Annotated[float, typer.Option(help="How far apart the bounds may be, times max(1, epsilon).")] = 0.005,
    as_json: AsJson = False,
) -> None:
    """Bounds of epsilon."""
    from dptheory.privacy import epsilon, rdp_epsilon

    with user_errors(noise_multiplier="sigma", sampling_rate="rate"):
        found = epsilon(sigma, rate, steps, delta, width=width, adjacency=adjacency, sampling=sampling)
        values = dataclasses.asdict(found)
        if adjacency == "add-remove":
            values["upper bound by Renyi privacy"] = rdp_epsilon(sigma, rate, steps, delta)
    show_values("Epsilon; report the upper bound", values, as_json)


@privacy.command("sigma", epilog="Example: dptheory privacy sigma --epsilon 3 --delta 1e-5 --rate 0.02 --steps 2000")
def show_sigma(
    epsilon: Epsilon,
    delta: Delta,
    rate: Rate,
    steps: Steps,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier that keeps the budget."""
    from dptheory import privacy as privacy_theory

    with user_errors(noise_multiplier="sigma", sampling_rate="rate"):
        sigma = privacy_theory.noise_multiplier(epsilon, delta, rate, steps, adjacency=adjacency, sampling=sampling)
        width = max(1e-4, 1e-3 * min(1.0, epsilon))  # the bracket that sigma was chosen by
        found = privacy_theory.epsilon(sigma, rate, steps, delta, width=width, adjacency=adjacency, sampling=sampling)
        values = {"noise multiplier": sigma, **dataclasses.asdict(found)}
    show_values("Noise", values, as_json)


@privacy.command("steps", epilog="Example: dptheory privacy steps --epsilon 3 --delta 1e-5 --sigma 1.5 --rate 0.02")
def show_steps(
    epsilon: Epsilon,
    delta: Delta,
    sigma: Sigma,
    rate: Rate,
    adjacency: Adjacency = "add-remove",
    sampling: Sampling = "poisson",
    as_json: AsJson = False,
) -> None:
    """The most steps that keep the budget."""
    from dptheory.privacy import steps

    with user_errors(noise_multiplier="sigma", sampling_rate="rate"):
        count = steps(epsilon, delta, sigma, rate, adjacency=adjacency, sampling=sampling)
    show_values("Steps", {"steps": count, "epochs": count * rate}, as_json)


privacy.command(
    "index", epilog="Example: dptheory privacy index --dim 256 --keep 26 --epsilon 1 --groups 100 --steps 10"
)(index)
