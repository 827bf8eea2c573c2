"""Pictures for the option --plot."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dptheory.files import require_writable, write_atomically

_FORMATS = (".png", ".pdf", ".svg")


def require_picture(file: Path | None) -> None:
    """Make sure that a picture can be drawn into the file, before the work whose result it shows."""
    if file is None:
        return
    if file.suffix.lower() not in _FORMATS:
        raise ValueError(f"plot must be a file whose name ends in {', '.join(_FORMATS)}, got {str(file)!r}")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError("plot must be left out without matplotlib: pip install 'dptheory[figures]'") from None
    require_writable(file)


@contextmanager
def picture(file: Path) -> Iterator[Any]:
    """Axes that are written into the file at the end."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 4.2), layout="constrained")
    yield figure.add_subplot()
    drawn = io.BytesIO()
    figure.savefig(drawn, format=file.suffix[1:].lower(), dpi=150)
    write_atomically(file, drawn.getvalue())


def draw(
    file: Path,
    curve: Callable[[float], float],
    places: Sequence[float],
    *,
    marked: tuple[float, float],
    labels: tuple[str, str],
    logarithmic: bool = False,
) -> None:
    """Draw a curve through its values at some places, and the point that was asked for."""
    with picture(file) as axes:
        axes.plot(places, [curve(place) for place in places], color="tab:blue")
        axes.plot(*marked, "o", color="tab:orange")
        if logarithmic:
            axes.set_yscale("log")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.grid(alpha=0.3)
