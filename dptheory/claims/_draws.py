"""Random masks drawn without the calculators, for the checks of both papers on masks."""

import numpy as np
from numpy.typing import NDArray


def drawn_masks(rng: np.random.Generator, n: int, dim: int, keep: int) -> NDArray[np.float64]:
    """Uniform masks with ``keep`` ones, by shuffling each row."""
    rows: NDArray[np.float64] = np.tile(np.where(np.arange(dim) < keep, 1.0, 0.0), (n, 1))
    return rng.permuted(rows, axis=1)
