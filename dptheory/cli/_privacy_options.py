"""The options of `dptheory privacy`, and the run that they describe."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dptheory import _validate
from dptheory.cli._common import numbers, user_errors
from dptheory.errors import ArgumentError

if TYPE_CHECKING:
    from dptheory.privacy import Composition, Step

Epsilon = Annotated[float, typer.Option(help="The budget epsilon.")]
Delta = Annotated[float, typer.Option(help="The budget delta.")]
Adjacency = Annotated[
    str | None, typer.Option(help="add-remove or replace-one; if left out that of --composition, else add-remove.")
]
Sampling = Annotated[str, typer.Option(help="poisson, 'without replacement' or 'random allocation'.")]
ALLOCATION = "random allocation"
SHUFFLED = "shuffled"
SAMPLINGS = ("poisson", "without replacement", ALLOCATION, SHUFFLED)
"""Of epsilon; of shuffled batches there is nothing else."""
Certified = Annotated[
    bool,
    typer.Option(
        "--certified", help="Enclosures in ball arithmetic: a second for each kind of step; needs python-flint."
    ),
]
Plot = Annotated[Path | None, typer.Option(help="Draw the curve into this file, such as curve.png; needs matplotlib.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_FEW_KINDS, _SECONDS_A_KIND = 50, 0.5
_MOST_KINDS = 10_000
"""Steps of a noise that moves: each is a kind of its own."""
Plain = tuple[float, float, int]
"""Noise multiplier, sampling rate and number of steps of a run whose steps are alike."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a command is told of a run, and how it answers: the options that :func:`of_a_run` adds to it."""

    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise multiplier: standard deviation of the noise over the clipping norm.")
    ] = None
    last_noise_multiplier: Annotated[
        float | None, typer.Option(help="That of the last step, to which it moves linearly; that of all if left out.")
    ] = None
    batch_size: Annotated[
        int | None, typer.Option(help="In place of the sampling rate: mean size of a batch, with --train-size.")
    ] = None
    train_size: Annotated[int | None, typer.Option(help="Number of training records.")] = None
    epochs: Annotated[
        float | None, typer.Option(help="In place of the steps, with --batch-size: passes over the records.")
    ] = None
    sampling_rate: Annotated[
        float | None, typer.Option(help="Sampling rate: batch size over number of training examples.")
    ] = None
    steps: Annotated[int | None, typer.Option(help="Number of steps.")] = None
    step: Annotated[
        list[str] | None,
        typer.Option(
            "--step",
            help="Steps that differ: noise multiplier, sampling rate and count, as in 1.5,0.02,500, or with --batch-size noise "
            "multiplier and epochs, as in 1.5,10; repeat it.",
        ),
    ] = None
    composition: Annotated[
        Path | None,
        typer.Option(
            "--composition", help="TOML or JSON file with steps of any kind, as for privacy.read_composition."
        ),
    ] = None
    adjacency: Adjacency = None
    sampling: Sampling = "poisson"
    steps_per_epoch: Annotated[
        int | None, typer.Option(help="Steps of an epoch, in which a record takes part once: of random allocation.")
    ] = None
    participations: Annotated[
        int | None,
        typer.Option(help="In how many steps of an epoch a record takes part: of random allocation; 1 if left out."),
    ] = None
    certified: Certified = False
    plot: Plot = None
    as_json: AsJson = False

    def told(self, run: "Composition | None" = None, **budget: float | None) -> str:
        """One line of all that a number holds for: budget, neighbours, sampling and steps, those of ``run`` where they differ."""
        spent = [f"{name} {value:g}" for name, value in budget.items() if value is not None]
        if run is not None:
            from dptheory import privacy

            return ", ".join([*spent, f"neighbours {run.adjacency}", f"steps: {privacy.of_all(privacy.in_words(run))}"])
        names = ("noise_multiplier", "sampling_rate", "steps", "steps_per_epoch", "participations")
        told = {name: value for name in names if (value := getattr(self, name)) is not None}
        steps = [f"{name.replace('_', ' ')} {value:.10g}" for name, value in told.items()]
        kept = self.sampling == SHUFFLED and self.neighbours == "add-remove"
        neighbours = f"{self.neighbours} (an empty record keeps the place, as by zero-out)" if kept else self.neighbours
        return ", ".join([*spent, f"neighbours {neighbours}", self.sampling, *steps])

    @property
    def neighbours(self) -> _validate.Adjacency:
        """Of a run that is not of a file."""
        return "add-remove" if self.adjacency is None else _validate.adjacency(self.adjacency)

    @property
    def run(self) -> dict[str, Any]:
        """A run whose steps are alike, in the words of the accountant; of random allocation it has no sampling rate."""
        if self.sampling != ALLOCATION:
            return dict(zip(("noise_multiplier", "sampling_rate", "steps"), self.plain, strict=True))
        if self.sampling_rate is not None:
            raise ValueError(
                f"sampling_rate must be left out with --sampling {ALLOCATION!r}, got {self.sampling_rate!r}"
            )
        self._needed("noise_multiplier", "steps", "steps_per_epoch")
        return {"noise_multiplier": self.noise_multiplier, "steps": self.steps}

    def _needed(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                instead = "or --step or --composition in place of a run whose steps are alike"
                raise ValueError(f"{name} must be given, {instead}")

    @property
    def plain(self) -> Plain:
        """A run whose steps are alike."""
        for name in ("steps_per_epoch", "participations"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be left out without --sampling {ALLOCATION!r}, got {getattr(self, name)!r}"
                )
        names = ("noise_multiplier", "sampling_rate", "steps")
        self._needed(*names)
        return cast(Plain, tuple(getattr(self, name) for name in names))

    def alike(self) -> "Composition":
        """A run whose steps are alike, as a composition: of Poisson samples, or of random allocation."""
        from dptheory import privacy

        if self.sampling == ALLOCATION:
            epochs = privacy.RandomAllocation.of_steps(
                **self.run,
                steps_per_epoch=cast(int, self.steps_per_epoch),
                participations=1 if self.participations is None else self.participations,
            )
            return privacy.Composition(epochs, adjacency=self.neighbours)
        if self.sampling != "poisson":
            raise ValueError(f"sampling must be 'poisson' or {ALLOCATION!r} here, got {self.sampling!r}")
        noise_multiplier, sampling_rate, steps = self.plain
        try:
            step = privacy.Step(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, count=steps)
        except ArgumentError as error:
            raise error.renamed("steps") if error.argument == "count" else error from None
        return privacy.Composition((step,), adjacency=self.neighbours)

    def differing(self, **instead: object) -> "Composition | None":
        """The run of --step or --composition, None where neither is given; ``instead``: further options that it does not go with."""
        run = self._of_kinds(instead)
        kinds = 0 if run is None else len(run.parts)
        if self.certified and kinds > _FEW_KINDS:  # said before it begins, as it may take an hour
            minutes = math.ceil(kinds * _SECONDS_A_KIND / 60)
            typer.echo(
                f"{kinds} kinds of steps: certified, some {minutes} min; fewer pieces by --step are quicker", err=True
            )
        return run

    def _of_kinds(self, instead: dict[str, object]) -> "Composition | None":
        from dptheory import privacy

        if not self.step and self.composition is None:
            return self._moving(instead)
        own = "step" if self.step else "composition"
        if self.step and self.composition is not None:
            raise ValueError(f"composition must be left out with --step, got {str(self.composition)!r}")
        names = (
            "noise_multiplier",
            "last_noise_multiplier",
            "sampling_rate",
            "steps",
            "steps_per_epoch",
            "participations",
        )
        others = {name: getattr(self, name) for name in names}
        others["sampling"] = None if self.sampling == "poisson" else self.sampling
        for name, value in (others | instead).items():
            if value is not None:
                raise ValueError(f"{name} must be left out with --{own}, got {value!r}")
        if self.composition is None:
            steps = tuple(_step(text, self.batch_size, self.train_size) for text in self.step or ())
            return privacy.Composition(steps, adjacency=self.neighbours)
        try:
            found = privacy.read_composition(self.composition)
        except ArgumentError as error:
            raise error.renamed("--composition") if error.argument == "path" else error from None
        if self.adjacency not in (None, found.adjacency):
            wanted = f"adjacency must be that of the composition, {found.adjacency!r}"
            raise ValueError(f"{wanted}, got {self.adjacency!r}")
        return found

    def _moving(self, instead: dict[str, object]) -> "Composition | None":
        """The run of --last-noise-multiplier; None where it is not given."""
        from dptheory import privacy

        if self.last_noise_multiplier is None:
            return None
        others = {**instead, "sampling": None if self.sampling == "poisson" else self.sampling}
        for name, value in others.items():
            if value is not None:
                raise ValueError(f"{name} must be left out with --last-noise-multiplier, got {value!r}")
        first, rate, steps = self.plain
        if not 2 <= steps <= _MOST_KINDS:
            raise ValueError(f"steps must be in 2..{_MOST_KINDS} with --last-noise-multiplier, got {steps}")
        last = self.last_noise_multiplier
        try:
            privacy.Step(noise_multiplier=last, sampling_rate=rate, count=1)
        except ArgumentError as error:
            if error.argument != "noise_multiplier":
                raise
            raise error.renamed("last_noise_multiplier") from error
        noises = [first + (last - first) * number / (steps - 1) for number in range(steps)]
        parts = [privacy.Step(noise_multiplier=noise, sampling_rate=rate, count=1) for noise in noises]
        return privacy.Composition(tuple(parts), adjacency=self.neighbours)


def of_a_run(*lacking: str, **other: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first argument is a :class:`Given`, the options of one.

    Args:
        lacking: options that it does not have.
        other: options whose words differ, by name: their annotation.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()
        taken = [one for one in fields(Given) if one.name not in (*lacking, *(p.name for p in own))]
        added = [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=other.get(one.name, one.type)
            )
            for one in taken
        ]

        @functools.wraps(command)
        def call(**options: Any) -> None:
            with user_errors():
                if "sampling" in other:
                    _validate.choice("sampling", options["sampling"], SAMPLINGS)
                options |= of_epochs(options)
            command(Given(**{one.name: options.pop(one.name) for one in taken}), **options)

        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        call.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        call.__annotations__ = {}
        return call

    return decorated


def of_epochs(options: dict[str, Any]) -> dict[str, Any]:
    """Sampling rate and steps of --batch-size, --train-size and --epochs; of random allocation the steps of an epoch."""
    from dptheory import privacy

    batch_size, train_size, epochs = (options.get(name) for name in ("batch_size", "train_size", "epochs"))
    if batch_size is None:
        for name, value in (("epochs", epochs), ("train_size", train_size)):
            if value is not None and (name == "epochs" or options.get("max_batch_size") is None):
                raise ValueError(f"batch_size must be given with --{name.replace('_', '-')} {value:g}")
        return {}
    if train_size is None:
        raise ValueError(f"train_size must be given with --batch-size {batch_size}")
    taken = ["sampling_rate", "steps_per_epoch", "composition", "folder", *(["steps"] if epochs is not None else [])]
    for name in taken:
        if options.get(name) is not None:
            raise ValueError(f"{name} must be left out with --batch-size, got {options[name]!r}")
    if options.get("step"):  # each has epochs of its own
        if epochs is not None:
            raise ValueError(f"epochs must be left out with --step, got {epochs:g}")
        return {}
    given = {"noise_multiplier": 1.0, "train_size": train_size, "batch_size": batch_size}
    epoch = privacy.Step.of_epochs(**given, epochs=1.0)
    if options.get("sampling") == SHUFFLED:
        if epochs is not None and not epochs.is_integer():
            raise ValueError(f"epochs must be whole with --sampling shuffled, got {epochs:g}")
        batches = math.ceil(train_size / batch_size)  # the last one may be shorter: no bound asks for its size
        return {"sampling_rate": 1 / batches} | ({} if epochs is None else {"steps": batches * int(epochs)})
    found: dict[str, Any] = {} if epochs is None else {"steps": privacy.Step.of_epochs(**given, epochs=epochs).count}
    allocated = options.get("sampling") == ALLOCATION
    return found | ({"steps_per_epoch": epoch.count} if allocated else {"sampling_rate": epoch.sampling_rate})


def _step(text: str, batch_size: int | None, train_size: int | None) -> "Step":
    from dptheory import privacy

    found = numbers("step", text, float)
    passes = batch_size is not None
    if len(found) != (2 if passes else 3) or not (passes or found[2].is_integer()):
        form = "epochs, as in 1.5,10, with --batch-size" if passes else "sampling rate and count, as in 1.5,0.02,500"
        raise ValueError(f"step must be noise multiplier{' and' if passes else ','} {form}, got {text!r}")
    try:
        if batch_size is not None:
            records = {"batch_size": batch_size, "train_size": cast(int, train_size)}
            return privacy.Step.of_epochs(noise_multiplier=found[0], epochs=found[1], **records)
        return privacy.Step(noise_multiplier=found[0], sampling_rate=found[1], count=int(found[2]))
    except ValueError as error:
        raise ValueError(f"step {text!r}: {error}") from None
