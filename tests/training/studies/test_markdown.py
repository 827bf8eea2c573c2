"""Tables of the pages: a bar within a cell does not end it."""

from dptheory.training.studies._markdown import table


def test_a_table() -> None:
    assert list(table(("a", "b"), iter([("1", "x | y"), ("2", "")]))) == [
        "| a | b |", "|---|---|", r"| 1 | x \| y |", "| 2 |  |",
    ]  # fmt: skip
