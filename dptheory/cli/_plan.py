"""`dptheory plan`: from a training setup to the choice."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from dptheory.cli._common import cell, console_for_output, numbers, user_errors
from dptheory.cli._curves import picture, require_picture
from dptheory.files import write_atomically

if TYPE_CHECKING:
    from dptheory.planning import Advice, Plan, PlannedTraining


EXAMPLE = "Example: dptheory plan --num-examples 2000 --epsilon 3 --delta 1e-5 --batch-size 250 --like small-cnn/fashion-mnist"


def make_plan(
    num_examples: Annotated[int, typer.Option(help="Number of training records; taken as public.")],
    epsilon: Annotated[float, typer.Option(help="The budget epsilon.")],
    delta: Annotated[float, typer.Option(help="The budget delta.")],
    dim: Annotated[int | None, typer.Option(help="Number of parameters.")] = None,
    layer_sizes: Annotated[
        str | None, typer.Option(help="Parameters of each layer from the input on, as 500000,50570; in place of --dim.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Expected size of the Poisson batches; chosen if left out.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data; chosen if left out.")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="Clip C; chosen if left out and statistics are given.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate of plain SGD, if it is fixed.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Most passes that can be afforded; 100 if left out.")] = None,
    stats: Annotated[
        Path | None,
        typer.Option(
            help="Statistics of your own network: dptheory probe --stats FILE; with --private they cost budget."
        ),
    ] = None,
    like: Annotated[
        str | None, typer.Option(help="Borrow the statistics of a network of this project, as small-cnn/fashion-mnist.")
    ] = None,
    compare: Annotated[
        list[Path] | None, typer.Option(help="Folder of a finished run to put beside the forecast; may be repeated.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write a configuration for dptheory run; needs --data and --model.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Of the configuration: fashion-mnist, mnist, cifar-10 or excerpt.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Of the configuration: small-cnn and others.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    md: Annotated[bool, typer.Option("--md", help="Print Markdown instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the forecasts (needs matplotlib).")] = None,
) -> None:
    """Choose noise, batch, steps, clip and learning rate, and say which method is worth it."""
    from dptheory import planning

    with user_errors(data="--data", model="--model", runs="--compare"):
        require_picture(plot)
        if as_json and md:
            raise ValueError("--json must be left out where --md is given")
        if write is not None and (data is None or model is None):
            raise ValueError("--write must come with --data and --model, which the configuration names")
        for option, name in (("--data", data), ("--model", model)):
            if write is None and name is not None:
                raise ValueError(f"{option} must be left out without --write, got {name!r}")
        setup = {
            "num_examples": num_examples,
            "epsilon": epsilon,
            "delta": delta,
            "dim": dim,
            "layer_sizes": None if layer_sizes is None else numbers("layer_sizes", layer_sizes, int),
            "batch_size": batch_size,
            "epochs": epochs,
            "clip_norm": clip_norm,
            "learning_rate": learning_rate,
            **({} if max_epochs is None else {"max_epochs": max_epochs}),
        }
        answer = planning.plan_training(setup, stats=stats, like=like, runs=compare or ())
        found = answer.plan
        if write is not None and data is not None and model is not None:
            write_atomically(write, planning.config_text(found, data=data, model=model))
            typer.echo(f"configuration written to {write}", err=True)
        if plot is not None:
            _draw(found, plot)
    if as_json:
        typer.echo(planning.to_json(found, results=answer.results), nl=False)
    elif md:
        typer.echo(planning.to_markdown(found, results=answer.results), nl=False)
    else:
        _show(answer, planning.advice(found))


def _show(answer: "PlannedTraining", said: "tuple[Advice, ...]") -> None:
    console, plan = console_for_output(), answer.plan
    for one in said:
        claims = f" [{', '.join(one.claims)}]" if one.claims else ""
        console.print(f"- {one.text}{claims}", markup=False, highlight=False)
    head, *rows = plan.choice_rows()
    choices = Table(*head, title="Choices")
    for row in rows:
        choices.add_row(*row)
    console.print(choices)
    methods = Table(
        "method", "noise energy / C^2", "cosine", "descent", "with curvature", "verdict", "place", title="Methods"
    )
    for method in plan.methods:
        methods.add_row(
            method.method,
            str(method.noise_energy),
            str(method.cosine),
            str(method.descent),
            "" if method.curved_descent is None else str(method.curved_descent),
            method.verdict,
            f"{method.best_rank} to {method.worst_rank}",
        )
    console.print(methods)
    if answer.results:
        results = Table(
            "method", "runs", "accuracy", "over DP-SGD", "epsilon", "as planned", "forecast", "outcome", title="Runs"
        )
        for result in answer.results:
            reach = "" if result.lower is None else f" ({result.lower:+.4f} to {result.upper:+.4f})"
            results.add_row(
                result.method,
                str(result.runs),
                f"{result.accuracy:.4f}",
                "" if result.difference is None else f"{result.difference:+.4f}{reach}",
                cell(result.largest_epsilon),
                "yes" if result.planned else "no",
                result.forecast,
                result.outcome,
            )
        console.print(results)


def _draw(plan: "Plan", path: Path) -> None:
    """Intervals of both descents, DP-SGD's at 1."""
    known = [one for one in plan.methods if one.descent.upper != float("inf")]
    labels = {
        "tab:blue": "guaranteed on a loss that curves alike in all directions",
        "tab:gray": "with measured curvature",
    }
    least = min(one.lower for one in known if one.lower > 0.0) / 2
    with picture(path, size=(7, 1.4 + 0.45 * len(known))) as axes:
        for place, one in enumerate(reversed(known)):
            for shift, span, colour in ((0.12, one.descent, "tab:blue"), (-0.12, one.curved_descent, "tab:gray")):
                if span is not None:
                    ends = [max(span.lower, least), span.upper]
                    axes.plot(
                        ends, [place + shift] * 2, "|-", color=colour, linewidth=4, label=labels.pop(colour, None)
                    )
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(known)), [one.method for one in reversed(known)])
        axes.set_xscale("log")
        axes.set_xlabel("descent of a step over that of DP-SGD")
        left_out = [one.method for one in plan.methods if one not in known]
        axes.set_title(f"Forecast; not known: {', '.join(left_out)}" if left_out else "Forecast", fontsize=10)
        if any(one.curved_descent is not None for one in known):
            axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", fontsize=8)
