"""The gradients of the examples of a batch, formed or not: what a mechanism is handed, with the few operations that it needs.

The gradient of one example is a tensor as large as the model; a mechanism asks for norms, weighted sums and projections of them.
Those follow from what a layer took in and the gradient of what it gave out, which are far smaller. ``HookedModule``
puts hooks on the layers, and ``PerExampleGradients`` is what a step collects from them.
"""

from dptheory.training.per_example._batch import PerExampleGradients, as_gradients, masked
from dptheory.training.per_example._convolution import Convolution
from dptheory.training.per_example._dense import Dense
from dptheory.training.per_example._factors import Mixed, Table
from dptheory.training.per_example._formed import Formed, square_sums
from dptheory.training.per_example._layer_gradients import attributes_of
from dptheory.training.per_example._layer_hooks import FACTORS, MODES, WHOLE, ForwardPass, HookedModule, LayerHook
from dptheory.training.per_example._representation import Representation, Tensors, as_rows
from dptheory.training.per_example._trial import OF_HALF_ROWS, off_the_sum, size_of

__all__ = [
    "FACTORS",
    "MODES",
    "OF_HALF_ROWS",
    "WHOLE",
    "Convolution",
    "Dense",
    "Formed",
    "ForwardPass",
    "HookedModule",
    "LayerHook",
    "Mixed",
    "PerExampleGradients",
    "Representation",
    "Table",
    "Tensors",
    "as_gradients",
    "as_rows",
    "attributes_of",
    "masked",
    "off_the_sum",
    "size_of",
    "square_sums",
]
