"""The Opacus optimizer that runs a mechanism at its two hook points."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NoReturn

import torch
from opacus.optimizers import DPOptimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dptheory import _validate, privacy
from dptheory.errors import ArgumentError, ArgumentTypeError
from dptheory.privacy import PrivacyStatement
from dptheory.training.engine._accountant import PrivacyAccountant
from dptheory.training.engine._dry_steps import CALLERS, DrySteps, Trial
from dptheory.training.engine._hooked_layers import HookedLayers, without_gradient
from dptheory.training.engine._logical_batch import GradientEdits, GradientSums, LogicalBatch
from dptheory.training.engine._noise import noise_of, secure_noise
from dptheory.training.engine._privacy_report import (
    ADD_REMOVE,
    ADJACENCIES,
    CALLER,
    SECURE,
    SEEDED,
    ZERO_OUT,
    PrivacyReport,
    allocated,
    stated,
)
from dptheory.training.engine._sample_gradients import mark_done, of_one_batch
from dptheory.training.engine._sampling import AllocatedBatches
from dptheory.training.mechanisms import Mechanism, Noise, StepCost, Tensors
from dptheory.training.per_example import ForwardPass, HookedModule, PerExampleGradients


class Uncopied:
    """Refuses ``copy`` and ``pickle``: a copy of torch's ``Optimizer`` puts its hooks into the class, for all of them."""

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: take state_dict()")


SMALLEST, LARGEST = 1e-15, 1e15
"""Of clip, noise multiplier and expected batch size: their products are numbers in single precision."""
_STATE = ("optimizer", "mechanism", "accountant", "nonfinite_samples", "generator")
_HYPERPARAMETERS = ("sampling rate", "expected batch size", "number of steps", "clip", "noise multiplier")


class MechanismOptimizer(Uncopied, DPOptimizer):  # type: ignore[misc]
    """Hands per-sample gradients to a mechanism and its release to any torch optimizer.

    Works with what Opacus's own optimizer works with: hooks and functorch per-sample gradients, Poisson sampling with the
    expected batch size as divisor, and batches in parts (``BatchMemoryManager``). Build it with :func:`dptheory.training.make_private`.

    A batch in parts starts with :meth:`begin_batch`; then comes, for each part, a signal whether more follow, and one ``step()``.
    See :class:`dptheory.training.engine._logical_batch.LogicalBatch`: no step releases an example twice.

    Args:
        optimizer: any torch optimizer.
        mechanism: the algorithm.
        sampling_rate: of the Poisson batches, in (0, 1].
        names: of the parameters, in the order of the module: mechanisms take them in it.
        noise_multiplier: sigma, 0 or in [1e-15, 1e15].
        max_grad_norm: clip C in [1e-15, 1e15]; a schedule may change it, from the next batch on.
        expected_batch_size: divisor of a "mean" loss in [1e-15, 1e15]: a constant, or the rate times the public
            number of examples.
        loss_reduction: "mean" (over the number of examples only, as for :func:`dptheory.training.make_private`) or "sum".
        generator: one number is drawn from it, as the seed of the noise; None for a seed from the operating system.
        secure: noise from the operating system's cryptographic generator. Says that batches are drawn so, too.
        adjacency: "add-remove", or "zero-out" where rate or divisor depend on the number of examples.
        sampler: how batches are drawn, for the report.
        views: rows of an example in the model, >= 1: its gradient is the mean over them, and is clipped once.
        batches: of random allocation, from which steps are drawn, and by whose epochs they are counted; None for Poisson batches.

    Attributes:
        mechanism: the algorithm.
        accountant: what has been spent.
        noise_stream: random numbers of the noise, where it is not secure.
        sampler: how batches are drawn, for the report.
        secure: whether masks, batches and noise come from the cryptographic generator.
        views: rows of an example in the model.
        nonfinite_samples: samples so far whose gradient held NaN or infinity; they contribute zero.
        clipped_total: what the mechanism summed up for the step under way, or the last one, before noise.

    Raises:
        ValueError: an argument outside its range, or ``secure`` together with a generator or a seeded mechanism.
        TypeError: ``mechanism`` is none.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        mechanism: Mechanism,
        sampling_rate: float,
        names: Mapping[torch.Tensor, str],
        noise_multiplier: float,
        max_grad_norm: float,
        expected_batch_size: float,
        loss_reduction: str = "mean",
        generator: torch.Generator | None = None,
        secure: bool = False,
        adjacency: str = ADD_REMOVE,
        sampler: str = CALLER,
        views: int = 1,
        batches: AllocatedBatches | None = None,
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise ArgumentTypeError("mechanism", "be one of dptheory.training.mechanisms", mechanism)
        noise_multiplier = _validate.real("noise_multiplier", noise_multiplier, 0.0, LARGEST)
        if 0.0 < noise_multiplier < SMALLEST:
            raise ArgumentError("noise_multiplier", f"be 0 or at least {SMALLEST:g}", noise_multiplier)
        clip = _validate.real("max_grad_norm", max_grad_norm, SMALLEST, LARGEST)
        secure = _validate.flag("secure", secure)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise ArgumentError("noise_generator", "be a torch.Generator or None", generator)
        if secure and generator is not None:
            raise ArgumentError(
                "noise_generator",
                "be None with secure=True",
                generator,
                then=": cryptographic noise cannot be repeated",
            )
        if secure and mechanism.seeded:
            raise ArgumentError(
                "mechanism",
                "draw its masks from the operating system's generator with secure=True: build it with seed=None",
                mechanism,
            )
        mechanism.check_clip(clip)
        _validate.choice("adjacency", adjacency, ADJACENCIES)
        accountant = (
            PrivacyAccountant(sampling_rate)
            if batches is None
            else PrivacyAccountant(steps_per_epoch=batches.steps_per_epoch, participations=batches.participations)
        )
        if batches is not None:
            sampler = allocated(batches.steps_per_epoch, batches.participations)
        self._names = names
        self._ordered: tuple[list[int], list[Any]] = [], []  # numbers of the trained parameters, and these in order
        super().__init__(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=clip,
            expected_batch_size=_validate.real("expected_batch_size", expected_batch_size, SMALLEST, LARGEST),
            loss_reduction=_validate.choice("loss_reduction", loss_reduction, ("mean", "sum")),
            generator=None,  # whoever holds the one that was given could set it back
        )
        self.mechanism = mechanism
        self._accountant = accountant
        self.secure = secure
        self.views = _validate.integer("views", views, 1)
        self.nonfinite_samples = 0
        self.clipped_total: Tensors | None = None
        self._added: Tensors | None = None
        self._clip = clip  # of the batch under way
        self._adjacency = adjacency
        accountant.basis.update(secure=secure, adjacency=adjacency, sampler=sampler)
        self.noise_stream, seeded_noise = noise_of(generator)
        self._noise: Noise = secure_noise if secure else seeded_noise
        self._released: Tensors = []
        self._nonfinite = 0
        self._summed: Tensors = []  # the parameters whose totals these are
        self._batch = LogicalBatch(views=self.views)
        self._layers: HookedLayers | None = None
        self._sums = GradientSums(names, mean=self.loss_reduction == "mean", views=self.views)
        self._edits = GradientEdits(names)
        self._gradients_cleared = False  # since the last forward pass
        self._dry: DrySteps | None = None
        self._not_probed = CALLERS
        self._batches = batches
        self._counted = self._stepped = 0  # epochs and batches of these
        self._makes_step = False

    @property
    def sampler(self) -> str:
        """How batches are drawn, for the report; a state of steps of another sampler is refused."""
        return str(self.accountant.basis["sampler"])

    @sampler.setter
    def sampler(self, sampler: str) -> None:
        self.accountant.basis["sampler"] = sampler

    @property
    def accountant(self) -> PrivacyAccountant:
        """What has been spent; another one is refused, which would count the steps of this run at the sampling rate of its own."""
        return self._accountant

    @accountant.setter
    def accountant(self, accountant: object) -> None:
        raise ArgumentError.about(
            "accountant",
            accountant,
            "accountant must stay the optimizer's own, which counts at its own sampling rate: of several runs on the same records, "
            "compose optimizer.accountant.composition().parts of each in one dptheory.privacy.Composition",
        )

    @property
    def expected_batch_size(self) -> float:
        """Divisor of a "mean" loss; another one is refused: that of the drawn batch would show how many records there are."""
        return self._expected_batch_size

    @expected_batch_size.setter
    def expected_batch_size(self, size: float) -> None:
        if "_expected_batch_size" in vars(self):  # Opacus's __init__ sets it once
            raise ArgumentError.about(
                "expected_batch_size",
                size,
                "expected_batch_size must stay what make_private set: a divisor that follows the drawn batch is not covered by "
                "epsilon; give make_private a constant, or change the learning rate",
            )
        self._expected_batch_size = size

    # --- what was spent -----------------------------------------------------------------------------------------------

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps so far, with what the mechanism itself spends; inf if it is not private.

        See :meth:`privacy` for what it rests on. ``delta`` in [1e-30, 0.99], otherwise a ValueError.
        """
        return self.accountant.epsilon(delta)

    def privacy(self, delta: float) -> PrivacyReport:
        """The guarantee of all steps so far, and what it rests on; delta in [1e-30, 0.99]."""
        delta = _validate.real("delta", delta, *privacy.DELTA)
        known = ("number of training examples",) if self._adjacency == ZERO_OUT else ()
        if self.views > 1:
            known = (*known, "views of an example")
        return PrivacyReport(
            epsilon=self.epsilon(delta),
            delta=delta,
            adjacency=self._adjacency,
            sampler=self.sampler,
            sampling_rate=self.accountant.sampling_rate,
            steps=self.accountant.steps,
            noise=SECURE if self.secure else SEEDED,
            secure=self.secure,
            epsilon_if_secure=self.accountant.epsilon_if_secure(delta),
            public=(*_HYPERPARAMETERS, *known, *self.mechanism.public),
            releases=self.accountant.releases,
            records_apart=self._not_probed if self._dry is None else self._dry.says,
            batches_left_out=self._batch.without_step,
        )

    def statement(self, delta: float, *, seeds: tuple[str, ...] = ()) -> PrivacyStatement:
        """The privacy statement of all steps so far, in seconds; delta in [1e-30, 0.99], the seeds of a run in words."""
        return stated(self.privacy(delta), self.accountant.composition, mechanism=self.mechanism.title, seeds=seeds)

    # --- batches and their parts --------------------------------------------------------------------------------------

    def begin_batch(self, size: int | None = None) -> None:
        """Say that a batch was drawn, whose first part comes next; what an earlier one has left is dropped. For :func:`attach`.

        Args:
            size: number of its examples, >= 0: a step that sees another number of rows of gradients is refused, and so is a second
                step on the same batch. None where the loader of ``make_private`` draws the batches, which knows it.

        Raises:
            ValueError: no size where the caller draws the batches; or the loader of ``make_private`` does, each for one step, and
                none of that size waits for its own.
        """
        self._batch.begin(size)
        self._forget_passes()

    def loader_begins(self, *, drawn_ahead: bool) -> None:
        """What the loader of ``make_private`` says before a pass.

        Args:
            drawn_ahead: worker processes draw batches before the loop asks for them.
        """
        self._batch.begin_pass(drawn_ahead)
        if self._dry is not None:
            self._dry.begin_pass()

    def loader_tries(self) -> list[int] | None:
        """The next batch of which a step is to release nothing; None where there is none."""
        found = None if self._dry is None else self._dry.next()
        if found is None:
            return None
        self._drawn(len(found[1]), found[0])
        return found[1]

    def loader_drew(self, size: int) -> None:
        """What the loader of ``make_private`` says of every batch."""
        self._drawn(size)

    def _drawn(self, size: int, trial: Trial | None = None) -> None:
        """A batch was drawn; passes while none was waiting are none of it."""
        if self._layers is not None and not self._batch.waits:
            self._layers.leave_out_passes()
        self._batch.drawn(size, trial)

    def signal_skip_step(self, do_skip: bool = True) -> None:
        """Say of the part that comes next whether more parts of its batch follow it; good for one step.

        Raises:
            ValueError: no batch was begun, or parts are drawn ahead, so that signal and part would not meet.
        """
        self._batch.announce(do_skip)
        if self._batch.from_loader:
            self._forget_passes()

    def probe(self, dry: DrySteps | str) -> None:
        """Compare the gradients of the loader's dry batches, or say why not; ``make_private`` calls it once."""
        self._dry, self._not_probed = (None, dry) if isinstance(dry, str) else (dry, "")

    def track(self, private: HookedModule) -> None:
        """Learn whose layers hold what belongs to a batch; ``make_private`` calls it once."""
        self._layers = HookedLayers(private, self)
        handle = register_optimizer_step_pre_hook(partial(_refuse_bare_step, weakref.ref(self)))
        weakref.finalize(self, handle.remove)
        private.passes.looked_at = self._sums.wants
        private.register_forward_pre_hook(ForwardPass(self._before_forward), with_kwargs=True)

    def _before_forward(self, *given: object) -> None:
        if self._dry is not None:
            self._dry.forward_begins(self._batch.dry_is_next is not None, list(given))
        if self._layers is not None:
            self._layers.begin(self._batch.whole)
            if self._layers.follow():
                self._sums.start_again()
        self._edits.follow(self.params)
        self._sums.before_forward(self.params)
        if self._gradients_cleared:
            self._forget_passes()  # one that failed, for instance for want of memory

    def _forget_passes(self) -> None:
        """Without ``zero_grad()`` or a new part, several forward passes may belong to one backward pass."""
        self._gradients_cleared = False
        if self._layers is not None:
            self._layers.forget_passes()

    @property
    def params(self) -> list[Any]:
        """The trained parameters, in the order of the module, whichever groups of the optimizer hold them."""
        found = super().params
        numbers = [id(p) for p in found]
        if numbers != self._ordered[0]:
            order = {id(p): place for place, p in enumerate(self._names)}
            self._ordered = numbers, sorted(found, key=lambda p: order.get(id(p), len(order)))
        return list(self._ordered[1])

    @property
    def accumulated_iterations(self) -> int:
        """1: each backward pass has a step of its own."""
        return 1

    @property
    def grad_samples(self) -> PerExampleGradients:
        """Per-sample gradients of all trainable parameters, checked; zeros where a layer saw none of the examples."""
        why = None if self._layers is None else self._layers.why_missing()
        return of_one_batch(self.params, self._names, why)

    def clip_and_accumulate(self) -> None:
        """Clip what the backward pass left, and add it to the totals of the step.

        Raises:
            ValueError: no gradients, or such as do not belong to the batch under way, or ``max_grad_norm`` outside its range; the
                totals stay as they are.
        """
        samples = self.grad_samples
        # All checks come before the totals: a loop may try a refused part again, which must not be in them twice.
        self._batch.check(samples.examples)
        params = self.params
        arrived = self._edits.check(params)
        self._sums.check(params, samples, [p for p in arrived if self._layers is not None and self._layers.strays(p)])
        self._edits.forget()
        if self._batch.is_dry(samples.examples):
            self._compare(params, samples)
            return
        if self._dry is not None:
            self._dry.check()
        if not self._batch.under_way:
            # One clip for all parts of a batch: noise is scaled by it, and a larger one for some part would exceed the sensitivity.
            self._clip = self._clip_of_a_batch()
            self._begin_step([p.detach() for p in params])
            self.clipped_total, self._nonfinite, self._summed = None, 0, params
        elif [id(p) for p in params] != [id(p) for p in self._summed]:
            raise ArgumentError(
                "requires_grad", "stay as it is between the parts of a batch", None, got="other parameters"
            )
        found = self.mechanism.contribute(samples, self._clip)
        if self.clipped_total is None:
            self.clipped_total, self._added = found.total, None
        else:
            # In float64, and rounded once: in float32 a record more or less would move the rounding of every part behind it.
            before = (
                [t.to(torch.float64, copy=True) for t in self.clipped_total] if self._added is None else self._added
            )
            self._added = [a.add_(b) for a, b in zip(before, found.total, strict=True)]
            self.clipped_total = [a.to(t.dtype) for a, t in zip(self._added, found.total, strict=True)]
        self._nonfinite += found.nonfinite
        self._is_last_step_skipped, _ = self._batch.add(samples.examples)
        mark_done(params)

    def _compare(self, params: list[Any], samples: PerExampleGradients) -> None:
        """A part of a dry batch: nothing of it goes into the totals, nor stays."""
        self._is_last_step_skipped = True
        more_follow, trial = self._batch.add(samples.examples)
        if self._dry is not None and (more_follow or trial is not None):
            self._dry.part(samples)
        mark_done(params)
        for p in params:
            if p.grad is not None:
                p.grad = torch.zeros_like(p.grad)  # it held the gradient of the bare batch, without clip and noise
        if not more_follow:
            self._sums.start_again()
        if self._dry is not None and trial is not None:
            self._dry.finish(trial, [self._names[p] for p in params])

    # --- the step -----------------------------------------------------------------------------------------------------

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Add a part to the totals, and release them where it was the last one.

        A release that fails leaves the batch out: its last part is in the totals already.
        """
        with exact_products():  # norms in reduced precision could come out too small, and clips be exceeded
            self.clip_and_accumulate()
            if self._is_last_step_skipped:
                return False
            self.add_noise()
            self.scale_grad()
        if self.step_hook:
            self.step_hook(self)
        return True

    def add_noise(self) -> None:
        """Release the step: noise where the mechanism wants it, and the result into ``p.grad``."""
        self._store(self._release())

    def scale_grad(self) -> None:
        """Divide by the expected batch size where the loss is a mean; each step is of one backward pass."""
        if self.loss_reduction == "mean":
            torch._foreach_div_([p.grad for p in self.params], self.expected_batch_size)

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget gradients; not the totals of a batch whose last part is still to come."""
        super().zero_grad(set_to_none)
        self._edits.forget()
        self._edits.follow(self.params)  # here, too: a loop may call layers past the private model
        self._sums.before_forward(self.params)
        self._gradients_cleared = True

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One physical batch; an update where it completes a step. Returns what the closure does, as torch's optimizers."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        self._makes_step = True
        try:
            result: float | None = super().step()
        finally:
            self._makes_step = False
        if not self._is_last_step_skipped:
            self.nonfinite_samples += self._nonfinite
            self.mechanism.end_step(self._released, self.noise_multiplier * self._clip)
            self._released = []
            if self._dry is not None:
                self._dry.released(lost=self._batch.trials_lost)
                self._batch.trials_lost = False
        return result if closure is None else loss

    def _clip_of_a_batch(self) -> float:
        """The clip of a batch that begins; all of its parts and its noise keep it, also where a schedule moves on between."""
        clip = _validate.real("max_grad_norm", self.max_grad_norm, SMALLEST, LARGEST)
        self.mechanism.check_clip(clip)
        return clip

    def _begin_step(self, params: Tensors) -> None:
        self.mechanism.begin_step(params)

    def _cost(self) -> StepCost:
        cost = self.mechanism.cost(self.noise_multiplier)
        return cost if self.secure else cost.seeded()

    def _release(self) -> Tensors:
        """The noisy totals. The step counts as spent before its noise is drawn, whatever becomes of it."""
        if self.clipped_total is None:
            raise ArgumentError.about("p.grad", None, "step() needs a backward pass since the last zero_grad()")
        cost = self._cost()
        epochs = self._epochs_to_count()
        # a budget is kept before anything leaves, not found to be exceeded afterwards
        self.accountant.clear(cost, epochs=epochs)
        # Recorded before noise is drawn: a release that fails half-way may have left something, and a step too many is safe.
        self.accountant.record(cost, epochs=epochs)
        self._counted, self._stepped = self._counted + epochs, self._stepped + 1
        return self.mechanism.release(
            self.clipped_total, noise_multiplier=self.noise_multiplier, clip_norm=self._clip, noise=self._noise
        )

    def _epochs_to_count(self) -> int:
        """Epochs of random allocation that were begun since the last step: each is spent, since a batch of it may be released."""
        if self._batches is None:
            return 0
        if self._stepped >= self._batches.drawn:
            raise ArgumentError.about(
                "batch",
                None,
                "step() needs a batch of its own: of random allocation each batch is released once; call batches.batch(step)",
            )
        return self._batches.epochs_begun - self._counted

    def _store(self, released: Tensors) -> None:
        self._released = released
        without_gradient(self.original_optimizer)
        for p, value in zip(self.params, released, strict=True):
            # a copy, which is divided in place; the mechanism gets what was released
            p.grad = value.view_as(p).to(p.dtype, copy=True)

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's state, the mechanism's and the accountant's; of the noise that of a simulation only.

        Keep it secret: ``nonfinite_samples`` tells about the data, and nothing protects it.
        """
        return {
            "optimizer": self.original_optimizer.state_dict(),
            "mechanism": self.mechanism.state_dict(),
            "accountant": self.accountant.state_dict(),
            "nonfinite_samples": self.nonfinite_samples,
            "generator": self.noise_stream.state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; steps made here stay counted, and noise, masks and batches are fresh from then on.

        Raises:
            ValueError: the state of another kind of optimizer, or of a run with another sampling rate, adjacency, sampler or
                ``secure``; nothing is taken over.
        """
        missing = [key for key in _STATE if key not in state_dict]
        if missing:
            raise ArgumentError(
                "state_dict", "be one of this optimizer", ", ".join(missing), got=f"one without {', '.join(missing)}"
            )
        self.accountant.load_state_dict(state_dict["accountant"])
        self._batch.drop()
        self.original_optimizer.load_state_dict(state_dict["optimizer"])
        self.mechanism.load_state_dict(state_dict["mechanism"])
        self.nonfinite_samples = state_dict["nonfinite_samples"]
        # no noise comes back, but in a simulation that has made no step: two releases with one noise would show the data
        if self.accountant.own_steps == 0:
            self.noise_stream.load(state_dict["generator"])


# --- Any other optimizer over the same parameters: its step() would take the gradients that backward() left, without clip and
# noise, and no accountant would count it


def _refuse_bare_step(private: "weakref.ref[MechanismOptimizer]", optimizer: torch.optim.Optimizer, *_: object) -> None:
    """See that a step on parameters of a private model is one that its private optimizer makes, as long as the model is private."""
    own = private()  # a reference that does not hold it: torch keeps this hook for the whole process
    if own is None or own._makes_step or own._layers is None or not own._layers.private:
        return
    held = own._names.keys() | own._layers.parameters()
    if any(p in held for group in optimizer.param_groups for p in group["params"]):
        raise ArgumentError.about(
            "optimizer",
            None,
            "step() must be that of the optimizer that make_private returned, got one of another optimizer over parameters of its "
            "model, which takes gradients without clip and noise; call to_standard_module() first where the private run is over and "
            "no private record comes again",
        )


# --- Norms, clipped sums and projections in full precision, whatever the loop has set for its own products


_FULL = "ieee"


@contextmanager
def exact_products() -> Iterator[None]:
    """No autocast, and products of float32 in float32, within the block; what the loop has set holds again behind it."""
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        for place, name, full in _settings():
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, full)
        yield


def _settings() -> list[tuple[Any, str, object]]:
    """Where torch keeps the precision of products: object, attribute, and its value for full precision."""
    found = torch.backends
    if hasattr(found.cuda.matmul, "fp32_precision"):
        places = [found.cuda.matmul, found.cudnn.conv, found.mkldnn.matmul, found.mkldnn.conv]  # type: ignore[attr-defined]
        return [(place, "fp32_precision", _FULL) for place in places if place.fp32_precision != _FULL]
    return [(found.cuda.matmul, "allow_tf32", False), (found.cudnn, "allow_tf32", False)]  # torch before 2.9
