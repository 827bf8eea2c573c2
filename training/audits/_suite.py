"""The audits of whole trainings together: the quick form and the thorough one."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dptheory.errors import ArgumentError
from dptheory.training import mechanisms as m
from dptheory.training.audits import _attacks, _board, _draws, _findings, _measure, _runs
from dptheory.training.audits._board import Array, Board, Plan
from dptheory.training.audits._cases import CLIP, SIGMA, SIZES, Case, cases
from dptheory.training.audits._findings import Finding

_TOKENS, _WORDS = 3, 7
_TAKEN = ((6,), (3, 8), (2, 4, 4), (_TOKENS,))
_GIVEN = ((8,), (3, 6), (3, 3, 3), (_TOKENS, 4))
"""Shapes of what each layer takes in and gives out."""


class Layers(Board):
    """A dense layer, one on a sequence, a convolution and an embedding, each on inputs of its own.

    A row holds what the layers take in, one after the other, then the numbers that their outputs are multiplied by.
    """

    def __init__(self, sizes: tuple[int, ...] = ()) -> None:
        nn.Module.__init__(self)
        self.parts = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 6), nn.Conv2d(2, 3, 2), nn.Embedding(_WORDS, 4)])
        for weight in self.parameters():
            nn.init.zeros_(weight)
        self.sizes = [weight.numel() for weight in self.parameters()]

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        pieces = torch.split(rows, [int(np.prod(shape)) for shape in (*_TAKEN, *_GIVEN)], dim=1)
        shaped = [piece.reshape(len(rows), *shape) for piece, shape in zip(pieces, (*_TAKEN, *_GIVEN), strict=True)]
        taken = [*shaped[:3], shaped[3].long()]
        outputs = [layer(one) for layer, one in zip(self.parts, taken, strict=True)]
        products = [(out * by).flatten(1).sum(1) for out, by in zip(outputs, shaped[4:], strict=True)]
        return torch.stack(products).sum(0)


def on_layers(plan: Plan) -> Plan:
    """The same training, on layers: as many examples, whose gradients have the same norms."""
    rng = np.random.default_rng(plan.seed)
    numbers = [rng.normal(size=(len(plan.rows), *shape)) for shape in _TAKEN[:3]]
    numbers.append(rng.integers(0, _WORDS, size=(len(plan.rows), *_TAKEN[3])).astype(float))
    taken, given = (
        np.concatenate([one.reshape(len(one), -1) for one in parts], axis=1)
        for parts in (numbers, [rng.normal(size=(len(plan.rows), *shape)) for shape in _GIVEN])
    )
    norms = np.linalg.norm(plan.rows, axis=1) / np.linalg.norm(_gradients(np.hstack([taken, given])), axis=1)
    inputs = np.hstack([taken, given * norms[:, None]]).astype(np.float32).astype(float)  # as the model gets them
    return replace(plan, rows=_gradients(inputs), inputs=inputs, sizes=tuple(Layers().sizes), board=Layers)


def _gradients(inputs: Array) -> Array:
    """Of one example at a time."""
    model = Layers().double()
    found = []
    for row in torch.from_numpy(inputs):
        gradients = torch.autograd.grad(model(row[None]).sum(), list(model.parameters()))
        found.append(torch.cat([one.flatten() for one in gradients]).numpy())
    return np.stack(found)


# --- Findings as they stand on the terminal: a line each, and a last one that counts them


def report(seed: int, long: bool, say: Callable[[str], object], mechanism: str | None = None) -> bool:
    """Run the quick form or the thorough one, or the trainings of one mechanism, and say each finding.

    Args:
        seed: of all draws, >= 0.
        long: the thorough form, which takes minutes; otherwise the quick one, about a minute. Of one mechanism, ten seeds.
        say: called with every line of text.
        mechanism: its name in these lines, as "DP-SGD"; None for all audits.

    Returns:
        Whether every statement held.
    """
    torch.set_num_threads(1)
    held = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        if mechanism is not None:
            every = _of_one(mechanism, range(seed, seed + 10) if long else [seed])
        else:
            every = thorough(seed, Path(folder)) if long else quick(seed, _runs.by_process, Path(folder))
        for finding in every:
            say(line(finding))
            held, refused = held + finding.passed, refused + (not finding.passed)
    say(f"{held} statements held, {refused} refused")
    return refused == 0


def _of_one(name: str, seeds: Iterable[int]) -> Iterator[Finding]:
    named = {case.name: case for case in cases()}
    if name not in named:
        raise ArgumentError("mechanism", f"be one of {'; '.join(named)}", name)
    return (one for seed in seeds for one in with_both_generators(named[name], seed))


def line(finding: Finding) -> str:
    """Name, both numbers, and, where it is refused, the statement."""
    chance = "" if finding.chance is None else f", chance {finding.chance:.2g}"
    numbers = f"measured {finding.measured:.6g}, claimed {finding.claimed:.6g}{chance}"
    return (
        f"held     {finding.name}: {numbers}"
        if finding.passed
        else f"REFUSED  {finding.name}: {numbers}; {finding.statement}"
    )


_EXAMPLES, _BATCH, _PHYSICAL, _EPOCHS = 40, 10, 4, 6
_LARGEST = 1e6
_LITTLE = 0.002
"""Of the stated noise: under the whole of it, half of the clipped sum would pass for all of it."""


def plan(seed: int, secure: bool = False) -> Plan:
    """Six passes of four steps over examples whose gradients have norms of half the clip to a million times it."""
    directions = np.random.default_rng(seed).normal(size=(_EXAMPLES, sum(SIZES)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    norms = np.concatenate([[_LARGEST], np.geomspace(0.5, 300.0, _EXAMPLES - 1)]) * CLIP
    return Plan(directions * norms[:, None], SIZES, _BATCH, _PHYSICAL, _EPOCHS, SIGMA, CLIP, seed, secure)


def small_batches(seed: int, secure: bool = False) -> Plan:
    """A hundred and sixty steps on two of seven examples, of which some have none: pass and data are no multiples of a batch."""
    return replace(plan(seed, secure), rows=plan(seed).rows[:7], batch_size=2, epochs=40)


def training(case: Case, seed: int, secure: bool = False) -> list[Finding]:
    """All that is measured on trainings of one mechanism."""
    whole = plan(seed, secure)
    found = _measure.measure(case, whole, seed)
    if secure:
        return found
    if case.private:
        found += sums(replace(case, name=f"{case.name}, little noise"), whole, seed)
    if case.linear:
        found += _measure.sensitivity(case, replace(whole, epochs=4), seed)
    return found


def sums(case: Case, whole: Plan, seed: int) -> list[Finding]:
    """The releases with little noise, which a sum that is not the one stated exceeds."""
    little = replace(whole, noise_multiplier=_LITTLE * SIGMA)
    return _findings.named(case.name, _measure.release(case, _board.train(case.built(seed), little)))


def layers(seed: int) -> list[Finding]:
    """Sums with a mask and without, on layers as users have them: their gradients are kept as factors."""
    return _plain_and_masked(on_layers(plan(seed)), "layers", seed)


def views(seed: int) -> list[Finding]:
    """The same of examples in four rows, which count once."""
    return _plain_and_masked(replace(plan(seed), views=4), "views", seed)


def _plain_and_masked(whole: Plan, what: str, seed: int) -> list[Finding]:
    found = list[Finding]()
    for case in cases():
        if case.name in ("DP-SGD", "random sparsification"):
            named = replace(case, name=f"{case.name}, {what}")
            found += sums(named, whole, seed)
            found += _measure.sensitivity(named, replace(whole, noise_multiplier=_LITTLE * SIGMA, epochs=2), seed)
    return found


def batches_and_states(seed: int, secure: bool = False) -> list[Finding]:
    """The law of batches, empty ones, and trainings that are stopped and go on."""
    plain = cases()[0]
    few = _measure.measure(replace(plain, name=f"{plain.name}, small batches"), small_batches(seed, secure), seed)
    whole = plan(seed, secure)
    return [
        *few,
        *_draws.loader(seed, secure),
        *_draws.allocation(seed, secure),
        *_attacks.resumed(whole),
        *_attacks.gone_back(whole),
    ]


def broken(case: Case, seed: int) -> Finding:
    """Whether a mechanism that is not private is seen through."""
    refused = sum(not one.passed for one in training(case, seed))
    return _findings.at_least(f"{case.name}: caught", "statements of a private mechanism that it breaks", refused, 1)


def random_k(seed: int | None, drop_rate: float = 0.99) -> m.PosteriorFreeze:
    """Posterior freeze that keeps one entry in a hundred, another one at every step."""
    return m.PosteriorFreeze(m.Constant(drop_rate), seed)


def with_both_generators(case: Case, seed: int) -> Iterator[Finding]:
    """One mechanism trained; one that is not private must be caught."""
    if case.private:
        yield from training(case, seed)
        yield from training(case, seed, secure=True)
    else:
        yield broken(case, seed)


def _trainings(seed: int) -> Iterator[Finding]:
    """Every mechanism trained with both noise generators, sums on layers and of views, and batches that are drawn at small rates."""
    for case in cases():
        yield from with_both_generators(case, seed)
    yield from layers(seed)
    yield from views(seed)
    yield from _draws.fine_rates(seed)


def quick(seed: int, launch: _runs.Launch, folder: Path) -> Iterator[Finding]:
    """Every mechanism trained with both noise generators, attacks, and ``dptheory run``; about a minute.

    Args:
        seed: of all draws, >= 0.
        launch: calls ``dptheory`` with the arguments it is given.
        folder: for the files of the runs.

    Returns:
        Findings, each as soon as it is made.
    """
    yield from _trainings(seed)
    yield from _draws.secure_bits()
    plain = cases()[0]
    for secure in (False, True):
        yield from batches_and_states(seed, secure)
        yield _attacks.canary(plain, 200, seed, secure)
        yield _attacks.foreseen(random_k, 100, 1.0, 4, 1e-2, 200, seed, secure)
        yield from run(launch, folder / f"secure-{secure}", secure)


def run(launch: _runs.Launch, folder: Path, secure: bool) -> Iterator[Finding]:
    """The command line alone."""
    yield from _runs.noise(launch, folder / "noise", secure)
    yield from _runs.noise(launch, folder / "masked", secure, masked=True)
    yield from _runs.sampling(launch, folder / "sampling", secure)
    yield from _draws.run(folder / "sampling" / _runs.CONFIG, secure)


def thorough(seed: int, folder: Path) -> Iterator[Finding]:
    """The same under ten seeds, every private mechanism attacked, long attacks, and runs of one process and of two; minutes.

    Args:
        seed: the first of the ten, >= 0.
        folder: for the files of the runs.

    Returns:
        Findings, each as soon as it is made.
    """
    for own in range(seed, seed + 10):
        yield from _trainings(own)
        for secure in (False, True):
            yield from batches_and_states(own, secure)
    yield from _draws.secure_bits()
    for case in cases():
        if case.private and case.linear:
            yield _attacks.canary(case, 1000, seed)
    attack = partial(_attacks.foreseen, random_k, 100, 10.0, 200, 1e-5, 300, seed)
    for secure in (False, True):
        yield attack(secure)
        yield from run(_runs.by_process, folder / f"one-{secure}", secure)
        yield from run(_runs.by_two_processes, folder / f"two-{secure}", secure)
