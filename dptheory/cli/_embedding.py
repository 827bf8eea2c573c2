"""`dptheory bound embedding` and `preset embedding`."""

import json
from typing import Annotated

import typer
from rich.table import Table

from dptheory.cli._bound import AsJson, Dim, bound, preset
from dptheory.cli._common import cell, console_for_output, show_values, user_errors

_WAYS = {
    "plain": "GP",
    "embedding_only": "B-GEP",
    "published": "GEP as published",
    "published_sum": "GEP as published, accounted for by its sum",
    "optimal": "GEP, best split",
    "joint": "GEP, gradient clipped first",
}

Mu = Annotated[float | None, typer.Option(help="Privacy of one release, mu-GDP, add-remove; 1 / noise multiplier.")]
Epsilon = Annotated[float | None, typer.Option(help="In place of --mu, with --delta.")]
Delta = Annotated[float | None, typer.Option(help="In place of --mu, with --epsilon.")]


@bound.command(
    "embedding",
    epilog="Example: dptheory bound embedding --dim 270000 --subspace-dim 1000 --clip-norm 10 --residual-clip 2 --mu 1",
)
def show_embedding(
    dim: Dim,
    subspace_dim: Annotated[int, typer.Option(help="Dimension k of the anchor subspace.")],
    clip_norm: Annotated[float, typer.Option(help="Clipping norm S of the gradients, and of the embeddings.")],
    residual_clip: Annotated[float, typer.Option(help="Clipping norm S2 of the residuals.")],
    mu: Mu = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    residual_norm: Annotated[float, typer.Option(help="Norm of the summed residual, which B-GEP loses.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Error of gradient embedding perturbation beside plain perturbation, of one release, at the same privacy."""
    from dptheory import embedding

    with user_errors():
        found = embedding.compare_releases(
            dim=dim,
            subspace_dim=subspace_dim,
            clip_norm=clip_norm,
            residual_clip=residual_clip,
            mu=mu,
            epsilon=epsilon,
            delta=delta,
            residual_norm=residual_norm,
        )
    ways = ("published", "published_sum", "optimal", "joint")
    values = {
        "mu": found.mu,
        **{f"squared error of the sum, {name}": getattr(found.mse, way) for way, name in _WAYS.items()},
        "noise std of the embedding, best split": found.best_split.embedding_std,
        "noise std of the residual, best split": found.best_split.residual_std,
        "noise std of the embedding, gradient clipped first": found.joint_clip.embedding_std,
        "noise std of the residual, gradient clipped first": found.joint_clip.residual_std,
        **{f"S2/S below which it beats GP, {_WAYS[way]}": getattr(found.largest_residual_ratio, way) for way in ways},
        **{
            f"|r|^2 above which it beats B-GEP, {_WAYS[way]}": getattr(found.least_residual_energy, way) for way in ways
        },
    }
    show_values("Gradient embedding perturbation; biases of clipping come on top", values, as_json)


@preset.command("embedding", epilog="Example: dptheory preset embedding --mu 0.5")
def presets(
    mu: Annotated[float, typer.Option(help="Privacy of one step before subsampling; 1 / noise multiplier.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """GEP's settings for ResNet20, and the squared norm of the noise on the sum of gradients that they give."""
    from dptheory import papers

    with user_errors():
        found = papers.embedding_noise(mu=mu)
    rows = [
        {
            "name": one.preset.name,
            "source": one.preset.source,
            "p": one.preset.dim,
            "k": one.preset.subspace_dim,
            "S": one.preset.clip_norm,
            "S2": one.preset.residual_clip,
            "n": one.preset.batch_size,
            "delta": one.preset.delta,
            "epsilon: epochs": ", ".join(f"{epsilon:g}: {epochs}" for epsilon, epochs in one.preset.budgets) or None,
            **{f"noise, {name}": getattr(one.noise, way) for way, name in _WAYS.items()},
        }
        for one in found
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, allow_nan=False))
        return
    table = Table(*rows[0], title=f"GEP on ResNet20, noise at mu = {mu:g}")
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    console_for_output().print(table)
