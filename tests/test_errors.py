"""Errors carry what a program asks of them, also from another process; ``tests/test_bad_input.py`` holds who raises them."""

import pickle

import pytest

from dptheory.errors import ArgumentError, ArgumentTypeError, ConditionError

ERRORS = [
    ArgumentError("keep", "be in 1..10", 11),
    ArgumentError("first and second", "have one shape", (2, 3), got="shapes (2,) and (3,)", then="; cut one"),
    ArgumentTypeError("inner", "be a mechanism", "dp-sgd"),
    ConditionError("gep.thm3.3", "epsilon", "be below 2", 3.0),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_argument_value_and_message_cross_processes(error: ArgumentError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)
    assert error.argument in str(error) and isinstance(error, ValueError)


def test_the_message_names_argument_and_value() -> None:
    plain, told, _, condition = ERRORS
    assert (
        str(plain).startswith("keep ") and str(plain).endswith(" 11") and (plain.argument, plain.value) == ("keep", 11)
    )
    assert str(told).endswith("shapes (2,) and (3,); cut one") and told.value == (2, 3)
    assert isinstance(ERRORS[2], TypeError)
    assert isinstance(condition, ConditionError) and condition.claim == "gep.thm3.3" and "gep.thm3.3" in str(condition)


def test_the_same_error_of_another_name_or_in_other_words() -> None:
    error = ERRORS[0].renamed("--keep")
    assert (error.argument, error.value) == ("--keep", 11) and str(error) == f"--{ERRORS[0]}"
    other = ERRORS[0].retold("too many")
    assert (other.argument, other.value, str(other)) == ("keep", 11, "too many")
