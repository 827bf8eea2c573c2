"""What the planner shows: values of calculators on a grid, written to a script that a page loads without a server.

``PYTHONPATH=proofs python -m website.curves`` writes ``static/curves.js``, in some minutes: the accountant is asked 240 times.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dptheory import privacy, pruning, sparsification
from dptheory.files import write_atomically

FILE = Path(__file__).parent / "static" / "curves.js"
DELTA = 1e-5
_DIGITS = 5


@dataclass(frozen=True)
class Plot:
    """Curves over one variable, for every setting of the sliders.

    Attributes:
        sliders: name and values of each slider.
        x: name and values of the variable.
        y: what the curves show.
        log: which axes are logarithmic, "x", "y", "xy" or "".
        curves: the names of the curves.
        value: gives one number per curve, for the sliders' values and the variable's.
    """

    sliders: tuple[tuple[str, tuple[float, ...]], ...]
    x: tuple[str, tuple[float, ...]]
    y: str
    log: str
    curves: tuple[str, ...]
    value: Callable[..., tuple[float, ...]]

    def at(self, *setting: float) -> list[list[float]]:
        """The curves for one setting of the sliders, five digits each.

        Args:
            setting: a value of each slider.

        Returns:
            One list per curve.
        """
        points = [self.value(*setting, x) for x in self.x[1]]
        return [[float(f"{one:.{_DIGITS}g}") for one in curve] for curve in zip(*points, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """All of it, the settings in the order of :func:`itertools.product`.

        Returns:
            What the page's script reads.
        """
        settings = itertools.product(*(values for _, values in self.sliders))
        return {
            "sliders": self.sliders,
            "x": self.x,
            "y": self.y,
            "log": self.log,
            "curves": self.curves,
            "values": [self.at(*setting) for setting in settings],
        }


def _noise(sampling_rate: float, steps: float, epsilon: float) -> tuple[float, ...]:
    found = privacy.answers.noise_for_budget(
        epsilon=epsilon, delta=DELTA, sampling_rate=sampling_rate, steps=int(steps)
    )
    return (found.noise_multiplier,)


def _tuned(noise_to_curvature: float, exponent: float, drop_rate: float) -> tuple[float, ...]:
    def bound(rate: float) -> float:
        return sparsification.tuned_bound(
            drop_rate=rate,
            kappa=(1 - rate) ** exponent,
            objective_gap=1.0,
            steps=1.0,
            curvature_term=1.0,
            noise_term=noise_to_curvature,
        ).bound

    least = sparsification.least_kappa_tuned(drop_rate=drop_rate, noise_to_curvature=noise_to_curvature)
    return bound(drop_rate) / bound(0.0), (1 - drop_rate) ** exponent, least


def _pruning(dim: float, noise_ratio: float, keep_share: float) -> tuple[float, ...]:
    found = pruning.compare_methods(int(dim), round(keep_share * dim), sigma_g=1.0, noise_std=noise_ratio)
    errors = (found.dp_sgd_mse, found.zero_update_mse, found.random_k_mse, found.top_k_mse)
    return tuple(one / dim for one in errors)


_SHARES = tuple(round(0.05 * i, 2) for i in range(1, 20))
PLOTS = {
    "noise": Plot(
        sliders=(
            ("sampling rate", (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)),
            ("steps", (300, 1000, 3000, 10_000, 30_000)),
        ),
        x=("epsilon", (0.5, 1, 2, 3, 4, 6, 8, 10)),
        y="least noise multiplier",
        log="xy",
        curves=("noise multiplier",),
        value=_noise,
    ),
    "mask": Plot(
        sliders=(
            ("noise over curvature, d sigma² / B²", (0.1, 0.3, 1, 3, 10, 30, 100)),
            ("exponent a of kappa = (1 - r)^a", (0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1)),
        ),
        x=("share dropped, r", (0.0, *_SHARES)),
        y="times the value without a mask",
        log="",
        curves=("bound at the tuned learning rate", "kappa", "least kappa that pays"),
        value=_tuned,
    ),
    "pruning": Plot(
        sliders=(
            ("entries, d", (100, 10_000, 1_000_000)),
            ("noise over gradient, per entry", (0.1, 0.3, 0.5, 1, 2, 3)),
        ),
        x=("share kept, k", _SHARES),
        y="mean square error per entry, over that of the gradient",
        log="y",
        curves=("DP-SGD, all entries", "no update", "random-k", "top-k, indices for free"),
        value=_pruning,
    ),
}


def written(file: Path = FILE) -> dict[str, Any]:
    """What the file holds.

    Args:
        file: the script.

    Returns:
        The plots by name, as :meth:`Plot.as_json` made them.
    """
    text = file.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def main(names: Sequence[str] = tuple(PLOTS)) -> None:
    """Write the script.

    Args:
        names: of the plots.
    """
    lines = ",\n".join(f'"{name}": {json.dumps(PLOTS[name].as_json(), separators=(",", ":"))}' for name in names)
    write_atomically(FILE, f"// Generated by website.curves; do not edit.\nconst CURVES = {{\n{lines}\n}};\n")


if __name__ == "__main__":
    main()
