"""One training run: resumable, within its budget, on one process or many."""

import itertools
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dptheory import _validate
from dptheory._progress import ProgressLines
from dptheory._rounding import rounded_up
from dptheory.convergence import SCHEDULES
from dptheory.errors import ArgumentError
from dptheory.training import engine
from dptheory.training._files import is_own
from dptheory.training._last_weights import first_averaged
from dptheory.training._randomness import seeded
from dptheory.training.engine import BudgetError
from dptheory.training.mechanisms import GradualCooling
from dptheory.training.runs import _checkpoint
from dptheory.training.runs._config import AUGMENTATIONS, RunConfig
from dptheory.training.runs._plain_dp_sgd import accuracy
from dptheory.training.runs._prepare import DROPOUT, VIEWS, Run, last_step, prepare, rate_of, stream

# --- Ctrl-C and SIGTERM wait for the step under way


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C and SIGTERM back until the step under way is done; a second one comes through at once, as KeyboardInterrupt.

    With more processes it does not: all of them must stop after the same step, and torchrun itself sends a second signal.
    A signal that was ignored when the run began, as Ctrl-C is in a background job, stays ignored.

    Yields:
        A function that says whether there was one, in any process; every process must call it equally often.
    """
    asked: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if asked and not engine.active():
            signal.default_int_handler(signum, frame)
        asked.append(signum)

    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield lambda: False
        return
    found = {handled: signal.getsignal(handled) for handled in (signal.SIGINT, signal.SIGTERM)}
    before = {handled: handler for handled, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for handled in before:
            signal.signal(handled, note)
        yield lambda: engine.summed(len(asked), engine.communicating()) > 0
    finally:
        for handled, handler in before.items():
            signal.signal(handled, handler)


# --- Pooling in the order of memory in which PyTorch's kernels on the CPU are fast


@contextmanager
def pooled_channels_last(model: nn.Module) -> Iterator[None]:
    """Let every max pooling take its input with the channels last in memory, and give its output row by row as before.

    A step of the small network takes about four fifths of the time on a CPU. Scores are the same bit by bit; gradients up to
    the order of their sums. The output must lie as before: Opacus reads the input of the next convolution as if it did. Not for
    functorch's per-sample gradients, whose ``vmap`` knows one order of memory only.

    Args:
        model: has two hooks on each ``MaxPool2d`` meanwhile, as have the copies that are made of it, which keep them.

    Returns:
        A context.

    Raises:
        ValueError: a model that is none.

    Example: the maxima of an image of four pixels.
        >>> import torch
        >>> from dptheory.training.runs import pooled_channels_last
        >>> model = torch.nn.Sequential(torch.nn.MaxPool2d(2))
        >>> with pooled_channels_last(model):
        ...     model(torch.arange(4.0).view(1, 1, 2, 2)).item()
        3.0
    """
    _validate.instance("model", model, nn.Module)
    pools = [module for module in model.modules() if isinstance(module, nn.MaxPool2d)]
    hooks = [
        *(pool.register_forward_pre_hook(_channels_last) for pool in pools),
        *(pool.register_forward_hook(_row_by_row) for pool in pools),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _channels_last(_: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor | None:
    return inputs[0].contiguous(memory_format=torch.channels_last) if inputs[0].dim() == 4 else None


def _row_by_row(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.contiguous()


# --- How far a backward pass has to go for per-sample gradients


@contextmanager
def trained_outputs(model: nn.Module, counts: Callable[[], bool] = lambda: True) -> Iterator[list[GradientEdge]]:
    """Collect, of a forward pass, the outputs of the layers that have trained parameters.

    Opacus forms per-sample gradients from the gradients of these outputs. A pass back to them alone gives the same numbers, and
    spares the gradients of the parameters, sums over the batch that nobody reads: about a sixth of a step of the small network
    on a CPU.

    Args:
        counts: whether a pass that is under way is the one; the first may be preceded by passes that compare rows.
    """
    outputs: list[GradientEdge] = []

    def collect(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if counts():
            outputs.append(get_gradient_edge(output))

    hooks = [
        module.register_forward_hook(collect)
        for module in model.modules()
        if any(p.requires_grad for p in module.parameters(recurse=False))
    ]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def train(config: RunConfig, device: torch.device, out: Path, resume: bool) -> Run:
    """Run to the end, to the budget, or to Ctrl-C or SIGTERM, which leave a state that ``resume`` continues.

    Writes ``metrics.csv``, ``metrics.json`` and then ``checkpoint.pt`` into ``out`` after every epoch (the first process does;
    nothing before the first step), and keeps other runs out of it. A privacy statement and weights of fewer steps are
    removed; :func:`write_statement` and :func:`write_weights` write new ones.

    Args:
        config: of the run.
        device: where to train.
        out: folder, made where it is not there; without ``resume`` it must hold no file of a run.
        resume: go on from the state that the folder holds.

    Returns:
        The run at its end.

    Raises:
        KeyboardInterrupt: after the state was saved.
        ValueError, OSError: as :func:`prepare`; a folder that another run is using, a state that belongs to another
            configuration, or files of an earlier run, which would be lost.

    Example: one epoch of two steps, and its file.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.runs import CSV, from_dict, train
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 1000, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 4.0})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(config, torch.device("cpu"), Path(folder) / "run", resume=False)
        ...     (Path(folder) / "run" / CSV).exists()
        True
        >>> run.step, run.rows[0]["epoch"], run.rows[0]["epsilon"] < 2
        (2, 1, True)
    """
    with _checkpoint.locked(out):
        if not resume:
            _checkpoint.refuse_to_overwrite(out)
        run = prepare(config, device)
        if resume:
            _checkpoint.restore(run, out)
        _train(run, out)
    return run


def _train(run: Run, out: Path) -> None:
    console = Console(stderr=True)
    quiet = not (engine.first() and sys.stderr.isatty())
    lines = ProgressLines()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet) as progress:
        task = progress.add_task("training", total=run.steps, completed=run.step)

        def shown() -> None:
            progress.update(task, completed=run.step)
            lines.look(lambda: f"{run.step:,} of {run.steps:,} steps done")

        with interrupts_between_steps() as interrupted:
            while run.step < run.steps and not run.spent and not interrupted():
                _epoch(run, interrupted, shown)
                progress.update(
                    task, description=f"epsilon {rounded_up(run.rows[-1]['epsilon'])}" if run.rows else "training"
                )
                if engine.first() and run.step:
                    _checkpoint.save_all(run, out)
    if engine.first() and run.rows:  # also where no step was left to make
        _checkpoint.write_metrics(run, out)
    if run.step < run.steps and not run.spent:
        raise KeyboardInterrupt


def one_step(run: Run) -> tuple[float, int]:
    """One step on its Poisson batch, in physical batches; none where the budget forbids it, and then ``run.spent`` is set.

    Args:
        run: of :func:`prepare`.

    Returns:
        Sum of the losses and number of examples, of this process.

    Raises:
        ValueError: a physical batch does not fit into memory.

    Example: a step on about 500 of 2,000 images.
        >>> import torch
        >>> from dptheory.training.runs import from_dict, one_step, prepare
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> run = prepare(config, torch.device("cpu"))
        >>> one_step(run)[1] > 400, run.step
        (True, 1)
    """
    indices = run.batches.batch(run.step, *engine.place())
    parts = torch.split(indices, run.config.physical_batch_size) if len(indices) else (indices,)
    loss_sum = 0.0
    _set_learning_rate(run)
    run.optimizer.begin_batch(len(indices))
    drawn = torch.split(_draws(run, len(indices)), run.config.physical_batch_size * run.config.views)
    for number, (part, draws) in enumerate(zip(parts, drawn, strict=True), 1):
        run.optimizer.zero_grad()
        run.optimizer.signal_skip_step(do_skip=number < len(parts))
        try:
            loss_sum += _seeded_backward(run, part, draws, number)
            run.optimizer.step()
        except BudgetError:
            run.spent = True
            return 0.0, 0
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            raise ArgumentError(
                "physical_batch_size",
                "fit into memory",
                run.config.physical_batch_size,
                got=f"{run.config.physical_batch_size}: take a smaller one, the result is the same",
            ) from None
    if run.mean is not None and run.step >= first_averaged(run.steps, run.config.average or 1.0):
        run.mean.take()
    run.step += 1
    return loss_sum, len(indices)


def _set_learning_rate(run: Run) -> None:
    """Set the learning rate of the step: by its number, so that a run that goes on needs no state for it."""
    config = run.config.optimizer
    if config.schedule != "constant":
        factor = float(SCHEDULES[config.schedule](run.step / run.steps))
        for group in run.optimizer.param_groups:
            group["lr"] = config.learning_rate * factor
    if config.decay:
        gone = GradualCooling(
            final_drop_rate=config.decay,
            cooling_epochs=int(run.config.epochs),  # whole with a decay
            steps_per_epoch=run.steps / run.config.epochs,
        )
        for group in run.optimizer.param_groups:
            group["lr"] = config.learning_rate * (1 - gone(run.step))


def _out_of_memory(error: RuntimeError) -> bool:
    """Whether it is CUDA's error, or what torch raises where the CPU's memory does not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _draws(run: Run, count: int) -> torch.Tensor:
    """The random numbers of all views of a batch of so many examples: by seed and step, so that a run that goes on draws the same.

    Of the whole batch at once: what fits into memory together does not change them. A secure run needs no secret here, and takes
    torch's generator.
    """
    augmentation = AUGMENTATIONS[run.config.augmentation]
    if augmentation is None:
        return torch.zeros(count, 0)
    seeded_here = torch.Generator().manual_seed(stream(run.config.seed, VIEWS, run.step, engine.place()[0]))
    return augmentation.draws(count * run.config.views, None if run.config.secure else seeded_here)


def _seeded_backward(run: Run, part: torch.Tensor, draws: torch.Tensor, number: int) -> float:
    """What a network of the user's draws, as dropout does, goes by seed and step: a run that goes on draws the same."""
    if run.config.secure or not is_own(run.config.model):
        return _backward(run, part, draws)
    seed = stream(run.config.seed, DROPOUT, run.step, engine.place()[0], number)
    return seeded(seed, lambda: _backward(run, part, draws))


def _backward(run: Run, part: torch.Tensor, draws: torch.Tensor) -> float:
    """Per-sample gradients of part of a batch, and the sum of its losses, of an example the mean over its views."""
    if len(part) == 0:  # functorch's convolutions refuse empty batches
        for p in run.optimizer.params:
            p.grad_sample = p.new_zeros(0, *p.shape)
        return 0.0
    pixels, labels = _records(run, part).to(run.device), run.train.labels[part].to(run.device)
    augmentation, views = AUGMENTATIONS[run.config.augmentation], run.config.views
    if augmentation is not None:
        pixels, labels = augmentation.views(pixels, draws), labels.repeat_interleave(views)
    faster = run.config.grad_sample_mode != "functorch" and run.device.type == "cpu"
    by_factors = run.config.grad_sample_mode == "factors"
    run.private.passes.of_inputs_too = not by_factors  # gradients of layers' outputs are asked for, none of parameters
    with pooled_channels_last(run.model) if faster else nullcontext():
        with trained_outputs(run.model, lambda: run.private.passes.watch is None) as outputs:
            losses = nn.functional.cross_entropy(run.private(pixels), labels, reduction="none")
        if by_factors:
            torch.autograd.backward(losses.mean())
        else:
            torch.autograd.grad(losses.mean(), outputs)
    return float(losses.detach().sum()) / views


def _records(run: Run, part: torch.Tensor) -> torch.Tensor:
    """The records of a part: valid until those of the next one are asked for, whose backward pass comes after this one's step."""
    pixels = run.train.pixels
    if len(run.held) < len(part) or run.held.dtype != pixels.dtype:
        run.held = pixels.new_empty(min(run.config.physical_batch_size, len(pixels)), *pixels.shape[1:])
    return torch.index_select(pixels, 0, part, out=run.held[: len(part)])


def _epoch(run: Run, interrupted: Callable[[], bool], shown: Callable[[], object]) -> None:
    """Steps up to the end of the epoch or of the budget, and a row of metrics; none where it was interrupted."""
    started = time.perf_counter()
    rate = rate_of(run.config, len(run.train))
    epoch = next(e for e in itertools.count(1) if last_step(e, rate) > run.step)
    stopped = False
    end = min(last_step(epoch, rate), run.steps)  # the last epoch may be part of one
    while run.step < end and not run.spent and not stopped:
        loss, size = one_step(run)
        run.losses, run.seen = run.losses + loss, run.seen + size
        shown()
        stopped = interrupted()
    run.seconds += time.perf_counter() - started
    _sum_over_processes(run)
    whole = run.step == end
    if (not whole and not run.spent) or run.step == (run.rows[-1]["step"] if run.rows else 0):
        return
    run.rows.append(
        {
            "epoch": min(epoch, run.config.epochs),
            "step": run.step,
            "train_loss": run.losses / run.seen if run.seen else math.nan,
            "test_accuracy": _test_accuracy(run),
            "epsilon": run.optimizer.epsilon(run.config.delta),
            "nonfinite_samples": run.optimizer.nonfinite_samples,
            "seconds": run.seconds,
        }
    )
    run.losses, run.seen, run.seconds = 0.0, 0, 0.0


def _test_accuracy(run: Run) -> float:
    """Of the network that the run would give now, with averaged weights where there are some; NaN without records to judge by."""
    if not len(run.test):
        return math.nan
    with nullcontext() if run.mean is None else run.mean.inside():
        return accuracy(run.model, run.test, run.device)


def _sum_over_processes(run: Run) -> None:
    """Hand the first process, which writes the state, the sums over all."""
    losses, seen = engine.summed(run.losses, run.device), engine.summed(run.seen, run.device)
    run.losses, run.seen = (losses, seen) if engine.first() else (0.0, 0)
