"""The parts of a docstring; the examples of a package: found in its sources, run one docstring at a time."""

import ast
import doctest
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PARSER = doctest.DocTestParser()
_HEADS = ("Attributes", "Args", "Returns", "Raises", "Source", "Example")


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their heads, the text before the first head under ""."""
    parts, head = {"": ""}, ""
    for line in text.splitlines():
        found = re.match(rf"({'|'.join(_HEADS)}): ?(.*)", line)
        if found:
            head = found[1]
            assert head not in parts, f"{head} twice"
        parts[head] = parts.get(head, "") + (found[2] if found else line) + "\n"
    return parts


def named(text: str) -> set[str]:
    """Arguments, attributes or errors that a part describes: the names before the colons."""
    lines = textwrap.dedent(text).splitlines()
    heads = [match[1] for line in lines if (match := re.match(r"(\w+(?:, \w+)*): \S", line))]
    return {name for head in heads for name in head.split(", ")}


def only_a_range(raises: str) -> bool:
    """Whether a part Raises has a line that says no more than that a value must be in its range."""
    return re.search(r"^\s*ValueError: (an? )?[\w`]+ outside its range\.$", raises, re.MULTILINE) is not None


def sources_with_examples(package: Path) -> Iterator[tuple[str, str, str]]:
    """Module, name (of the module itself "") and docstring of all that shows an example."""
    for path in sorted(package.rglob("*.py")):
        module = ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if ">>>" in source else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if ">>>" in text and _PARSER.get_examples(text):
                    yield module, getattr(node, "name", ""), text


def parsed(text: str, name: str, around: dict[str, Any]) -> doctest.DocTest:
    """The example of a docstring, with these names around it."""
    return _PARSER.get_doctest(text, dict(around), name, name, 0)


def complaints(example: doctest.DocTest) -> str:
    """What an example does not give as it says; "" where all is well."""
    said: list[str] = []
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )  # the words of errors are free
    result = runner.run(example, out=said.append)
    return "".join(said) if result.failed else "" if result.attempted else "no example"
