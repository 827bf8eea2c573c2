"""`dptheory bound angle` and `bound freeze`."""

from typing import Annotated

import typer

from dptheory.cli._bound import AsJson, ClipNorm, Dim, bound
from dptheory.cli._common import numbers, show_values, user_errors


@bound.command("angle", epilog="Example: dptheory bound angle --dim 100000 --snr 30")
def angle(
    dim: Dim,
    snr: Annotated[float, typer.Option(help="Norm of the clipped mean gradient over the noise in one entry.")],
    as_json: AsJson = False,
) -> None:
    """Angle between the clipped mean gradient and the private one."""
    from dptheory import gradients

    with user_errors():
        found = gradients.angle_summary(dim, snr=snr)
    values = {
        "expected cosine": found.expected_cos,
        "mean angle, radians": found.mean,
        "standard deviation, radians": found.std,
        "5% quantile, radians": found.quantile_05,
        "50% quantile, radians": found.median,
        "95% quantile, radians": found.quantile_95,
    }
    show_values("Angle that the noise adds", values, as_json)


@bound.command(
    "freeze",
    epilog="Example: dptheory bound freeze --layer-sizes 90,20 --layer-norms 1,2 --frozen-layers 1 --clip-norm 1 "
    "--noise-multiplier 1 --batch-size 64",
)
def freeze(
    layer_sizes: Annotated[str, typer.Option(help="Numbers of parameters, from the input on, as in 100,200,300.")],
    layer_norms: Annotated[str, typer.Option(help="Gradient norms of a typical example, as in 1,2,3.")],
    frozen_layers: Annotated[int, typer.Option(help="Number of layers to freeze, from the input on.")],
    clip_norm: ClipNorm,
    noise_multiplier: Annotated[float, typer.Option(help="Noise multiplier.")],
    batch_size: Annotated[int, typer.Option(help="Batch size B; the expected one of Poisson batches.")],
    alignment: Annotated[
        float,
        typer.Option(help="Norm of the mean clipped gradient over the mean of the norms; 1: all of one direction."),
    ] = 1.0,
    learning_rate: Annotated[float, typer.Option(help="Learning rate, for the bound.")] = 0.1,
    steps: Annotated[int, typer.Option(help="Steps that are left, for the bound.")] = 1000,
    smoothness: Annotated[float, typer.Option(help="Lipschitz constant of the gradient, for the bound.")] = 1.0,
    objective_gap: Annotated[float, typer.Option(help="Objective minus its infimum now, for the bound.")] = 1.0,
    sampling: Annotated[str, typer.Option(help="How batches are drawn, for the bound: poisson or fixed.")] = "poisson",
    sampling_rate: Annotated[
        float | None, typer.Option(help="Rate of Poisson batches; the bound holds for every rate without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What freezing the first layers does to the layers that remain, and to the convergence bound.

    The bound is on the mean of E<gradient, clipped gradient> over the steps. That is E|gradient|^2 where no gradient is clipped;
    otherwise E|gradient|^2 can be larger without limit.
    """
    from dptheory import freezing

    with user_errors():
        found = freezing.compare_freezing(
            numbers("layer_sizes", layer_sizes, int),
            layer_norms=numbers("layer_norms", layer_norms, float),
            frozen_layers=frozen_layers,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            batch_size=batch_size,
            objective_gap=objective_gap,
            learning_rate=learning_rate,
            steps=steps,
            smoothness=smoothness,
            alignment=alignment,
            sampling=sampling,
            sampling_rate=sampling_rate,
        )
    values = {
        f"{name}, {when}": getattr(part, field)
        for name, field in (
            ("clipped norm", "clipped_norm"),
            ("signal-to-noise ratio", "snr"),
            ("expected cosine to the private signal", "noise_cos"),
            ("mean angle to it, radians", "noise_angle"),
            ("noise energy of the update", "update_noise"),
        )
        for when, part in (("before", found.effect.before), ("after", found.effect.after))
    }
    values |= {
        "bound on E<gradient, clipped gradient>, all layers trained": found.bounds.full.value,
        "bound on E<gradient, clipped gradient>, frozen": found.bounds.frozen.value,
        "what freezing takes off the bound": found.bounds.largest_frozen_gradient,
    }
    show_values("The layers that remain trainable; nothing is said of the clipping bias", values, as_json)
