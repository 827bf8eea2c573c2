"""`dptheory privacy index`: what an index budget buys under each accounting."""

from typing import Annotated

import typer

from dptheory.cli._common import show_values, user_errors


def index(
    dim: Annotated[int, typer.Option(help="Entries of one group.")],
    keep: Annotated[int, typer.Option(help="Entries kept in one group.")],
    epsilon: Annotated[float, typer.Option(help="Budget that the indices may add to the run.")],
    delta: Annotated[float, typer.Option(help="Delta of the run.")] = 1e-5,
    groups: Annotated[int, typer.Option(help="Groups in a step.")] = 1,
    steps: Annotated[int, typer.Option(help="Steps of the run.")] = 1,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Rate of the Poisson sample, with --noise-multiplier.")
    ] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise on the values, with --sampling-rate.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Dispersion and share of the top-k gain by basic composition, zCDP, exactly, and with the values of one sample."""
    from dptheory import privacy

    with user_errors():
        found = privacy.index_sets.compare_index_accountings(
            dim=dim,
            keep=keep,
            epsilon=epsilon,
            delta=delta,
            steps=steps,
            groups=groups,
            sampling_rate=sampling_rate,
            noise_multiplier=noise_multiplier,
        )
    values: dict[str, float] = {}
    if found.values_epsilon is not None:
        values["epsilon of the values alone (RDP)"] = found.values_epsilon
    for name, choice in (
        ("basic composition", found.basic),
        ("zCDP", found.zcdp),
        ("exact composition", found.exact),
        ("values and indices of one sample (RDP)", found.joint),
    ):
        if choice is not None:
            values[f"theta, {name}"] = choice.theta
            values[f"retained gain, {name}"] = choice.retained_gain
    values["retained gain needed to beat DP-SGD's direction"] = found.least_retained_gain
    show_values("What an index budget buys", values, as_json)
