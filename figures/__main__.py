"""``python -m figures``: regenerate every picture of ``proofs/figures`` and its data."""

import importlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import matplotlib
import typer

from dptheory.cli._common import user_errors
from dptheory.files import require_writable, write_atomically
from figures._study import STUDIES, StudyFigure
from figures._table import Figure, to_csv


def _modules() -> Iterator[tuple[str, Figure]]:
    for name in sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")):
        yield name, cast(Figure, importlib.import_module(f"figures.{name}"))


FIGURES: dict[str, Figure] = dict(_modules()) | {f"study_{name}": StudyFigure(name) for name in STUDIES}
"""Every module of this folder whose name has no underscore at its start, and every study, as far as there are results."""

STYLE = Path(__file__).with_name("style.mplstyle")


def render(figure: Figure) -> tuple[bytes, str]:
    """One figure as (PNG, CSV); the same input gives the same bytes on the same versions."""
    import matplotlib.pyplot as plt

    table = figure.data()
    with plt.style.context(STYLE):
        canvas, ax = plt.subplots(layout="constrained")
        figure.draw(ax, table)
        png = io.BytesIO()
        canvas.savefig(png, format="png", metadata={"Software": None})
        plt.close(canvas)
    return png.getvalue(), to_csv(table)


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Figures to draw; all where none is named.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for PNG and CSV.")] = Path("proofs/figures"),
) -> None:
    """Regenerate the figures, as in `python -m figures top_k_mse`."""
    with user_errors():
        unknown = set(names or ()) - set(FIGURES)
        if unknown:
            raise ValueError(f"names must be figures, got {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
        for name in names or FIGURES:
            require_writable(out / f"{name}.csv")
        for name in names or FIGURES:
            png, csv = render(FIGURES[name])
            write_atomically(out / f"{name}.csv", csv)
            write_atomically(out / f"{name}.png", png)
            typer.echo(f"{out / name}.png")


if __name__ == "__main__":
    matplotlib.use("Agg")
    typer.run(main)
