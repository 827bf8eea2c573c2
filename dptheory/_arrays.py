"""The one kind of array that calculators take and give."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
