"""What theory alone proposes."""

from tests.calls import Calls, slow

CALLS: Calls = {
    "dptheory.planning.candidates": [
        slow(num_examples=2000, epsilon=3.0, delta=1e-5, max_epochs=2.0, batch_size=2000, epochs=2.0),
    ],
}
