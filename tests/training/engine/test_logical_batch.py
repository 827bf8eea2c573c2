"""Batches in parts, and sums of gradients."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from opacus.layers import DPMultiheadAttention
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from dptheory.training.engine import attach
from dptheory.training.engine._logical_batch import GradientEdits, LogicalBatch
from dptheory.training.mechanisms import DpSgd
from dptheory.training.per_example._trial import MORE
from tests.refused import refused
from tests.training import sgd

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:In CPU autocast")

# --- No step releases an example twice, nor examples of two batches, whatever a loop does between two steps ---


N, EXPECTED, PART = 24, 12, 4


class Recording(DpSgd):
    """DP-SGD that notes what it releases before noise."""

    def __init__(self) -> None:
        self.totals: list[np.ndarray] = []

    def release(self, total, *, noise_multiplier, clip_norm, noise):
        self.totals.append(total[0].flatten().numpy().copy())
        return super().release(total, noise_multiplier=noise_multiplier, clip_norm=clip_norm, noise=noise)


class Loop:
    """A linear model on unit vectors: the gradient of example i is entry i alone, so that totals count examples."""

    def __init__(self, clip: float = 1.0, workers: int = 0, noise: float = 0.0, probe: bool = False) -> None:
        self.model = nn.Linear(N, 1, bias=False)
        self.mechanism = Recording()
        generator = torch.Generator().manual_seed(1)
        data = DataLoader(TensorDataset(torch.eye(N)), batch_size=EXPECTED, generator=generator, num_workers=workers)
        self.private, self.optimizer, self.batches = sgd.make_private(
            self.model, data, lr=1.0, mechanism=self.mechanism, noise_multiplier=noise, max_grad_norm=clip, probe=probe
        )
        self.drawn: list[set[int]] = []
        sampler = self.batches.batch_sampler
        law = sampler._batches

        class Noted:
            def batch(_, *where):
                indices = law.batch(*where)
                self.drawn.append(set(indices.tolist()))
                return indices

        sampler._batches = Noted()

    def parts(self):
        with BatchMemoryManager(
            data_loader=self.batches, max_physical_batch_size=PART, optimizer=self.optimizer
        ) as small:
            return iter(small)

    def backward(self, rows: torch.Tensor) -> None:
        self.private(rows).mean().backward()

    def step(self, rows: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.backward(rows)
        self.optimizer.step()


def test_a_step_after_an_abandoned_batch_is_one_pass() -> None:
    """The update has the norm of the examples of one batch."""
    loop = Loop()
    (rows,) = next(loop.parts())  # one part of several, and then a new pass
    loop.step(rows)
    assert not loop.mechanism.totals
    before = loop.model.weight.clone()
    for (rows,) in loop.parts():
        loop.step(rows)
        if loop.mechanism.totals:
            break
    (total,) = loop.mechanism.totals
    assert set(np.flatnonzero(total)) == loop.drawn[-1] and total.max() == 1.0
    moved = float((loop.model.weight - before).detach().norm())
    assert moved == pytest.approx(np.sqrt(len(loop.drawn[-1])) / EXPECTED, rel=1e-6)


ACTIONS = (
    "next", "next", "next", "next", "again", "zero", "break", "fail forward", "fail backward", "late backward", "no step", "step",
)  # fmt: skip


@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("in_parts", [True, False])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))])
def test_totals_hold_examples_of_one_batch_once(seed: int, in_parts: bool, probe: bool) -> None:
    """And none of a dry batch, whatever becomes of the comparison."""
    rng = np.random.default_rng(seed)
    loop = Loop(probe=probe)
    refused = 0

    def new_pass():
        return loop.parts() if in_parts else iter(loop.batches)

    batches, rows = new_pass(), None
    for action in rng.choice(ACTIONS, 800 if in_parts or probe else 250):
        count = len(loop.mechanism.totals)
        try:
            if action == "break" or rows is None:
                batches = new_pass()
                (rows,) = next(batches)
            if action == "next":
                (rows,) = next(batches)
                loop.step(rows)
            elif action == "again":  # the same part once more, as after a failure
                loop.step(rows)
            elif action == "zero":
                loop.optimizer.zero_grad()
            elif action == "fail forward":  # a forward pass whose backward pass never comes
                (rows,) = next(batches)
                loop.optimizer.zero_grad()
                loop.private(rows)
            elif action == "fail backward":  # gradients that are never handed on
                loop.optimizer.zero_grad()
                loop.backward(rows)
                loop.optimizer.zero_grad()
            elif action == "late backward":  # of a part that is no longer the last one handed out
                late = loop.private(rows).mean()
                (rows,) = next(batches)
                late.backward()
                loop.optimizer.step()
            elif action == "no step":
                (rows,) = next(batches)
            elif action == "step":
                loop.optimizer.step()
        except ValueError:
            refused += 1
        except StopIteration:
            batches = new_pass()
        for total in loop.mechanism.totals[count:]:
            assert total.max() <= 1.0
            held = set(np.flatnonzero(total))
            assert held == loop.drawn[-1] if in_parts else held in loop.drawn
    assert len(loop.mechanism.totals) > (0 if probe else 5) and refused > 5
    assert loop.optimizer.accountant.steps == len(loop.mechanism.totals) <= len(loop.drawn)


def test_a_pass_before_a_batch_is_drawn_is_none_of_it() -> None:
    """Of a dry batch once more, whose records would be released for those of a batch with as many."""
    loop = Loop(probe=True)
    batches = iter(loop.batches)
    for _ in range(5):
        (rows,) = next(batches)
        loop.step(rows)
    loop.optimizer.zero_grad()
    late = loop.private(rows).mean()
    loop.optimizer.loader_drew(len(rows))
    with refused("backward()"):
        late.backward()
    loop.step(rows)
    assert loop.optimizer.accountant.steps == 1


def test_the_same_part_is_retried_after_a_failure_and_the_batch_is_whole() -> None:
    loop = Loop()
    failed = False
    for (rows,) in loop.parts():
        if not failed:
            loop.optimizer.zero_grad()
            loop.private(rows)  # and the memory does not suffice for the backward pass
            failed = True
        loop.step(rows)
    assert [set(np.flatnonzero(total)) for total in loop.mechanism.totals] == loop.drawn


def test_a_forward_pass_that_is_not_followed_up_does_not_count() -> None:
    """A metric on the batch, without ``no_grad``: Opacus waits for a second backward pass."""
    loop = Loop()
    (rows,) = next(iter(loop.batches))
    kept = loop.private(rows)
    loop.backward(rows)
    loop.optimizer.step()
    assert len(kept) == len(rows) and loop.mechanism.totals[0].max() == 1.0
    assert set(np.flatnonzero(loop.mechanism.totals[0])) == loop.drawn[-1]


def test_empty_batches_that_the_loop_leaves_out_do_not_shift_the_signals() -> None:
    """In Opacus the signal of the batch left out ends the next one after its first part."""
    loop = Loop()
    law = iter([[], list(range(10)), [], [], list(range(5, 15))])
    loop.batches.batch_sampler._batches = type("Fixed", (), {"batch": lambda *_: torch.tensor(next(law))})()
    loop.batches.batch_sampler.steps = 5
    for (rows,) in loop.parts():
        if len(rows):
            loop.step(rows)
    assert [np.flatnonzero(t).tolist() for t in loop.mechanism.totals] == [list(range(10)), list(range(5, 15))]


@pytest.mark.parametrize("in_parts", [False, True])
def test_the_report_says_how_many_batches_had_no_step(in_parts: bool) -> None:
    """Those before a later step, and at the end of a pass; no dry ones."""
    loop = Loop(probe=True)
    law = itertools.cycle([[], list(range(10)), [], [], list(range(5, 15)), []])
    loop.batches.batch_sampler._batches = type("Fixed", (), {"batch": lambda *_: torch.tensor(next(law))})()
    loop.batches.batch_sampler.steps = 6
    for told in (3, 7):
        for (rows,) in loop.parts() if in_parts else loop.batches:
            if len(rows):
                loop.step(rows)
        report = loop.optimizer.privacy(1e-5)
        assert report.batches_left_out == told and f"without a step: {told}." in report.lines()[-1]
    whole = Loop(probe=True)
    for (rows,) in whole.batches:
        whole.step(rows)
    report = whole.optimizer.privacy(1e-5)
    assert report.batches_left_out == 0 and "without a step" not in str(report)


def test_a_release_that_fails_counts_and_leaves_the_batch_out() -> None:
    loop = Loop()
    release = loop.mechanism.release

    def fail(*_, **__):
        raise torch.OutOfMemoryError("noise")

    batches = iter(loop.batches)
    (rows,) = next(batches)
    loop.mechanism.release = fail
    with pytest.raises(torch.OutOfMemoryError):
        loop.step(rows)
    loop.mechanism.release = release
    assert loop.optimizer.accountant.steps == 1
    with refused("batch"):
        loop.step(rows)
    (rows,) = next(batches)
    loop.step(rows)
    assert loop.optimizer.accountant.steps == 2 and loop.mechanism.totals[-1].max() == 1.0


def test_an_update_that_fails_has_been_counted() -> None:
    loop = Loop()
    (rows,) = next(iter(loop.batches))
    loop.optimizer.original_optimizer.step = None
    with pytest.raises(TypeError):
        loop.step(rows)
    assert loop.optimizer.accountant.steps == 1  # p.grad holds the release


@pytest.mark.parametrize(
    "rows",
    [
        lambda rows: torch.cat([rows, rows]),
        lambda rows: rows.repeat_interleave(3, 0),
        lambda rows: rows[:-1],
    ],
)
def test_other_numbers_of_rows_than_examples_are_refused(rows) -> None:
    """Two batches at once, or several rows of one example: each row would be clipped to C."""
    loop = Loop()
    (drawn,) = next(iter(loop.batches))
    with refused("per-sample gradients", len(rows(drawn)), len(drawn)):
        loop.step(rows(drawn))
    assert not loop.mechanism.totals


def test_two_forward_passes_in_one_backward_are_refused() -> None:
    """Opacus adds them up row by row: an example of the one and an example of the other are clipped together."""
    loop = Loop()
    (drawn,) = next(iter(loop.batches))
    drawn = drawn[: len(drawn) // 2 * 2]
    loop.optimizer.loader_drew(len(drawn))
    loop.optimizer.zero_grad()
    first, second = drawn.chunk(2)
    ((loop.private(first).mean() + loop.private(second).mean()) / 2).backward()
    with refused("per-sample gradients", len(first), len(drawn)):
        loop.optimizer.step()
    assert not loop.mechanism.totals


@pytest.mark.parametrize("workers", [0, 1])
def test_no_batch_is_begun_that_the_loader_did_not_draw(workers: int) -> None:
    """Several steps on one batch, each begun anew: one release with the noise of all of them, at the price of steps apart."""
    loop = Loop(workers=workers)
    batches = list(loop.batches) if workers else iter(loop.batches)
    for (rows,) in itertools.islice(batches, 2):
        loop.optimizer.begin_batch()  # of what was drawn: it changes nothing
        loop.optimizer.begin_batch(len(rows))
        with refused("size", len(rows)):
            loop.optimizer.begin_batch(N + 1)
        loop.step(rows)
    for size in (None, len(rows)):
        with refused("batch", "begin_batch()", "attach"):
            loop.optimizer.begin_batch(size)
        with refused("batch"):
            loop.step(rows)
    assert loop.optimizer.accountant.steps == len(loop.mechanism.totals) == 2


def test_a_batch_in_parts_may_begin_again() -> None:
    """What it has left is dropped, and each example is in its step once."""
    loop = Loop()
    parts = loop.parts()
    loop.step(next(parts)[0])
    loop.optimizer.begin_batch()
    with refused("per-sample gradients"):
        for (rows,) in parts:
            loop.step(rows)
    assert not loop.mechanism.totals


@pytest.mark.parametrize("in_parts", [False, True])
def test_the_plain_loader_is_refused_from_the_start(in_parts: bool) -> None:
    """Its batches are no Poisson batches: the report would say of them what it says of those of the private loader."""
    loop = Loop()
    plain = DataLoader(TensorDataset(torch.eye(N)), batch_size=EXPECTED)
    if in_parts:
        with (
            BatchMemoryManager(data_loader=plain, max_physical_batch_size=PART, optimizer=loop.optimizer) as small,
            refused("do_skip"),
        ):
            next(iter(small))
    else:
        with refused("batch"):
            loop.step(next(iter(plain))[0])
    assert not loop.mechanism.totals and loop.optimizer.accountant.steps == 0
    (rows,) = next(iter(loop.batches))
    loop.step(rows)
    assert len(loop.mechanism.totals) == 1


class Rows(Dataset):
    """Unit vectors that worker processes make."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int):
        return (torch.eye(N)[i],)


def test_workers_draw_ahead() -> None:
    loop = Loop(workers=1)
    for (rows,) in loop.batches:
        loop.step(rows)
    assert [set(np.flatnonzero(total)) for total in loop.mechanism.totals] == loop.drawn
    with refused("num_workers"):
        next(loop.parts())


def attached():
    model = nn.Linear(N, 1, bias=False)
    mechanism = Recording()
    private, optimizer = sgd.attach(
        model, lr=1.0, mechanism=mechanism, sampling_rate=0.5, expected_batch_size=EXPECTED, noise_multiplier=0.0
    )

    def step(first: int, last: int, skip: bool | None = None) -> None:
        if skip is not None:
            optimizer.signal_skip_step(skip)
        optimizer.zero_grad()
        private(torch.eye(N)[first:last]).mean().backward()
        optimizer.step()

    return mechanism, optimizer, step


def test_callers_who_draw_batches_themselves_begin_them() -> None:
    """Otherwise a loader that yields two rows of each record would have each of them clipped by itself: twice the sensitivity."""
    mechanism, optimizer, step = attached()
    with refused("batch", "begin_batch()"):
        step(0, 3)
    with refused("do_skip", True):
        step(0, 3, skip=True)
    optimizer.params[0].grad_sample = torch.eye(N)[:3][:, None]  # of a batch that never got its step
    optimizer.begin_batch(6)
    with refused("weight", "make_private"):
        optimizer.step()
    optimizer.begin_batch(6)
    step(0, 3, skip=True)  # abandoned
    optimizer.begin_batch(5)
    step(2, 4, skip=True)
    with refused("do_skip"):
        step(4, 6)
    step(4, 7, skip=False)
    assert np.flatnonzero(mechanism.totals[0]).tolist() == [2, 3, 4, 5, 6] and len(mechanism.totals) == 1
    with refused("batch"):
        step(0, 3)
    assert len(mechanism.totals) == 1
    for size in (-1, 2.5, None):
        with refused("size"):
            optimizer.begin_batch(size)


def test_gradients_of_two_backward_passes_are_refused() -> None:
    mechanism, optimizer, step = attached()
    weight = optimizer.params[0]
    weight.grad_sample = [torch.eye(N)[:3][:, None], torch.eye(N)[:3][:, None]]
    with refused("weight", 2):
        optimizer.step()
    optimizer.begin_batch(3)
    step(0, 3)
    assert mechanism.totals[0].max() == 1.0


# --- layers that see none of the examples -----------------------------------------------------------------------------
class Routed(nn.Module):
    """Two experts: rows of a batch go to the first ``split`` or not."""

    def __init__(self, kind=nn.Linear) -> None:
        super().__init__()
        self.gate = nn.Linear(N, N, bias=False)
        self.experts = nn.ModuleList([nn.Linear(N, 1, bias=False), nn.Linear(N, 1, bias=False)])
        self.split = 0

    def forward(self, rows):
        hidden = self.gate(rows)
        parts = hidden[: self.split], hidden[self.split :]
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])


@pytest.mark.parametrize("mode", ["factors", "hooks", "functorch"])
def test_a_layer_without_rows_counts_as_zero(mode: str) -> None:
    model = Routed()
    private, optimizer = attach(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), mechanism=DpSgd(), sampling_rate=0.5,
        expected_batch_size=8, noise_multiplier=0.0, max_grad_norm=1.0, grad_sample_mode=mode, loss_reduction="sum",
    )  # fmt: skip

    def step(rows: int, split: int) -> list[torch.Tensor]:
        model.split = split
        optimizer.begin_batch(rows)
        optimizer.zero_grad()
        private(torch.eye(N)[:rows]).sum().backward()
        optimizer.step()
        return [total.clone() for total in optimizer.clipped_total]

    gate, first, second = step(8, 0)
    assert not first.any() and second.norm() > 0.1 and (gate.norm(dim=0) > 0).sum() == 8
    gate, first, second = step(8, 8)
    assert first.norm() > 0.1 and not second.any()
    gate, first, second = step(1, 0)
    assert not first.any() and second.any()
    with refused("experts.0.weight"):
        step(8, 3)
    assert not any(total.any() for total in step(0, 0))


# --- the rules by themselves ------------------------------------------------------------------------------------------
def part(batch: LogicalBatch, rows: int, more_follow: bool | None = None) -> bool:
    if more_follow is not None:
        batch.announce(more_follow)
    batch.check(rows)
    return batch.add(rows)[0]


def test_rows_of_all_parts_together_are_the_examples() -> None:
    batch = LogicalBatch()
    batch.begin(6)
    assert part(batch, 4, True) and batch.under_way and batch.rows == 4
    with refused("per-sample gradients", 7, 6):
        part(batch, 3, False)
    with refused("per-sample gradients", 5, 6):
        part(batch, 1, False)
    assert not part(batch, 2) and batch.rows == 6
    batch.begin(0)
    assert not part(batch, 1, False)  # one row of zeros of no example
    batch.begin(0)
    assert not part(batch, 0)
    batch.begin(2)
    with refused("per-sample gradients", 1, 2):
        part(batch, 1)


def test_a_batch_in_parts_is_held_against_its_own_size() -> None:
    """Not against that of a larger batch which the loop has left out."""
    batch = LogicalBatch()
    batch.begin_pass(drawn_ahead=False)
    for size in (20, 5):
        batch.drawn(size)
        batch.announce(True)
    with refused("per-sample gradients", 6, 5):
        part(batch, 6)


def test_whole_batches_fetched_beforehand_wait_in_order() -> None:
    batch = LogicalBatch()
    batch.begin_pass(drawn_ahead=True)
    for size in (3, 9, 4):
        batch.drawn(size)
    assert not part(batch, 9)  # the loop has left the first one out
    assert not part(batch, 4)
    with refused("batch"):
        part(batch, 1)
    batch.drawn(3)
    batch.begin_pass(drawn_ahead=True)
    with refused("batch"):
        part(batch, 1)


# --- Per-sample gradients that do not add up to the gradient of the batch are refused, and rounding is not ---


ROWS, MODES = 6, ["factors", "hooks", "functorch"]


def attached_sum(model: nn.Module, mode: str = "factors", reduction: str = "mean"):
    return sgd.attach(
        model, sampling_rate=0.1, expected_batch_size=ROWS, grad_sample_mode=mode, loss_reduction=reduction
    )


def step(private, optimizer, features, reduction: str = "mean") -> list[torch.Tensor]:
    """A step; gives its per-sample gradients, of which the parameters keep nothing."""
    sgd.backward(private, optimizer, features, torch.arange(len(features)) % 3, reduction)
    samples = [p.grad_sample for p in optimizer.params]
    optimizer.step()
    return samples


class Tied(nn.Module):
    """A weight used outside of its layer, but not for the few examples with which the engine looks for such."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.hidden = nn.Embedding(7, 4), nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.hidden(self.words(x).mean(1))
        return nn.functional.linear(hidden, self.words.weight if len(x) > MORE else self.words.weight.detach())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("parts", [False, True])
def test_weights_tied_in_a_function_call_are_refused(mode: str, parts: bool) -> None:
    private, optimizer = attached_sum(Tied(), mode)
    optimizer.begin_batch(ROWS)
    optimizer.signal_skip_step(parts)
    nn.functional.cross_entropy(private(torch.randint(7, (ROWS, 5))), torch.arange(ROWS)).backward()
    with refused("words.weight", "p.grad"):
        optimizer.step()
    assert optimizer.clipped_total is None and optimizer.accountant.steps == 0


def test_a_penalty_in_the_loss_is_refused() -> None:
    model = nn.Linear(5, 3)
    private, optimizer = attached_sum(model)
    optimizer.begin_batch(ROWS)
    (private(torch.randn(ROWS, 5)).square().mean() + model.weight.square().sum()).backward()
    with refused("weight", "p.grad", "weight_decay"):
        optimizer.step()


@pytest.mark.parametrize(
    ("name", "mode"),
    [("0.weight", "factors"), *((name, mode) for name in ("0.bias", "1.weight", "1.bias") for mode in MODES)],
)
def test_a_penalty_that_begins_later_is_refused(name: str, mode: str) -> None:
    """It would be private, and left out without a word."""
    private, optimizer = attached_sum(nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3)), mode)
    for _ in range(2):
        step(private, optimizer, torch.randn(ROWS, 5))
    optimizer.begin_batch(ROWS)
    optimizer.zero_grad()
    penalized = private.get_parameter(name)
    (private(torch.randn(ROWS, 5)).square().mean() + (penalized - 2.0).square().sum()).backward()
    with refused(name, "p.grad", "weight_decay"):
        optimizer.step()


def test_a_gradient_scaler_is_refused() -> None:
    private, optimizer = attached_sum(nn.Linear(5, 3))
    scaler = torch.amp.GradScaler("cpu")
    optimizer.begin_batch(ROWS)
    loss = nn.functional.cross_entropy(private(torch.randn(ROWS, 5)), torch.arange(ROWS) % 3)
    scaler.scale(loss).backward()
    with refused("weight", "p.grad", "GradScaler"):
        scaler.step(optimizer)


def test_what_is_unfrozen_is_compared_too() -> None:
    model = Tied()
    model.words.requires_grad_(False)
    private, optimizer = attached_sum(model)
    features = torch.randint(7, (ROWS, 5))
    step(private, optimizer, features)
    model.words.requires_grad_(True)
    with refused("words.weight", "p.grad"):
        step(private, optimizer, features)


def test_a_head_of_zeros_is_compared_as_soon_as_it_passes_gradients_on() -> None:
    """In the first step what lies before it has no gradient at all."""
    model = nn.Sequential(Tied(), nn.Linear(7, 3))
    nn.init.zeros_(model[1].weight)
    private, optimizer = attached_sum(model)
    features = torch.randint(7, (ROWS, 5))
    step(private, optimizer, features)
    with refused("0.words.weight", "p.grad"):
        step(private, optimizer, features)


# --- what adds up -----------------------------------------------------------------------------------------------------
class Attention(nn.Module):
    """The bias of its keys has no gradient but rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = DPMultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", MODES)
def test_precision_makes_no_difference(kind: torch.dtype, mode: str) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        private, optimizer = attached_sum(Attention().to(kind), mode)
        step(private, optimizer, torch.randn(50, 5, 4).to(kind))
        layers = nn.Sequential(nn.Linear(5, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 3)).to(kind)
        private, optimizer = attached_sum(layers, mode)
        step(private, optimizer, torch.randn(300, 5).to(kind))


@pytest.mark.parametrize("mode", MODES)
def test_autocast(mode: str) -> None:
    torch.manual_seed(0)
    private, optimizer = attached_sum(nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3)), mode)
    with torch.autocast("cpu", torch.bfloat16):
        step(private, optimizer, torch.randn(100, 5))


def test_gradients_left_from_before_are_not_compared() -> None:
    """``p.grad`` adds up where nobody clears it; so do parts of a batch."""
    model = nn.Linear(5, 3)
    data = DataLoader(TensorDataset(torch.randn(40, 5), torch.arange(40) % 3), batch_size=20)
    private, optimizer, batches = sgd.make_private(model, data)
    nn.functional.cross_entropy(model(torch.randn(4, 5)), torch.arange(4) % 3).backward()
    with BatchMemoryManager(data_loader=batches, max_physical_batch_size=6, optimizer=optimizer) as small:
        for features, labels in small:
            for p in model.parameters():
                p.grad_sample = None
            nn.functional.cross_entropy(private(features), labels).backward()
            optimizer.step()
    assert optimizer.accountant.steps == 2


def test_an_example_without_a_finite_gradient_is_no_difference() -> None:
    features = torch.randn(ROWS, 5)
    features[2] = torch.inf
    private, optimizer = attached_sum(nn.Linear(5, 3))
    step(private, optimizer, features)
    assert optimizer.nonfinite_samples == 1


# --- Edits of p.grad before step()
EDITS: dict[str, Callable[[nn.Parameter], object]] = {
    "times one": lambda p: p.grad.mul_(1.0),
    "another tensor": lambda p: setattr(p, "grad", p.grad.clone()),
    "an entry": lambda p: p.grad.view(-1)[0].fill_(0.0),
}


def after_backward() -> tuple[nn.Parameter, GradientEdits]:
    p = nn.Parameter(torch.ones(3))
    edits = GradientEdits({p: "p"})
    edits.follow([p])
    edits.follow([p])
    p.square().sum().backward()
    return p, edits


@pytest.mark.parametrize("name", EDITS)
def test_a_write_is_seen(name: str) -> None:
    p, edits = after_backward()
    EDITS[name](p)
    for _ in range(2):
        with refused("p.grad of p"):
            edits.check([p])


def test_what_backward_leaves_is_let_through() -> None:
    """Also the sum of two passes, what is cleared, and what no pass has left."""
    p, edits = after_backward()
    p.sum().backward()
    edits.check([p])
    p.grad.zero_()
    edits.forget()
    edits.check([p])
    p.grad = None
    edits.check([p])
