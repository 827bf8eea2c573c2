"""Tables of the pages that are written."""

from collections.abc import Iterator


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
