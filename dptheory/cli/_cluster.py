"""``--scheduler``: the workers of a Dask scheduler do the work, on this machine or on others."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from distributed import Client

_SECONDS = 10

Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler whose workers do the work: tcp://HOST:8786.", show_default=False),
]


class Cluster(Executor):
    """The workers of a Dask scheduler.

    What they are to do goes there by cloudpickle, which also takes functions and classes of a module that the workers do not have.

    Attributes:
        threads: of all workers, which is how much runs at a time.
    """

    def __init__(self, client: "Client") -> None:
        # pure would give the second of two equal calls the outcome of the first, also where that was "somebody else has this run"
        self._executor = client.get_executor(pure=False)
        self.threads = sum(client.nthreads().values())
        self._max_workers = self.threads  # as executors of concurrent.futures call it

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have one of the workers call the function."""
        import cloudpickle

        return self._executor.submit(_call, cloudpickle.dumps((function, args, kwargs)))  # type: ignore[no-any-return]


def _call(told: bytes) -> Any:
    import cloudpickle

    function, args, kwargs = cloudpickle.loads(told)
    return function(*args, **kwargs)


@contextmanager
def cluster(address: str, by_value: str | None = None) -> Iterator[Cluster]:
    """The cluster of a scheduler, while it is needed.

    Args:
        address: of the scheduler.
        by_value: name of a module that the workers do not have: what it defines is sent along. Nothing where it is not imported.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "scheduler must be left out without the package distributed: pip install distributed"
        ) from None
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"scheduler must be the address of a Dask scheduler that runs, such as tcp://HOST:8786, got {address!r}"
        ) from error
    with client:
        found = Cluster(client)
        if not found.threads:
            raise ValueError(f"scheduler must have workers, got {address!r} without: dask worker {address} starts one")
        if by_value in sys.modules:
            import cloudpickle

            cloudpickle.register_pickle_by_value(sys.modules[by_value])
        yield found
