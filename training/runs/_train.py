"""One training run: resumable, within its budget, on one process or many."""

import itertools
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import nn

from dptheory import privacy
from training import engine
from training.data import Images, load, standardised
from training.engine import (
    Batches,
    BudgetError,
    MechanismOptimizer,
    PartitionBatches,
    PoissonBatches,
    SecureBatches,
    attach,
)
from training.networks import SCATTERING_INPUT, pooled_channels_last, scattering_features
from training.runs import _build, _checkpoint
from training.runs._config import RunConfig
from training.runs._plain_dp_sgd import accuracy

_WEIGHTS, _BATCHES, _NOISE, _MASKS = range(4)
AUXILIARY = {"excerpt": "excerpt", "fashion-mnist": "fashion-mnist", "mnist": "excerpt", "cifar-10": "cifar-10"}
"""Where images that nothing protects come from: test images of the set named, which is not always that of the run.

They are the first of the test images; half of them at most, where the run is judged by the same set. A run whose mechanism
takes some is judged by the others, as in GEP, Appendix C; all other runs by all test images.
"""


@dataclass
class Run:
    """A run that is set up, and can be stepped; :func:`prepare` makes it.

    Attributes:
        config: what it is made of.
        model: the plain network.
        private: the same with Opacus's hooks.
        optimizer: what releases gradients.
        batches: of every step.
        train, test: the images.
        device: where it trains.
        steps: planned.
        step: made so far.
        losses, seen: sum of the losses of this epoch, and of how many examples.
        seconds: of this epoch so far.
        spent: whether the budget stopped it.
        rows: metrics of the epochs so far.
    """

    config: RunConfig
    model: nn.Module
    private: GradSampleModule
    optimizer: MechanismOptimizer
    batches: Batches
    train: Images
    test: Images
    device: torch.device
    steps: int
    _: KW_ONLY
    step: int = 0
    losses: float = 0.0
    seen: float = 0
    seconds: float = 0.0
    spent: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)


def stream(seed: int, purpose: int) -> int:
    """An independent seed for the weights, the batches, the noise or the masks."""
    return int(np.random.SeedSequence((seed, purpose)).generate_state(1, np.uint32)[0])


def prepare(config: RunConfig, device: torch.device) -> Run:
    """Load the data, build model, mechanism and optimizer.

    Args:
        config: of the run.
        device: where it trains.

    Returns:
        The run before its first step.

    Raises:
        ValueError: a configuration that does not fit together.
        OSError: data files are missing and cannot be fetched.

    Example:
        >>> import torch
        >>> from training.runs import from_dict, prepare
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 2, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0, "mechanism": {"name": "random-sparsification", "drop_rate": 0.5}})
        >>> run = prepare(config, torch.device("cpu"))
        >>> run.steps, run.optimizer.mechanism.title
        (8, 'random sparsification')
    """
    train, test = (_inputs(config, load(name=config.data, train=t)) for t in (True, False))
    if config.batch_size > len(train):
        raise ValueError(f"batch_size must be at most the {len(train)} training examples, got {config.batch_size}")
    rate = config.batch_size / len(train)
    steps = last_step(config.epochs, rate)
    auxiliary = _build.Auxiliary(lambda: _auxiliary(config, test))
    model = _build.build_model(config.model, features=train.pixels[0].numel(), seed=stream(config.seed, _WEIGHTS))
    model = model.to(device).train()
    _build.check_shape(model, config, train, device)
    setting = _build.Setting(
        run=config,
        model=model,
        steps_per_epoch=last_step(1, rate),
        steps=steps,
        seed=None if config.secure else stream(config.seed, _MASKS),
        auxiliary=auxiliary,
    )
    mechanism = _build.build_mechanism(setting, config.mechanism)
    module = DifferentiallyPrivateDistributedDataParallel(model) if engine.active() else model
    private, optimizer = attach(
        module=module,
        optimizer=_build.build_optimizer(model, config.optimizer),
        mechanism=mechanism,
        sampling_rate=rate,
        train_size=len(train),
        noise_multiplier=_noise_multiplier(config, rate, steps),
        max_grad_norm=config.max_grad_norm,
        grad_sample_mode=config.grad_sample_mode,
        noise_generator=None if config.secure else torch.Generator(device).manual_seed(stream(config.seed, _NOISE)),
        secure=config.secure,
        partition=config.sampling == "partition",
    )
    if config.epsilon is not None:
        optimizer.ledger.limit(epsilon=config.epsilon, delta=config.delta)
    if config.secure:
        batches: Batches = SecureBatches(train_size=len(train), sampling_rate=rate)
    elif config.sampling == "partition":
        batches = PartitionBatches(
            train_size=len(train), batch_size=config.batch_size, seed=stream(config.seed, _BATCHES)
        )
    else:
        batches = PoissonBatches(train_size=len(train), sampling_rate=rate, seed=stream(config.seed, _BATCHES))
    if AUXILIARY[config.data] == config.data:
        test = Images(test.name, test.pixels[auxiliary.used :], test.labels[auxiliary.used :])
    return Run(config, model, private, optimizer, batches, train, test, device, steps)


def last_step(epoch: int, rate: float) -> int:
    """Steps made at the end of the epochs 1, 2, ...: as many as batches of the expected size hold so many passes."""
    return max(epoch, round(epoch / rate))


def train(config: RunConfig, device: torch.device, out: Path, resume: bool) -> Run:
    """Run to the end, to the budget, or to Ctrl-C or SIGTERM, which leave a state that ``resume`` continues.

    Writes ``metrics.csv``, ``metrics.json`` and ``checkpoint.pt`` into ``out`` after every epoch (the first process does), and
    keeps other runs out of it.

    Args:
        config: of the run.
        device: where to train.
        out: folder, made where it is not there; without ``resume`` it must hold no state.
        resume: go on from the state that the folder holds.

    Returns:
        The run at its end.

    Raises:
        KeyboardInterrupt: after the state was saved.
        ValueError, OSError: as :func:`prepare`; a folder that another run is using, a state that belongs to another
            configuration, or one that would be lost.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from training.runs import CSV, from_dict, train
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
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet) as progress:
        task = progress.add_task("training", total=run.steps, completed=run.step)
        with interrupts_between_steps() as interrupted:
            while run.step < run.steps and not run.spent and not interrupted():
                _epoch(run, interrupted, lambda: progress.update(task, completed=run.step))
                progress.update(task, description=f"epsilon {run.rows[-1]['epsilon']:.3g}" if run.rows else "training")
                if engine.first():
                    _checkpoint.save(run, out)
                    _checkpoint.write_metrics(run, out)
    if engine.first() and run.rows:  # also where an interruption fell between the two files
        _checkpoint.write_metrics(run, out)
    if run.step < run.steps and not run.spent:
        raise KeyboardInterrupt


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


def one_step(run: Run) -> tuple[float, int]:
    """One step on its Poisson batch, in physical batches; none where the budget forbids it, and then ``run.spent`` is set.

    Args:
        run: of :func:`prepare`.

    Returns:
        Sum of the losses and number of examples, of this process.

    Raises:
        ValueError: a physical batch does not fit into memory.

    Example:
        >>> import torch
        >>> from training.runs import from_dict, one_step, prepare
        >>> config = from_dict({"data": "excerpt", "model": "linear-probe", "epochs": 1, "batch_size": 500, "max_grad_norm": 1.0,
        ...     "noise_multiplier": 2.0})
        >>> run = prepare(config, torch.device("cpu"))
        >>> one_step(run)[1] > 400, run.step
        (True, 1)
    """
    indices = run.batches.batch(run.step, *engine.place())
    parts = torch.split(indices, run.config.physical_batch_size) if len(indices) else (indices,)
    loss_sum = 0.0
    run.optimizer.begin_batch(len(indices))
    for number, part in enumerate(parts, 1):
        run.optimizer.zero_grad()
        run.optimizer.signal_skip_step(do_skip=number < len(parts))
        try:
            loss_sum += _backward(run, part)
            run.optimizer.step()
        except BudgetError:
            run.spent = True
            return 0.0, 0
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            raise ValueError(
                f"physical_batch_size must fit into memory, got {run.config.physical_batch_size}: take a smaller one, the "
                "result is the same"
            ) from None
    run.step += 1
    return loss_sum, len(indices)


def _out_of_memory(error: RuntimeError) -> bool:
    """Whether it is CUDA's error, or what torch raises where the CPU's memory does not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _backward(run: Run, part: torch.Tensor) -> float:
    """Per-sample gradients of part of a batch, and the sum of its losses."""
    if len(part) == 0:  # functorch's convolutions refuse empty batches
        for p in run.optimizer.params:
            p.grad_sample = p.new_zeros(0, *p.shape)
        return 0.0
    pixels, labels = run.train.pixels[part].to(run.device), run.train.labels[part].to(run.device)
    hooks = run.config.grad_sample_mode == "hooks"
    with warnings.catch_warnings(), pooled_channels_last(run.model) if hooks else nullcontext():
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        losses = nn.functional.cross_entropy(run.private(pixels), labels, reduction="none")
        losses.mean().backward()  # type: ignore[no-untyped-call]
    return float(losses.detach().sum())


def _epoch(run: Run, interrupted: Callable[[], bool], shown: Callable[[], object]) -> None:
    """Steps up to the end of the epoch or of the budget, and a row of metrics; none where it was interrupted."""
    started = time.perf_counter()
    rate = run.config.batch_size / len(run.train)
    epoch = next(e for e in itertools.count(1) if last_step(e, rate) > run.step)
    stopped = False
    while run.step < last_step(epoch, rate) and not run.spent and not stopped:
        loss, size = one_step(run)
        run.losses, run.seen = run.losses + loss, run.seen + size
        shown()
        stopped = interrupted()
    run.seconds += time.perf_counter() - started
    _sum_over_processes(run)
    whole = run.step == last_step(epoch, rate)
    if (not whole and not run.spent) or run.step == (run.rows[-1]["step"] if run.rows else 0):
        return
    run.rows.append(
        {
            "epoch": epoch,
            "step": run.step,
            "train_loss": run.losses / run.seen if run.seen else math.nan,
            "test_accuracy": accuracy(run.model, run.test, run.device),
            "epsilon": run.optimizer.epsilon(run.config.delta),
            "nonfinite_samples": run.optimizer.nonfinite_samples,
            "seconds": run.seconds,
        }
    )
    run.losses, run.seen, run.seconds = 0.0, 0, 0.0


def _sum_over_processes(run: Run) -> None:
    """Hand the first process, which writes the state, the sums over all."""
    losses, seen = engine.summed(run.losses, run.device), engine.summed(run.seen, run.device)
    run.losses, run.seen = (losses, seen) if engine.first() else (0.0, 0)


def _noise_multiplier(config: RunConfig, rate: float, steps: int) -> float:
    """The configured sigma, or the least that affords all steps; a selection's own cost may stop such a run earlier.

    Rounded up to six decimals: the last digits of the accountant's sums differ from process to process, and a run must not.
    """
    if config.noise_multiplier is not None:
        return config.noise_multiplier
    assert config.epsilon is not None
    return (
        math.ceil(
            privacy.least_noise_multiplier(epsilon=config.epsilon, delta=config.delta, sampling_rate=rate, steps=steps)
            * 1e6
        )
        / 1e6
    )


def _auxiliary(config: RunConfig, test: Images) -> torch.Tensor:
    """The images that a mechanism may take as not protected."""
    name = AUXILIARY[config.data]
    if name == config.data:
        return test.pixels[: len(test) // 2]
    return _inputs(config, load(name=name, train=False)).pixels


def _inputs(config: RunConfig, images: Images) -> Images:
    """The images as the model takes them: standardised, and scattering coefficients for the networks on them."""
    if config.inputs == "standardised":
        images = standardised(images)
    if config.model not in ("scattering-cnn", "scattering-linear"):
        return images
    if images.pixels.shape[1:] != SCATTERING_INPUT:
        shape = tuple(images.pixels.shape[1:])
        raise ValueError(
            f"model {config.model!r} takes images of shape {SCATTERING_INPUT}, got {config.data!r}: {shape}"
        )
    return Images(images.name, scattering_features(images.pixels), images.labels)
