"""`dptheory bound` and `dptheory preset`: the calculators for given numbers, and the papers' settings.

A command is one call of one function: its options, their defaults and their words are those of the function's arguments.
"""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.table import Table

from dptheory import embedding, freezing, gradients, papers, pruning, sparsification
from dptheory._arrays import ArrayLike
from dptheory.cli._common import cell, console_for_output, numbers, show_values, user_errors
from dptheory.cli._tables import plain_docstring

bound = typer.Typer(name="bound", help="What the calculators say for given numbers.", no_args_is_help=True)
preset = typer.Typer(name="preset", help="The settings of the papers' tables.", no_args_is_help=True)

Show = Callable[[Any, bool], None]
"""Prints what a function has returned, as JSON or as a table."""


def add(
    group: typer.Typer,
    name: str,
    function: Callable[..., Any],
    show: Show,
    *,
    example: str,
    help: str = "",
    given: Mapping[str, Any] | None = None,
    kinds: Mapping[str, type[int] | type[float]] | None = None,
) -> None:
    """Add the command that calls a function.

    Args:
        group: of commands.
        name: of the command.
        function: whose arguments are the options.
        show: prints what it returns.
        example: the options of a call that works.
        help: in place of the first line of its docstring.
        given: arguments that an option may leave out, although the function has no default for them; None: no option at all.
        kinds: of an argument that is an array: the type of its numbers, or of the one number that it is on the command line.
    """
    given, said = given or {}, _said(function)
    options = {p.name: p for p in inspect.signature(function).parameters.values() if given.get(p.name, p) is not None}
    hints = get_type_hints(function)
    arrays = [one for one in options if ArrayLike in (hints[one], *get_args(hints[one]))]
    read: dict[str, Any] = dict.fromkeys(arrays, float) | dict(kinds or {})
    lists = [one for one in arrays if one not in given or not isinstance(given[one], float)]

    def call(as_json: bool, **values: Any) -> None:
        with user_errors():
            texts = {one: numbers(one, values[one], read[one]) for one in lists}
            found = function(**values | texts)
        show(found, as_json)

    parameters = [
        inspect.Parameter(
            one,
            inspect.Parameter.KEYWORD_ONLY,
            default=given.get(one, p.default),
            annotation=Annotated[str if one in lists else read.get(one, hints[one]), typer.Option(help=said[one])],
        )
        for one, p in options.items()
    ]
    as_json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
    parameters.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=as_json))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    words = help or plain_docstring((inspect.getdoc(function) or "").partition("\n")[0])
    path = f"{group.info.name} {name}"
    group.command(name, help=words, epilog=f"Example: dptheory {path} {example}".strip())(call)


def _said(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each argument."""
    _, _, rest = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=    \w)", rest.partition("\n\n")[0]):
        names, _, words = block.partition(": ")
        words = plain_docstring(" ".join(words.split()))
        found |= dict.fromkeys(names.strip().split(", "), words[:1].upper() + words[1:])
    return found


def values_of(title: str, values: Callable[[Any], dict[str, Any]]) -> Show:
    """A table of names and values."""
    return lambda found, as_json: show_values(title, values(found), as_json)


def rows_of(title: str, rows: Callable[[Any], list[dict[str, Any]]]) -> Show:
    """A table of rows that have the same names."""

    def show(found: Any, as_json: bool) -> None:
        shown = rows(found)
        if as_json:
            typer.echo(json.dumps(shown, indent=2, allow_nan=False))
            return
        table = Table(*shown[0], title=title)
        for row in shown:
            table.add_row(*(cell(value) for value in row.values()))
        console_for_output().print(table)

    return show


def fields(found: object, **names: str) -> dict[str, Any]:
    """Some fields by the words for them."""
    return {words: getattr(found, field) for field, words in names.items()}


def _pruning(found: pruning.PruningComparison) -> dict[str, Any]:
    return fields(
        found,
        dp_sgd_mse="MSE of DP-SGD",
        zero_update_mse="MSE of the zero update",
        random_k_mse="MSE of random-k with noise",
        top_k_mse="MSE of top-k with noise",
        top_k_pruning_mse="pruning MSE of top-k",
        least_retained_gain="retained gain needed to beat DP-SGD's direction",
    )


def _mse(found: gradients.MseBreakdown) -> dict[str, Any]:
    names = {"signal_loss": "signal loss", "noise": "noise", "mse": "MSE", "descent_ratio": "descent ratio"}
    sides = {"DP-SGD": found.full, "masked": found.masked}
    parts = {f"{name}, {side}": getattr(one, field) for side, one in sides.items() for field, name in names.items()}
    return parts | fields(found, delta_signal="Delta_S", delta_mse="Delta_MSE")


def _kappa(found: sparsification.Kappa) -> dict[str, Any]:
    return fields(
        found,
        value="kappa",
        lower="lower end, 1 - r",
        upper="upper end",
        probability="P(|xi| < 3C/4)",
        condition="P >= sqrt(1 - r)",
    )


def _reconstruction(found: sparsification.ReconstructionErrors) -> dict[str, Any]:
    attack = fields(
        found.attack,
        value="expected error",
        given_recoverable="expected error where the attack works",
        lost_probability="share of masks under which it fails",
    )
    whole = fields(found, lower_bound="lower bound where it works", bayes="Bayes attacker")
    return attack | whole | ({"why infinite": found.attack.reason} if found.attack.reason else {})


def _angle(found: gradients.AngleSummary) -> dict[str, Any]:
    return fields(
        found,
        expected_cos="expected cosine",
        mean="mean angle, radians",
        std="standard deviation, radians",
        quantile_05="5% quantile, radians",
        median="50% quantile, radians",
        quantile_95="95% quantile, radians",
    )


def _freezing(found: freezing.FreezingComparison) -> dict[str, Any]:
    names = {
        "clipped_norm": "clipped norm",
        "snr": "signal-to-noise ratio",
        "noise_cos": "expected cosine to the private signal",
        "noise_angle": "mean angle to it, radians",
        "update_noise": "noise energy of the update",
    }
    sides = {"before": found.effect.before, "after": found.effect.after}
    parts = {f"{name}, {when}": getattr(one, field) for field, name in names.items() for when, one in sides.items()}
    return parts | {
        "bound on E<gradient, clipped gradient>, all layers trained": found.bounds.full.value,
        "bound on E<gradient, clipped gradient>, frozen": found.bounds.frozen.value,
        "what freezing takes off the bound": found.bounds.largest_frozen_gradient,
    }


_WAYS = {
    "plain": "GP",
    "embedding_only": "B-GEP",
    "published": "GEP as published",
    "published_sum": "GEP as published, accounted for by its sum",
    "optimal": "GEP, best split",
    "joint": "GEP, gradient clipped first",
}


def _embedding(found: embedding.ReleaseComparison) -> dict[str, Any]:
    energies, ratios = found.least_residual_energy, found.largest_residual_ratio
    ways = {way: _WAYS[way] for way in ("published", "published_sum", "optimal", "joint")}
    return {
        "mu": found.mu,
        **{f"squared error of the sum, {name}": getattr(found.mse, way) for way, name in _WAYS.items()},
        "noise std of the embedding, best split": found.best_split.embedding_std,
        "noise std of the residual, best split": found.best_split.residual_std,
        "noise std of the embedding, gradient clipped first": found.joint_clip.embedding_std,
        "noise std of the residual, gradient clipped first": found.joint_clip.residual_std,
        **{f"S2/S below which it beats GP, {name}": getattr(ratios, way) for way, name in ways.items()},
        **{f"|r|^2 above which it beats B-GEP, {name}": getattr(energies, way) for way, name in ways.items()},
    }


def _presets(found: Sequence[papers.Preset]) -> list[dict[str, Any]]:
    return [
        fields(
            one,
            name="name",
            source="source",
            dim="d",
            batch_size="B",
            noise_multiplier="sigma",
            epsilon="epsilon",
            drop_rate="r as used",
            noise_share="d sigma^2 / B^2",
            largest_drop_rate="largest r to expect a gain from",
        )
        for one in found
    ]


def _embedding_presets(found: Sequence[papers.EmbeddingNoise]) -> list[dict[str, Any]]:
    return [
        fields(
            one.preset,
            name="name",
            source="source",
            dim="p",
            subspace_dim="k",
            clip_norm="S",
            residual_clip="S2",
            batch_size="n",
            delta="delta",
        )
        | {"epsilon: epochs": ", ".join(f"{epsilon:g}: {epochs}" for epsilon, epochs in one.preset.budgets) or None}
        | {f"noise, {name}": getattr(one.noise, way) for way, name in _WAYS.items()}
        for one in found
    ]


add(
    bound,
    "prune",
    pruning.compare_methods,
    values_of("Pruning", _pruning),
    example="--dim 2700000 --keep 270000",
)
add(
    bound,
    "mse",
    gradients.clipped_gradient_mse,
    values_of("Error of the released gradient; a smaller MSE is no reason to mask, compare the descent ratios", _mse),
    example="--grad-norm 1 --dim 1000 --deviation 0.1 --clip-norm 1 --noise-multiplier 1 --batch-size 64 --drop-rate 0.5",
    help="Error of the clipped, noised batch gradient with and without a random mask (flat true gradient).",
    given={"masked_norms": None},
)
add(
    bound,
    "kappa",
    sparsification.flat_kappa,
    values_of("kappa", _kappa),
    example="--grad-norm 2 --dim 1000 --clip-norm 4 --drop-rate 0.5 --deviation 0.05",
    help="kappa, the ratio of the papers' lower bounds on the descent with and without the mask, for a flat gradient.\n\n"
    "The ratio of the descents themselves can differ: dptheory claim rs.phase.",
)
add(
    bound,
    "rate",
    sparsification.optimal_rates,
    values_of(
        "Best rate; after tuning the learning rate the trade-off can vanish (rs.tuned)",
        lambda found: {f"best rate for a = {one.exponent:g}": one.drop_rate for one in found},
    ),
    example="--delta-c 0.1 --step-noise 1",
    help="Best sparsification rate under kappa = (1 - r)^a.",
)
add(
    bound,
    "reconstruction",
    sparsification.reconstruction_errors,
    values_of("Reconstruction error", _reconstruction),
    example="--vector 1,2,3,4 --drop-rate 0.5 --noise-std 0.1",
    help="Error of a reconstruction attack on a masked, noised gradient.",
    given={"prior_std": 1.0},
)
add(
    bound,
    "angle",
    gradients.angle_summary,
    values_of("Angle that the noise adds", _angle),
    example="--dim 100000 --snr 30",
    help="Angle between the clipped mean gradient and the private one.",
)
add(
    bound,
    "freeze",
    freezing.compare_freezing,
    values_of("The layers that remain trainable; nothing is said of the clipping bias", _freezing),
    example="--layer-sizes 90,20 --layer-norms 1,2 --frozen-layers 1 --clip-norm 1 --noise-multiplier 1 --batch-size 64",
    help="What freezing the first layers does to the layers that remain, and to the convergence bound.\n\n"
    "The bound is on the mean of E<gradient, clipped gradient> over the steps. That is E|gradient|^2 where no gradient is clipped; "
    "otherwise E|gradient|^2 can be larger without limit.",
    given={"objective_gap": 1.0, "learning_rate": 0.1, "steps": 1000, "smoothness": 1.0},
    kinds={"layer_sizes": int},
)
add(
    bound,
    "embedding",
    embedding.compare_releases,
    values_of("Gradient embedding perturbation; biases of clipping come on top", _embedding),
    example="--dim 270000 --subspace-dim 1000 --clip-norm 10 --residual-clip 2 --mu 1",
    help="Error of gradient embedding perturbation beside plain perturbation, of one release, at the same privacy.",
)
add(
    preset,
    "list",
    papers.all_presets,
    rows_of("Presets", _presets),
    example="",
    help="The papers' settings, and whether noise or signal dominates: d sigma^2 / B^2 against 1.",
)
add(
    preset,
    "embedding",
    papers.embedding_noise,
    rows_of("GEP on ResNet20, noise at the given mu", _embedding_presets),
    example="--mu 0.5",
    help="GEP's settings for ResNet20, and the squared norm of the noise on the sum of gradients that they give.",
)
