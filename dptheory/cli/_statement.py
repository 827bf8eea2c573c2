"""`dptheory privacy statement`: what a run says of its privacy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dptheory.cli._common import user_errors
from dptheory.cli._privacy_options import (
    Certified,
    CompositionFile,
    NoiseMultiplier,
    SamplingRate,
    Steps,
    StepTexts,
    alike,
    composition_given,
    plain_run,
)


def statement(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of a finished run; or leave it out and give the settings.")
    ] = None,
    noise_multiplier: NoiseMultiplier = None,
    sampling_rate: SamplingRate = None,
    steps: Steps = None,
    step: StepTexts = None,
    composition: CompositionFile = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the guarantee.")] = None,
    adjacency: Annotated[
        str | None, typer.Option(help="add-remove, replace-one or zero-out; add-remove if left out.")
    ] = None,
    mechanism: Annotated[str | None, typer.Option(help="What was run; DP-SGD if left out.")] = None,
    unit: Annotated[str | None, typer.Option(help="What is protected; one record if left out.")] = None,
    public: Annotated[list[str] | None, typer.Option(help="What is taken to be public; repeat it.")] = None,
    sampler: Annotated[str | None, typer.Option(help="How batches were drawn; Poisson if left out.")] = None,
    randomness: Annotated[str | None, typer.Option(help="Where batches and noise come from, and their seeds.")] = None,
    tuning: Annotated[str | None, typer.Option(help="What choosing among runs costs; not counted if left out.")] = None,
    seeded: Annotated[
        bool, typer.Option("--seeded", help="The randomness can be repeated: the run is a simulation.")
    ] = False,
    certified: Certified = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of Markdown.")] = False,
) -> None:
    """The privacy statement of a finished run, or of given settings, as Markdown or JSON."""
    from dptheory import privacy

    texts = {
        "mechanism": mechanism,
        "unit": unit,
        "sampler": sampler,
        "randomness": randomness,
        "tuning": tuning,
        "adjacency": adjacency,
    }
    given: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    with user_errors(path="folder"):
        if any(not text.strip() for text in (*given.values(), *(public or ()))):
            name = next((name for name, text in given.items() if not text.strip()), "public")
            raise ValueError(f"{name} must be a text, got ''")
        if folder is not None:
            settings = {
                "noise_multiplier": noise_multiplier,
                "sampling_rate": sampling_rate,
                "steps": steps,
                "step": step or None,
                "composition": composition,
                "delta": delta,
                "public": public or None,
                "seeded": seeded or None,
                "certified": certified or None,
                **texts,
            }
            for name, value in settings.items():
                if value is not None:
                    raise ValueError(f"{name} must be left out with the folder of a run, got {value!r}")
            found = privacy.read_statement(folder)
        else:
            if delta is None:
                raise ValueError("delta must be given, or the folder of a finished run")
            accounted = "replace-one" if adjacency == "replace-one" else "add-remove"
            run = composition_given(
                step,
                composition,
                None if composition is not None else accounted,  # the statement knows which go with a file's
                noise_multiplier=noise_multiplier,
                sampling_rate=sampling_rate,
                steps=steps,
            )
            run = run or alike(plain_run(noise_multiplier, sampling_rate, steps), accounted)
            found = privacy.privacy_statement(
                composition=run,
                delta=delta,
                public=tuple(public or ()),
                secure=not seeded,
                software=(f"dptheory {_version()}",),
                certified=certified,
                **given,
            )
    typer.echo(found.json() if as_json else found.markdown(), nl=False)


def _version() -> str:
    import importlib.metadata

    return importlib.metadata.version("dptheory")
