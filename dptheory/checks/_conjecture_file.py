"""The conjectures that a file of the user's defines."""

import os
import sys
import types
from collections.abc import Iterable
from pathlib import Path

from dptheory.checks._conjecture import Conjecture, ConjectureError, described, line_of
from dptheory.checks._refute import Refutation, refute
from dptheory.errors import ArgumentError

_MODULE = "dptheory_conjectures"


def read_conjectures(path: str | os.PathLike[str]) -> dict[str, Conjecture]:
    """Run a Python file and give the :class:`Conjecture` objects that it defines, by their names, in their order.

    The file is run as any Python program is. Names with a leading underscore are left out.

    Args:
        path: the file.

    Returns:
        One or more conjectures by name.

    Raises:
        ValueError: no path; as :class:`ConjectureError`, with the file and the line, a file that does not run or defines none.
        OSError: the file cannot be read.

    Example: a file with one line that matters.
        >>> import pathlib, tempfile
        >>> from dptheory.checks import read_conjectures
        >>> text = '''
        ... from dptheory.checks import Conjecture
        ... doubled = Conjecture(claimed=lambda n: 2 * n, truth=lambda n: n + n, ranges={"n": range(10)})
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.py")
        ...     _ = file.write_text(text)
        ...     list(read_conjectures(file))
        ['doubled']
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ArgumentError("path", "be that of a Python file", path)
    name = str(path)
    try:
        code = compile(Path(path).read_bytes(), name, "exec")
    except SyntaxError as error:  # also of bytes that are no UTF-8
        line = f", line {error.lineno}" if error.lineno else ""
        raise ConjectureError(f"{name}{line}: {error.msg}") from error
    except ValueError as error:
        raise ConjectureError(f"{name}: {error}") from error
    found = {key: value for key, value in _run(code, name).items() if isinstance(value, Conjecture)}
    found = {key: value for key, value in found.items() if not key.startswith("_")}
    if not found:
        raise ConjectureError(
            f"{name} must define a Conjecture, as in claim = Conjecture(claimed=..., truth=..., ranges=...)"
        )
    return found


def refute_file(
    path: str | os.PathLike[str], *, names: Iterable[str] = (), budget: float = 30.0, seed: int = 0
) -> dict[str, Refutation]:
    """Try to refute the conjectures of a file: :func:`read_conjectures`, then :func:`refute` for each.

    Args:
        path: the file, which is run.
        names: which of its conjectures; all where none is given.
        budget: seconds for one conjecture, > 0; inf sets no limit.
        seed: of search and draws, 0..10^18.

    Returns:
        The outcomes by the names of the conjectures.

    Raises:
        ValueError: a name that the file does not define, or an argument outside its range; as :class:`ConjectureError`, with the
            file and the line, what goes wrong in the file.
        OSError: the file cannot be read.

    Example: a file with one line that matters.
        >>> import pathlib, tempfile
        >>> from dptheory.checks import refute_file
        >>> text = '''
        ... from dptheory.checks import Conjecture
        ... doubled = Conjecture(claimed=lambda n: 2 * n, truth=lambda n: n * n, ranges={"n": range(10)})
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "mine.py")
        ...     _ = file.write_text(text)
        ...     refute_file(file)["doubled"].call
        'claimed(n=1)'
    """
    wanted = () if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in wanted):
        raise ArgumentError("names", "be a row of names", names)
    found = read_conjectures(path)
    for name in wanted:
        if name not in found:
            raise ArgumentError("names", f"be among {', '.join(found)}", name)
    return {name: refute(found[name], budget=budget, seed=seed) for name in wanted or found}


def _run(code: types.CodeType, name: str) -> dict[str, object]:
    """The names that the file leaves behind. Its module stays known, as dataclasses of the file look themselves up there."""
    module = types.ModuleType(_MODULE)
    module.__file__ = name
    sys.modules[_MODULE] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise ConjectureError(f"{line_of(error, name) or f'{name}: '}{described(error)}") from error
    return dict(vars(module))
