"""What the site is made of: the parts that need neither Sphinx nor a browser."""

import itertools
import sys
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[2] / "proofs"
sys.path.append(str(PROOFS))

from website import curves  # noqa: E402 -- from the folder of the site


@pytest.mark.parametrize("name", ["mask", "pruning"])
def test_the_planner_has_the_values_of_today(name: str) -> None:
    assert curves.written()[name] == _plain(curves.PLOTS[name].as_json()), "python -m website.curves"


def test_the_planners_noise_is_that_of_today_at_both_ends_and_between() -> None:
    """Three of 240 values, as each asks the accountant."""
    plot, written = curves.PLOTS["noise"], curves.written()["noise"]
    assert {key: value for key, value in written.items() if key != "values"} == _plain(
        {"sliders": plot.sliders, "x": plot.x, "y": plot.y, "log": plot.log, "curves": plot.curves}
    )
    settings = list(itertools.product(*(values for _, values in plot.sliders)))
    assert len(written["values"]) == len(settings)
    for i, j in ((0, 0), (12, 3), (len(settings) - 1, -1)):
        (now,) = plot.value(*settings[i], plot.x[1][j])
        assert written["values"][i][0][j] == pytest.approx(now, rel=1e-4)


def _plain(one: object) -> object:
    """Tuples as the lists that JSON has."""
    if isinstance(one, dict):
        return {key: _plain(value) for key, value in one.items()}
    return [_plain(value) for value in one] if isinstance(one, list | tuple) else one
