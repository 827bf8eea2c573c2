"""Runs as data, and what they spend: epsilon, delta, trade-off curves, what an attacker can do; fronts for steps that are alike."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory._arrays import ArrayLike
from dptheory._validate import Adjacency
from dptheory.errors import ArgumentError
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import (
    DELTA,
    DIRECTIONS,
    NOISE,
    NONE,
    OF_SHUFFLING,
    RTOL,
    SAMPLINGS,
    Direction,
    EpsilonBounds,
    Found,
    ProbabilityBounds,
)
from dptheory.privacy._noise_scale import least_scale
from dptheory.privacy._parts import (
    BlackBox,
    FixedSizeStep,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    MaskedStep,
    Part,
    Parts,
    RandomAllocation,
    Step,
    checked_step,
    plain,
    scaled,
)
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.renyi._sampled import sampled_renyi_epsilon
from dptheory.privacy.methods.saddle._certified import certified_delta, certified_direction, certified_epsilon
from dptheory.privacy.report._attack import AttackRisk
from dptheory.privacy.report._tradeoff import Curve, least_false_negatives

MOST_EPSILON = 1e4
_KINDS = (Step, JointStep, MaskedStep, IndexSteps, FixedSizeStep, RandomAllocation, LaplaceRelease, BlackBox)
_OPPOSITE: dict[Direction, Direction] = {"remove": "add", "add": "remove", "replace": "replace"}
_DRAWN_DELTA, _MOST_DRAWN = 1e-6, 50.0
"""The delta whose epsilon is the largest logarithm of gamma of the lines that a picture is drawn from, and its limit."""
_epsilon_of, _delta_of, _certified_epsilon, _certified_delta = (
    functools.lru_cache(maxsize=512)(bounds)
    for bounds in (methods.epsilon_of, methods.delta_of, certified_epsilon, certified_delta)
)
"""What has been asked of a run is remembered: reports ask twice."""


@dataclass(frozen=True)
class Composition:
    r"""A run as data: its steps, kind by kind. What they spend together does not depend on their order.

    Kinds of steps: :class:`Step` (Gaussian noise on a Poisson sample; at rate 1 a Gaussian release), :class:`RandomAllocation`
    (epochs in each of which a record takes part in exactly k steps), and for add-remove alone
    :class:`JointStep` (index sets and values of GIP from one sample), :class:`IndexSteps` (index sets for given batches) and
    :class:`MaskedStep` (random-k with a secret mask). Besides ``Step`` and ``RandomAllocation`` a run may release what is no step:
    :class:`LaplaceRelease`, and :class:`BlackBox`, of which only (epsilon, delta) are known.
    With P, Q the worst pair of laws of all of them,

    .. math:: \delta(\epsilon) = \sup_A\; P(A) - e^\epsilon Q(A) .

    Every answer is a bracket that holds. Of values alone it is some 1e-9 wide (the saddle line), and of index sets of one mechanism
    alone, of groups of up to 1e12 entries; with both, where a grid serves, the upper end is about 1e-6 from the truth and the lower
    one about 1e-2, relative to delta; with many groups or steps, or few that are rarely sampled, they can be far from it. Masks have
    upper bounds that may be far from the truth; the lower ones are those of an example whose gradient has one entry. Outside the
    range of these methods the bounds are wider, down to 0 and 1, and ``method`` says which they are.

    Args:
        parts: one or more of those, a sequence.
        adjacency: "add-remove"; or "replace-one" where all parts are of the kinds ``Step`` and ``RandomAllocation``.

    Raises:
        ValueError: something else among the parts, or a kind that is not composed under replacement: for index sets the worst
            case is known (gip.replaced_indices), for masks no bound is proved.

    Source: GIP, Lemma 1, Theorem 2 and Proposition 1 (gip.lem1, gip.thm2, gip.prop1).

    Example: the noise falls after half of the steps.
        >>> from dptheory.privacy import Composition, Step
        >>> run = Composition([Step(noise_multiplier=2.0, sampling_rate=0.04, count=500),
        ...                    Step(noise_multiplier=1.0, sampling_rate=0.02, count=500)])
        >>> spent = run.epsilon(1e-5)
        >>> f"{spent.lower:.6f} {spent.upper:.6f} {spent.method}"
        '3.448974 3.448974 saddle line'
        >>> print(run.attack())
        An attacker who accuses 1 % of the records that were not in the data
        finds at most 6.0 % of those that were.
        At even odds, nobody tells whether a record was in the data in more than 64.4 % of cases.
    """

    parts: tuple[Part, ...]
    adjacency: Adjacency = field(default="add-remove", kw_only=True)

    def __post_init__(self) -> None:
        parts: object = self.parts
        if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, _KINDS) for part in parts):
            names = ", ".join(kind.__name__ for kind in _KINDS)
            raise ArgumentError("parts", f"be a sequence of one or more of {names}", parts)
        _validate.store(self, parts=tuple(parts), adjacency=_validate.adjacency(self.adjacency))
        if any(isinstance(part, FixedSizeStep) for part in parts):
            self._check_fixed()
        others = sorted(
            {type(part).__name__ for part in parts if not isinstance(part, Step | FixedSizeStep | RandomAllocation)}
        )
        released = {kind.__name__ for kind in (LaplaceRelease, BlackBox)}
        if strange := sorted(set(others) - released):
            for kind in (RandomAllocation, LaplaceRelease, BlackBox):
                if any(isinstance(part, kind) for part in parts):
                    raise ArgumentError(
                        "parts",
                        f"be Step, RandomAllocation, LaplaceRelease and BlackBox where one is {kind.__name__}",
                        parts,
                        got=f"{', '.join(strange)} besides",
                    )
        if self.adjacency == "replace-one" and others:
            raise ArgumentError(
                "adjacency",
                f"be 'add-remove' with {', '.join(others)}",
                self.adjacency,
                got="'replace-one': under replacement the worst case of index sets is known "
                "(gip.replaced_indices) but not composed here, and for masks no bound is proved",
            )

    def _check_fixed(self) -> None:
        others = sorted({type(part).__name__ for part in self.parts if not isinstance(part, FixedSizeStep)})
        if others:
            raise ArgumentError(
                "parts", "all be FixedSizeStep, or none of them", self.parts, got=f"{', '.join(others)} besides"
            )
        if self.adjacency != "replace-one":
            raise ArgumentError(
                "adjacency",
                "be 'replace-one' for sampling 'without replacement' (a batch of a fixed size is not "
                "defined on neighbours of different sizes)",
                self.adjacency,
                then="; or use sampling 'poisson'",
            )

    def epsilon(
        self, delta: float, *, direction: str = "worst", certified: bool = False, rtol: float = RTOL
    ) -> EpsilonBounds:
        """Bounds of the least epsilon at which the run is (epsilon, delta)-private; report the upper one.

        Args:
            delta: in [1e-30, 0.99].
            direction: for "add-remove": "remove" (P has the record), "add" (Q has it), or "worst", the larger epsilon.
            certified: an enclosure in ball arithmetic (needs python-flint), which assumes nothing of rounding: of noisy values
                alone, noise in [0.4, 20], rates from 1e-4, 100 to 10^6 steps, some seconds per kind of step; or of whole epochs of
                random allocation, one participation, alone and add-remove, where steps per epoch are few against the epochs.
            rtol: in (0, 1); of noisy values, the relative width of delta at which nothing is asked that takes seconds. In most
                settings the bracket is some 1e-9 wide at once; where it is not, less makes it narrower, and takes longer.

        Returns:
            The bounds, in nats; inf where no method has an upper one.

        Raises:
            ValueError: delta outside its range, or a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: one Gaussian release of noise 1.
            >>> from dptheory.privacy import Composition, Step
            >>> round(Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]).epsilon(1e-5).upper, 4)
            4.3772
        """
        delta = valid_delta(delta)
        directions, rtol = directions_of(self, direction), valid_rtol(rtol)
        if _validate.flag("certified", certified):
            found = _certified_epsilon(plain(self.parts), directions, delta)
        else:
            found = self._sound(_epsilon_of(plain(self.parts), directions, delta, rtol))
        return EpsilonBounds(
            lower=float(found.lower),
            estimate=float(found.lower + found.upper) / 2,
            upper=float(found.upper),
            method=_named(found),
        )

    def delta(
        self, epsilon: float, *, direction: str = "worst", certified: bool = False, rtol: float = RTOL
    ) -> ProbabilityBounds:
        """Bounds of the least delta at which the run is (epsilon, delta)-private; report the upper one.

        Args:
            epsilon: >= 0.
            direction, certified, rtol: as for :meth:`epsilon`.

        Returns:
            The bounds, in [0, 1].

        Raises:
            ValueError: epsilon outside its range, or a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: one Gaussian release of noise 1.
            >>> from dptheory.privacy import Composition, Step
            >>> round(Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]).delta(1.0).upper, 4)
            0.1269
        """
        epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
        directions, rtol = directions_of(self, direction), valid_rtol(rtol)
        if _validate.flag("certified", certified):
            found = _certified_delta(plain(self.parts), directions, epsilon)
        else:
            found = self._sound(_delta_of(plain(self.parts), directions, epsilon, rtol))
        return ProbabilityBounds(lower=float(found.lower), upper=float(found.upper), method=_named(found))

    def _sound(self, found: Found) -> Found:
        """Two methods that contradict each other are an error of ours, and no number is reported."""
        if found.lower > found.upper:
            raise ArithmeticError(
                f"lower bound {found.lower!r} above upper bound {found.upper!r}: please report {self.parts!r}"
            )
        return found

    def advantage(self, *, certified: bool = False) -> ProbabilityBounds:
        """Bounds of the largest true positive rate less false positive rate of any attack on one record: delta(0).

        Args:
            certified: as for :meth:`epsilon`.

        Returns:
            The bounds, in [0, 1].

        Raises:
            ValueError: a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: one Gaussian release of noise 1: 2 Phi(1/2) - 1.
            >>> from dptheory.privacy import Composition, Step
            >>> round(Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]).advantage().upper, 4)
            0.3829
        """
        return self.delta(0.0, certified=certified)

    def tradeoff(self, false_positive_rate: float, *, certified: bool = False) -> ProbabilityBounds:
        r"""Bounds of the least false negative rate that any attack on one record has at this false positive rate.

        The smaller one of both tests: that of "the record is not in" against "it is in", and the other way round; for each it
        is, with :math:`\delta_{PQ}` and :math:`\delta_{QP}` the curves of both directions,

        .. math:: f(\alpha) = \max\Big(\sup_{\epsilon\ge0} 1 - \delta_{PQ}(\epsilon) - e^\epsilon\alpha,\;
            \sup_{\epsilon\ge0} e^{-\epsilon}(1 - \delta_{QP}(\epsilon) - \alpha)\Big) .

        Proof: proofs/privacy/tradeoff_curve.md.

        Args:
            false_positive_rate: alpha in [0, 1].
            certified: as for :meth:`epsilon`; a dozen enclosures of delta.

        Returns:
            The bounds; every attack misses at least the share ``lower``, and some attack at most ``upper``.

        Raises:
            ValueError: a rate outside its range, or a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: one Gaussian release of noise 1: Phi(Phi^-1(1 - alpha) - 1).
            >>> from dptheory.privacy import Composition, Step
            >>> found = Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]).tradeoff(0.05)
            >>> f"{found.lower:.4f} {found.upper:.4f}"
            '0.7405 0.7405'
        """
        alpha = _validate.real("false_positive_rate", false_positive_rate, 0.0, 1.0)
        method = self.delta(0.0, certified=certified).method
        about = _tests(self.parts, directions_of(self, "worst"))
        exact = _certified_tests(self.parts, directions_of(self, "worst")) if certified else about
        found = [least_false_negatives(curve, alpha, near) for curve, near in zip(exact, about, strict=True)]
        return ProbabilityBounds(
            lower=float(min(low for low, _ in found)), upper=float(min(high for _, high in found)), method=method
        )

    def attack(self, *, false_positive_rate: float = 0.01, certified: bool = False) -> AttackRisk:
        """What the best attacker can do who knows all but whether one record was in the data; print it for plain words.

        Args:
            false_positive_rate: share of the records outside the data that the attacker accuses, in [0, 1].
            certified: as for :meth:`tradeoff`.

        Returns:
            Bounds of the share of the records in the data that are found, and of the advantage.

        Raises:
            ValueError: a rate outside its range, or a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: one Gaussian release of noise 4.
            >>> from dptheory.privacy import Composition, Step
            >>> risk = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=1)]).attack()
            >>> round(risk.true_positive_rate_upper, 4), round(risk.advantage_upper, 4)
            (0.0189, 0.0995)
        """
        missed = self.tradeoff(false_positive_rate, certified=certified)
        advantage = self.advantage(certified=certified)
        return AttackRisk(
            false_positive_rate=float(false_positive_rate),
            true_positive_rate_lower=1.0 - missed.upper,
            true_positive_rate_upper=1.0 - missed.lower,
            advantage_lower=advantage.lower,
            advantage_upper=advantage.upper,
            replaced=self.adjacency == "replace-one",
        )

    def noise_scale(self, *, epsilon: float, delta: float, certified: bool = False) -> float:
        """The least factor on the noise multipliers of all steps whose upper bound of epsilon fits the budget.

        The noise keeps its shape; index sets stay as they are. ``self.scaled(factor).epsilon(delta).upper`` is at most
        ``epsilon`` at the returned factor. Of noisy values alone it is the least one to 1e-6 relative; where the bounds are wider
        (the class says where), it is as much larger as they are.

        Args:
            epsilon: the budget, in (0, 1e4].
            delta: in [1e-30, 0.99].
            certified: the enclosure of :meth:`epsilon` keeps the budget too.

        Returns:
            The factor, > 0; where any noise will do, that which makes the least multiplier 1e-15.

        Raises:
            ValueError: an argument outside its range, a run without noise, a budget that no noise keeps because index sets exceed
                it, or, certified, a run that has no enclosure.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: four releases are one with half of their noise: 2 * 1.8655 for epsilon 1.
            >>> from dptheory.privacy import Composition, Step
            >>> run = Composition([Step(noise_multiplier=2.0, sampling_rate=1.0, count=4)])
            >>> factor = run.noise_scale(epsilon=1.0, delta=1e-5)
            >>> round(factor, 4), run.scaled(factor).epsilon(1e-5).upper <= 1.0
            (3.7306, True)
        """
        epsilon = _validate.real("epsilon", epsilon, 0.0, MOST_EPSILON, ends="(]")
        delta = valid_delta(delta)
        certified = _validate.flag("certified", certified)
        return least_scale(self.parts, directions_of(self, "worst"), epsilon=epsilon, delta=delta, certified=certified)

    def scaled(self, factor: float) -> "Composition":
        """The run with the noise multipliers of all steps times a factor; index sets stay as they are.

        Args:
            factor: > 0.

        Returns:
            The other run.

        Raises:
            ValueError: a factor of 0 or less, or one that takes a noise multiplier out of [1e-15, 1e15].

        Source: GIP, Theorem 2 (gip.thm2).

        Example: half the noise.
            >>> from dptheory.privacy import Composition, Step
            >>> Composition([Step(noise_multiplier=2.0, sampling_rate=0.1, count=4)]).scaled(0.5).parts
            (Step(noise_multiplier=1.0, sampling_rate=0.1, count=4),)
        """
        factor = _validate.real("factor", factor, 0.0, ends="()")
        try:
            return Composition(scaled(self.parts, factor), adjacency=self.adjacency)
        except ValueError as error:
            raise ArgumentError("factor", "keep the noise in its range", factor, then=f": {error}") from None

    def plot(self, *, ax: object | None = None) -> None:
        """Draw what attackers can do: the true positive rate over the false positive rate, at most; needs matplotlib.

        Args:
            ax: matplotlib axes to draw on; None for a new figure of pyplot.

        Raises:
            ValueError: ``ax`` without what axes have.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: the curve ends in the corner.
            >>> from matplotlib.figure import Figure
            >>> from dptheory.privacy import Composition, Step
            >>> run = Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)])
            >>> axes = Figure().add_subplot()
            >>> run.plot(ax=axes)
            >>> axes.get_xlabel()
            'false positive rate'
        """
        from dptheory.privacy.report._tradeoff import draw  # matplotlib is an extra

        draw(self.guaranteed, ax)

    def guaranteed(self, false_positive_rates: ArrayLike) -> NDArray[np.float64]:
        """Lower bounds of :meth:`tradeoff` at many rates from a fixed set of some seventy lines, for drawing.

        Args:
            false_positive_rates: in [0, 1], any shape.

        Returns:
            Array of that shape: every attack misses at least this share.

        Source: GIP, Theorem 2 (gip.thm2).

        Example: who accuses half of the others has to miss some.
            >>> from dptheory.privacy import Composition, Step
            >>> Composition([Step(noise_multiplier=1.0, sampling_rate=1.0, count=1)]).guaranteed([0.0, 0.5, 1.0]).round(3)
            array([1.   , 0.159, 0.   ])
        """
        alphas = _validate.finite("false_positive_rates", false_positive_rates)
        if not ((alphas >= 0) & (alphas <= 1)).all():
            raise ArgumentError("false_positive_rates", "be in [0, 1]", false_positive_rates)
        top = min(max(self.epsilon(_DRAWN_DELTA).upper, 0.1), _MOST_DRAWN)
        logs = top * np.concatenate([-(np.linspace(1.0, 0.0, 16, endpoint=False) ** 2), np.linspace(0.0, 1.0, 55)])
        found = []
        for curve in _tests(self.parts, directions_of(self, "worst")):
            gammas, highs = np.exp(logs), np.array([curve(float(x))[1] for x in logs])
            lines = (1.0 - highs)[:, None] - gammas[:, None] * alphas.ravel()[None, :]
            found.append(np.maximum(lines.max(axis=0), 0.0))
        return np.asarray(np.minimum.reduce(found).reshape(alphas.shape))


def _named(found: Found) -> str:
    """The methods that gave both ends."""
    return found.above if found.below in (found.above, NONE) else f"{found.below}, {found.above}"


def valid_delta(delta: float) -> float:
    """In the accountant's range; the error for another probability says which bound still holds."""
    try:
        return _validate.real("delta", delta, *DELTA)
    except ArgumentError as error:
        try:
            number = _validate.real("delta", delta, 0.0, 1.0, ends="()")
        except ValueError:
            raise error from None
        if number > DELTA[1]:
            raise error.retold(f"{error}; the epsilon of delta = {DELTA[1]:g} holds there too") from None
        raise error.retold(
            f"{error}; there zcdp_epsilon holds for noisy values, at zcdp_rho = steps s^2 / (2 sigma^2), s = 1 (replace-one: 2)"
        ) from None


def valid_rtol(rtol: float) -> float:
    """A relative width."""
    return _validate.real("rtol", rtol, 0.0, 1.0, ends="()")


def directions_of(run: Composition, direction: str) -> tuple[Direction, ...]:
    """The directions that count, the one that mostly gives the larger epsilon first."""
    direction = _validate.choice("direction", direction, DIRECTIONS)
    if run.adjacency == "replace-one":
        if direction != "worst":
            raise ArgumentError("direction", "be 'worst' for adjacency 'replace-one', which is symmetric", direction)
        return ("remove", "add") if isinstance(run.parts[0], FixedSizeStep) else ("replace",)
    if direction == "worst":
        return ("remove", "add")
    return ("add",) if direction == "add" else ("remove",)


def alike_steps(
    noise_multiplier: float,
    sampling_rate: float | None,
    steps: int,
    *,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
) -> Composition:
    """Steps that are alike, in the range in which they are all but exact; of random allocation the last epoch may be cut short."""
    if _validate.choice("sampling", sampling, SAMPLINGS, then=OF_SHUFFLING) == "random allocation":
        if sampling_rate is not None:
            raise ArgumentError("sampling_rate", "be left out for sampling 'random allocation'", sampling_rate)
        if steps_per_epoch is None:
            raise ArgumentError("steps_per_epoch", "be given for sampling 'random allocation'", None)
        epochs = RandomAllocation.of_steps(
            noise_multiplier=_validate.real("noise_multiplier", noise_multiplier, *NOISE),
            steps_per_epoch=steps_per_epoch,
            steps=steps,
            participations=1 if participations is None else participations,
        )
        return Composition(epochs, adjacency=_validate.adjacency(adjacency))
    for name, value in (("steps_per_epoch", steps_per_epoch), ("participations", participations)):
        if value is not None:
            raise ArgumentError(name, "be left out without sampling 'random allocation'", value)
    if sampling_rate is None:
        raise ArgumentError("sampling_rate", f"be given for sampling {sampling!r}", None)
    step: Step | FixedSizeStep = checked_step(noise_multiplier, sampling_rate, steps)
    if sampling != "poisson":
        step = FixedSizeStep(noise_multiplier=step.noise_multiplier, sampling_rate=step.sampling_rate, count=step.count)
    return Composition((step,), adjacency=_validate.adjacency(adjacency))


@functools.lru_cache(maxsize=32)
def _tests(parts: Parts, directions: tuple[Direction, ...]) -> tuple[Curve, ...]:
    """The curve H of each of both tests, all that is asked twice remembered."""
    curves = {side: functools.cache(methods.delta_curve(plain(parts), side)) for side in directions}
    return tuple(_both(curves[side], curves[_OPPOSITE[side]]) for side in directions)


def _certified_tests(parts: Parts, directions: tuple[Direction, ...]) -> tuple[Curve, ...]:
    """The same in ball arithmetic."""
    curves = {side: functools.partial(certified_direction, plain(parts), side) for side in directions}
    return tuple(_both(curves[side], curves[_OPPOSITE[side]]) for side in directions)


def _both(own: Callable[[float], Found], other: Callable[[float], Found]) -> Curve:
    """H at every gamma > 0: below 1 it is that of the other direction, 1 - gamma + gamma H'(1 / gamma)."""

    def bounds(log_gamma: float) -> tuple[float, float]:
        if log_gamma >= 0:
            found = own(log_gamma)
            return found.lower, found.upper
        gamma, found = math.exp(log_gamma), other(-log_gamma)
        return 1 - gamma + gamma * found.lower, 1 - gamma + gamma * found.upper

    return bounds


def epsilon_bounds(
    *,
    noise_multiplier: float,
    sampling_rate: float | None = None,
    steps: int,
    delta: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
    rtol: float = RTOL,
) -> EpsilonBounds:
    r"""Bounds of the smallest epsilon of ``steps`` subsampled Gaussian steps (DP-SGD).

    Each step releases the sum of the sampled, clipped gradients plus noise of standard deviation noise_multiplier times the
    clipping norm. With P, Q the laws of T steps on two neighbours, epsilon is the least one with

    .. math:: \sup_S\, P(S) - e^\epsilon Q(S) \le \delta .

    Two adjacencies and three ways of sampling:

    - "poisson": every record joins a step independently with probability ``sampling_rate``. Neighbours differ by a record
      more or less ("add-remove") or by the content of one ("replace-one": two opposite gradients are the
      worst pair, gip.replace_one).
    - "without replacement": every step takes exactly a share ``sampling_rate`` of the records; "replace-one" only. The
      lower bound is attained by data whose other records are all alike; the upper one holds for all data, also where the
      gradients of a step depend on earlier outputs. For epsilon above 1 and delta up to 1e-4 they are 1 to 5 % apart, as
      a rule; far more for small epsilon by rare sampling (26 % at noise 2, rate .001, 1,000 steps, delta 1e-4; 54 % at noise
      1.5, rate 1e-5, 10^5 steps, delta 1e-5), and for large delta, where the lower one can be 0 and the upper one is not
      (a table: proofs/privacy/fixed_size_batches.md).
    - "random allocation": every record takes part in exactly ``participations`` of the ``steps_per_epoch`` steps of an epoch, all such
      sets being equally likely, whatever the other records do, and afresh in every epoch. With one participation: balls in
      bins. It has no ``sampling_rate``; ``steps`` counts all steps, and a last epoch that is cut short costs at most a whole
      one. For one participation and "add-remove" the bounds are within 1e-3 of each other, relative, for noise 0.5 to 20, up to
      10^4 steps an epoch and up to 10^3 epochs. For several, and for "replace-one", both hold and are proved, and are further
      apart (proofs/privacy/random_allocation.md). Shuffled batches of one size are not this: which batch a record is in then
      says where the others are.

    For Poisson sampling the bounds come from one integral with every error bounded (proofs/privacy/saddle_line.md). delta at
    either bound is within 1e-9 of ``delta``, relative, for noise 0.4 to 20, rates from 1e-4, 100 to 10^6 steps and delta 1e-15
    to 0.1; within 1e-4 nearly everywhere else; in the rest the bounds hold, but are wider. Rounding is covered by a stated
    assumption about NumPy; ``certified`` computes the same integral in ball arithmetic, in seconds, and assumes nothing.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1]; left out for "random allocation".
        steps: >= 1; at most 10^6, and 10^12 with "random allocation".
        delta: in [1e-30, 0.99].
        adjacency: "add-remove" or "replace-one".
        sampling: "poisson", "without replacement" or "random allocation".
        steps_per_epoch: of random allocation, 1 to 10^6.
        participations: of random allocation, 1 to ``steps_per_epoch``; 1 if left out.
        direction: for "add-remove": "remove" (P has the record), "add" (Q has it), or "worst", the larger epsilon.
        certified: an enclosure in ball arithmetic (needs python-flint: ``pip install 'dptheory[certified]'``); Poisson sampling,
            noise in [0.4, 20], rates from 1e-4, 100 steps or more; or random allocation, one participation, add-remove.
        rtol: in (0, 1); of Poisson sampling, the relative width of delta at which nothing is asked that takes seconds.

    Returns:
        The bounds and what gave them. For sampling_rate 1 delta at either is within 2e-9 of ``delta``, relative: the closed form's.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2); RS, Theorem 3.1 (rs.thm3.1); RF, Tables 5-9 (rf.sigmas).

    Example: 100 steps on 2 % of the records, to ten digits.
        >>> from dptheory.privacy import epsilon_bounds
        >>> found = epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=100, delta=1e-5)
        >>> round(found.estimate, 2), found.upper - found.lower <= 1e-10
        (1.43, True)

        20 epochs of 50 steps, each record in one step of each: Poisson samples of the same size cost 3.90.
        >>> epochs = {"noise_multiplier": 1.0, "steps": 1000, "delta": 1e-5}
        >>> found = epsilon_bounds(**epochs, sampling="random allocation", steps_per_epoch=50)
        >>> round(found.lower, 2), round(found.upper, 2)
        (3.64, 3.64)
        >>> round(epsilon_bounds(**epochs, sampling_rate=1 / 50).upper, 2)
        3.9
    """
    run = alike_steps(
        noise_multiplier,
        sampling_rate,
        steps,
        adjacency=adjacency,
        sampling=sampling,
        steps_per_epoch=steps_per_epoch,
        participations=participations,
    )
    return run.epsilon(delta, direction=direction, certified=certified, rtol=rtol)


def delta_bounds(
    *,
    noise_multiplier: float,
    sampling_rate: float | None = None,
    steps: int,
    epsilon: float,
    adjacency: str = "add-remove",
    sampling: str = "poisson",
    steps_per_epoch: int | None = None,
    participations: int | None = None,
    direction: str = "worst",
    certified: bool = False,
    rtol: float = RTOL,
) -> ProbabilityBounds:
    r"""Bounds of the smallest delta of ``steps`` subsampled Gaussian steps at a given epsilon.

    .. math:: \delta(\epsilon) = \sup_S\, P(S) - e^\epsilon Q(S)

    The integral that :func:`epsilon_bounds` inverts; as narrow as is said there.

    Args:
        noise_multiplier, sampling_rate, steps, adjacency, sampling, steps_per_epoch, participations, direction, certified, rtol: as
            for :func:`epsilon_bounds`.
        epsilon: >= 0.

    Returns:
        The bounds, in [0, 1].

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 and Theorem 2 (gip.thm2).

    Example: the run that :func:`epsilon_bounds` gives 1.43 for at delta 1e-5.
        >>> from dptheory.privacy import delta_bounds
        >>> found = delta_bounds(noise_multiplier=1.0, sampling_rate=0.02, steps=100, epsilon=1.43)
        >>> f"{found.upper:.1e}", found.upper - found.lower <= 1e-9 * found.upper
        ('9.8e-06', True)
    """
    run = alike_steps(
        noise_multiplier,
        sampling_rate,
        steps,
        adjacency=adjacency,
        sampling=sampling,
        steps_per_epoch=steps_per_epoch,
        participations=participations,
    )
    return run.delta(epsilon, direction=direction, certified=certified, rtol=rtol)


def rdp_epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    adjacency: str = "add-remove",
) -> float:
    """Upper bound of epsilon by Renyi differential privacy, for comparison; inf where it has none.

    Of Poisson samples: the least over all real orders in (1, 1e7], of the exact curve of
    :func:`dptheory.privacy.subsampled_gaussian_rdp`. The conversion is that of Balle et al. (2020), Theorem 21, which GIP
    uses; 0 where delta covers the distance that Bretagnolle and Huber's inequality allows, sqrt(1 - e^-R).

    Args:
        noise_multiplier, sampling_rate, steps, delta, adjacency: as for :func:`epsilon_bounds`.

    Returns:
        The upper bound.

    Raises:
        ValueError: an argument outside its range, or a combination that no accountant covers.

    Source: GIP, Lemma 1 (gip.lem1, gip.thm2); GEP, section 3 (gep.thm3.1).

    Example: 0.41 more than the 1.43 that :func:`epsilon_bounds` gives.
        >>> from dptheory.privacy import rdp_epsilon
        >>> round(rdp_epsilon(noise_multiplier=1.0, sampling_rate=0.02, steps=100, delta=1e-5), 2)
        1.84
    """
    step = checked_step(noise_multiplier, sampling_rate, steps)
    replaced = _validate.adjacency(adjacency) == "replace-one"
    loss = Loss("replace" if replaced else "remove", step.noise_multiplier, step.sampling_rate)
    return sampled_renyi_epsilon(loss, step.count, valid_delta(delta))
