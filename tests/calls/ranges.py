"""The range that a docstring gives an argument, and the values just outside of it: what is said is what is refused."""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dptheory.errors import ArgumentError
from tests.calls import Call
from tests.calls.judgement import outcome

_NUMBER = r"(?:2\^\d+ - 1|10\^\d+|\d{1,3}(?:,\d{3})+|[\d.]+(?:e-?\d+)?|inf)"
_INTERVAL = re.compile(rf"(?:^|\bin )([\[(])(-?{_NUMBER}), (-?{_NUMBER})([\])])")
_WHOLE = re.compile(rf"(?:^|\s|\b)(\d+)(?:\.\.| to )({_NUMBER})(?=[,;. ]|$)")
_LEAST = re.compile(rf"(?:^|\s)(>=?|at least(?= {_NUMBER}[,;.])) (-?{_NUMBER})(?=[,;. ]|$)")


def _value(text: str) -> float:
    power = re.fullmatch(r"(2|10)\^(\d+)(?: - (1))?", text)
    return int(power[1]) ** int(power[2]) - int(power[3] or 0) if power else float(text.replace(",", ""))


def said(function: Callable[..., Any]) -> dict[str, str]:
    """What the section Args of a docstring says of each argument; of a class, its Attributes too."""
    found: dict[str, str] = {}
    for section in re.findall(
        r"(?:Args|Attributes):\n((?: {4,}.*\n|\n)+)", inspect.cleandoc(function.__doc__ or "") + "\n"
    ):
        for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", section, re.M):
            told = " ".join(text.split())
            if not (" <= " in told or " < " in told or "but " in told):  # a range that other arguments have a part in
                found |= {name: told for name in names.split(", ")}
    return found


def followed(function: Callable[..., Any], others: Mapping[str, Callable[..., Any]]) -> dict[str, str]:
    """The same, and where a docstring sends its reader to another function, what that one says."""
    found = said(function)
    for argument, text in found.items():
        if named := re.search(r"as (?:for )?:func:`~?(?:[\w.]*\.)?(\w+)`", text):
            there = [one for name, one in others.items() if name.endswith(f".{named[1]}")]
            found[argument] = said(there[0]).get(argument, text) if there else text
    return found


def outside(text: str, valid: Any) -> Iterator[float]:
    """The values next to the range that a text gives a number."""
    if isinstance(valid, bool) or not isinstance(valid, int | float):
        return
    zero = "0 or " in text or "or 0" in text
    if interval := _INTERVAL.search(text):
        left, low, high, right = interval[1], _value(interval[2]), _value(interval[3]), interval[4]
        if low > -math.inf and not (zero and low > 0 and math.nextafter(low, -math.inf) <= 0):
            yield math.nextafter(low, -math.inf) if left == "[" else low
        if high < math.inf or right == ")":
            yield math.nextafter(high, math.inf) if right == "]" else high
    elif whole := _WHOLE.search(text):
        low, high = int(whole[1]), _value(whole[2])
        yield low - 1
        if high < math.inf:
            yield int(high) + 1
    elif least := _LEAST.search(text):
        low = _value(least[2])
        yield low if least[1] == ">" else (int(low) - 1 if isinstance(valid, int) else math.nextafter(low, -math.inf))


def ends(text: str, valid: Any) -> Iterator[float]:
    """The least and the largest value of the range that a text gives a number, where they belong to it."""
    if isinstance(valid, bool) or not isinstance(valid, int | float):
        return
    if interval := _INTERVAL.search(text):
        least, most = interval[1] == "[" and _value(interval[2]), interval[4] == "]" and _value(interval[3])
    elif whole := _WHOLE.search(text):
        least, most = float(whole[1]), _value(whole[2])
    elif (found := _LEAST.search(text)) and found[1] == ">=":
        least, most = _value(found[2]), False
    else:
        return
    for value in (least, most):
        if value is not False and math.isfinite(value):
            yield int(value) if isinstance(valid, int) else value


def refused_ends(function: Callable[..., Any], one: Call, others: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """Numbers at the ends of a documented range that are refused for themselves."""
    told = followed(function, others) if one.cost != "slow" else {}
    for argument, valid in one.made().items():
        for value in ends(told.get(argument, ""), valid):
            error = outcome(
                function, one.made() | {argument: value}
            ).error  # not put to use: the largest may take hours
            if isinstance(error, ArgumentError) and error.argument == argument:
                yield f"{argument}={value!r}, documented {told[argument]!r}: {error!r}"


def beyond(function: Callable[..., Any], one: Call, others: Mapping[str, Callable[..., Any]]) -> Iterator[str]:
    """Numbers next to a documented range that are accepted, or refused without the argument or the value."""
    told = followed(function, others) if one.cost != "slow" else {}
    for argument, valid in one.made().items():
        for value in outside(told.get(argument, ""), valid):
            error = outcome(function, one.made() | {argument: value}, one.use).error
            named = error.argument.split(" ")[0].split(".")[-1] if isinstance(error, ArgumentError) else ""
            if named != argument or (isinstance(error, ArgumentError) and error.value != value):
                yield f"{argument}={value!r}, documented {told[argument]!r}: {error!r}"
