"""Other ways to draw batches, other units of privacy, and the choice of the best of several runs."""

from dptheory.privacy.samplers._other_units import truncated_epsilon_upper_bound, user_epsilon_upper_bound
from dptheory.privacy.samplers._selection import selection_epsilon_upper_bound
from dptheory.privacy.samplers._shuffled import shuffled_epsilon_lower_bound, shuffled_epsilon_upper_bound

__all__ = [
    "selection_epsilon_upper_bound",
    "shuffled_epsilon_lower_bound",
    "shuffled_epsilon_upper_bound",
    "truncated_epsilon_upper_bound",
    "user_epsilon_upper_bound",
]
