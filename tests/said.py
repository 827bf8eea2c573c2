"""What a page says in numbers: its words are free."""

import re

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
