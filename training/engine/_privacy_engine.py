"""``PrivacyEngine`` with Opacus's calls: a script of theirs moves over by its import and its constructor."""

import copy
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from opacus import GradSampleModule
from torch import nn
from torch.utils.data import DataLoader

from dptheory import _validate, privacy
from dptheory.errors import ArgumentError, ArgumentTypeError
from dptheory.files import write_atomically
from dptheory.training.engine._accountant import PrivacyAccountant
from dptheory.training.engine._optimizer import LARGEST, SMALLEST, MechanismOptimizer
from dptheory.training.engine._private import make_private, restored_after_errors
from dptheory.training.mechanisms import Mechanism
from dptheory.training.per_example import FACTORS

_HALVINGS = 60
"""Of an interval of 69 on the log scale: to the last digit."""
_LARGEST_BUDGET = 1e4
"""Of a composition; a larger one gets the noise of this one."""


def make_private_with_epsilon(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: DataLoader[Any],
    mechanism: Mechanism,
    target_epsilon: float,
    target_delta: float,
    epochs: int,
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
    """:func:`make_private` with the least noise for which so many passes over the loader keep within a budget.

    The budget holds: a step that would exceed it raises :class:`BudgetError`, and nothing of it is released
    (``optimizer.accountant.limit`` sets another one). What secret masks amplify is not counted in the choice of the noise.

    Args:
        module, optimizer, data_loader, mechanism, max_grad_norm, grad_sample_mode: as for :func:`make_private`.
        loss_reduction, noise_generator, secure, sampling, sampling_rate, steps_per_epoch, participations: as there.
        expected_batch_size, probe, views, augmentation: as there.
        target_epsilon: epsilon after the last pass, > 0; above 1e4 it gets the noise of 1e4.
        target_delta: in [1e-30, 0.99].
        epochs: passes over the loader that is returned, >= 1.

    Returns:
        As :func:`make_private`; the noise is ``optimizer.noise_multiplier``.

    Raises:
        ValueError: as :func:`make_private`; a budget that no noise keeps; a mechanism that is not private, or that spends on
            the choice of entries too, for which one number of the noise does not say what it spends.
        TypeError: a mechanism that is none.

    Example: two passes of two batches within epsilon 1.
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dptheory.training.engine import make_private_with_epsilon
        >>> from dptheory.training.mechanisms import DpSgd
        >>> model = torch.nn.Linear(3, 2)
        >>> data = TensorDataset(torch.rand(40, 3), torch.zeros(40, dtype=torch.long))
        >>> private, optimizer, loader = make_private_with_epsilon(module=model, mechanism=DpSgd(), max_grad_norm=1.0,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=DataLoader(data, batch_size=20),
        ...     target_epsilon=1.0, target_delta=1e-5, epochs=2)
        >>> round(optimizer.noise_multiplier, 1)
        4.1
    """
    epsilon = _validate.real("target_epsilon", target_epsilon, 0.0, ends="()")
    delta = _validate.real("target_delta", target_delta, *privacy.DELTA)
    passes = _validate.integer("epochs", epochs, 1)
    _validate.instance("module", module, nn.Module)
    with restored_after_errors(module):
        private, wrapped, batches = make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            mechanism=mechanism,
            noise_multiplier=1.0,
            max_grad_norm=max_grad_norm,
            grad_sample_mode=grad_sample_mode,
            loss_reduction=loss_reduction,
            noise_generator=noise_generator,
            secure=secure,
            sampling=sampling,
            sampling_rate=sampling_rate,
            steps_per_epoch=steps_per_epoch,
            participations=participations,
            expected_batch_size=expected_batch_size,
            probe=probe,
            views=views,
            augmentation=augmentation,
        )
        try:
            wrapped.noise_multiplier = _noise(mechanism, wrapped, epsilon, delta, steps=passes * len(batches))
        except ValueError:
            mechanism.leave()  # for a call that does not fail
            raise
    wrapped.accountant.limit(epsilon=epsilon, delta=delta, records=len(data_loader.dataset))  # type: ignore[arg-type]
    return private, wrapped, batches


def _noise(mechanism: Mechanism, optimizer: MechanismOptimizer, epsilon: float, delta: float, *, steps: int) -> float:
    """The least noise multiplier with which so many steps keep the budget."""
    try:
        needed = _needed(epsilon, delta, optimizer.accountant, steps)
    except ValueError as error:
        raise ArgumentError(
            "target_epsilon", f"be a budget that {steps} steps can keep", epsilon, then=f": {error}"
        ) from None
    return _noise_of_a_step(mechanism, [p.detach() for p in optimizer.params], needed)


def _needed(epsilon: float, delta: float, accountant: PrivacyAccountant, steps: int) -> float:
    """The least noise multiplier of Gaussian steps; over the whole range of the accountant, [1e-15, 1e15], where the first ends."""
    least, most = privacy.NOISE
    law: dict[str, Any] = (
        {"sampling": "random allocation", "steps_per_epoch": accountant.law[0], "participations": accountant.law[1]}
        if isinstance(accountant.law, tuple)
        else {"sampling_rate": accountant.law}
    )
    try:
        found = privacy.least_noise_multiplier(epsilon=epsilon, delta=delta, steps=steps, **law)
    except ValueError:
        found = most
    if least < found < most:
        return found
    part: privacy.Step | privacy.RandomAllocation = (
        privacy.RandomAllocation(
            noise_multiplier=1.0,
            steps_per_epoch=accountant.law[0],
            participations=accountant.law[1],
            count=steps // accountant.law[0],
        )
        if isinstance(accountant.law, tuple)
        else privacy.Step(noise_multiplier=1.0, sampling_rate=accountant.law, count=steps)
    )
    run = privacy.Composition((part,))
    return run.noise_scale(epsilon=min(epsilon, _LARGEST_BUDGET), delta=delta)


def _noise_of_a_step(mechanism: Mechanism, params: list[torch.Tensor], needed: float) -> float:
    """The least noise multiplier with which a step of the mechanism costs no more than a Gaussian one of the needed noise."""
    first = copy.deepcopy(mechanism)  # whose masks are drawn for this question alone
    first.begin_step(params)
    if first.cost(needed).selection is not None:
        raise ArgumentError(
            "mechanism",
            "spend on its values alone",
            mechanism,
            got=f"{mechanism.title}, which spends on the choice of entries too: give noise_multiplier to "
            "make_private, and see optimizer.epsilon(delta)",
        )

    def enough(sigma: float) -> bool:
        return first.cost(sigma).noise_multiplier >= needed

    if first.cost(needed).noise_multiplier == needed:
        return needed
    low, high = SMALLEST, LARGEST
    if not enough(high):
        raise ArgumentError(
            "mechanism",
            "keep the budget with enough noise on its values",
            mechanism,
            got=f"{mechanism.title}, which never does",
        )
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_MODULE, _OPTIMIZER, _ACCOUNTANT = "module_state_dict", "optimizer_state_dict", "privacy_accountant_state_dict"
_GENERATORS = "generator_states"
"""In files of earlier versions: they would bring noise and batches back."""
_FIXED = {
    "poisson_sampling": (True, "epsilon of shuffled batches is far larger than what is counted for Poisson batches"),
    "clipping": ("flat", "a mechanism clips the whole gradient"),
    "batch_first": (True, "examples stand first in every tensor"),
    "wrap_model": (True, "the model is wrapped"),
    "rand_on_empty": (False, "an empty batch has no examples"),
    "criterion": (None, "only ghost clipping wraps the loss, and it never forms the gradients that mechanisms need"),
}
"""Options of Opacus's engine: the only value that they have here, and why."""

Made = tuple[GradSampleModule, MechanismOptimizer, DataLoader[Any]]


class PrivacyEngine:
    """As Opacus's ``PrivacyEngine``, with an algorithm of choice: one engine for one run.

    Opacus's options of ``make_private`` may be given with the values that hold here (``poisson_sampling=True``,
    ``clipping="flat"``, ``batch_first=True``, ``wrap_model=True``, ``rand_on_empty=False``, ``criterion=None``); any other value
    is refused with the reason.

    Args:
        mechanism: see :mod:`dptheory.training.mechanisms`.
        secure_mode: ``secure`` of :func:`make_private`.

    Raises:
        TypeError: a mechanism that is none.
        ValueError: a ``secure_mode`` that is not True or False.

    Example: a loop for Opacus, with random sparsification.
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from dptheory.training import PrivacyEngine, mechanisms
        >>> model, data = torch.nn.Linear(3, 2), TensorDataset(torch.rand(40, 3), torch.zeros(40, dtype=torch.long))
        >>> engine = PrivacyEngine(mechanisms.RandomSparsification(mechanisms.Constant(0.5), seed=0))
        >>> private, optimizer, loader = engine.make_private(module=model, data_loader=DataLoader(data, batch_size=20),
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=100.0, max_grad_norm=1.0)
        >>> for features, labels in loader:
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(private(features), labels).backward()
        ...     _ = optimizer.step()
        >>> engine.get_epsilon(delta=1e-5) < 0.1
        True
    """

    def __init__(self, mechanism: Mechanism, *, secure_mode: bool = False) -> None:
        if not isinstance(mechanism, Mechanism):
            raise ArgumentTypeError("mechanism", "be one of dptheory.training.mechanisms", mechanism)
        self._mechanism = mechanism
        self._secure = _validate.flag("secure_mode", secure_mode)
        self._optimizer: MechanismOptimizer | None = None

    def make_private(self, *, noise_multiplier: float, **arguments: Any) -> Made:
        """:func:`dptheory.training.make_private` with this mechanism.

        Args:
            noise_multiplier: sigma, 0 or in [1e-15, 1e15].
            arguments: module, optimizer, data_loader, max_grad_norm and the rest of :func:`dptheory.training.make_private`; Opacus's
                options with the values that they have here.

        Raises:
            ValueError: another value of an option, an engine that has a run; otherwise as :func:`dptheory.training.make_private`.
        """
        kept = self._own(arguments)
        return self._keep(
            make_private(noise_multiplier=noise_multiplier, mechanism=self._mechanism, secure=self._secure, **kept)
        )

    def make_private_with_epsilon(
        self, *, target_epsilon: float, target_delta: float, epochs: int, **arguments: Any
    ) -> Made:
        """:func:`dptheory.training.make_private_with_epsilon` with this mechanism.

        Args:
            target_epsilon: > 0.
            target_delta: in [1e-30, 0.99].
            epochs: passes over the loader, >= 1.
            arguments: as for :meth:`make_private`.

        Raises:
            ValueError: as :meth:`make_private` and :func:`dptheory.training.make_private_with_epsilon`.
        """
        kept = self._own(arguments)
        return self._keep(
            make_private_with_epsilon(
                target_epsilon=target_epsilon,
                target_delta=target_delta,
                epochs=epochs,
                mechanism=self._mechanism,
                secure=self._secure,
                **kept,
            )
        )

    @property
    def accountant(self) -> PrivacyAccountant:
        """What the run has spent; a ValueError before :meth:`make_private`."""
        return self._run().accountant

    def get_epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far; delta in [1e-30, 0.99]."""
        return self._run().epsilon(delta)

    def save_checkpoint(
        self,
        *,
        path: str | Path,
        module: nn.Module,
        optimizer: MechanismOptimizer | None = None,
        checkpoint_dict: dict[str, Any] | None = None,
    ) -> None:
        """Write the states of model, accountant and optimizer under Opacus's keys, so that only the owner can read them.

        No file holds what noise or batches come from: it cannot bring them back.

        Args:
            path: of the file, which is written whole or not at all.
            module: the model, wrapped or not.
            optimizer: the one that :meth:`make_private` gave; without it its state is left out.
            checkpoint_dict: what else to keep: plain values and tensors.

        Raises:
            ValueError: before :meth:`make_private`, or a path that is none.
            OSError: the file cannot be written.
        """
        state = {**(checkpoint_dict or {}), _MODULE: module.state_dict(), _ACCOUNTANT: self.accountant.state_dict()}
        if optimizer is not None:
            state[_OPTIMIZER] = optimizer.state_dict()
        written = io.BytesIO()
        torch.save(state, written)
        write_atomically(_path(path), written.getvalue(), mode=0o600)

    def load_checkpoint(
        self, *, path: str | Path, module: nn.Module, optimizer: MechanismOptimizer | None = None
    ) -> dict[str, Any]:
        """Take over what :meth:`save_checkpoint` wrote.

        No noise, no mask and no batch repeats, however often a run goes back, and in however many runs: all are fresh from here
        on, also where seeds were given. Steps that this run made before stay counted.

        Args:
            path: of the file.
            module: a model of the same layers, wrapped as the one that was saved.
            optimizer: the one that :meth:`make_private` gave; without it only the accountant's steps are taken over.

        Returns:
            What else the file holds.

        Raises:
            ValueError: before :meth:`make_private`, a file of Opacus's own engine, one without a state that is wanted, or one
                with steps of another sampling rate than this run's.
            OSError: the file cannot be read.
        """
        accountant = self.accountant
        state = torch.load(_path(path), map_location="cpu", weights_only=True)
        wanted = {_MODULE, _ACCOUNTANT} | ({_OPTIMIZER} if optimizer is not None else set())
        missing = sorted(wanted - set(state))
        if missing:
            raise ArgumentError(
                "path", "be a checkpoint of save_checkpoint()", path, got=f"one without {', '.join(missing)}"
            )
        if "spent" not in state[_ACCOUNTANT]:
            raise ArgumentError(
                "path",
                "be a checkpoint of this engine",
                path,
                got=f"one of Opacus's, whose steps are counted in another way: load its {_MODULE!r} into the "
                "model, and add its epsilon to that of this run",
            )
        accountant.load_state_dict(state.pop(_ACCOUNTANT))
        module.load_state_dict(state.pop(_MODULE))
        held = state.pop(_OPTIMIZER, None)
        if optimizer is not None:
            optimizer.load_state_dict(held)
        state.pop(_GENERATORS, None)
        return dict(state)

    def _own(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments without Opacus's options."""
        if self._optimizer is not None:
            raise ArgumentError.about(
                "engine",
                self,
                "this engine has a run already: build one PrivacyEngine for each, as each has its own accountant",
            )
        for name, (only, why) in _FIXED.items():
            if name in arguments and arguments[name] != only:
                raise ArgumentError(name, f"be {only!r}", arguments[name], then=f": {why}")
        return {name: value for name, value in arguments.items() if name not in _FIXED}

    def _keep(self, made: Made) -> Made:
        self._optimizer = made[1]
        return made

    def _run(self) -> MechanismOptimizer:
        if self._optimizer is None:
            raise ArgumentError.about("engine", self, "this engine has no run yet: call make_private first")
        return self._optimizer


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise ArgumentError("path", "be a path", path)
    return Path(path)
