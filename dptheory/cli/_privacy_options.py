"""The options of `dptheory privacy`, and the run that they describe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dptheory.cli._common import numbers
from dptheory.errors import ArgumentError

if TYPE_CHECKING:
    from dptheory._adjacency import Adjacency as Neighbours
    from dptheory.privacy import Composition, Step

NoiseMultiplier = Annotated[
    float | None, typer.Option(help="Noise multiplier: standard deviation of the noise over the clipping norm.")
]
SamplingRate = Annotated[float | None, typer.Option(help="Sampling rate: batch size over number of training examples.")]
Steps = Annotated[int | None, typer.Option(help="Number of steps.")]
StepTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--step", help="Steps that differ: noise multiplier, sampling rate and count, as in 1.5,0.02,500; repeat it."
    ),
]
CompositionFile = Annotated[
    Path | None,
    typer.Option("--composition", help="TOML or JSON file with steps of any kind, as for privacy.read_composition."),
]
Epsilon = Annotated[float, typer.Option(help="The budget epsilon.")]
Delta = Annotated[float, typer.Option(help="The budget delta.")]
Adjacency = Annotated[
    str | None, typer.Option(help="add-remove or replace-one; if left out that of --composition, else add-remove.")
]
Sampling = Annotated[str, typer.Option(help="poisson or 'without replacement'.")]
Certified = Annotated[
    bool, typer.Option("--certified", help="Enclosures in ball arithmetic, in seconds; needs python-flint.")
]
Plot = Annotated[Path | None, typer.Option(help="Draw the curve into this file, such as curve.png; needs matplotlib.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

Plain = tuple[float, float, int]
"""Noise multiplier, sampling rate and number of steps of a run whose steps are alike."""


def plain_run(noise_multiplier: float | None, sampling_rate: float | None, steps: int | None) -> Plain:
    """The three of them.

    Raises:
        ValueError: one is missing.
    """
    if noise_multiplier is None or sampling_rate is None or steps is None:
        given = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate, "steps": steps}
        lacking = next(name for name, value in given.items() if value is None)
        raise ValueError(f"{lacking} must be given, or --step or --composition in place of a run whose steps are alike")
    return noise_multiplier, sampling_rate, steps


def composition_given(
    step: list[str] | None, composition: Path | None, adjacency: str | None, **instead: object
) -> "Composition | None":
    """The run of --step or --composition; None where neither is given.

    Args:
        step: texts of ``--step``.
        composition: file of ``--composition``.
        adjacency: of the steps, None where it is not given; that of a file must be the same.
        instead: options that such a run does not go with, by name, None where they are not given.

    Raises:
        ValueError: both are given, a text that is no step, or an option that does not go with it.
    """
    from dptheory import privacy

    if not step and composition is None:
        return None
    own = "step" if step else "composition"
    if step and composition is not None:
        raise ValueError(f"composition must be left out with --step, got {str(composition)!r}")
    for name, value in instead.items():
        if value is not None:
            raise ValueError(f"{name} must be left out with --{own}, got {value!r}")
    if composition is None:
        return privacy.Composition(tuple(map(_step, step or ())), adjacency=_neighbours(adjacency))
    try:
        found = privacy.read_composition(composition)
    except ArgumentError as error:
        raise error.renamed("--composition") if error.argument == "path" else error from None
    if adjacency not in (None, found.adjacency):
        raise ValueError(f"adjacency must be that of the composition, {found.adjacency!r}, got {adjacency!r}")
    return found


def known_neighbours(adjacency: str | None) -> str:
    """Those of a run that is not of a file."""
    return "add-remove" if adjacency is None else adjacency


def _neighbours(adjacency: str | None) -> "Neighbours":
    return cast("Neighbours", known_neighbours(adjacency))  # Composition refuses other words


def alike(plain: Plain, adjacency: str | None) -> "Composition":
    """A run whose steps are alike, as a composition."""
    from dptheory import privacy

    noise_multiplier, sampling_rate, steps = plain
    try:
        step = privacy.Step(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, count=steps)
    except ArgumentError as error:
        raise error.renamed("steps") if error.argument == "count" else error from None
    return privacy.Composition((step,), adjacency=_neighbours(adjacency))


def _step(text: str) -> "Step":
    from dptheory import privacy

    found = numbers("step", text, float)
    if len(found) != 3 or not found[2].is_integer():
        raise ValueError(f"step must be noise multiplier, sampling rate and count, as in 1.5,0.02,500, got {text!r}")
    try:
        return privacy.Step(noise_multiplier=found[0], sampling_rate=found[1], count=int(found[2]))
    except ValueError as error:
        raise ValueError(f"step {text!r}: {error}") from None
