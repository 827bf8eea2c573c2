"""Choices that rounding cannot tell from the best one."""

import numpy as np
from numpy.typing import NDArray


def run_around(alike: NDArray[np.bool_], best: int) -> tuple[int, int]:
    """The first and the last place of the run of True around ``best``, whose own entry counts as True."""
    apart = np.flatnonzero(~alike)
    before, after = apart[apart < best], apart[apart > best]
    return int(before[-1]) + 1 if before.size else 0, int(after[0]) - 1 if after.size else len(alike) - 1
