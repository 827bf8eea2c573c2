"""The modules of ``training`` without PyTorch, as docstrings and signatures need none of its gigabyte.

Sphinx's own ``autodoc_mock_imports`` gives objects that know no ``torch.Tensor | None``; these are classes. They stand in for the
extra ``train`` even where it is installed, so that the site is the same everywhere.
"""

import sys
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
PACKAGES = {one.partition(">")[0].replace("-", "_") for one in _EXTRAS["train"] + _EXTRAS["accountants"]} - {"jinja2"}
"""The modules that the extra brings, but for Jinja's, which Sphinx itself needs."""


class _Anything(type):
    """A class with every attribute, each a class like it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{cls.__module__}.{cls.__qualname__}", name)

    def __getitem__(cls, _kind: Any) -> Any:
        return cls


class _Object(metaclass=_Anything):
    """Made with any arguments; called with a function, as a decorator is, it gives the function."""

    def __init__(self, *_args: Any, **_named: Any) -> None: ...

    def __call__(self, *args: Any, **_named: Any) -> Any:
        return args[0] if args else self


@cache
def _stand_in(module: str, name: str) -> Any:
    return _Anything(name, (_Object,), {"__module__": module, "__qualname__": name})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(self.__name__, name)


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        known = name.partition(".")[0] in PACKAGES
        return ModuleSpec(name, _Loader(), is_package=True) if known else None


def setup(_app: Sphinx) -> ExtensionMetadata:
    sys.meta_path.insert(0, _Finder())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
