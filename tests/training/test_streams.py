"""Streams of random numbers: apart by purpose and seed; fresh in forks, in copies and after a state was loaded."""

import copy
import hashlib
import itertools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from dptheory.training import _streams
from dptheory.training import mechanisms as m
from dptheory.training._streams import BATCHES, NOISE, Stream, derived, digest, on_cpu, seed_stream, simulation
from dptheory.training.engine import GeneratorBatches, generator_noise
from tests.training.in_a_fork import in_a_fork


def numbers(stream: Stream, count: int = 4) -> list[int]:
    return torch.randint(2**62, (count,), generator=stream.on("cpu")).tolist()


def test_a_seed_and_a_purpose_make_a_stream() -> None:
    """Also where seeds agree in their last 32 bits, of which ``manual_seed`` knows no others on a CPU."""
    low, high = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32))
    assert torch.equal(torch.rand(9, generator=low), torch.rand(9, generator=high))
    made = [Stream(seed, purpose) for seed in (5, 6, 5 + 2**32) for purpose in (NOISE, BATCHES)]
    drawn = [tuple(numbers(one)) for one in made]
    assert len(set(drawn)) == 6
    assert numbers(Stream(5, NOISE)) == list(drawn[0])
    assert numbers(Stream(None, NOISE)) != numbers(Stream(None, NOISE))


def test_a_generator_gives_a_seed_and_is_not_looked_at_again() -> None:
    given = torch.Generator().manual_seed(3)
    stream, other = Stream(given, NOISE), Stream(torch.Generator().manual_seed(3), NOISE)
    first = numbers(stream)
    assert numbers(other) == first and stream.on("cpu") is not given
    given.manual_seed(3)
    assert numbers(stream) == numbers(other) != first
    given = torch.Generator().manual_seed(3)
    assert numbers(Stream(given, NOISE)) != numbers(Stream(given, NOISE))  # one number each


def test_a_stream_has_all_bits_of_its_key() -> None:
    """The words of the Mersenne twister are those that NumPy's makes of the same state."""
    key = b"key of a stream"
    state = np.frombuffer(hashlib.shake_256(key).digest(4 * 624), dtype="<u4")
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": state, "pos": 624}}
    drawn = torch.empty(1300, dtype=torch.int32).random_(generator=_streams._filled(torch.device("cpu"), key))
    assert drawn.tolist() == [int(word) & (2**31 - 1) for word in twister.random_raw(1300)]


def test_devices_have_numbers_of_their_own() -> None:
    stream = Stream(1, NOISE)
    one, other = stream.on("cpu"), stream.on("cpu:0")
    assert torch.rand(3, generator=one).tolist() != torch.rand(3, generator=other).tolist()
    assert on_cpu(None) is None and seed_stream(None, NOISE) is None


@pytest.mark.parametrize("drawn_before", [False, True])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_fork_draws_its_own_numbers(drawn_before: bool, simulated: bool) -> None:
    with simulation():
        declared = Stream(1, NOISE)
    stream = declared if simulated else Stream(1, NOISE)
    if drawn_before:
        numbers(stream)
    children = [in_a_fork(lambda: numbers(stream)) for _ in range(2)]
    assert len({tuple(found) for found in (*children, numbers(stream))}) == 3


SHAPE = torch.zeros(4)
DRAWS: dict[str, Callable[[], Callable[[], list[float]]]] = {
    "noise": lambda: _noise(torch.Generator().manual_seed(1)),
    "noise, no seed": lambda: _noise(None),
    "batches": lambda: _batches(torch.Generator().manual_seed(1)),
    "batches, no seed": lambda: _batches(None),
    "masks": lambda: _begun(m.RandomSparsification(m.Constant(0.5), 1), lambda one: one.mask[0]),
    "labels": lambda: _labels(),
}


def _noise(generator: torch.Generator | None) -> Callable[[], list[float]]:
    noise = generator_noise(generator)
    return lambda: noise(SHAPE, 1.0).tolist()


def _batches(generator: torch.Generator | None) -> Callable[[], list[float]]:
    batches = GeneratorBatches(train_size=200, sampling_rate=0.5, generator=generator)
    return lambda: batches.batch(0).tolist()


def _begun(mechanism: m.Mechanism, drawn: Callable[..., torch.Tensor]) -> Callable[[], list[float]]:
    def draw() -> list[float]:
        mechanism.begin_step([torch.zeros(200)])
        return drawn(mechanism).tolist()

    return draw


def _labels() -> Callable[[], list[float]]:
    anchors = m.AnchorGradients(nn.Linear(3, 5), torch.ones(60, 3), classes=5, seed=1)
    return lambda: anchors()[1].flatten().tolist()


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_forks_repeat_nothing_that_leaves(made: Callable[[], Callable[[], list[float]]]) -> None:
    """Whether or not something was drawn before the fork."""
    for before in (0, 1):
        draw = made()
        for _ in range(before):
            draw()
        found = [in_a_fork(draw), in_a_fork(draw), draw()]
        assert not any(one == other for one, other in itertools.combinations(found, 2))


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_stream_in_use_is_another_one(copied: Callable[[Stream], Stream]) -> None:
    stream = Stream(1, NOISE)
    assert numbers(copied(stream)) == numbers(Stream(1, NOISE))  # nothing was drawn that could be drawn again
    numbers(stream)
    assert numbers(copied(stream)) != numbers(stream)
    bound = Stream(1, NOISE)
    bound.bind(origin=lambda: b"", settings=lambda: 0, loaded=lambda: 0)
    assert numbers(copied(bound)) != numbers(bound)


def test_a_stream_of_a_run_follows_it() -> None:
    """One seed: other numbers from another origin, from another setting on, and after a state was loaded."""

    def bound(origin: bytes = b"a", settings: str = "b", loaded: int = 0) -> tuple[Stream, dict[str, object]]:
        now: dict[str, object] = {"origin": origin, "settings": settings, "loaded": loaded}
        stream = Stream(1, NOISE)
        stream.bind(origin=lambda: now["origin"], settings=lambda: now["settings"], loaded=lambda: now["loaded"])
        return stream, now

    first = numbers(bound()[0])
    assert numbers(bound()[0]) == first == numbers(bound(loaded=7)[0])
    assert first not in (numbers(bound(b"other")[0]), numbers(bound(settings="other")[0]), numbers(Stream(1, NOISE)))
    stream, now = bound()
    assert numbers(stream) == first
    now["settings"] = "lower"
    lowered = numbers(stream)
    again, same = bound()
    numbers(again)
    same["settings"] = "lower"
    assert numbers(again) == lowered
    now["settings"] = "b"
    assert numbers(stream) not in (first, lowered)
    for one, moved in ((stream, now), (again, same)):
        one.load(one.state())
        moved["loaded"] = 1
    assert numbers(stream) != numbers(again)


def test_only_a_simulation_has_a_state() -> None:
    with simulation():
        stream, again = Stream(5, NOISE), Stream(6, NOISE)
        given = torch.Generator().manual_seed(5)
        assert Stream(given, NOISE).on("cpu") is given
    assert numbers(stream) == torch.randint(2**62, (4,), generator=torch.Generator().manual_seed(5)).tolist()
    assert again.load(stream.state()) and numbers(again) == numbers(stream)
    assert not again.load(None) and again.state() is None and numbers(again) != numbers(stream)
    plain = Stream(5, NOISE)
    assert plain.state() is None and not plain.load(stream.state()) and plain.state() is None


def test_seeds_by_purpose_and_what_tensors_are_known_by() -> None:
    assert len({derived(5, NOISE), derived(5, BATCHES), derived(6, NOISE), 5}) == 4
    assert 0 <= derived(5, NOISE) < 2**63
    tensors = [
        torch.zeros(2),
        torch.zeros(2, 1),
        torch.zeros(2, dtype=torch.int32),
        torch.tensor([0.0, -0.0]),
        torch.zeros(0),
    ]
    assert len({digest([one]) for one in tensors}) == 5 and digest(tensors) == digest([t.clone() for t in tensors])
    assert digest([torch.tensor(1.0)]) != digest([torch.tensor(1.0, dtype=torch.bfloat16)])
