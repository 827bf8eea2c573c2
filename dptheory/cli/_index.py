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
    from dptheory import privacy, pruning

    with user_errors():
        if (sampling_rate is None) != (noise_multiplier is None):
            raise ValueError("sampling-rate and noise-multiplier must be given together")
        thetas = {
            "basic composition": privacy.theta_for_delta_budget(
                epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method="basic"
            ),
            "zCDP": privacy.theta_for_delta_budget(
                epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method="zcdp"
            ),
            "exact composition": privacy.theta_for_delta_budget(
                epsilon=epsilon, delta=delta, dim=dim, keep=keep, steps=steps, groups=groups, method="exact"
            ),
        }
        values: dict[str, float] = {}
        if sampling_rate is not None and noise_multiplier is not None:
            curve = steps * privacy.subsampled_gaussian_rdp(
                orders=privacy.ORDERS, sampling_rate=sampling_rate, noise_multiplier=noise_multiplier
            )
            alone = privacy.epsilon_from_rdp(orders=privacy.ORDERS, rdp=curve, delta=delta)
            values["epsilon of the values alone (RDP)"] = alone
            thetas["values and indices of one sample (RDP)"] = privacy.theta_for_joint_budget(
                epsilon=alone + epsilon,
                delta=delta,
                dim=dim,
                keep=keep,
                sampling_rate=sampling_rate,
                noise_multiplier=noise_multiplier,
                steps=steps,
                groups=groups,
            )
        for name, theta in thetas.items():
            values[f"theta, {name}"] = theta
            values[f"retained gain, {name}"] = pruning.retained_gain(dim, keep, theta)
        values["retained gain needed to beat DP-SGD's direction"] = pruning.least_retained_gain(
            dim, keep, groups=groups
        )
    show_values("What an index budget buys", values, as_json)
