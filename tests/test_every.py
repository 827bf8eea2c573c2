"""A test of many things fails where one of them does, and names it."""

import pytest

from tests.every import every


@every((1, 3, 5))
def test_all_are_odd(number: int) -> None:
    assert number % 2 == 1


def test_those_that_fail_are_named() -> None:
    @every((1, 2, 3, 4))
    def odd(number: int) -> None:
        assert number % 2 == 1, f"{number} is even"

    with pytest.raises(pytest.fail.Exception) as caught:
        odd()
    lines = str(caught.value).splitlines()
    assert [line for line in lines if "is even" in line] == ["2: 2 is even", "4: 4 is even"]
    assert lines[0] == "fails for 2 of 4"


def test_without_things_nothing_is_shown() -> None:
    @every(())
    def anything(thing: object) -> None:
        pass

    with pytest.raises(pytest.fail.Exception, match="0 of 0"):
        anything()


def test_an_error_is_not_a_failure() -> None:
    @every((0,))
    def divides(number: int) -> None:
        assert 1 / number

    with pytest.raises(ZeroDivisionError):
        divides()
