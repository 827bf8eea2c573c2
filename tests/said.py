"""What a page says in numbers, its words being free; the part of a page that a module writes, between two markers."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?!\w)")


def numbers(text: str) -> list[str]:
    """The numbers of a text, in order; not those in names such as CIFAR-10.

    >>> numbers("CIFAR-10 loses 1.27 (-0.5 to 1,000) at .5, by 1e-5.")
    ['1.27', '-0.5', '1,000', '.5', '1e-5']
    """
    return [one.rstrip(",") for one in _NUMBER.findall(text)]


def says(text: str, *wanted: object) -> bool:
    """Whether these numbers, or those of these texts, stand in ``text`` one after the other, with no other between them."""
    found, run = numbers(text), [one for part in wanted for one in numbers(str(part))]
    assert run, f"no number in {wanted}"
    assert any(found[at : at + len(run)] == run for at in range(len(found))), f"{run} not in {found}"
    return True


END = "<!-- end -->"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """A Markdown table, line by line."""
    heads = list(heads)
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def marked(module: str, lines: Iterable[str], *, part: str = "") -> str:
    """What ``python -m module`` writes, or a part of it, with its markers."""
    return "\n".join((f"<!-- begin: written by python -m {module}{part and f', {part}'} -->", "", *lines, "", END))


def page(path: Path, *new: str) -> str:
    """The page with each of ``new`` in the place of what its module wrote before under the same marker."""
    text = path.read_text(encoding="utf-8")
    for one in new:
        before, rest = text.split(one.split("\n", 1)[0])
        text = before + one + rest.partition(END)[2]
    return text
