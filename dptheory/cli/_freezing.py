"""`dptheory bound angle` and `bound freeze`."""

import math
from typing import Annotated

import typer

from dptheory.cli._bound import AsJson, ClipNorm, Dim, bound
from dptheory.cli._common import show_values, user_errors

_SMALLEST = 1e-300


@bound.command("angle", epilog="Example: dptheory bound angle --dim 100000 --snr 30")
def angle(
    dim: Dim,
    snr: Annotated[float, typer.Option(help="Norm of the clipped mean gradient over the noise in one entry.")],
    as_json: AsJson = False,
) -> None:
    """Angle between the clipped mean gradient and the private one."""
    from scipy.optimize import brentq

    from dptheory.gradients import DistortionAngle

    with user_errors():
        law = DistortionAngle(dim, snr)

        def quantile(share: float) -> float:
            if law.cdf(_SMALLEST) >= share:  # no noise
                return 0.0
            # on the logarithm, because the angle can be small
            low, high = math.log(_SMALLEST), math.log(math.pi)
            found = brentq(
                lambda y: float(law.cdf(min(math.exp(y), math.pi))) - share, low, high, xtol=1e-15, rtol=1e-15
            )
            return math.exp(found)

        values = {
            "expected cosine": law.expected_cos(),
            "mean angle, radians": law.mean(),
            "standard deviation, radians": math.sqrt(law.var()),
            **{f"{share:.0%} quantile, radians": quantile(share) for share in (0.05, 0.5, 0.95)},
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
    from dptheory import _validate
    from dptheory.freezing import freezing_bounds, freezing_effect

    with user_errors():
        sizes = [int(size) for size in _numbers("layer_sizes", layer_sizes, int)]
        norms = _numbers("layer_norms", layer_norms, float)
        noise_multiplier = _validate.size("noise_multiplier", noise_multiplier, 1e-35, 1e35)
        effect = freezing_effect(
            sizes,
            layer_norms=norms,
            frozen_layers=frozen_layers,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            batch_size=batch_size,
            alignment=alignment,
        )
        bounds = freezing_bounds(
            sizes,
            frozen_layers=frozen_layers,
            objective_gap=objective_gap,
            learning_rate=learning_rate,
            steps=steps,
            smoothness=smoothness,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            batch_size=batch_size,
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
            for when, part in (("before", effect.before), ("after", effect.after))
        }
        values |= {
            "bound on E<gradient, clipped gradient>, all layers trained": bounds.full.value,
            "bound on E<gradient, clipped gradient>, frozen": bounds.frozen.value,
            "what freezing takes off the bound": bounds.largest_frozen_gradient,
        }
    show_values("The layers that remain trainable; nothing is said of the clipping bias", values, as_json)


def _numbers(name: str, text: str, kind: type[int] | type[float]) -> list[float]:
    """The numbers of a list with commas."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between them, as in 100,200,300, got {text!r}") from None
