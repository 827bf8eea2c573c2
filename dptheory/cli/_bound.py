"""`dptheory bound` and `dptheory preset`: the calculators for given numbers, and the papers' settings."""

import json
from typing import Annotated

import typer
from rich.table import Table

from dptheory.cli._common import cell, console_for_output, numbers, show_values, user_errors

bound = typer.Typer(help="What the calculators say for given numbers.", no_args_is_help=True)
preset = typer.Typer(help="The settings of the papers' tables.", no_args_is_help=True)

Dim = Annotated[int, typer.Option(help="Number of parameters d.")]
ClipNorm = Annotated[float, typer.Option(help="Clipping norm C.")]
DropRate = Annotated[float, typer.Option(help="Sparsification rate r; (1 - r) d must be whole.")]
GradNorm = Annotated[float, typer.Option(help="Norm of the true gradient.")]
Deviation = Annotated[float, typer.Option(help="Standard deviation of an entry of one example's gradient.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@bound.command("prune", epilog="Example: dptheory bound prune --dim 2700000 --keep 270000")
def prune(
    dim: Dim,
    keep: Annotated[int, typer.Option(help="Number of entries kept.")],
    sigma_g: Annotated[float, typer.Option(help="Standard deviation of an entry of the batch gradient.")] = 1.0,
    noise_std: Annotated[float, typer.Option(help="Standard deviation of the noise on an entry.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Errors and direction of random-k and top-k pruning beside DP-SGD."""
    from dptheory import pruning

    with user_errors():
        found = pruning.compare_methods(dim, keep, sigma_g=sigma_g, noise_std=noise_std)
    values = {
        "MSE of DP-SGD": found.dp_sgd_mse,
        "MSE of the zero update": found.zero_update_mse,
        "MSE of random-k with noise": found.random_k_mse,
        "MSE of top-k with noise": found.top_k_mse,
        "pruning MSE of top-k": found.top_k_pruning_mse,
        "retained gain needed to beat DP-SGD's direction": found.least_retained_gain,
    }
    show_values("Pruning", values, as_json)


@bound.command(
    "mse",
    epilog="Example: dptheory bound mse --grad-norm 1 --dim 1000 --deviation 0.1 --clip-norm 1 --noise-multiplier 1 "
    "--batch-size 64 --drop-rate 0.5",
)
def mse(
    grad_norm: GradNorm,
    dim: Dim,
    deviation: Deviation,
    clip_norm: ClipNorm,
    noise_multiplier: Annotated[float, typer.Option(help="Noise multiplier.")],
    batch_size: Annotated[int, typer.Option(help="Batch size B.")],
    drop_rate: DropRate,
    as_json: AsJson = False,
) -> None:
    """Error of the clipped, noised batch gradient with and without a random mask (flat true gradient)."""
    from dptheory.gradients import clipped_gradient_mse

    with user_errors():
        found = clipped_gradient_mse(
            grad_norm=grad_norm,
            dim=dim,
            deviation=deviation,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            batch_size=batch_size,
            drop_rate=drop_rate,
        )
    values = {
        f"{name}, {side}": getattr(error, field)
        for side, error in (("DP-SGD", found.full), ("masked", found.masked))
        for name, field in (
            ("signal loss", "signal_loss"),
            ("noise", "noise"),
            ("MSE", "mse"),
            ("descent ratio", "descent_ratio"),
        )
    }
    values |= {"Delta_S": found.delta_signal, "Delta_MSE": found.delta_mse}
    show_values(
        "Error of the released gradient; a smaller MSE is no reason to mask, compare the descent ratios",
        values,
        as_json,
    )


@bound.command(
    "kappa",
    epilog="Example: dptheory bound kappa --grad-norm 2 --dim 1000 --clip-norm 4 --drop-rate 0.5 --deviation 0.05",
)
def kappa(
    grad_norm: GradNorm,
    dim: Dim,
    clip_norm: ClipNorm,
    drop_rate: DropRate,
    deviation: Deviation = 0.0,
    as_json: AsJson = False,
) -> None:
    """kappa, the ratio of the papers' lower bounds on the descent with and without the mask, for a flat gradient.

    The ratio of the descents themselves can differ: dptheory claim rs.phase.
    """
    from dptheory import sparsification

    with user_errors():
        found = sparsification.flat_kappa(
            grad_norm=grad_norm, dim=dim, clip_norm=clip_norm, drop_rate=drop_rate, deviation=deviation
        )
    values = {
        "kappa": found.value,
        "lower end, 1 - r": found.lower,
        "upper end": found.upper,
        "P(|xi| < 3C/4)": found.probability,
        "P >= sqrt(1 - r)": found.condition,
    }
    show_values("kappa", values, as_json)


@bound.command("rate", epilog="Example: dptheory bound rate --delta-c 0.1 --step-noise 1")
def rate(
    delta_c: Annotated[float, typer.Option(help="Delta_C: what noise does not explain of the bound.")],
    step_noise: Annotated[float, typer.Option(help="Learning rate times Delta_sigma.")],
    as_json: AsJson = False,
) -> None:
    """Best sparsification rate under kappa = (1 - r)^a."""
    from dptheory import sparsification

    with user_errors():
        found = sparsification.optimal_rates(delta_c=delta_c, step_noise=step_noise)
    values = {f"best rate for a = {one.exponent:g}": one.drop_rate for one in found}
    show_values("Best rate; after tuning the learning rate the trade-off can vanish (rs.tuned)", values, as_json)


@bound.command(
    "reconstruction", epilog="Example: dptheory bound reconstruction --vector 1,2,3,4 --drop-rate 0.5 --noise-std 0.1"
)
def reconstruction(
    vector: Annotated[str, typer.Option(help="The vector k, numbers with commas.")],
    drop_rate: DropRate,
    noise_std: Annotated[float, typer.Option(help="Standard deviation of the noise on an entry.")],
    prior_std: Annotated[float, typer.Option(help="Prior standard deviation of the Bayes attacker.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Error of a reconstruction attack on a masked, noised gradient."""
    from dptheory import sparsification

    with user_errors():
        found = sparsification.reconstruction_errors(
            numbers("vector", vector, float), drop_rate=drop_rate, noise_std=noise_std, prior_std=prior_std
        )
    values = {
        "expected error": found.attack.value,
        "expected error where the attack works": found.attack.given_recoverable,
        "share of masks under which it fails": found.attack.lost_probability,
        "lower bound where it works": found.lower_bound,
        "Bayes attacker": found.bayes,
        **({"why infinite": found.attack.reason} if found.attack.reason else {}),
    }
    show_values("Reconstruction error", values, as_json)


@preset.command("list", epilog="Example: dptheory preset list")
def list_presets(as_json: AsJson = False) -> None:
    """The papers' settings, and whether noise or signal dominates: d sigma^2 / B^2 against 1."""
    from dptheory import papers

    rows = [
        {
            "name": one.name,
            "source": one.source,
            "d": one.dim,
            "B": one.batch_size,
            "sigma": one.noise_multiplier,
            "epsilon": one.epsilon,
            "r as used": one.drop_rate,
            "d sigma^2 / B^2": one.noise_share,
            "largest r to expect a gain from": one.largest_drop_rate,
        }
        for one in papers.all_presets()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(*rows[0], title="Presets")
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    console_for_output().print(table)
