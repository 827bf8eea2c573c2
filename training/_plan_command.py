"""``dptheory plan``: what to train a network with, by pilots on public records; without a network, what theory alone can say."""

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptheory._progress import lines_on_stderr
from dptheory._rounding import for_json, rounded_up
from dptheory.cli._cluster import Scheduler, cluster
from dptheory.cli._common import user_errors
from dptheory.cli._plan import show_candidates
from dptheory.errors import ArgumentError
from dptheory.files import require_writable, write_atomically
from dptheory.training._files import NETWORK, is_own

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

    from dptheory.training.planning import Choice

_MOST_EPOCHS = 20.0
_PUBLIC_IMAGES = 1000
_PRIVATE = "private.npz"
_HEAD = "# Written by `dptheory plan`"
"""How files begin that may be written over: they are made again by the same command."""


def plan(
    epsilon: Annotated[float, typer.Option(help="The budget epsilon.")],
    delta: Annotated[float, typer.Option(help="The budget delta.")],
    network: Annotated[
        str | None,
        typer.Argument(
            help="What is to be trained: FILE.py:FUNCTION, a function without arguments that builds the nn.Module; or a shipped "
            "network, such as small-cnn. Without it, what theory alone can say.",
            show_default=False,
        ),
    ] = None,
    num_examples: Annotated[
        int | None,
        typer.Option(help="Number of training records; taken as public. Left out with --data: its training images."),
    ] = None,
    max_epochs: Annotated[
        float | None,
        typer.Option(help=f"Most passes that can be afforded; {_MOST_EPOCHS:g}, or --epochs, if left out."),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            help="The .npz file of 50 or more public records: arrays features (float32, or int64 of tokens) and labels "
            "(classes from 0), a row a record."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="fashion-mnist, mnist, cifar-10 or excerpt, instead of --public: the first 1,000 images of its test set (at most "
            "half of them) serve as public records, and the rest judges the run."
        ),
    ] = None,
    private: Annotated[
        Path | None,
        typer.Option(
            help="The .npz file of the private records, with test_features and test_labels as well if the run is to be judged. It is "
            "only compared with the public ones, which must not be among them, and named in the configuration; by default "
            f"{_PRIVATE} beside the public file, which may come later."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Expected size of the Poisson batches, if it is fixed.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the records, if they are fixed.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="The clip C, if it is fixed.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The learning rate, if it is fixed.")] = None,
    momentum: Annotated[float | None, typer.Option(help="The momentum of SGD, if it is fixed.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Of the learning rate, if it is fixed: constant, linear or cosine.")
    ] = None,
    average: Annotated[
        float | None,
        typer.Option(help="Share of the last steps whose weights are averaged, if it is fixed: 0, 0.2 or 0.5."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="About how many seconds of pilots, if nothing else runs; 200 by default. The least are some hundred short ones (of "
            "small-cnn 130 seconds on two free cores), which are made all the same, with a word on how long they take once some have "
            "ended: then the choice is less sure, and the papers' methods are not compared. What simulates records comes before "
            "(20 seconds)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the starting weights and the pilots.")] = 0,
    write: Annotated[
        Path | None, typer.Option(help="Write the choice as a configuration, which `dptheory run` trains with.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="File of the finished pilots. A plan that was stopped continues from it. By default the file of --write, with "
            "the ending .pilots.jsonl."
        ),
    ] = None,
    code: Annotated[
        Path | None, typer.Option(help="Write the choice as a training loop, for scripts of your own.")
    ] = None,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Choose batch size, passes, noise, clip and learning rate by short trainings on public records, at no cost in privacy.

    Without a network, it lists the batch sizes and passes that a budget allows, each with its least noise.

    Example: [bold]dptheory plan mynetwork.py:build --public public.npz --num-examples 60000 --epsilon 3 --delta 1e-5
    --write config.toml[/bold]
    """
    budget = {"epsilon": epsilon, "delta": delta, "batch_size": batch_size, "epochs": epochs}
    budget["max_epochs"] = max_epochs if max_epochs is not None else (_MOST_EPOCHS if epochs is None else epochs)
    fixed = {
        "clip_norm": clip_norm,
        "learning_rate": learning_rate,
        "momentum": momentum,
        "schedule": schedule,
        "average": average,
        "seconds": seconds,
    }
    with user_errors(model="network", name="network"):
        if network is None:
            paths = {
                "public": public,
                "data": data,
                "private": private,
                "write": write,
                "journal": journal,
                "code": code,
                "scheduler": scheduler,
            }
            _without_network({**fixed, **paths}, num_examples, budget, as_json)
            return
        if (public is None) == (data is None):
            raise ArgumentError("public", "be given, or --data instead of it: pilots train on public records", public)
        place = journal or (None if write is None else write.with_name(f"{write.name}.pilots.jsonl"))
        for path in (write, code):
            _may_write(path)
        setting = _Setting(network, data, public, private, num_examples, seed)
        setting.check_budget(epsilon, delta, write)
        try:
            with (
                lines_on_stderr(),
                nullcontext() if scheduler is None else cluster(scheduler, by_value=NETWORK) as executor,
            ):
                choice = setting.planned(**budget, **fixed, journal=place, executor=executor)
        except KeyboardInterrupt:
            typer.echo(
                "interrupted; " + ("start again" if place is None else "run the same command again to continue"),
                err=True,
            )
            raise typer.Exit(130) from None
        if write is not None:
            write_atomically(write, setting.configuration(choice))
        if code is not None:
            write_atomically(code, f"{_HEAD}; it needs model and private.\n{choice.code()}")
    typer.echo(_as_json(choice) if as_json else f"{choice}\n\n{_next(choice, write, code)}")


def _without_network(given: dict[str, object], num_examples: int | None, budget: dict[str, Any], as_json: bool) -> None:
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(
                name, "be left out without NETWORK", value, got=f"{value}: theory alone does not need it"
            )
    if num_examples is None:
        raise ArgumentError("num_examples", "be given without a network", num_examples, got="none")
    show_candidates(num_examples=num_examples, **budget, as_json=as_json)


class _Setting:
    """What is planned for: torch is imported here, and not before."""

    def __init__(
        self,
        name: str,
        data: str | None,
        public: Path | None,
        private: Path | None,
        num_examples: int | None,
        seed: int,
    ) -> None:
        import torch
        from torch.utils.data import TensorDataset

        from dptheory.training import runs
        from dptheory.training.data import load
        from dptheory.training.runs import own_network, own_records

        torch.set_num_threads(1)  # the order of sums, and so the last digits, would depend on the number of threads
        self._name, self._data, self._seed, self._unjudged = name, data, seed, 0
        self._private, self._named = private, private is not None
        if data is not None:
            if private is not None:
                raise ArgumentError(
                    "private", "be left out with --data, whose training images are the private records", private
                )
            image_config = runs.from_dict(self._table(data, epochs=1, batch_size=1, max_grad_norm=1.0, epsilon=1.0))
            images = runs.images_of(image_config, train=False)
            self._unjudged = min(_PUBLIC_IMAGES, len(images) // 2)
            features, labels = images.pixels[: self._unjudged], images.labels[: self._unjudged]
            own = len(load(name=data, train=True))
            if num_examples not in (None, own):
                raise ArgumentError("num_examples", f"be left out with --data, or be its {own}", num_examples)
            num_examples = own
        else:
            assert public is not None
            features, labels = own_records(public)
            self._private = private or public.with_name(_PRIVATE)
            if private is None and not self._private.is_file():
                typer.echo(
                    f"{self._private} is not there: neither its number of records nor that it holds no public one is looked at "
                    "(--private names another file)",
                    err=True,
                )
            runs.from_dict(self._table(_PRIVATE, epochs=1, batch_size=1, max_grad_norm=1.0, epsilon=1.0))
        if num_examples is None:
            raise ArgumentError(
                "num_examples", "be given with --public", num_examples, got="none: the budget's noise depends on it"
            )
        self._num_examples = num_examples
        self._public = TensorDataset(features, labels)
        self._model: nn.Module = (
            own_network(name, seed=seed)
            if is_own(name)
            else runs.build_model(name, features=features[0].numel() if len(features) else 1, seed=seed)
        )

    def check_budget(self, epsilon: float, delta: float, write: Path | None) -> None:
        """See, before the pilots, that a configuration may have the budget."""
        from dptheory.training.runs import from_dict

        if write is not None:
            from_dict(
                self._table(
                    self._data or _PRIVATE, epochs=1, batch_size=1, max_grad_norm=1.0, epsilon=epsilon, delta=delta
                )
            )

    def planned(self, **arguments: Any) -> "Choice":
        """The choice."""
        from torch.utils.data import TensorDataset

        from dptheory.training.planning import plan
        from dptheory.training.runs import own_records

        compared: Dataset[Any] | None = None
        if self._private is not None and (self._named or self._private.is_file()):
            compared = TensorDataset(*own_records(self._private))
        return plan(
            self._model,
            self._public,
            num_examples=self._num_examples,
            private=compared,
            seed=self._seed,
            **arguments,
        )

    def configuration(self, choice: "Choice") -> str:
        """The text of a configuration that trains with the choice.

        It names the budget and not the noise: the run takes the least noise that affords its steps, which is the choice's, for
        as many private records as there turn out to be, and stops before a step that would exceed the budget.
        """
        data = self._data or str(self._private)
        table = self._table(
            data,
            epochs=choice.epochs,
            batch_size=choice.batch_size,
            max_grad_norm=choice.clip_norm,
            epsilon=choice.epsilon,
            delta=choice.delta,
            num_examples=choice.num_examples,
            average=choice.average,
            unjudged=self._unjudged,
        )
        optimizer = {
            "learning_rate": choice.learning_rate,
            "momentum": choice.momentum,
            "schedule": choice.schedule,
        }
        lines = [
            f"{_HEAD} for {choice.num_examples:,} records: {choice.steps:,} steps at noise multiplier "
            f"{rounded_up(choice.noise_multiplier, 6)}",
            "# Train with it, from the folder in which the plan was made: dptheory run FILE --out run",
            *(
                [
                    "# data: a file with your private records: arrays features and labels; test_features and test_labels to judge by"
                ]
                if self._data is None
                else []
            ),
            *_toml(table),
            "",
            "[optimizer]",
            *_toml(optimizer),
        ]
        return "\n".join(lines) + "\n"

    def _table(self, data: str, **values: object) -> dict[str, Any]:
        table = {"data": data, "model": self._name, "seed": self._seed, **values}
        return {name: value for name, value in table.items() if value or name in ("seed", "epsilon", "delta")}


def _toml(table: dict[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value, ensure_ascii=False, allow_nan=False)}" for name, value in table.items()]


def _may_write(path: Path | None) -> None:
    """See that a file can be written, and is none that somebody else has made."""
    if path is None:
        return
    require_writable(path)
    if path.is_file() and not path.read_text("utf-8", errors="replace").startswith(_HEAD):
        raise ValueError(f"{path} must not exist yet, got a file that no plan has written")


def _next(choice: "Choice", write: Path | None, code: Path | None) -> str:
    if write is not None:
        return (
            f"Next: dptheory run {write} --out run --set secure=true\n"
            "Without --set secure=true it can be repeated: a simulation, not to be released."
        )
    if code is not None:
        return f"Next: {code} trains with it; it needs model and private, your data set."
    return f"Next, with model and private, the data set of private records:\n\n{choice.code()}"


def _as_json(choice: "Choice") -> str:
    return json.dumps(for_json(dataclasses.asdict(choice)), indent=2, allow_nan=False)
