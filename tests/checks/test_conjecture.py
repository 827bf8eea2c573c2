"""What a conjecture may be."""

import functools
import math
from typing import Any

from dptheory.checks import Conjecture, Range
from tests.refused import refused

VALID: dict[str, Any] = {"claimed": lambda n: n, "truth": lambda n: n, "ranges": {"n": Range(1, 5, integer=True)}}


def test_bad_arguments_are_named() -> None:
    bad: list[tuple[str, Any]] = [
        *(("claimed", value) for value in (3, None, "f")),
        *(("truth", value) for value in (3, "f", None)),
        *(("where", value) for value in (3, "f")),
        *(("relation", value) for value in ("=", "<", None, 3)),
        *(("tolerance", value) for value in (-1e-9, 1.0, math.nan, "0")),
        *(("absolute_tolerance", value) for value in (-1.0, math.inf, math.nan)),
        *(("resolution", value) for value in (0.0, 1.0, math.nan)),
        *(("row_bytes", value) for value in (0, 2**31, 1.5, True)),
        *(("ranges", value) for value in ({}, None, [1], {"n": []}, {"n": "ab"}, {"n": 3}, {"2": [1]}, {3: [1]})),
        *(("ranges", {"n": Range(*ends)}) for ends in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1))),
        ("ranges", {"n": Range(0, 1, log=True)}),
        ("ranges", {"n": Range(0.5, 3, integer=True)}),
    ]
    wrong = []
    for name, value in bad:
        try:
            Conjecture(**VALID | {name: value})
        except ValueError as error:
            if str(error).startswith(f"{name} must ") and ", got " in str(error):
                continue
            wrong.append((name, value, str(error)))
        else:
            wrong.append((name, value, "accepted"))
    assert wrong == []


def test_one_truth_alone() -> None:
    for more in ("sampler", "outcomes"):
        with refused("truth", more):
            Conjecture(**VALID | {more: lambda rng, count, n: n})
    with refused("relation", "'=='"):
        Conjecture(**VALID | {"truth": None, "outcomes": lambda rng, count, n: n, "relation": "<="})


def test_calls_are_python() -> None:
    def formula(n: int, word: str = "", scale: float = 1.0) -> float:
        return n * scale

    for claimed in (formula, functools.partial(formula, scale=2.0), functools.lru_cache(formula)):
        claim = Conjecture(**VALID | {"claimed": claimed})
        assert claim.call({"n": 2, "word": "a b"}) == "formula(n=2, word='a b')"
    with refused("parameters", "3"):
        claim.call(3)  # type: ignore[arg-type]
