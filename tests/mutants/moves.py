"""How a calculator is made wrong: a field of its result is moved, or its code is swapped, so that every reference meets it."""

import copy
import dataclasses
import functools
import math
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptheory import embedding, freezing, gradients, privacy, pruning, sparsification
from tests.mutants.surface import Leaf, Target

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]


@functools.cache
def original(target: Target) -> Callable[..., Any]:
    """The calculator as it is, whatever its code is swapped for."""
    f = target.function
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copy.__kwdefaults__ = f.__kwdefaults__
    copy.__annotations__ = f.__annotations__
    return copy


@contextmanager
def swapped(handlers: Mapping[Target, Handler]) -> Iterator[None]:
    """Every call of a target goes to its handler while the context is open."""
    kept = []
    for number, (target, handler) in enumerate(handlers.items()):
        f, hook = target.function, f"__handler_{number}__"
        if f.__closure__:
            raise TypeError(f"{target.name} is a closure, whose code cannot be swapped")
        original(target)
        kept.append((f, f.__code__, f.__defaults__, f.__kwdefaults__, hook))
        scope: dict[str, Any] = {}
        exec(f"def hooked(*args, **kwargs): return {hook}(args, kwargs)", scope)
        f.__globals__[hook] = handler
        f.__code__, f.__defaults__, f.__kwdefaults__ = scope["hooked"].__code__, None, None
    try:
        yield
    finally:
        for f, code, defaults, keyword_defaults, hook in reversed(kept):
            f.__code__, f.__defaults__, f.__kwdefaults__ = code, defaults, keyword_defaults
            del f.__globals__[hook]


SHARE = 0.01
"""Relative size of a wrong number."""


@dataclass(frozen=True)
class Move:
    """What becomes of one value; ``name`` says so in a list of survivors."""

    name: str
    change: Callable[[Any], Any]


def _times(factor: float) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        return None if value is None else value * factor  # 0 and infinities stay what they are

    return change


def _plus(step: int) -> Callable[[Any], Any]:
    return lambda value: None if value is None else value + step


def _flip_one(mask: Any) -> Any:
    """One entry of a mask taken out or put in."""
    other = np.array(mask)
    other.flat[0] = not other.flat[0]
    return other


def _longer(factor: float) -> tuple[Move, ...]:
    return Move(f"x {1 + factor:g}", _times(1 + factor)), Move(f"x {1 - factor:g}", _times(1 - factor))


MOVES: dict[str, tuple[Move, ...]] = {
    "float": _longer(SHARE),
    "array": _longer(SHARE),
    "int": (Move("+ 1", _plus(1)), Move("- 1", _plus(-1))),
    "bool": (Move("flipped", lambda b: not b),),
    "mask": (Move("one entry flipped", _flip_one),),
    "str": (Move("another word", lambda word: word and word + "?"),),
}

ERROR_BAR = (Move("x 0.5", _times(0.5)), Move("x 2", _times(2.0)))
"""An error bar lies when it is half or twice as long: a 5-sigma interval then misses at 2.5 sigma, or never."""

ZERO = {
    "float": Move("0 -> 0.01, inf -> 1000", lambda x: 0.01 if x == 0 or x is None else 1e3 if math.isinf(x) else x),
    "array": Move("0 -> 0.01", lambda x: x if np.any(x) else x + 0.01),
    "str": Move("None -> a word", lambda word: "?" if word is None else word),
}
"""What is done to a field that is zero, infinite or None wherever it is checked, so that no share of it can be wrong."""
TO_THE_WRONG_SIDE = {("gradients.QuadraticForm.chernoff", ()): "x 0.99"}
"""Bounds that promise no width: calculator and path to the move that breaks them."""


def moves(calculator: str, leaf: Leaf) -> tuple[Move, ...]:
    """The ways in which this field may be wrong."""
    if (calculator, leaf.path) in TO_THE_WRONG_SIDE:
        return tuple(m for m in MOVES[leaf.kind] if m.name == TO_THE_WRONG_SIDE[calculator, leaf.path])
    return ERROR_BAR if leaf.path and leaf.path[-1] == "standard_error" else MOVES[leaf.kind]


def moved(result: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """A copy of ``result`` with the value at ``path`` changed; where there is no such value, the result itself."""
    if not path:
        return change(result)
    step, rest = path[0], path[1:]
    if result is None or (isinstance(step, str) and not hasattr(result, step)):  # of several kinds this is another one
        return result
    if step is ...:
        return tuple(moved(part, rest, change) for part in result)
    if isinstance(step, int):
        return tuple(moved(part, rest, change) if i == step else part for i, part in enumerate(result))
    other = copy.copy(result)  # not dataclasses.replace, which would validate
    object.__setattr__(other, step, moved(getattr(result, step), rest, change))
    return other


def same(first: Any, second: Any) -> bool:
    """Whether the move left the value as it was (an infinity, a zero, a None)."""
    if dataclasses.is_dataclass(first):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(first))
    if isinstance(first, tuple):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(first == second or (isinstance(first, float) and math.isnan(first) and math.isnan(second)))


# --- Wrong calculators that no moved field describes: another law, a term left out, a missing case.


Calculator = Callable[..., Any]
Mutation = Callable[[Calculator], Calculator]


def _sharper(factor: float) -> Mutation:
    """The law of a larger dispersion."""

    def mutate(function: Calculator) -> Calculator:
        return lambda model, *a: function(dataclasses.replace(model, theta=factor * model.theta), *a)

    return mutate


def _one_more_kept(function: Calculator) -> Calculator:
    return lambda gradient, keep: function(gradient, min(keep + 1, np.shape(gradient)[-1]))


def _mirrored(function: Calculator) -> Calculator:
    """The law of the loss under the other reference."""

    def mutant(*a: Any, **k: Any) -> privacy.index_sets.LatticeLoss:
        found = function(*a, **k)
        return dataclasses.replace(found, low=1 - found.low - found.log_pmf.size, log_pmf=np.flip(found.log_pmf))

    return mutant


def _never_infinite(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> float:
        found = function(*a, **k)
        return 1e3 if math.isinf(found) else float(found)

    return mutant


def _one_size_more(function: Calculator) -> Calculator:
    return lambda epsilon, size, other, kept: function(epsilon, size, other + 1, kept)


def _one_example_more(function: Calculator) -> Calculator:
    return lambda epsilon, examples, rate, shift: function(epsilon, examples + 1, rate, shift)


def _tilted(function: Calculator) -> Calculator:
    """A basis whose rows are still orthonormal but turned a little."""

    def mutant(*a: Any, **k: Any) -> Any:
        basis = function(*a, **k)
        noise = np.random.default_rng(0).standard_normal(basis.shape)
        return np.linalg.qr((basis + 1e-3 * noise).T)[0].T

    return mutant


def _leaking(function: Calculator) -> Calculator:
    """Residuals that keep some of the embedding."""

    def mutant(gradients: Any, basis: Any) -> embedding.Projection:
        found = function(gradients, basis)
        return dataclasses.replace(found, residuals=found.residuals + 1e-3 * found.embeddings @ np.asarray(basis))

    return mutant


def _without_minimum(function: Calculator) -> Calculator:
    """The terms of k itself, not of the best j <= k."""

    def mutant(eigenvalues: Any, subspace_dim: int, *a: Any, **k: Any) -> embedding.ResidualBound:
        found = function(eigenvalues, subspace_dim, *a, **k)
        return dataclasses.replace(found, tail=float(np.sort(eigenvalues)[::-1][subspace_dim:].sum()))

    return mutant


def _proportional(function: Calculator) -> Calculator:
    """Shares in proportion to the sizes."""
    return lambda sizes, k: [k * size / sum(sizes) for size in sizes]


def _one_more_step(function: Calculator) -> Calculator:
    """The risk one step beyond the best number of steps."""
    return lambda *a, **k: function(*a, **{**k, "steps": function(*a, **k).steps + 1})


def _unfolded(function: Calculator) -> Calculator:
    """The printed sum as the upper end."""
    return lambda bias_angle, noise_angle: (function(bias_angle, noise_angle)[0], bias_angle + noise_angle)


def _noise_of_all_layers(function: Calculator) -> Calculator:
    """The comparison forgets that frozen layers get no noise."""
    return lambda sizes, frozen, *a, **k: function(sizes, 0, *a, **k)


def _clips_trainable_only(function: Calculator) -> Calculator:
    """Ignores the frozen norms, as if freezing changed nothing."""
    return lambda trainable, frozen_norms, clip: function(trainable, 0.0, clip)


SPECIAL: tuple[tuple[Calculator, Mutation], ...] = (
    (pruning.SubsetMallows.swap_pmf, _sharper(1.01)),
    (pruning.SubsetMallows.sample, _sharper(1.1)),
    (pruning.top_k_mask, _one_more_kept),
    (privacy.index_sets.loss_law, _sharper(1.01)),
    (privacy.index_sets.loss_law, _mirrored),
    (sparsification.divisor_renyi, _never_infinite),
    (sparsification.divisor_delta, _one_size_more),
    (sparsification.published_size_delta, _one_example_more),
    (embedding.anchor_subspace, _tilted),
    (embedding.project, _leaking),
    (embedding.residual_bound, _without_minimum),
    (embedding.square_root_allocation, _proportional),
    (embedding.excess_risk, _one_more_step),
    (embedding.excess_risk_as_published, _one_more_step),
    (gradients.angle_range, _unfolded),
    (freezing.freezing_bounds, _noise_of_all_layers),
    (freezing.biased_signal, _clips_trainable_only),
)
"""Calculator and what is done to it."""
