"""`dptheory bound angle` and `bound freeze`."""

from typing import Annotated

import typer

from dptheory.cli_bound import AsJson, Clip, Dim, bound
from dptheory.cli_common import show_values, user_errors

Sigma = Annotated[float, typer.Option(help="Noise multiplier.")]


@bound.command("angle", epilog="Example: dptheory bound angle --dim 100000 --snr 30")
def angle(
    dim: Dim,
    snr: Annotated[float, typer.Option(help="Norm of the clipped mean gradient over the noise in an entry.")],
    as_json: AsJson = False,
) -> None:
    """Angle between the clipped mean gradient and the private one: the law of the distortion by noise."""
    from scipy.optimize import brentq

    from dptheory.angles import DistortionAngle

    with user_errors():
        law = DistortionAngle(dim, snr)
        values = {
            "expected cosine": float(law.expected_cos()),
            "mean angle, radians": float(law.mean()),
            "standard deviation, radians": float(law.var()) ** 0.5,
            **{
                f"{share:.0%} quantile, radians": float(
                    brentq(lambda x, share=share: float(law.cdf(x)) - share, 0.0, math.pi, xtol=1e-14)
                )
                for share in (0.05, 0.5, 0.95)
            },
        }
    show_values("Angle between signal and private signal", values, as_json)
