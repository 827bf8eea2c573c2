"""One torch thread: the batches here are small, and waiting threads cost more than they bring on busy machines."""

import torch

torch.set_num_threads(1)
