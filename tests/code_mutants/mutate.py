"""Every small mistake that could be made in a source file: one changed operator, constant, branch, argument or slice."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor", "minimum": "maximum",
          "maximum": "minimum", "log": "log1p", "exp": "expm1", "log1p": "log", "expm1": "exp"}  # fmt: skip


@dataclass(frozen=True, order=True)
class Mutant:
    """One changed place.

    Attributes:
        path: of the source file, relative to the repository.
        line, column: of the changed node.
        number: of the mutant among those of its file, in the order of the source.
        was, now: source of the node before and after.
        text: of the line where the node begins.
    """

    path: str
    line: int
    column: int
    number: int
    was: str
    now: str
    text: str

    @property
    def id(self) -> str:
        """Names the mutant, as in the list of equivalent ones: stays the same while the line's text does."""
        return f"{self.path}: {self.was} -> {self.now}"

    @property
    def exact(self) -> str:
        """Names the mutant of this line alone, where the same change is made in others too."""
        return f"{self.id} in {self.text}"


def mutants_of(root: Path, path: str) -> list[Mutant]:
    """All mutants of one file."""
    source = (root / path).read_text()
    tree, lines = ast.parse(source), source.split("\n")
    found = []
    for number, (node, replacement) in enumerate(_changes(tree)):
        was, now = ast.unparse(node), ast.unparse(replacement)
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        found.append(Mutant(path, line, column, number, was, now, lines[line - 1].strip()))
    return found


def mutated_source(root: Path, mutant: Mutant) -> str:
    """The whole file with one change."""
    tree = ast.parse((root / mutant.path).read_text())
    for number, (node, replacement) in enumerate(_changes(tree)):
        if number == mutant.number:
            changed = _Replace(node, replacement).visit(tree)
            return ast.unparse(ast.fix_missing_locations(changed)) + "\n"
    raise ValueError(f"mutant must be one of {mutant.path}, got {mutant!r}")


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, replacement: ast.AST) -> None:
        self._node, self._replacement = node, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self._replacement if node is self._node else super().visit(node)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Pairs of a node and what takes its place, in the order of the source; what only a reader sees is left alone."""
    for node in _executed(tree):
        for changed in _variants(node):
            yield node, ast.copy_location(changed, node)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that compute something: no docstrings, annotations, messages of errors, imports or names of exports."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return
    if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
        return
    if isinstance(node, ast.If) and all(isinstance(one, ast.Raise) for one in node.body) and not node.orelse:
        yield from _executed(node.test)  # the guard counts, its message does not
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _executed(child)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield _with(node, ops=[_COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC and not _is_text(node):
            yield _with(node, op=_ARITHMETIC[type(op)]())
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            yield _with(node, op=_ARITHMETIC[type(op)]())
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)) if value == value and value not in (float("inf"),):
            yield ast.Constant(value * 1.1 if value else 1.0)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield _with(node, test=test, body=orelse, orelse=body)
        case ast.If(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=None)) if (lower is None) != (upper is None):
            yield _with(node, slice=ast.Slice(lower=upper, upper=lower, step=None))
        case ast.Call(func=func, args=[first, second, *rest]) if ast.dump(first) != ast.dump(second):
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred) and not _is_check(func):
                yield _with(node, args=[second, first, *rest])
        case ast.Name(id=name, ctx=ast.Load()) if name in _NAMES:
            yield ast.Name(_NAMES[name], ast.Load())
        case ast.Attribute(attr=name, ctx=ast.Load()) if name in _NAMES:
            yield _with(node, attr=_NAMES[name])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in (node.left, node.right))  # fmt: skip


def _is_check(func: ast.expr) -> bool:
    """``_validate.real(name, value, ...)``: to exchange name and value breaks every call."""
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "_validate"
