"""A number is a number: NumPy's narrow ones, arrays without dimensions and numbers of other libraries change no result."""

from tests.calls.number_kinds import narrow_numbers_change_nothing, nothing_is_calculated_with_as_given
from tests.every import every
from tests.test_bad_input import CALLABLES, CALLS


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_numbers_of_any_kind_give_what_plain_ones_give(name: str) -> None:
    for one in CALLS[name]:
        narrow_numbers_change_nothing(CALLABLES[name], one)


@every(sorted(CALLABLES.keys() & CALLS.keys()))
def test_nothing_is_calculated_with_a_number_as_given(name: str) -> None:
    for one in CALLS[name]:
        nothing_is_calculated_with_as_given(CALLABLES[name], one)
