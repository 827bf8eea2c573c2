"""One loop with Opacus's engine and with ours: what the rows of the pages on Opacus and on practice are made of."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import opacus
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from dptheory.training import PrivacyEngine
from dptheory.training.mechanisms import DpSgd, Mechanism

DELTA, LONGEST = 1e-5, 200
DATA = TensorDataset(torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)

Engine = Callable[..., Any]
"""Opacus's engine or ours: a call makes one, options as ``secure_mode`` go through."""


def theirs(**options: Any) -> Any:
    return opacus.PrivacyEngine(**options)


def ours(mechanism: Mechanism | None = None, **options: Any) -> Any:
    """With DP-SGD, where nothing else is asked for."""
    return PrivacyEngine(mechanism or DpSgd(), **options)


def network(classes: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, classes))


def private(engine: Any, model: nn.Module, *, params: Any = None, data: Dataset[Any] = DATA, **options: Any) -> Any:
    """Model, optimizer and loader of a run with momentum; ``options`` go first."""
    given = {
        "optimizer": torch.optim.SGD(model.parameters() if params is None else params, lr=0.1, momentum=0.9),
        "noise_multiplier": 1.1,
        "max_grad_norm": 1.0,
    }
    if "data_loader" not in options:
        given["data_loader"] = DataLoader(data, 10)
    return engine.make_private(module=model, **given | options)


def mean(model: nn.Module, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(features), labels)


def epoch(made: Any, loss: Any = mean, between: Callable[..., object] = lambda *_: None) -> str:
    """A pass; ``between`` is called between ``backward()`` and ``step()``."""
    model, optimizer, loader = made
    for batch in loader:
        optimizer.zero_grad()
        loss(model, *batch).backward()
        between(model, optimizer)
        optimizer.step()
    return "trains"


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def told(run: Callable[..., str], *given: Any) -> str:
    """What a cell says: what the run says, or its error in one line."""
    try:
        with quiet():
            return run(*given)
    except Exception as problem:
        first = re.sub(r"/[^ \"]*/site-packages/", "", " ".join(str(problem).split()))
        first = re.sub(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-f]+>", r"a \1", first)
        line = f"{type(problem).__name__}: {first}".replace("|", "\\|").replace("`", "'")
        return f"`{line[:LONGEST]}{'...' if len(line) > LONGEST else ''}`"


Row = Callable[[Engine], str]


class Rows(dict[str, Row]):
    """What is tried, by the words of the page, and the code that tries it and says what came of it."""

    def __call__(self, name: str) -> Callable[[Row], Row]:
        def note(run: Row) -> Row:
            self[name] = run
            return run

        return note

    def cells(self, *engines: Engine) -> Iterator[list[str]]:
        for name, run in self.items():
            cells = [name]
            for engine in engines:
                torch.manual_seed(0)
                cells.append(told(run, engine))
            yield cells
