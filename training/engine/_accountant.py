"""What a run has spent so far."""

import dataclasses
import functools
import logging
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dptheory import _validate, privacy
from dptheory._arrays import Array
from dptheory.errors import ArgumentError
from dptheory.privacy import (
    ORDERS,
    Composition,
    FreshMask,
    JointStep,
    MaskedStep,
    RandomAllocation,
    Step,
    subsampled_gaussian_rdp,
)
from dptheory.privacy.index_sets import joint_epsilon, joint_rdp
from dptheory.pruning import SubsetMallows
from dptheory.training._streams import this_process
from dptheory.training.mechanisms import StepCost

_log = logging.getLogger("dptheory.training")

# --- The state of an accountant: the steps that each process has made of a run, as plain values


Spent = Counter[StepCost]
"""Number of steps of each cost; of random allocation that of epochs."""
Epoch = tuple[int, int]
"""Of random allocation: steps of an epoch, and in how many of them a record takes part."""
Makers = dict[str, Spent]
"""The steps of a run by the accountant that recorded them, one in each process in which the run went on."""
Released = dict[str, Counter[Step]]
"""The releases besides, by the accountant that recorded them: equal ones of two processes have noise of their own, and are two."""

Kind = TypeVar("Kind")
"""Of what is counted: the cost of a step, or a release."""

Basis = dict[str, str | bool]
"""What the report of a run says that its steps rest on besides, by name."""


def new_name() -> str:
    """A name that no other accountant has."""
    return secrets.token_hex(16)


def written(makers: Makers | Released) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """Plain values for :func:`read_spent` and :func:`read_releases`."""
    return {
        name: [(dataclasses.asdict(cost), times) for cost, times in spent.items()]
        for name, spent in makers.items()
        if spent
    }


def read_spent(state: dict[str, Any], sampling_rate: float, epoch: Epoch | None, basis: Basis) -> Makers:
    """The steps of a state, where they cost here what they cost where they were made, and rest on the same."""
    if not state["spent"]:
        return {}
    for must, fault in _unlike(state, sampling_rate, epoch, basis):
        raise ArgumentError("state", must, state, got=fault)
    return {name: Counter({_cost(plain): times for plain, times in spent}) for name, spent in state["spent"].items()}


def _unlike(
    state: dict[str, Any], sampling_rate: float, epoch: Epoch | None, basis: Basis
) -> Iterator[tuple[str, str]]:
    """What steps of a state must be, and are not."""
    # One cost counts for all steps of an epoch: read as that of a step it would be far too cheap.
    there = state.get("epoch")
    if (None if there is None else tuple(there)) != epoch:
        yield "hold steps of the sampling of this run", f"epochs {there}, not {epoch}"
    if "sampling_rate" not in state:
        yield (
            "say the sampling rate of its steps",
            "one of an earlier version, which does not: start the run anew, or add the epsilon that it had to that of this run",
        )
    elif state["sampling_rate"] != sampling_rate:
        yield (
            f"hold steps of the sampling rate of this run, {sampling_rate!r}",
            f"steps of {state['sampling_rate']!r}: resume with the batch size and the number of examples that the run had",
        )
    for name, here in basis.items():
        if (found := state.get("basis", {}).get(name)) != here:
            yield (
                f"hold steps of a run with {name} {here!r}",
                f"{name} {found!r}: the report says one for all steps; resume with the settings that the run had, or start anew and "
                "add the epsilon that it had",
            )


def read_releases(state: dict[str, Any]) -> Released:
    """The releases of a state, by who recorded them."""
    found = state.get("releases", {})
    if isinstance(found, list):
        # Of an earlier version, which did not say by whom: nobody's but this state's, lest some be lost.
        return {new_name(): Counter(Step(**plain) for plain in found)}
    return {name: Counter({Step(**plain): times for plain, times in made}) for name, made in found.items()}


def merged(here: dict[str, Counter[Kind]], there: dict[str, Counter[Kind]]) -> dict[str, Counter[Kind]]:
    """All steps or releases of both. Of an accountant that both know the larger counts hold: its own never fall."""
    return {name: here.get(name, Counter()) | there.get(name, Counter()) for name in {**here, **there}}


def _cost(plain: dict[str, Any]) -> StepCost:
    """A cost from what ``dataclasses.asdict`` made of it."""
    chosen = plain["selection"]
    masks = {name: FreshMask(**plain[name]) for name in ("mask", "seeded_mask") if plain.get(name) is not None}
    selection = None if chosen is None else (chosen[0], SubsetMallows(**chosen[1]))
    return StepCost(plain["noise_multiplier"], selection=selection, **masks)


# --- What was spent, as a composition


_LEAST_NOISE, _MOST_NOISE, _LEAST_RATE = 1e-15, 1e15, 1e-12
"""Of the steps of a composition: less noise is as good as none; more, or a lower rate, only costs less."""


def composition_of(
    spent: Mapping[StepCost, int], sampling_rate: float, releases: Sequence[Step] = (), epoch: Epoch | None = None
) -> Composition | None:
    """The steps as a composition, in an order that does not depend on theirs, after what else was released; None without any.

    With ``epoch`` the numbers are those of whole epochs of random allocation.
    """
    rate = max(sampling_rate, _LEAST_RATE)
    parts = [part for cost, count in spent.items() if (part := _part(cost, count, rate, epoch)) is not None]
    whole = (*releases, *sorted(parts, key=repr))
    return Composition(whole) if whole else None


def composed_epsilon(
    spent: Mapping[StepCost, int],
    sampling_rate: float,
    delta: float,
    releases: Sequence[Step] = (),
    epoch: Epoch | None = None,
) -> float:
    """Upper bound on epsilon of all steps by their composition, as if masks hid nothing; inf where nothing protects them.

    What masks hide, a composition bounds by Renyi curves alone, as the accountant does itself.
    """
    if any(cost.noise_multiplier < _LEAST_NOISE for cost in spent):
        return math.inf
    open_steps: Counter[StepCost] = Counter()
    for cost, count in spent.items():
        open_steps[replace(cost, mask=None, seeded_mask=None)] += count
    found = composition_of(open_steps, sampling_rate, releases, epoch)
    return 0.0 if found is None else found.epsilon(delta).upper


def _part(
    cost: StepCost, count: int, rate: float, epoch: Epoch | None
) -> Step | JointStep | MaskedStep | RandomAllocation | None:
    if cost.noise_multiplier < _LEAST_NOISE:
        raise ArgumentError("noise_multiplier", f"be at least {_LEAST_NOISE:g}", cost.noise_multiplier)
    noise = min(cost.noise_multiplier, _MOST_NOISE)
    if cost.selection is not None:
        groups, law = cost.selection
        return JointStep(noise_multiplier=noise, sampling_rate=rate, mechanism=law, groups=groups, count=count)
    if math.isinf(cost.noise_multiplier):
        return None
    if epoch is not None:
        steps, participations = epoch
        return RandomAllocation(
            noise_multiplier=noise, steps_per_epoch=steps, participations=participations, count=count
        )
    if cost.mask is not None:
        return MaskedStep(noise_multiplier=noise, sampling_rate=rate, mask=cost.mask, count=count)
    return Step(noise_multiplier=noise, sampling_rate=rate, count=count)


_MAX_SHIFT = 1e100
"""Of ``privacy.gaussian_epsilon``."""
_LARGEST_BLOCK = 1 << 20


class BudgetError(ValueError):
    """The step would exceed the privacy budget; nothing of it was released. Raised by :meth:`PrivacyAccountant.clear`."""


class PrivacyAccountant:
    """Counts steps by what they cost, and bounds epsilon of all of them together.

    Of random allocation it counts epochs: each costs what a whole one does from its first step on, however soon it is left, with the
    least noise that any of its steps had: a step of more noise shows no more than one of less.

    Args:
        sampling_rate: Poisson sampling rate of the batches, in (0, 1]; None with ``steps_per_epoch``.
        steps_per_epoch: t of random allocation, 1..1e6, where batches are such as :class:`dptheory.training.engine.AllocatedBatches`.
        participations: k, in how many steps of an epoch a record is, 1..t.

    Source: GIP, Theorem 2 and Proposition 1 (gip.thm2, gip.prop1).

    Example: one Gaussian release of noise multiplier 4 spends 0.9; a second one is more than a budget of 1 allows.
        >>> from dptheory.training.engine import PrivacyAccountant
        >>> from dptheory.training.mechanisms import StepCost
        >>> accountant = PrivacyAccountant(sampling_rate=1.0)
        >>> accountant.record(StepCost(4.0))
        >>> round(accountant.epsilon(delta=1e-5), 1)  # of one Gaussian release with mu = 1/4
        0.9
        >>> accountant.limit(epsilon=1.0, delta=1e-5)
        >>> accountant.clear(StepCost(4.0))
        Traceback (most recent call last):
            ...
        dptheory.training.engine._accountant.BudgetError: one more step would exceed epsilon = 1 at delta = 1e-05
    """

    def __init__(
        self, sampling_rate: float | None = None, *, steps_per_epoch: int | None = None, participations: int = 1
    ) -> None:
        self._epoch: Epoch | None = None
        if steps_per_epoch is not None:
            if sampling_rate is not None:
                raise ArgumentError("sampling_rate", "be left out with steps_per_epoch", sampling_rate)
            steps = _validate.integer("steps_per_epoch", steps_per_epoch, 1, privacy.MAX_STEPS)
            self._epoch = steps, _validate.integer("participations", participations, 1, steps)
            sampling_rate = self._epoch[1] / steps
        self.sampling_rate = _validate.real("sampling_rate", sampling_rate, 0.0, 1.0, ends="(]")
        self.basis: Basis = {}
        """What the steps rest on besides, as the report of an optimizer says it; states of something else are refused."""
        self.states_loaded = 0
        """How often a state was taken over: what draws noise, masks or batches then goes on with fresh ones."""
        self._name = new_name()
        self._process = this_process()
        self._makers: Makers = {self._name: Counter()}
        self._spent: Spent = Counter()
        """Of all makers together."""
        self._made: Counter[str] = Counter()
        """Of random allocation: steps made, by maker."""
        self._under_way: StepCost | None = None
        """What the epoch under way costs, which this accountant has begun."""
        self._in_epoch = 0
        self._released: Released = {self._name: Counter()}
        self._releases: tuple[privacy.Step, ...] = ()
        """Of all makers together."""
        self._budget: tuple[float, float] | None = None
        self._horizon = 0
        """A number of steps whose noisy sums the budget was found to afford; not more than the last block behind ``steps``."""
        self._block = 1
        self._afforded: Spent = Counter()
        """Steps whose composition was found to keep the budget."""
        self._ahead = 1

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy records under a name of its own: its steps are not those of the original."""
        vars(self).update(state)
        self._makers = {name: Counter(spent) for name, spent in self._makers.items()}
        self._released = {name: Counter(made) for name, made in self._released.items()}
        self._spent, self._made = Counter(self._spent), Counter(self._made)
        self._take_name()

    @property
    def steps(self) -> int:
        """Steps recorded, and taken over from states."""
        return self._spent.total() if self._epoch is None else self._made.total()

    @property
    def own_steps(self) -> int:
        """Steps recorded by this accountant itself."""
        self._follow_fork()
        return self._makers[self._name].total() if self._epoch is None else self._made[self._name]

    @property
    def law(self) -> float | Epoch:
        """Of the batches: the rate of Poisson samples, or steps and participations of an epoch of random allocation."""
        return self.sampling_rate if self._epoch is None else self._epoch

    def record(self, cost: StepCost, *, epochs: int = 0) -> None:
        """Note one step.

        Args:
            cost: of the step.
            epochs: of random allocation, begun since the last step: 0 while an epoch goes on. The next step after t of one epoch
                begins another one in any case.
        """
        self._follow_fork()
        change = self._change(cost, epochs)
        if self._epoch is None:
            self._spent[cost] += 1
            self._makers[self._name][cost] += 1
            return
        self._spent = _changed(self._spent, change)
        self._makers[self._name] = _changed(self._makers[self._name], change)
        self._made[self._name] += 1
        self._in_epoch = 1 if change.total() else self._in_epoch + 1
        self._under_way = next((one for one, times in change.items() if times > 0), self._under_way)

    def _change(self, cost: StepCost, epochs: int) -> Spent:
        """What one more step adds to what is spent: itself; of random allocation the epochs that begin with it."""
        _validate.instance("cost", cost, StepCost)
        epochs = _validate.integer("epochs", epochs, 0)
        if self._epoch is None:
            return Counter((cost,))
        if cost.selection is not None:
            raise ArgumentError(
                "cost",
                "be of noisy values alone with random allocation",
                cost,
                got="one with a private choice of entries",
            )
        cost = StepCost(cost.noise_multiplier)  # what masks hide is not counted
        # a step too many in an epoch, or one of an epoch that another process began, is one of an epoch that was not announced
        begun = max(epochs, int(self._under_way is None or self._in_epoch >= self._epoch[0]))
        if begun or self._under_way is None:
            return Counter({cost: begun})
        if cost.noise_multiplier < self._under_way.noise_multiplier:
            return Counter({cost: 1, self._under_way: -1})
        return Counter()

    @property
    def releases(self) -> tuple[privacy.Step, ...]:
        """Releases of the same records besides the steps."""
        return self._releases

    def record_release(self, release: privacy.Step) -> None:
        """Note Gaussian releases of the same records besides the steps; epsilon and budget count them from now on.

        What masks hide is then not taken off. Counts or means of private records with noise are such releases.

        Args:
            release: noise multiplier, sampling rate and number of the releases.

        Raises:
            ValueError: something else.

        Example: two releases of noise 4 before the first step.
            >>> from dptheory.privacy import Step
            >>> from dptheory.training.engine import PrivacyAccountant
            >>> accountant = PrivacyAccountant(sampling_rate=0.1)
            >>> accountant.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=2))
            >>> round(accountant.epsilon(delta=1e-5), 2), accountant.steps
            (1.36, 0)
        """
        self._follow_fork()
        self._released[self._name][_validate.instance("release", release, privacy.Step)] += 1
        self._add_up_releases()

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all steps; 0 before the first, inf if nothing protects one.

        With :attr:`releases`, of these and all steps: what their composition spends, as if masks hid nothing. Without, the least
        of what :meth:`composition` spends and of the bounds of
        :func:`dptheory.privacy.index_sets.joint_epsilon` with :func:`dptheory.privacy.epsilon_bounds` of the noisy sums, each
        with the least noise of all, and with the total cost of all private selections; where there are selections, fresh masks
        or several noise levels, the Renyi curves of all steps may give less.

        Args:
            delta: in [1e-30, 0.99].

        Source: GIP, Theorem 2 and Proposition 1 (gip.thm2, gip.prop1).
        """
        return self._epsilon(self._spent, delta)

    def get_epsilon(self, delta: float) -> float:
        """:meth:`epsilon` under the name that it has in Opacus; delta in [1e-30, 0.99]."""
        return self.epsilon(delta)

    def epsilon_if_secure(self, delta: float) -> float:
        """:meth:`epsilon` of a secure run of the same steps, whose fresh masks nobody can tell; delta in [1e-30, 0.99]."""
        secured: Spent = Counter()
        for cost, times in self._spent.items():
            secured[cost.secured()] += times
        return self._epsilon(secured, delta)

    def composition(self) -> privacy.Composition | None:
        """The steps made so far, and :attr:`releases`, as data; None where there are none.

        Raises:
            ValueError: a step that nothing protects, which no composition holds.

        Example:
            >>> from dptheory.training.engine import PrivacyAccountant
            >>> from dptheory.training.mechanisms import StepCost
            >>> accountant = PrivacyAccountant(sampling_rate=0.1)
            >>> for sigma in (4.0, 4.0, 2.0):
            ...     accountant.record(StepCost(sigma))
            >>> for part in accountant.composition().parts:
            ...     print(part)
            Step(noise_multiplier=2.0, sampling_rate=0.1, count=1)
            Step(noise_multiplier=4.0, sampling_rate=0.1, count=2)
        """
        return composition_of(self._spent, self.sampling_rate, self._releases, self._epoch)

    def limit(self, *, epsilon: float, delta: float, records: int | None = None) -> None:
        """Set a budget, which :meth:`clear` enforces; delta in [1e-30, 0.99], with a warning from 1 / ``records`` on."""
        self._budget = _validate.real("epsilon", epsilon, 0.0, ends="()"), _delta(delta)
        published = 0.0 if records is None else 1 / _validate.integer("records", records, 1)
        if 0.0 < published <= self._budget[1]:
            _log.warning(
                "a delta of %g promises little to each of %d records: who publishes one of them at random keeps a delta of %.2g; "
                "take a much smaller one",
                self._budget[1],
                records,
                published,
            )
        self._forget()

    def clear(self, cost: StepCost, *, epochs: int = 0) -> None:
        """Ask, before a release, whether the budget affords one more step of this cost.

        Args:
            cost, epochs: as for :meth:`record`.

        Raises:
            BudgetError: it does not.
        """
        self._follow_fork()
        change = self._change(cost, epochs)
        if self._budget is None or not change:
            return
        spent = _changed(self._spent, change)
        if not self._fits(spent, *self._budget) and not self._composition_fits(spent, cost, *self._budget):
            raise BudgetError(
                f"one more step would exceed epsilon = {self._budget[0]:g} at delta = {self._budget[1]:g}"
            )

    def state_dict(self) -> dict[str, Any]:
        """Sampling rate, what steps rest on, the steps by accountant and by cost, and releases besides where there are some."""
        found: dict[str, Any] = {
            "sampling_rate": self.sampling_rate,
            "basis": dict(self.basis),
            "spent": written(self._makers),
        }
        if self._epoch is not None:
            found["epoch"], found["steps"] = list(self._epoch), dict(self._made)
        if self._releases:
            found["releases"] = written(self._released)
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count what ``state_dict`` gave besides what is counted here; each step and release once, in whatever states it is.

        What was released stays released: the state of an earlier step of this accountant takes nothing back. A release that was
        recorded here before the state is taken over is one of its own, besides an equal one of the state.

        Raises:
            ValueError: steps of another sampling rate or of an unknown one, or that rest on something else than ``basis`` says.

        Example: a run goes back to its first step, and makes another second one.
            >>> from dptheory.training.engine import PrivacyAccountant
            >>> from dptheory.training.mechanisms import StepCost
            >>> accountant = PrivacyAccountant(sampling_rate=0.1)
            >>> accountant.record(StepCost(4.0))
            >>> best = accountant.state_dict()
            >>> accountant.record(StepCost(4.0))
            >>> accountant.load_state_dict(best)
            >>> accountant.steps
            2
            >>> resumed = PrivacyAccountant(sampling_rate=0.1)
            >>> resumed.load_state_dict(best)
            >>> resumed.steps
            1
        """
        makers, released = read_spent(state, self.sampling_rate, self._epoch, self.basis), read_releases(state)
        self._makers, self._released = merged(self._makers, makers), merged(self._released, released)
        self._made |= Counter(state.get("steps", {}))
        self.states_loaded += 1
        self._spent = sum(self._makers.values(), Counter())
        self._add_up_releases()

    def _add_up_releases(self) -> None:
        self._releases = tuple(sum(self._released.values(), Counter()).elements())
        self._forget()

    def _take_name(self) -> None:
        self._name, self._process = new_name(), this_process()
        self._makers[self._name], self._released[self._name] = Counter(), Counter()
        self._under_way = None

    def _follow_fork(self) -> None:
        """A forked process records under a name of its own: under one name the steps of two would count as those of one."""
        if self._process != this_process():
            self._take_name()

    def _forget(self) -> None:
        """What was found of the budget holds for another one, or for other steps."""
        self._horizon, self._block = 0, 1
        self._afforded, self._ahead = Counter(), 1

    def _epsilon(self, spent: Spent, delta: float) -> float:
        delta = _delta(delta)
        composed = composed_epsilon(spent, self.sampling_rate, delta, self._releases, self._epoch)
        return composed if self._releases or self._epoch else min(composed, _bound(spent, self.sampling_rate, delta))

    def _fits(self, spent: Spent, epsilon: float, delta: float) -> bool:
        """Whether these steps keep within a budget.

        By the noisy sums of a few steps more, so that the accountant is not asked at every step, or by the Renyi curves. Sums come
        first: curves are as many as there are costs, of a mask that changes at every step one a step.
        """
        if self._releases or self._epoch:
            return False  # the composition alone knows of them
        sums_alone = not any(cost.selection for cost in spent) and all(cost.noise_multiplier > 0 for cost in spent)
        if sums_alone and self._sums_fit(
            spent, epsilon, lambda horizon: _sums(spent, self.sampling_rate, delta, horizon)
        ):
            return True
        if _renyi_bound(spent, self.sampling_rate, delta) <= epsilon:
            return True
        return self._sums_fit(spent, epsilon, lambda horizon: _bound(spent, self.sampling_rate, delta, horizon))

    def _sums_fit(self, spent: Spent, epsilon: float, bound: Callable[[int], float]) -> bool:
        """Whether a bound that takes the noisy sums of a number of steps keeps within the budget for some such number."""
        for horizon, block in self._horizons(spent.total()):
            if bound(horizon) <= epsilon:
                self._horizon, self._block = horizon, block
                return True
        return False

    def _composition_fits(self, spent: Spent, cost: StepCost, epsilon: float, delta: float) -> bool:
        """Whether the composition of these steps keeps within a budget: with more of the last cost, so that it is seldom asked.

        With several private selections it is not: their part of it takes a second, at every change of them.
        """
        if len({one.selection for one in spent if one.selection}) > 1 and not self._releases:
            return False
        if spent <= self._afforded:
            return True
        ahead = min(2 * self._ahead, _LARGEST_BLOCK)
        while ahead >= 1:
            more = spent + Counter({cost: ahead - 1})
            if composed_epsilon(more, self.sampling_rate, delta, self._releases, self._epoch) <= epsilon:
                self._afforded, self._ahead = more, ahead
                return True
            ahead //= 2
        return False

    def _horizons(self, steps: int) -> Iterator[tuple[int, int]]:
        """Numbers of steps to try, with their blocks: the last that fitted, one further off than it was, and ever nearer ones."""
        if self._horizon >= steps:
            yield self._horizon, self._block
        block = min(2 * self._block, _LARGEST_BLOCK)
        while block > 1:
            yield steps + block - 1, block
            block //= 2
        yield steps, 1


def _changed(spent: Spent, change: Spent) -> Spent:
    found = Counter(spent)
    found.update(change)
    return +found


def _delta(delta: float) -> float:
    return _validate.real("delta", delta, *privacy.DELTA)


def _bound(spent: Spent, rate: float, delta: float, horizon: int = 0) -> float:
    """Epsilon with the noisy sums of ``horizon`` steps where that is more."""
    if not spent:
        return 0.0
    if any(cost.noise_multiplier == 0 for cost in spent):
        return math.inf
    curve = _joint_curve(spent, rate)
    return joint_epsilon(
        delta=delta,
        values=lambda share: _sums(spent, rate, share, horizon),
        index_epsilon=math.fsum(times * _index_epsilon(cost) for cost, times in spent.items()),
        index_zcdp_rho=math.fsum(times * _index_rho(cost) for cost, times in spent.items()),
        orders=None if curve is None else ORDERS,
        rdp=curve,
    )


def _sums(spent: Spent, rate: float, delta: float, horizon: int) -> float:
    """Epsilon of the noisy sums of these steps, or of ``horizon`` where that is more, each with the least noise of all."""
    return _gaussian(min(cost.noise_multiplier for cost in spent), max(horizon, spent.total()), rate, delta)


def _renyi_bound(spent: Spent, rate: float, delta: float) -> float:
    """Epsilon by Renyi curves alone; inf where there is nothing that the accountant does not know."""
    if any(cost.noise_multiplier == 0 for cost in spent):
        return math.inf
    curve = _joint_curve(spent, rate)
    return (
        math.inf
        if curve is None
        else joint_epsilon(delta=delta, values=lambda _: math.inf, index_epsilon=0, orders=ORDERS, rdp=curve)
    )


def _joint_curve(spent: Spent, rate: float) -> Array | None:
    """Renyi curve of all steps, the same to the last digit in any order of them; None where the accountant knows all there is."""
    if len({cost.noise_multiplier for cost in spent}) == 1 and not any(cost.selection or cost.mask for cost in spent):
        return None
    curves = [times * _curve(cost, rate) for cost, times in spent.items()]
    return np.array([math.fsum(column) for column in zip(*curves, strict=True)])


@functools.lru_cache(maxsize=1024)
def _gaussian(sigma: float, steps: int, rate: float, delta: float) -> float:
    """Epsilon of the noisy sums; outside the accountants' range without amplification by sampling, which is valid anywhere."""
    least, most = privacy.NOISE
    if sigma < least or steps > privacy.MAX_STEPS or rate < privacy.RATE[0] or delta < privacy.DELTA[0]:
        shift = math.sqrt(steps) / sigma
        return privacy.gaussian_epsilon(shift, delta) if shift <= _MAX_SHIFT else math.inf
    return privacy.epsilon_bounds(noise_multiplier=min(sigma, most), sampling_rate=rate, steps=steps, delta=delta).upper


@functools.lru_cache(maxsize=1 << 16)  # more than a run has costs, as each is asked for at every step
def _curve(cost: StepCost, rate: float) -> Array:
    """Renyi curve of one step at the orders of ``ORDERS``."""
    if cost.mask is not None:
        return cost.mask.rdp(orders=ORDERS, sampling_rate=rate, noise_multiplier=cost.noise_multiplier)
    if cost.selection is not None:
        groups, law = cost.selection
        return joint_rdp(
            orders=ORDERS, sampling_rate=rate, noise_multiplier=cost.noise_multiplier, mechanism=law, groups=groups
        )
    return subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=rate, noise_multiplier=cost.noise_multiplier)


def _index_epsilon(cost: StepCost) -> float:
    """Pure epsilon of the step's private choice of entries, all groups together."""
    if cost.selection is None:
        return 0.0
    groups, law = cost.selection
    return groups * law.epsilon(2 * law.max_swaps)


def _index_rho(cost: StepCost) -> float:
    """zCDP of the step's private choice of entries, all groups together."""
    if cost.selection is None:
        return 0.0
    groups, law = cost.selection
    return groups * law.zcdp(2 * law.max_swaps)
