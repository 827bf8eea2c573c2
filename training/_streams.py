"""Streams of random numbers, one for each purpose: no two share words, and no restored state brings words back.

Whoever restores a state, gives one seed twice or forks a process would otherwise get noise, masks or batches again that have
left in a release. The difference of two releases with one noise is that of the sums; a batch that comes again is not amplified.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import torch

from dptheory.training import _argument_ranges

NOISE, BATCHES, LOADER = "noise", "batches", "data order"
MASKS, RANKING, START, LABELS = "masks", "ranking noise", "power iteration", "anchor labels"

_T = TypeVar("_T")
_WORDS, _FIRST_WORD = 624, 24
"""Of the Mersenne twister in the state of a CPU generator, each in 8 bytes: how many, and where the first begins."""
_SIMULATED: ContextVar[bool] = ContextVar("simulated", default=False)
_process = [os.urandom(16)]
# A forked child has its parent's generators, word for word: it must notice, or both release with one noise.
os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, os.urandom(16)))


@contextmanager
def simulation() -> Iterator[None]:
    """Streams that are built within the block repeat: their seed alone makes them, and a state that is loaded sets them back.

    For runs that call themselves simulations, as those of ``dptheory run`` do in report and statement: resumed, they are bit for
    bit those that were never interrupted.
    """
    before = _SIMULATED.set(True)
    try:
        yield
    finally:
        _SIMULATED.reset(before)


def simulated(make: Callable[[], _T]) -> _T:
    """What ``make`` gives in a simulation."""
    with simulation():
        return make()


def this_process() -> tuple[bytes, int]:
    """A name of this process; one that was forked has another."""
    return _process[0], os.getpid()


def digest(tensors: Iterable[torch.Tensor]) -> bytes:
    """A digest of 32 bytes: other values give another one."""
    found = hashlib.sha256()
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        found.update(f"{plain.dtype} {tuple(plain.shape)};".encode())
        found.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.digest()


class Stream:
    """Random numbers for one purpose.

    They depend on the seed, the purpose, and what :meth:`bind` adds. From a generator that somebody gives as the seed one number
    is drawn; its own state means nothing afterwards. Numbers that nobody has seen follow when a process is forked, when a state
    was loaded, and in a copy of a stream that is in use: so going back works, and repeats nothing.

    Args:
        seed: 0 to 2^64 - 1; or a generator; None for one from the operating system.
        purpose: what the numbers are for; streams of one seed and other purposes have nothing in common.
    """

    def __init__(self, seed: int | torch.Generator | None, purpose: str) -> None:
        self._generators: dict[torch.device, torch.Generator] = {}
        self._repeating = _same(seed) if seed is not None and _SIMULATED.get() else None
        """In a simulation: the generator of the seed itself."""
        drawn = _entropy() if seed is None or self._repeating is not None else _drawn(seed)
        self._key = _hash(purpose.encode(), drawn)
        self._given = seed is not None
        self._used = False
        self._origin: Callable[[], bytes] | None = None
        self._loaded: Callable[[], object] | None = None
        self._settings: Callable[[], object] | None = None
        self._last: object = None
        """Settings of the last draw."""
        self._turn: tuple[object, object] = (this_process(), None)

    def bind(
        self, *, origin: Callable[[], bytes], settings: Callable[[], object], loaded: Callable[[], object]
    ) -> None:
        """Make the stream that of a run.

        Args:
            origin: asked before the first number: one seed and other origins are other streams.
            settings: asked before every draw: from where they differ, one seed gives other numbers.
            loaded: another value than before says that a state was loaded.
        """
        self._origin, self._settings, self._loaded = origin, settings, loaded
        self._turn = (self._turn[0], loaded())

    def on(self, device: torch.device | str = "cpu") -> torch.Generator:
        """The generator of a device, in a simulation that of the seed, of whatever device: to draw from now, and not to be kept."""
        self._follow()
        self._used = True
        if self._repeating is not None:
            return self._repeating
        device = torch.device(device)
        if device not in self._generators:
            self._generators[device] = _filled(device, _hash(self._key, str(device).encode()))
        return self._generators[device]

    def renew(self) -> None:
        """Go on with numbers that nobody has seen."""
        self._key = _hash(self._key, _entropy())
        self._generators, self._repeating = {}, None
        self._used = True

    def state(self) -> torch.Tensor | None:
        """For :meth:`load`; None where the stream is not simulated: what is not written can be neither set back nor read."""
        return None if self._repeating is None else self._repeating.get_state()

    def load(self, state: torch.Tensor | None) -> bool:
        """Go back to a state in a simulation, and on with numbers that nobody has seen otherwise; whether it went back."""
        if self._repeating is None or state is None:
            self.renew()  # the state may be that of a release which somebody has: its noise must not come twice
            return False
        self._repeating.set_state(state.cpu())
        return True

    def _follow(self) -> None:
        """See whether this is still the process, and the run, that drew last."""
        turn = (this_process(), None if self._loaded is None else self._loaded())
        simulated = self._repeating is not None
        if turn[0] != self._turn[0] or (turn != self._turn and not simulated):
            self.renew()
        elif self._given and not simulated and self._origin is not None and self._settings is not None:
            now = self._settings()
            if not self._used:
                self._key = _hash(self._key, self._origin())
            if not self._used or now != self._last:
                self._key, self._generators, self._last = _hash(self._key, repr(now).encode()), {}, now
        self._turn = turn

    def __getstate__(self) -> dict[str, Any]:
        unbound = dict.fromkeys(("_origin", "_settings", "_loaded", "_turn"))
        return vars(self) | unbound | {"_bound": self._origin is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy of a stream in use draws numbers of its own."""
        bound = state.pop("_bound")
        vars(self).update(state)
        self._turn, self._generators = (this_process(), None), {}
        if self._repeating is None and (self._used or bound):
            self.renew()


def seed_stream(seed: int | None, purpose: str) -> Stream | None:
    """The stream of a seed, in 0..2^63 - 1; None where there is no seed."""
    return None if seed is None else Stream(_argument_ranges.seed("seed", seed), purpose)


def derived(seed: int, purpose: str) -> int:
    """A seed for one purpose, in 0..2^63 - 1."""
    return int.from_bytes(_hash(purpose.encode(), _drawn(seed))[:8], "little") >> 1


def on_cpu(stream: Stream | None) -> torch.Generator | None:
    """The stream's generator on the CPU; None, which stands for the operating system's, where there is no stream."""
    return None if stream is None else stream.on("cpu")


def _hash(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


def _entropy() -> bytes:
    return os.urandom(32)


def _drawn(seed: int | torch.Generator) -> bytes:
    """What a seed is known by."""
    if isinstance(seed, torch.Generator):
        words = torch.randint(2**62, (4,), generator=seed, device=seed.device).tolist()
        return repr(words).encode()
    return str(_argument_ranges.stream("seed", seed)).encode()


def _same(seed: int | torch.Generator) -> torch.Generator:
    """The generator of the seed itself, and the one that was given as it is."""
    if isinstance(seed, torch.Generator):
        return seed
    return torch.Generator().manual_seed(_argument_ranges.stream("seed", seed))


def _filled(device: torch.device, key: bytes) -> torch.Generator:
    """The generator of a key. ``manual_seed`` would keep 32 bits of it on a CPU: few enough to try them all."""
    found = torch.Generator(device).manual_seed(int.from_bytes(key[:8], "little") >> 1)
    if device.type == "cpu":
        state = found.get_state()
        words = np.frombuffer(hashlib.shake_256(key).digest(4 * _WORDS), dtype="<u4").astype(np.uint64)
        state[_FIRST_WORD : _FIRST_WORD + 8 * _WORDS] = torch.from_numpy(words.view(np.uint8).copy())
        found.set_state(state)
    return found
