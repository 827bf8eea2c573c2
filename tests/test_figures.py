"""The pictures are those of the code as it stands, and drawing them twice gives the same."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from figures.__main__ import FIGURES, render
from figures._table import from_csv

PICTURES = Path(__file__).parents[1] / "proofs" / "figures"


@pytest.mark.parametrize("name", FIGURES)
def test_committed_data_is_fresh(name: str) -> None:
    fresh, committed = FIGURES[name].data(), from_csv((PICTURES / f"{name}.csv").read_text(encoding="utf-8"))
    assert list(fresh) == list(committed)
    for column, values in fresh.items():
        np.testing.assert_allclose(committed[column], values, rtol=1e-9, err_msg=f"{column}: run python -m figures")


def test_drawing_is_deterministic() -> None:
    first, second = render(FIGURES["beta"]), render(FIGURES["beta"])
    assert first == second
    assert first[0].startswith(b"\x89PNG")


def test_every_picture_is_committed_and_used() -> None:
    assert {path.stem for path in PICTURES.glob("*.png")} == set(FIGURES)
    pages = "".join(page.read_text(encoding="utf-8") for page in PICTURES.parent.rglob("*.md"))
    assert all(f"figures/{name}.png" in pages for name in FIGURES)
