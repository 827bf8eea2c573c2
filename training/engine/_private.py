"""``make_private``: a plain PyTorch loop becomes one of the papers' algorithms."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from opacus import GradSampleModule
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus.grad_sample.gsm_base import AbstractGradSampleHooks
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training._streams import LOADER, Stream, digest
from dptheory.training.engine import _distributed
from dptheory.training.engine._attention import adapt_attention
from dptheory.training.engine._distributed import DistributedMechanismOptimizer
from dptheory.training.engine._dry_steps import OFF, DrySteps
from dptheory.training.engine._hooked_layers import check_held, check_layers, refuse_writes
from dptheory.training.engine._optimizer import LARGEST, SMALLEST, MechanismOptimizer
from dptheory.training.engine._privacy_report import ADD_REMOVE, ALLOCATION, PARTITION, POISSON, ZERO_OUT
from dptheory.training.engine._random_states import Collating, from_global_torch
from dptheory.training.engine._records import SideBySide, Views, check_records, indexed
from dptheory.training.engine._sampling import (
    AllocatedBatches,
    Batches,
    GeneratorBatches,
    PartitionBatches,
    PoissonSampler,
    SecureBatches,
)
from dptheory.training.mechanisms import Mechanism
from dptheory.training.per_example import FACTORS, MODES, HookedModule, LayerHook, attributes_of

if TYPE_CHECKING:
    from dptheory.training.engine._optimizer import MechanismOptimizer

_RAN: "WeakSet[nn.Module]" = WeakSet()


def ran_before(module: nn.Module) -> bool:
    """Whether a layer of the module was in a run of this process."""
    return any(layer in _RAN for layer in module.modules())


def note_run(module: nn.Module) -> None:
    """Remember the layers of a run, as long as they are there."""
    _RAN.update(module.modules())


def follow_run(optimizer: "MechanismOptimizer", streams: Iterable[Stream], *, module: nn.Module, again: bool) -> None:
    """Make streams those of a run: a state that it takes over renews them.

    One seed draws other numbers for another model or other weights at the start, frozen ones too, and from the first step on at
    which settings differ: the same run can be repeated, and a run with a lower learning rate, or on other frozen layers, has no
    noise in common with it. Of a model that was in a run of this process before (``again``) nothing is repeated.
    """

    def origin() -> bytes:
        named = {
            f"{name} {_plain(v)!r}" for group in optimizer.param_groups for name, v in group.items() if name != "params"
        }
        fixed = (optimizer.mechanism.title, optimizer.accountant.law, sorted(named))
        held = (*optimizer.params, *module.parameters(), *module.buffers())
        built = [(type(m).__name__, m.extra_repr()) for m in module.modules() if not any(True for _ in m.children())]
        return digest(held) + repr((fixed, built)).encode() + (os.urandom(32) if again else b"")

    def settings() -> str:
        rates = sorted({repr(_plain(group.get("lr"))) for group in optimizer.param_groups})
        return repr((_plain(optimizer.noise_multiplier), _plain(optimizer.max_grad_norm), rates))

    def states_loaded() -> tuple[int, int]:
        return id(optimizer.accountant), optimizer.accountant.states_loaded

    for stream in streams:
        stream.bind(origin=origin, settings=settings, loaded=states_loaded)


def _plain(value: object) -> object:
    """One number for equal ones, as 0 and 0.0."""
    return float(value) if isinstance(value, int | float) else value


GRAD_SAMPLE_MODES = MODES
_GHOST = "it serves DP-SGD alone; 'factors' forms no more than it does, for every mechanism"
_MODES_OF_OPACUS = {
    "ghost": _GHOST,
    "ghost_fsdp": _GHOST,
    "ew": "its expanded weights fail on empty Poisson batches",
    "no_op": "per-sample gradients must come from the backward pass",
}
"""Modes of Opacus that are not here, with the reason."""
_LEAST_RATE = 1e-12
_SAMPLINGS = ("poisson", ALLOCATION)
_REFUSED = {
    torch.optim.LBFGS: "evaluates the loss several times per step, and each batch has one private gradient",
    torch.optim.SparseAdam: "takes sparse gradients only, and noise falls on every entry; take torch.optim.Adam",
}
"""Optimizers that cannot take a released gradient, with the reason."""


def make_private(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    mechanism: Mechanism,
    noise_multiplier: float,
    max_grad_norm: float,
    grad_sample_mode: str = FACTORS,
    loss_reduction: str = "mean",
    noise_generator: torch.Generator | None = None,
    secure: bool = False,
    sampling: str = "poisson",
    sampling_rate: float | None = None,
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    expected_batch_size: float | None = None,
    probe: bool = True,
    views: int = 1,
    augmentation: Callable[[Any], Any] | None = None,
) -> tuple[GradSampleModule, MechanismOptimizer, DataLoader[Any]]:
    """As Opacus's ``PrivacyEngine.make_private``, with an algorithm of choice; batches are Poisson-sampled, or randomly allocated.

    The rate and the divisor of a "mean" loss are the caller's: constants that do not depend on the data. Without them they are
    taken from the loader, as batch_size / N and batch_size. Then the number N of examples is public, and neighbours are data
    sets of N records, one of which is replaced by a null record (``optimizer.privacy(delta).adjacency`` says which it is). A
    pass over the loader has max(1, round(1 / rate)) batches; the divisor is never the size of the batch drawn.

    With ``sampling="random allocation"`` every record is in exactly k of the t batches of a pass, independently of the others: what a
    shuffled loader is taken for, and is not. Batches have no fixed size. Every pass is an epoch of its own, and counts as a whole
    one from its first batch on: who leaves a pass early, or resumes a run within one, pays for another epoch.

    Epsilon needs records apart: no record may change the gradient of another one, in a layer, in the loss or anywhere in the
    loop; nor may their number, which is private, too. So the loader first hands out six dry batches, and two more after 10, 100 and
    1,000 steps: one batch, the same again, with records replaced, and with one less. ``optimizer.step()`` compares the gradients of
    the other records and releases nothing: no noise, no count, no update. A scheduler that steps with every batch counts them. Random
    states of torch, NumPy and Python are the same for each and as before after the last, and dropout rests. A comparison sees what its
    records show; ``optimizer.privacy(delta)`` says whether there was one. Leave dry batches out (``probe=False``) where the loop
    releases more than its steps: each dry pass would release it again.

    A call that fails leaves the module as it was.

    Args:
        module: the model; for several processes, Opacus's ``DifferentiallyPrivateDistributedDataParallel`` around it, and no
            other.
        optimizer: any torch optimizer over its trainable parameters but LBFGS and SparseAdam.
        data_loader: over a data set with a length, in order or shuffled, in which every record stands once. ``drop_last`` means
            nothing to Poisson batches. One number is drawn from its generator, as their seed; without one it comes from the
            operating system, and ``torch.manual_seed`` does not reach it.
        mechanism: see :mod:`dptheory.training.mechanisms`; a new one for every run, seeded alike in every process of a distributed one.
        noise_multiplier: sigma, 0 or in [1e-15, 1e15]; :func:`make_private_with_epsilon` works out the least for a budget.
        max_grad_norm: clip C in [1e-15, 1e15].
        grad_sample_mode: "factors", which works out norms, sums and projections from what layers took in and gave out; "hooks",
            tensors by Opacus's formulas, "functorch", or "whole network": a pass of the model for each example, the slowest and the
            strictest. All four give the same up to rounding. The first three take the last one by themselves for the parameters that no
            layer's hook can reach or whose rows are not the examples', and say so once.
        loss_reduction: "mean" or "sum", as the loss does it. A mean must divide by the number of examples only. One that divides
            by weights of classes, or by tokens that are no padding, changes with the other examples, so that epsilon does not
            hold: take ``reduction="none"``, a mean for each example, then ``.mean()``. Dry steps refuse the other.
        noise_generator: for runs that can be repeated; of any device. One number is drawn from it, as the seed of the noise;
            without it the seed comes from the operating system. Equal seeds, of it, of the loader's generator and of the
            mechanism, have no random numbers in common. They give the same run where model, weights and settings are the same,
            too: on a model of an earlier run, and after a state was loaded, noise, masks and batches are fresh.
        secure: batches, masks and noise from the operating system's cryptographic generator. Then the mechanism is built with
            ``seed=None``, and neither ``noise_generator`` nor a generator of the loader may be given. Without it the run is a
            simulation, and masks amplify nothing.
        sampling: "poisson", or "random allocation".
        sampling_rate: with which each example is drawn into a step, in [1e-12, 1]; with ``expected_batch_size``, or neither.
        steps_per_epoch: t of random allocation, 1..1e6; with ``expected_batch_size``, or neither: then it is k N / batch_size,
            rounded, and the divisor k N / t.
        participations: k of random allocation, 1..t; None for 1.
        expected_batch_size: divisor of a "mean" loss, in [1e-15, 1e15].
        probe: whether there are dry batches. Without them, and where the loop's gradients are random beyond what can be
            repeated, the report says "not probed".
        views: rows of an example in the model, at least 1. Its gradient is the mean over them, and is clipped once, so that the
            accountant counts what it counts without; every view clipped by itself would be ``views`` times the sensitivity. The
            rows of one example lie together, and the loss is the mean over all rows (or their sum, with "sum").
        augmentation: draws a view of a record: it is called ``views`` times for each, with the record as the data set gives it,
            by the loader that is returned. A transform of ``torchvision.transforms.v2`` is one (of a record (image, label) it
            changes the image), and so is :class:`dptheory.training.data.CropsAndFlips`. None where there are no views, or where
            the loader's ``collate_fn`` or the loop makes them.

    Returns:
        The module that computes per-sample gradients, the optimizer (``optimizer.privacy(delta)`` says what is spent, and what
        that rests on), and the loader that draws the batches.

    Raises:
        ValueError: a bad argument, a mechanism of an earlier run, a layer that mixes samples (batch normalisation) or writes to
            its own weights (an embedding with ``max_norm``), a loader that does not draw uniformly or whose data set visibly
            holds a record twice, an optimizer that cannot take a released gradient or leaves trainable parameters out, or a
            seed or generator together with ``secure``. ``optimizer.step()`` of a dry batch raises one where a record's gradient
            depends on another record: it names the layer, or the loss, and what to write instead.
        TypeError: a mechanism that is none.

    Example: one pass over forty examples in batches of about twenty.
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dptheory.training import make_private
        >>> from dptheory.training.mechanisms import DpSgd
        >>> model = torch.nn.Linear(3, 2)
        >>> data = TensorDataset(torch.rand(40, 3), torch.zeros(40, dtype=torch.long))
        >>> private, optimizer, loader = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=20), mechanism=DpSgd(), noise_multiplier=100.0, max_grad_norm=1.0)
        >>> for features, labels in loader:
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(private(features), labels).backward()
        ...     _ = optimizer.step()
        >>> report = optimizer.privacy(delta=1e-5)
        >>> report.steps, report.adjacency, report.epsilon < 0.1
        (2, 'zero-out', True)
    """
    batch_size, examples = _uniform(data_loader)
    allocates = _validate.choice("sampling", sampling, _SAMPLINGS) == ALLOCATION
    law = {"sampling_rate": sampling_rate, "steps_per_epoch": steps_per_epoch}
    _check_law(law, participations, expected_batch_size, sampling)
    _validate.flag("probe", probe)
    views = _validate.integer("views", views, 1)
    records: Dataset[Any] = data_loader.dataset
    data, plain = indexed(records, data_loader.collate_fn), data_loader.collate_fn
    if augmentation is not None:
        data, plain = Views(records, views=views, augmentation=augmentation), SideBySide(plain)
    public = expected_batch_size is None
    if secure and data_loader.generator is not None:
        raise ArgumentError(
            "data_loader", "have no generator with secure=True: batches come from the operating system's", data_loader
        )
    batches: AllocatedBatches | SecureBatches | GeneratorBatches
    if allocates:
        k = 1 if participations is None else _validate.integer("participations", participations, 1)
        t = max(1, round(k * examples / batch_size)) if steps_per_epoch is None else steps_per_epoch
        batches = AllocatedBatches(train_size=examples, steps_per_epoch=t, participations=k, seed=data_loader.generator)
        rate, steps = batches.participations / batches.steps_per_epoch, batches.steps_per_epoch
    else:
        rate = batch_size / examples if public else _validate.real("sampling_rate", sampling_rate, _LEAST_RATE, 1.0)
        steps = max(1, round(1 / rate))
        batches = (
            SecureBatches(train_size=examples, sampling_rate=rate)
            if secure
            else GeneratorBatches(train_size=examples, sampling_rate=rate, generator=data_loader.generator)
        )
    collate = Collating(plain, data[0], data[examples - 1], chance=(1.0 - rate) ** examples)
    _validate.instance("module", module, nn.Module)
    again = ran_before(module)
    private, wrapped = attach(
        module=module,
        optimizer=optimizer,
        mechanism=mechanism,
        sampling_rate=None if allocates else rate,
        train_size=examples if public else None,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        grad_sample_mode=grad_sample_mode,
        loss_reduction=loss_reduction,
        noise_generator=noise_generator,
        secure=secure,
        expected_batch_size=batch_size if public and not allocates else expected_batch_size,
        views=views,
        batches=batches,
    )
    if not isinstance(batches, SecureBatches) and batches.stream is not None:
        follow_run(wrapped, [batches.stream], module=module, again=again)
    if not allocates:
        wrapped.sampler = POISSON
    wrapped.loader_begins(drawn_ahead=data_loader.num_workers > 0)  # no batch but the loader's makes a step
    place = _distributed.place() if isinstance(module, DifferentiallyPrivateDistributedDataParallel) else (0, 1)
    wrapped.probe(
        DrySteps(
            data=records,
            indices=range(place[0], examples, place[1]),
            size=min(max(2, round(rate * examples / place[1])), examples // place[1]),
            model=private,
            keep_torch=from_global_torch(noise_generator, data_loader.generator),
            views=views,
        )
        if probe
        else OFF
    )
    sampler = PoissonSampler(
        batches,
        train_size=len(range(place[0], examples, place[1])),
        sampling_rate=rate,
        steps=steps,
        place=place,
        listener=wrapped,
        drawn_ahead=data_loader.num_workers > 0,
    )
    return private, wrapped, _with_batches(data_loader, data, sampler, collate)


def _check_law(
    law: dict[str, Any], participations: int | None, expected_batch_size: float | None, sampling: str
) -> None:
    """See that rate or steps are given with the divisor, or neither, and that they are those of the sampling."""
    allocates = sampling == ALLOCATION
    own, other = ("steps_per_epoch", "sampling_rate") if allocates else ("sampling_rate", "steps_per_epoch")
    strange = {other: law[other], "participations": None if allocates else participations}
    for name, value in strange.items():
        if value is not None:
            raise ArgumentError(name, f"be left out with sampling {sampling!r}", value)
    if (law[own] is None) != (expected_batch_size is None):
        raise ArgumentError(
            f"{own} and expected_batch_size",
            "be given together",
            law[own],
            got=f"{law[own]!r} and {expected_batch_size!r}",
        )


def attach(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    mechanism: Mechanism,
    sampling_rate: float | None = None,
    train_size: int | None = None,
    noise_multiplier: float,
    max_grad_norm: float,
    grad_sample_mode: str = FACTORS,
    loss_reduction: str = "mean",
    noise_generator: torch.Generator | None = None,
    secure: bool = False,
    expected_batch_size: float | None = None,
    batches: Batches | None = None,
    views: int = 1,
) -> tuple[GradSampleModule, MechanismOptimizer]:
    """:func:`make_private` for callers that draw batches themselves.

    They call ``optimizer.begin_batch(size)`` before the first part of every batch.

    No dry batches compare records here. Whose the rows of a layer are is seen before the 1st, 4th, 16th, ... forward pass (of all, and
    of the first, second and third ones of batches), and before every one of more examples than any so far: a loss of some examples
    alone must leave gradients in their rows and in no other. Layers with rows in another order (sorted by length, say) take a pass of
    the model for each example, and a model that mixes examples is refused. Not seen is what leaves no gradient there (an idle expert,
    detached statistics), what a model does between those passes, and what the loss or the loop mixes: :func:`check_rows_apart`
    compares that, and "whole network" needs no order of rows.

    Args:
        module, optimizer, mechanism, noise_multiplier, max_grad_norm, grad_sample_mode, loss_reduction, noise_generator: as
            for :func:`make_private`.
        sampling_rate: with which each example is drawn into a step, in [1e-12, 1], whichever process then has it; left out with
            ``batches`` of random allocation alone.
        train_size: number of training examples of all processes, 1..1e12, where it is public: neighbours then differ by a
            record that is replaced by a null record. Without it they differ by a record that is added or removed.
        secure: says that the caller draws batches from the operating system's generator, as
            :class:`dptheory.training.engine.SecureBatches` does; the rest as for :func:`make_private`.
        expected_batch_size: divisor of a "mean" loss, a constant in [1e-15, 1e15]; where ``train_size`` is given it may be left
            out, and is then its product with the rate.
        batches: what the caller draws from, where that is not Poisson: :class:`dptheory.training.engine.AllocatedBatches`, whose
            epochs are counted, each from its first batch on; or :class:`dptheory.training.engine.PartitionBatches`, with which every
            example counts as one of every batch, and ``sampling_rate`` is only that of the divisor.
        views: as for :func:`make_private`: the caller hands the model so many rows of every example, those of one together.

    Returns:
        The module that computes per-sample gradients, and the optimizer.

    Raises:
        ValueError: neither ``train_size`` nor ``expected_batch_size``; otherwise as :func:`make_private`.
        TypeError: a mechanism that is none.

    Example: two steps in a loop that draws its own batches.
        >>> import torch
        >>> from dptheory.training.engine import PoissonBatches, attach
        >>> from dptheory.training.mechanisms import DpSgd
        >>> pixels, labels, model = torch.rand(40, 3), torch.zeros(40, dtype=torch.long), torch.nn.Linear(3, 2)
        >>> batches = PoissonBatches(train_size=40, sampling_rate=0.5, seed=0)
        >>> private, optimizer = attach(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mechanism=DpSgd(),
        ...     sampling_rate=0.5, expected_batch_size=20, noise_multiplier=100.0, max_grad_norm=1.0)
        >>> for step in range(2):
        ...     drawn = batches.batch(step)
        ...     optimizer.begin_batch(len(drawn))
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(private(pixels[drawn]), labels[drawn]).backward()
        ...     _ = optimizer.step()
        >>> optimizer.privacy(delta=1e-5).steps
        2
    """
    if batches is not None and not callable(getattr(batches, "batch", None)):
        raise ArgumentError("batches", "be None or draw the batch of every step", batches)
    own = batches if isinstance(batches, AllocatedBatches) else None
    if own is None:
        rate = _validate.real("sampling_rate", sampling_rate, _LEAST_RATE, 1.0)
    elif sampling_rate is not None:
        raise ArgumentError("sampling_rate", "be left out with batches of random allocation", sampling_rate)
    else:
        rate = own.participations / own.steps_per_epoch
    drawn_at = getattr(batches, "sampling_rate", rate)
    if drawn_at != rate:  # what is accounted for must be what is drawn
        raise ArgumentError("sampling_rate", f"be that of batches, {drawn_at!r}", rate)
    partition = isinstance(batches, PartitionBatches)
    if secure and (partition or getattr(batches, "seed", None) is not None):
        raise ArgumentError("batches", "come from the operating system's generator with secure=True", batches)
    if train_size is not None:
        train_size = _validate.integer("train_size", train_size, 1, 10**12)
        expected_batch_size = rate * train_size if expected_batch_size is None else expected_batch_size
    if expected_batch_size is None:
        raise ArgumentError("train_size or expected_batch_size", "be given", train_size, got="None and None")
    expected = _validate.real("expected_batch_size", expected_batch_size, SMALLEST, LARGEST)
    views = _validate.integer("views", views, 1)
    _validate.instance("module", module, nn.Module)
    _validate.instance("optimizer", optimizer, torch.optim.Optimizer)
    if isinstance(grad_sample_mode, str) and grad_sample_mode in _MODES_OF_OPACUS:
        raise ArgumentError(
            "grad_sample_mode",
            f"be one of {GRAD_SAMPLE_MODES}",
            grad_sample_mode,
            then=f": {_MODES_OF_OPACUS[grad_sample_mode]}",
        )
    _validate.choice("grad_sample_mode", grad_sample_mode, GRAD_SAMPLE_MODES)
    _check_module(module, optimizer)
    parallel = isinstance(module, DifferentiallyPrivateDistributedDataParallel)
    if parallel:  # Opacus divides by each process's share of the batch, and then by the number of processes
        expected /= torch.distributed.get_world_size()
    with restored_after_errors(module):
        wrapped = (DistributedMechanismOptimizer if parallel else MechanismOptimizer)(
            optimizer,
            mechanism=mechanism,
            sampling_rate=1.0 if partition else rate,
            names={p: name for name, p in module.named_parameters()},
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected,
            loss_reduction=loss_reduction,
            generator=noise_generator,
            secure=secure,
            adjacency=ADD_REMOVE if train_size is None else ZERO_OUT,
            views=views,
            batches=own,
        )
        adapt_attention(module)
        private = HookedModule(module, loss_reduction=loss_reduction, mode=grad_sample_mode, views=views)
        private.forbid_grad_accumulation()
        wrapped.track(private)
        refuse_writes(private)
        mechanism.belong(private)
        follow_run(wrapped, [wrapped.noise_stream, *mechanism.streams()], module=module, again=ran_before(module))
        note_run(module)
    if partition:
        wrapped.sampler = PARTITION
    return private, wrapped


def _check_module(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    hooks = (hook for m in module.modules() for hook in m._forward_hooks.values())
    if isinstance(module, GradSampleModule) or any(
        isinstance(hook, LayerHook) or isinstance(getattr(hook, "__self__", None), AbstractGradSampleHooks)
        for hook in hooks
    ):
        raise ArgumentError(
            "module",
            "not be private yet: take a fresh copy, or what to_standard_module() of the private one gives back",
            module,
        )
    _check_processes(module)
    for kind, why in _REFUSED.items():
        if isinstance(optimizer, kind):
            raise ArgumentError(
                "optimizer",
                "be one that takes one dense gradient per step",
                optimizer,
                got=f"{kind.__name__}, which {why}",
            )
    known = set(module.parameters())
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if any(p not in known for p in held):
        raise ArgumentError("optimizer", "hold parameters of module only", optimizer, got="others")
    if not any(p.requires_grad for p in held):
        raise ArgumentError("optimizer", "hold a parameter with requires_grad", optimizer, got="none")
    check_held(module, held)
    check_layers(module)


def _check_processes(module: nn.Module) -> None:
    """See that several processes add up their clipped totals, draw noise once and keep one set of weights."""
    alone = not isinstance(module, DifferentiallyPrivateDistributedDataParallel) and _distributed.place()[1] > 1
    if alone or isinstance(module, nn.parallel.DistributedDataParallel):
        raise ArgumentError(
            "module",
            "be Opacus's DifferentiallyPrivateDistributedDataParallel around the model where several "
            "processes train it",
            module,
            got=f"{type(module).__name__}: each would make steps and weights of its own",
        )


def _uniform(loader: DataLoader[Any]) -> tuple[int, int]:
    """Batch size and number of examples of a loader whose samples are uniform."""
    for must, value, fault in _not_uniform(loader):
        raise ArgumentError("data_loader", must, value, got=fault)
    check_records(loader.dataset)
    examples = len(loader.dataset)  # type: ignore[arg-type]
    return _validate.integer("batch_size of data_loader", loader.batch_size, 1, examples), examples  # type: ignore[arg-type]


def _not_uniform(loader: Any) -> Iterator[tuple[str, object, str | None]]:
    """What a loader must be, what of it is not so, and what it is instead."""
    if not isinstance(loader, DataLoader):
        yield "be a torch DataLoader", loader, None
    if isinstance(loader.dataset, IterableDataset):
        yield "be over a data set with a length: Poisson sampling needs all examples at hand", loader, None
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        yield "have a batch_size and no batch_sampler: its batches are replaced by Poisson batches", loader, None
    examples, sampler = len(loader.dataset), loader.sampler
    whole = type(sampler) in (SequentialSampler, DistributedSampler) or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == examples
    )
    if not whole:
        yield (
            "take its whole data set in order or shuffled",
            type(sampler).__name__,
            f"{type(sampler).__name__}: Poisson sampling draws every example with one rate (for a subset use "
            "torch.utils.data.Subset)",
        )
    if examples == 0:
        yield "have at least one example", None, "none"


def _with_batches(
    loader: DataLoader[Any], data: Dataset[Any], sampler: PoissonSampler, collate: Collating
) -> DataLoader[Any]:
    """The loader with other batches in place of its own."""
    return DataLoader(
        data,
        batch_sampler=sampler,
        collate_fn=collate,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=None if loader.generator is None else Stream(loader.generator, LOADER).on("cpu"),  # seeds of workers
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


# --- A call that fails leaves the model as it was


@contextmanager
def restored_after_errors(module: nn.Module) -> Iterator[None]:
    """Give the module and its parameters back the attributes, hooks and flags that they had, if the block fails."""
    kinds, put_back = [(m, type(m)) for m in module.modules()], attributes_of(module)
    parameters = [(p, dict(vars(p)), p.requires_grad, p.grad) for p in module.parameters()]
    try:
        yield
    except BaseException:
        for m, kind in kinds:
            m.__class__ = kind
        put_back()
        for p, attributes, trained, gradient in parameters:
            vars(p).clear()
            vars(p).update(attributes)
            p.requires_grad_(trained)
            p.grad = gradient
        raise
