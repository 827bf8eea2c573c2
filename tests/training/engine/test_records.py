"""Batches of tensor data sets in one copy: the same as record by record."""

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from opacus.layers import DPGRU
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, default_collate

from dptheory.training import make_private
from dptheory.training.data import CropsAndFlips
from dptheory.training.engine import (
    GRAD_SAMPLE_MODES,
    check_rows_apart,
    make_private_with_epsilon,
)
from dptheory.training.engine._random_states import Collating, SeededIndices
from dptheory.training.engine._records import IndexedTensors, Rows, check_records, indexed
from dptheory.training.mechanisms import (
    Constant,
    DpSgd,
    Gep,
    LayerFreezing,
    RandomSparsification,
)
from dptheory.training.per_example import _layer_gradients, as_gradients
from tests.refused import refused
from tests.training import sgd

N = 12
ENTRIES = torch.arange(N * 6.0).view(N, 2, 3)
DATA = TensorDataset(ENTRIES, torch.arange(N), torch.arange(N).half(), torch.ones(N, 0))
BATCHES = [[3, 1, 7], [], [11], SeededIndices([5, 0], 9), list(range(N))]


def loaded(data, batches=BATCHES, **more) -> list:
    collate = Collating(default_collate, data[0], data[1], chance=0.1)
    return list(DataLoader(data, batch_sampler=batches, collate_fn=collate, **more))


def alike(found: list, wanted: list) -> None:
    assert len(found) == len(wanted)
    for batch, other in zip(found, wanted, strict=True):
        assert type(batch) is type(other) is list and len(batch) == len(other)
        for tensor, same in zip(batch, other, strict=True):
            assert torch.equal(tensor, same) and tensor.dtype == same.dtype and tensor.stride() == same.stride()
            assert tensor.requires_grad == same.requires_grad


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "data",
    [DATA, TensorDataset(ENTRIES), Subset(DATA, list(range(N))[::-1]), Subset(DATA, range(N))],
    ids=["four", "one", "subset", "range"],
)
def test_batches_are_those_of_single_records(data, workers: int) -> None:
    alike(loaded(indexed(data, default_collate), num_workers=workers), loaded(data))


def test_a_batch_is_one_copy_and_no_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = loaded(DATA, [[2, 0, 2]])
    made = indexed(DATA, default_collate)
    collate = Collating(default_collate, DATA[0], DATA[1], chance=0.1)
    monkeypatch.setattr(TensorDataset, "__getitem__", lambda *_: pytest.fail("a record was read"))
    (batch,) = found = list(DataLoader(made, batch_sampler=[[2, 0, 2]], collate_fn=collate))
    alike(found, wanted)
    batch[0].zero_()  # nothing of the data
    assert float(ENTRIES.sum()) == sum(range(N * 6))


def test_random_states_are_as_record_by_record() -> None:
    def states(made) -> list:
        torch.manual_seed(3)
        np.random.seed(3)  # noqa: NPY002
        random.seed(3)
        loaded(made, [SeededIndices([5, 0, 2], 9), [1]])
        return [torch.rand(1).item(), np.random.rand(), random.random()]  # noqa: NPY002

    assert states(DATA) == states(indexed(DATA, default_collate))


@pytest.mark.parametrize(
    "tensor",
    [torch.rand(N, 3).requires_grad_(), torch.rand(3, N).t(), torch.rand(N, 4, 2, 2).to(memory_format=torch.channels_last),
     torch.rand(1).expand(N), torch.rand(N, 2, dtype=torch.cfloat).conj(),
     nn.Parameter(torch.rand(N, 2))],
    ids=["gradient", "transposed", "channels last", "expanded", "conjugate", "parameter"],
)  # fmt: skip
def test_tensors_of_other_kinds_are_read_record_by_record(tensor: torch.Tensor) -> None:
    data = TensorDataset(tensor)
    batch = [3, 1, 2]
    made = indexed(data, default_collate)
    found, wanted = (default_collate(one.__getitems__(batch)) for one in (made, Subset(data, range(N))))
    assert isinstance(made.__getitems__(batch), list)
    alike([found], [wanted])


class Own(TensorDataset):
    def __getitem__(self, index: int):
        return (-super().__getitem__(index)[0],)


@pytest.mark.parametrize(
    "data",
    [Own(ENTRIES), Subset(Own(ENTRIES), [1, 2]), Subset(DATA, np.arange(3)), [(1.0,), (2.0,)], Subset(Subset(DATA, [1]), [0])],
    ids=["class", "subset of it", "array", "list", "subset of a subset"],
)  # fmt: skip
def test_other_data_sets_and_other_functions_stay_as_they_are(data) -> None:
    assert indexed(data, default_collate) is data
    assert indexed(DATA, lambda rows: default_collate(rows)) is DATA


def test_attributes_are_those_of_the_data_set() -> None:
    data = TensorDataset(torch.zeros(2, 1))
    data.classes = "two"  # type: ignore[attr-defined]
    made = indexed(data, default_collate)
    assert isinstance(made, IndexedTensors) and isinstance(made, TensorDataset) and len(made) == 2
    data.tensors = (torch.ones(3, 1),)
    assert made.classes == "two" and len(made) == 3  # type: ignore[attr-defined]
    assert default_collate(made.__getitems__([2]))[0].tolist() == [[1.0]]


def test_rows_are_records_for_any_other_function() -> None:
    rows = indexed(DATA, default_collate).__getitems__([4, 2])  # type: ignore[attr-defined]
    assert isinstance(rows, Rows) and len(rows) == 2
    alike([default_collate(rows)], [default_collate([DATA[4], DATA[2]])])
    assert all(torch.equal(a, b) for a, b in zip(rows[1], DATA[2], strict=True))


@pytest.mark.parametrize("parts", [False, True])
def test_a_private_loop_gets_the_same_batches(monkeypatch: pytest.MonkeyPatch, parts: bool) -> None:
    """Dry ones, too, and in parts."""

    def seen() -> list:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        loader = DataLoader(
            TensorDataset(torch.arange(60.0).view(20, 3), torch.arange(20) % 2),
            batch_size=5,
            generator=torch.Generator().manual_seed(1),
        )
        private, optimizer, loader = sgd.make_private(model, loader, noise_generator=torch.Generator().manual_seed(2))
        optimizer._dry._rng = np.random.default_rng(4)  # the operating system's otherwise
        found = []

        def go(batches) -> None:
            for x, y in batches:
                found.append([x, y])
                optimizer.zero_grad()
                nn.functional.cross_entropy(private(x), y).backward()
                optimizer.step()

        if parts:
            with BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer) as batches:
                go(batches)
        else:
            go(loader)
        return [*found, [p.detach().clone() for p in model.parameters()]]

    found = seen()
    monkeypatch.setattr("dptheory.training.engine._private.indexed", lambda data, _: data)
    alike(found, seen())
    assert len(found) > 8


# --- repeated_records: A data set that visibly holds a record twice is refused


def data(count: int) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 3), torch.arange(count) % 2)


def private(records: Dataset) -> None:
    model = nn.Linear(3, 2)
    sgd.make_private(model, DataLoader(records, 2))


DOUBLE = data(4)
RARE = data(40)


@pytest.mark.parametrize(
    "twice",
    [
        Subset(data(40), [0, 1, 2, 1]),
        Subset(data(40), torch.tensor([0, 1, 2, 1])),
        Subset(Subset(data(40), [0, 1, 1]), [1, 2]),
        ConcatDataset([DOUBLE, DOUBLE]),
        ConcatDataset([data(4), Subset(data(40), [0, 0])]),
        ConcatDataset([RARE, *(Subset(RARE, range(5)) for _ in range(10))]),  # the rare ones, eleven times each
        ConcatDataset([Subset(RARE, range(30)), Subset(RARE, range(10, 40))]),
        Subset(ConcatDataset([Subset(RARE, [0, 1, 2]), Subset(RARE, [1, 2, 3])]), [0, 2, 4]),
        ConcatDataset([ConcatDataset([RARE]), Subset(RARE, [-1])]),
    ],
)
def test_a_record_that_is_there_twice_is_refused(twice) -> None:
    with refused("data_loader"):
        private(twice)
    private(Subset(Subset(data(40), range(1, 30)), [3, 1, 2]))
    private(ConcatDataset([data(4), Subset(data(40), [5, 6])]))
    private(Subset(ConcatDataset([Subset(RARE, [0, 1, 2]), Subset(RARE, [1, 2, 3])]), [0, 2, 5]))


class Keyed(Dataset):
    """Records under words."""

    def __getitem__(self, key: str) -> tuple[torch.Tensor, int]:
        return torch.zeros(3), 0


def test_records_are_told_apart_in_any_nest_and_by_any_key() -> None:
    words = Keyed()
    check_records(Subset(words, ["a", "b"]))
    check_records(ConcatDataset([Subset(words, ["a", "b"]), Subset(Keyed(), ["a"])]))
    check_records(ConcatDataset([Subset(words, ["a"]), Subset(words, ["c"]), RARE]))
    for twice in (Subset(words, ["a", "a"]), ConcatDataset([Subset(words, ["a", "b"]), Subset(words, ["c", "b"])])):
        with refused("data_loader", "1 of its"):
            check_records(twice)
    many = data(10**6)
    before = time.process_time()
    check_records(ConcatDataset([Subset(many, torch.arange(0, 10**6, 2)), Subset(many, torch.arange(1, 10**6, 2))]))
    assert time.process_time() - before < 0.5


# --- views: Views: an example in several rows has one gradient, the mean over them, which is clipped once


N_VIEWS, VIEWS, CLASSES = 4, 3, 5
UNIT = 2.0**-53

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


class Sequences(nn.Module):
    """Tokens with positions, whose one row stands for all; a recurrence; a table that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6), nn.Embedding(7, 6)
        self.cells, self.out = DPGRU(6, 6, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.words(tokens) + self.places(torch.arange(7)[None])
        return self.out((self.cells(h)[0] + self.words(tokens.flip(1))).mean(1))


class Windows(nn.Module):
    """Windows of each row pass a layer side by side, and a weight is used without a layer: no hook reaches either."""

    def __init__(self) -> None:
        super().__init__()
        self.window, self.scale, self.out = nn.Linear(2, 2), nn.Parameter(torch.rand(8)), nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.window(x.reshape(-1, 2)).tanh().reshape(len(x), 8) * self.scale)


class Group(nn.Module):
    """What every row of an example becomes depends on its other rows, and on no other example."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(8, 6), nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x).view(-1, VIEWS, 6)
        return self.out((h.tanh() + h.mean(1, keepdim=True)).flatten(0, 1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ReLU(inplace=True),
        nn.Conv2d(6, 4, 2, padding="same"), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, CLASSES),
    )  # fmt: skip


def deep() -> nn.Module:
    """Weights that are large beside a sequence of views, so that their gradients are never formed."""
    return nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, CLASSES, bias=False))


def pictures(rows: int) -> torch.Tensor:
    return torch.randn(rows, 1, 8, 8, dtype=torch.float64)


def numbers(rows: int) -> torch.Tensor:
    return torch.randn(rows, 8, dtype=torch.float64)


def tokens(rows: int) -> torch.Tensor:
    return torch.randint(11, (rows, 7))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor]]] = {
    "images": (images, pictures),
    "deep": (deep, numbers),
    "sequences": (Sequences, tokens),
    "windows": (Windows, numbers),
    "rows of an example together": (Group, numbers),
}


def made(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    build, draw = NETWORKS[name]
    return build().double(), draw(N_VIEWS * VIEWS), torch.randint(CLASSES, (N_VIEWS * VIEWS,))


def alone(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """The gradients of each example by itself: of the mean over its rows."""
    found = sgd.alone(model, N_VIEWS, lambda rows: F.cross_entropy(model(x[rows]), y[rows]), views=VIEWS)
    return list(zip(*found, strict=True))


def private_views(model: nn.Module, *, views: int = VIEWS, **options: Any) -> Any:
    given = {"mechanism": DpSgd(), "noise_multiplier": 0.0, "max_grad_norm": 1e-3, "expected_batch_size": N_VIEWS}
    return sgd.attach(model, lr=1.0, sampling_rate=0.5, views=views, **given | options)


def close(one: torch.Tensor, other: torch.Tensor, scale: float) -> bool:
    # sums of at most 1,000 products, through at most 16 operations
    return one.shape == other.shape and float((one - other).abs().max()) <= 1000 * 16 * UNIT * scale


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_an_example_has_the_mean_gradient_of_its_rows(name: str, mode: str, reduction: str) -> None:
    model, x, y = made(name)
    wanted = alone(model, x, y)
    network, optimizer = private_views(model, grad_sample_mode=mode, loss_reduction=reduction)
    optimizer.begin_batch(N_VIEWS)
    optimizer.zero_grad()
    F.cross_entropy(network(x), y, reduction=reduction).backward()
    found = optimizer.grad_samples
    assert found.examples == N_VIEWS
    scale = max(float(p.abs().max()) for one in wanted for p in one)
    squares = torch.stack([torch.stack([p.square().sum() for p in one]).sum() for one in wanted])
    assert close(found.square_norms(), squares, float(squares.max()))
    weights = torch.rand(N_VIEWS, dtype=torch.float64)
    sums = [sum(w * p for w, p in zip(weights, parts, strict=True)) for parts in zip(*wanted, strict=True)]
    assert all(close(a, b, N_VIEWS * scale) for a, b in zip(found.weighted_sum(weights), sums, strict=True))
    formed = found.formed()
    assert all(close(formed[j][i], p, scale) for i, one in enumerate(wanted) for j, p in enumerate(one))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    clipped = [
        sum(p * (1e-3 / torch.sqrt(s)).clamp(max=1.0) for p, s in zip(parts, squares, strict=True))
        for parts in zip(*wanted, strict=True)
    ]
    divisor = N_VIEWS if reduction == "mean" else 1
    assert all(
        close(old - new.detach(), total / divisor, 1.0)  # weights are of the order of 1, and so is their rounding
        for old, new, total in zip(before, model.parameters(), clipped, strict=True)
    )


@pytest.mark.parametrize("mode", ["hooks", "functorch"])
def test_gradients_of_one_row_of_each_example_at_a_time_are_the_same(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is how large ones are worked out: no more are held than there are examples."""
    found = []
    for chunk in (1 << 22, 1):
        monkeypatch.setattr(_layer_gradients, "CHUNK", chunk)
        model, x, y = made("images")
        network, optimizer = private_views(model, grad_sample_mode=mode)
        optimizer.begin_batch(N_VIEWS)
        F.cross_entropy(network(x), y).backward()
        found.append(optimizer.grad_samples.formed())
    scale = max(float(p.abs().max()) for p in found[0])
    assert all(close(a, b, scale) for a, b in zip(*found, strict=True))


def mechanisms(model: nn.Module) -> list[Any]:
    torch.manual_seed(9)
    anchors = as_gradients([torch.randn(6, *p.shape, dtype=torch.float64) for p in model.parameters()])
    groups = [list(range(len(list(model.parameters()))))]
    return [
        DpSgd(),
        RandomSparsification(Constant(0.5), 3),
        LayerFreezing(DpSgd(), frozen_layers=1, from_step=1),
        Gep(lambda: anchors, subspace_dim=4, residual_clip=0.1, groups=groups, seed=3),
    ]


@pytest.mark.parametrize("place", range(4), ids=["plain", "mask", "freezing", "gep"])
@pytest.mark.parametrize("name", ["images", "deep"])
def test_equal_views_are_one_example(name: str, place: int) -> None:
    """Under every mechanism, and in parts: several steps move the weights as they do without views."""
    ends = []
    for views in (1, VIEWS):
        model, x, y = made(name)
        with torch.random.fork_rng():
            mechanism = mechanisms(model)[place]
        network, optimizer = private_views(model, views=views, mechanism=mechanism, max_grad_norm=0.5)
        for _ in range(3):
            optimizer.begin_batch(N_VIEWS)
            for part in (slice(0, 3), slice(3, N_VIEWS)):
                rows, labels = (one[:N_VIEWS][part].repeat_interleave(views, 0) for one in (x, y))
                optimizer.zero_grad()
                optimizer.signal_skip_step(part.stop < N_VIEWS)
                F.cross_entropy(network(rows), labels).backward()
                optimizer.step()
        ends.append([p.detach().clone() for p in model.parameters()])
    # three steps, each with the rounding of a gradient, through networks that do not magnify it by more than 100
    assert all(close(a, b, 100.0) for a, b in zip(*ends, strict=True))


def test_rows_beyond_the_drawn_number_are_refused_without_views() -> None:
    model, x, y = made("deep")
    network, optimizer = private_views(model, views=1)
    optimizer.begin_batch(N_VIEWS)
    F.cross_entropy(network(x), y).backward()
    with refused("per-sample gradients", N_VIEWS * VIEWS, N_VIEWS, "views="):
        optimizer.step()


@pytest.mark.parametrize("rows", [N_VIEWS, N_VIEWS * VIEWS - 1, N_VIEWS * VIEWS + VIEWS])
@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
def test_other_rows_than_views_of_the_drawn_examples_are_refused(rows: int, mode: str) -> None:
    model, _, _ = made("deep")
    network, optimizer = private_views(model, grad_sample_mode=mode)
    optimizer.begin_batch(N_VIEWS)
    with refused("views" if rows % VIEWS else "batch", f"views={VIEWS}"):
        F.cross_entropy(network(numbers(rows)), torch.zeros(rows, dtype=torch.long)).backward()
        optimizer.step()
    assert optimizer.accountant.steps == 0


class Beside(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor, table: torch.Tensor | None = None) -> torch.Tensor:
        return self.out(x if table is None else x + table.mean(0))


@pytest.mark.parametrize(("width", "beside"), [(6, [torch.ones(4, 6)]), (4, [])])
def test_fewer_rows_than_drawn_are_not_taken_for_something_beside_the_examples(width: int, beside: list) -> None:
    """A table has as many rows as the batch, or a row as many entries: each pass for one example would have all rows in it."""
    network, optimizer = private_views(Beside(width), views=1, grad_sample_mode="whole network", expected_batch_size=4)
    optimizer.begin_batch(4)
    with refused("module", 4):
        F.cross_entropy(network(torch.randn(3, width), *beside), torch.arange(3)).backward()


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = DPGRU(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lengths = torch.arange(len(x)) % 2 + 1
        return self.cells(pack_padded_sequence(x[:, None].repeat(1, 2, 1), lengths, True, False))[1][0]


def test_packed_sequences_are_refused() -> None:
    """Sorted by length, rows of several examples would stand together."""
    network, _ = private_views(Packed().double())
    with refused("DPGRU"):
        network(numbers(N_VIEWS * VIEWS))


# --- the loader -------------------------------------------------------------------------------------------------------


def records(count: int = 24) -> TensorDataset:
    torch.manual_seed(1)
    return TensorDataset(torch.randn(count, 1, 8, 8), torch.randint(CLASSES, (count,)))


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(108, CLASSES))


def loaded_views(data: Any, *, batch_size: int = 6, **options: Any) -> Any:
    model = small()
    given = {"mechanism": DpSgd(), "noise_multiplier": 1.0, "max_grad_norm": 1.0, "views": VIEWS}
    return make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=batch_size, generator=torch.Generator().manual_seed(2), **options.pop("loader", {})),
        **given | options,
    )  # fmt: skip


def passes(made: Any, count: int = 1, order: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> None:
    network, optimizer, loader = made
    for _ in range(count):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(network(order(x)), order(y)).backward()
            optimizer.step()


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loader_draws_the_views_of_an_example_side_by_side(workers: int) -> None:
    """And records stay apart, whose views are drawn anew each time."""
    data = records()
    seen: list[torch.Tensor] = []
    made = loaded_views(data, augmentation=CropsAndFlips(shift=2), loader={"num_workers": workers})
    for x, y in made[2]:
        assert len(x) % VIEWS == 0 and len(x) == len(y)
        assert torch.equal(y, y[::VIEWS].repeat_interleave(VIEWS))
        for row in x.view(-1, VIEWS, 1, 8, 8):
            seen.append(torch.stack([one.flatten()[one.flatten() != 0].sort().values.sum() for one in row]))
            pool = {float(v) for v in row.flatten()} - {0.0}
            assert sum(pool <= {float(v) for v in image.flatten()} for image, _ in data) == 1  # all of one image
        made[1].zero_grad()
        F.cross_entropy(made[0](x), y).backward()
        made[1].step()
    assert any(len(set(one.tolist())) > 1 for one in seen)
    report = made[1].privacy(1e-5)
    assert report.records_apart.startswith("compared") and "views of an example" in report.public


def test_the_account_is_that_without_views() -> None:
    data, spent = records(), []
    for options in ({"views": 1}, {"views": VIEWS, "augmentation": CropsAndFlips(shift=1)}):
        made = loaded_views(data, **options)
        passes(made)
        spent.append((made[1].epsilon(1e-5), made[1].accountant.steps, len(made[2])))
    assert spent[0] == spent[1]


def test_empty_batches() -> None:
    made = loaded_views(records(3), batch_size=1, augmentation=CropsAndFlips(shift=1), probe=False)
    sizes: list[int] = []
    passes(made, 20, lambda x: (sizes.append(len(x)), x)[1])
    assert 0 in sizes and max(sizes) >= VIEWS and made[1].accountant.steps == 60


def three(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    """A collate function that makes the views."""
    pairs = [(image + 0.1 * torch.randn(image.shape), label) for image, label in rows for _ in range(VIEWS)]
    return [torch.stack(one) for one in zip(*pairs, strict=True)]


def test_a_collate_function_or_the_loop_makes_the_views() -> None:
    passes(loaded_views(records(), loader={"collate_fn": three}, probe=False), 2)
    passes(loaded_views(records()), 2, lambda x: x.repeat_interleave(VIEWS, 0))


def test_rows_in_another_order_are_refused() -> None:
    """All first views before all second ones: each gradient would hold several records."""

    def behind(x: torch.Tensor) -> torch.Tensor:
        return x.repeat(VIEWS, *[1] * (x.dim() - 1))

    made = loaded_views(records())
    with refused("records"):
        passes(made, 2, behind)
    assert made[1].accountant.steps == 0


def test_records_that_stand_twice_are_seen_behind_an_augmentation() -> None:
    data = records()
    with refused("data_loader"):
        loaded_views(ConcatDataset([data, data]), augmentation=CropsAndFlips())


def test_a_budget_with_views() -> None:
    model = small()
    made = make_private_with_epsilon(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(records(), batch_size=6),
        mechanism=DpSgd(), target_epsilon=3.0, target_delta=1e-5, epochs=1, max_grad_norm=1.0, views=VIEWS,
        augmentation=CropsAndFlips(shift=1), probe=False,
    )  # fmt: skip
    passes(made)
    assert 0.0 < made[1].epsilon(1e-5) <= 3.0


def test_transforms_of_torchvision_are_augmentations() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    passes(loaded_views(records(), augmentation=v2.Compose([v2.RandomCrop(8, padding=2), v2.RandomHorizontalFlip()])))


# --- the check by itself ----------------------------------------------------------------------------------------------


def test_the_check_knows_which_rows_are_one_record() -> None:
    """A mean over the rows of a record mixes none; one over neighbouring rows does, by which views do not lie together."""
    batch = (torch.randn(4 * VIEWS, 8), torch.arange(4).repeat_interleave(VIEWS))

    def loss(model: nn.Module, given: Any) -> torch.Tensor:
        return F.cross_entropy(model(given[0]), given[1])

    torch.manual_seed(0)
    check_rows_apart(Group(), batch, loss, views=VIEWS)
    with refused("records"):
        check_rows_apart(Group(), batch, loss)
    network, _ = private_views(Group())
    check_rows_apart(network, batch, loss, views=VIEWS)
    with refused("views"):
        check_rows_apart(network, batch, loss)
    with refused("batch"):
        check_rows_apart(Group(), (batch[0][:-1], batch[1][:-1]), loss, views=VIEWS)
