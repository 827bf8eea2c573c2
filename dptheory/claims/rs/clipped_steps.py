import dataclasses
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs, _worst_case
from dptheory.claims.rs import _runs as enumeration

# Runs of clipped and masked SGD that attain their worst case: on a lattice, in fractions, and step by step.


State = tuple[int, ...]


@dataclass(frozen=True)
class LatticeRun:
    """SGD with B = 1 on |w|^2 / 2 (G = 1); every entry of an example's gradient is +-1, with mean w_j.

    gamma = 1 / ``inverse_rate`` keeps every w_j a multiple of gamma within [-1, 1]. A mask keeps ``kept`` of the entries, so that every
    masked gradient has norm C = sqrt(kept) and none is clipped.

    Attributes:
        start: w_1 in multiples of gamma.
        inverse_rate: 1 / gamma, a whole number.
        kept: entries that a mask keeps.
        steps: T.
        z: share of C left to the deviation.
    """

    start: State
    inverse_rate: int
    kept: int
    steps: int
    z: Fraction

    def __str__(self) -> str:
        return f"w_1 = {self.start} / {self.inverse_rate}, {self.kept} kept, T = {self.steps}, z = {self.z}"

    def bound(self, bias: float | None = None) -> float:
        """The bound by the calculator; ``bias`` 0 asks for the sum of the one-step inequalities."""
        return convergence.dpsgd_bound(
            objective_gap=float(Fraction(sum(k * k for k in self.start), 2 * self.inverse_rate**2)),
            learning_rate=1 / self.inverse_rate,
            steps=self.steps,
            smoothness=1.0,
            clip_norm=math.sqrt(self.kept),
            drop_rate=1 - self.kept / len(self.start),
            bias=bias,
            sampling="fixed",
        ).value

    def measure(self) -> Fraction:
        """Mean over the steps of E[min(|grad|, (1 - z) C) |grad|], all deviations 0 under the symmetric law, by enumeration."""
        dim = len(self.start)
        masks = list(itertools.combinations(range(dim), self.kept))
        law = {self.start: Fraction(1)}
        total = Fraction(0)
        for step in range(self.steps):
            for state, chance in law.items():
                square = Fraction(sum(k * k for k in state), self.inverse_rate**2)
                if square > (1 - self.z) ** 2 * self.kept:
                    raise ValueError(f"{self}: a gradient exceeds (1 - z) C at step {step + 1}")
                total += chance * square
            if step < self.steps - 1:
                law = self._moved(law, masks)
        return total / self.steps

    def _moved(self, law: dict[State, Fraction], masks: list[tuple[int, ...]]) -> dict[State, Fraction]:
        after: dict[State, Fraction] = {}
        for (state, chance), mask in itertools.product(law.items(), masks):
            for signs in itertools.product((1, -1), repeat=self.kept):
                weight = chance / len(masks)
                moved = list(state)
                for j, sign in zip(mask, signs, strict=True):
                    weight *= Fraction(self.inverse_rate + sign * state[j], 2 * self.inverse_rate)
                    moved[j] -= sign
                if weight:
                    after[tuple(moved)] = after.get(tuple(moved), Fraction(0)) + weight
        return after


LATTICE = tuple(
    LatticeRun(start, inverse, kept, steps, z)
    for z in (Fraction(3, 4), Fraction(1, 4))
    for start, inverse, kept, steps in (
        ((5,), 40, 1, 1),
        ((4,), 40, 1, 6),
        ((0,), 60, 1, 10),
        ((3, -2), 40, 1, 5),
        ((2, 3, 1), 40, 2, 3),
    )
)


@dataclass(frozen=True)
class Recursion:
    """S_t = S_{t-1} + R_t, R_t = 2 G x D_t, D_{t+1} = D_t - gamma R_t + v_t: what the worst case does, step by step.

    Attributes:
        gap: Delta.
        learning_rate: gamma.
        smoothness: G.
        kept: x.
        steps: T.
        clip: C.
        noise_multiplier: sigma.
        dim: d.
        batch_size: B.
        sampling_rate: q of Poisson batches, None for batches of fixed size.
        kappa: None for 1 - drop_rate.
        moment: mean of E|update|^2, which may all come at the first step; None for the largest at every step.
    """

    gap: float
    learning_rate: float
    smoothness: float
    kept: float
    steps: int
    clip: float
    noise_multiplier: float
    dim: int
    batch_size: int
    sampling_rate: float | None
    kappa: float | None = None
    moment: float | None = None

    def __str__(self) -> str:
        return f"T = {self.steps}, d = {self.dim}, B = {self.batch_size}, x = {self.kept}, kappa = {self.kappa}"

    @property
    def _largest(self) -> float:
        excess = 0.0 if self.sampling_rate is None else (1 - self.sampling_rate) / self.batch_size
        return self.clip**2 * (1 + excess)

    def stated(self) -> convergence.DescentBound:
        """The bound by the calculator."""
        return self._by_calculator(None)

    def summed(self) -> convergence.DescentBound:
        """The sum of the one-step inequalities."""
        return self._by_calculator(0.0)

    def _by_calculator(self, bias: float | None) -> convergence.DescentBound:
        fixed = self.sampling_rate is None
        return convergence.dpsgd_bound(
            objective_gap=self.gap,
            learning_rate=self.learning_rate,
            steps=self.steps,
            smoothness=self.smoothness,
            clip_norm=self.clip,
            noise_multiplier=self.noise_multiplier,
            dim=self.dim,
            batch_size=self.batch_size,
            drop_rate=1 - self.kept,
            kappa=self.kappa,
            bias=bias,
            second_moment=self.moment,
            sampling="fixed" if fixed else "poisson",
            sampling_rate=self.sampling_rate,
        )

    def walked(self, *, gap: bool = True, clipping: bool = True, noise: bool = True) -> float:
        """The mean of R_t over the steps, over kappa; one part of it at a time if asked. The less of the ways that moments can come."""
        ways = [[self._largest] * self.steps]
        if self.moment is not None:
            ways.append([self.steps * self.moment] + [0.0] * (self.steps - 1))
        return min(self._walk(moments if clipping else [0.0] * self.steps, gap, noise) for moments in ways)

    def _walk(self, moments: list[float], gap: bool, noise: bool) -> float:
        energy = self.dim * (self.clip * self.noise_multiplier / self.batch_size) ** 2
        left, total = self.gap if gap else 0.0, 0.0
        for moment in moments:
            descent = 2 * self.smoothness * self.kept * left
            total += descent
            left -= self.learning_rate * descent
            added = moment + (self.kept * energy if noise else 0.0)
            left += self.learning_rate**2 * self.smoothness / 2 * added
        return total / self.steps / (self.kept if self.kappa is None else self.kappa)


RUNS = (
    Recursion(1.0, 0.1, 1.0, 1.0, 1, 1.0, 0.0, 1, 1, None),
    Recursion(1.0, 0.1, 2.0, 0.5, 7, 1.0, 1.5, 10, 4, None, 0.7),
    Recursion(2.0, 0.05, 1.0, 0.25, 30, 0.5, 2.0, 100, 16, 0.01),
    Recursion(2.0, 0.05, 1.0, 0.5, 30, 0.5, 0.0, 100, 16, 0.01, None, 0.1),
    Recursion(0.3, 0.02, 3.0, 1.0, 1, 0.5, 1.0, 10, 4, 0.5, None, 0.2),
    Recursion(2.3, 1e-3, 1.0, 0.3, 2000, 0.1, 1.5, 550_000, 1000, 0.02, 0.4),
    Recursion(2.3, 2e-4, 2.0, 1.0, 3000, 1.0, 4.0, 1_000_000, 512, 0.01),
    Recursion(2.3, 1e-3, 1.0, 0.1, 3000, 0.1, 1.0, 2_700_000, 1024, None, 0.2, 0.004),
    Recursion(2.3, 1e-3, 1.0, 0.3, 2000, 0.1, 0.0, 550_000, 1000, None, 0.4, 0.0099),
)


row = new_row(
    id="rs.clipped_steps",
    source=Source("rs", "new, on Theorem 3.5"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.dpsgd_bound,),
)


@row.equal(lambda: [(run,) for run in LATTICE], tolerance=1e-12)
def _(run: LatticeRun) -> Sides:
    """attained on a quadratic, by enumeration of masks and examples"""
    return run.bound(), run.measure, lambda: run.bound(0.0)


_PARTS: tuple[dict[str, bool], ...] = (
    {},
    {"clipping": False, "noise": False},
    {"gap": False, "noise": False},
    {"gap": False, "clipping": False},
)
_TERMS = ("value", "optimization", "clipping", "noise")


@row.equal(lambda: itertools.product(RUNS, range(4)), tolerance=1e-9)
def _(run: Recursion, part: int) -> Sides:
    """every term, step by step at the sizes of the papers"""
    summed = getattr(run.summed(), _TERMS[part])
    return (
        getattr(run.stated(), _TERMS[part]),
        lambda: run.walked(**_PARTS[part]),
        summed if summed else 1.0,
    )


@row.equal(*itertools.product((0.01, 0.1, 1.0, 30.0), (0.6, 1.9), (1, 2, 40)), tolerance=1e-12)
def _(gap: float, gamma: float, steps: int) -> Sides:
    """steps longer than 1 / (2 x G)"""

    # C = G = x = 1: the smaller of 2 (Delta + (T - 1) v) and Delta / gamma + T v / gamma
    def value(bias: float | None) -> float:
        return convergence.dpsgd_bound(
            objective_gap=gap,
            learning_rate=gamma,
            steps=steps,
            smoothness=1.0,
            clip_norm=1.0,
            bias=bias,
            sampling="fixed",
        ).value

    v = gamma**2 / 2
    truth = min(2 * (gap + (steps - 1) * v), (gap + steps * v) / gamma) / steps
    return value(None), truth, value(None) * 1.01


def _clipped_worst(
    gamma: float, G: float, clip: float, r: float, T: int, energy: float, bias: float | None = None
) -> float:
    return convergence.dpsgd_bound(
        objective_gap=1.0,
        learning_rate=gamma,
        steps=T,
        smoothness=G,
        clip_norm=clip,
        noise_multiplier=math.sqrt(energy / 4) / clip,
        dim=4,
        batch_size=1,
        drop_rate=r,
        bias=bias,
        sampling="fixed",
    ).value


@row.certificate(
    (0.2, 1.0, 2.0, 0.0, 3, 0.0),
    (0.3, 2.0, 3.0, 0.5, 2, 0.0),
    (0.1, 1.0, 2.0, 0.5, 2, 1.0),
    problem=_worst_case.clipped_run,
    wrong=lambda gamma, G, clip, r, T, energy: _clipped_worst(gamma, G, clip, r, T, energy, 0.0),
)
def _(gamma: float, G: float, clip: float, r: float, T: int, energy: float) -> float:
    """worst case of two and three steps over smooth functions, B = 1"""
    # the wrong value is the sum of the one-step inequalities
    return _clipped_worst(gamma, G, clip, r, T, energy)


def _slack(s: enumeration.Settings, kappa: float | None) -> float:
    """Bound with the run's own mean second moment less the measure, over their sum."""
    found = enumeration.run(s)
    bound = convergence.dpsgd_bound(
        objective_gap=found.gap,
        learning_rate=s.learning_rate,
        steps=s.steps,
        smoothness=s.smoothness,
        clip_norm=s.clip,
        noise_multiplier=_runs.noise_multiplier(s),
        dim=2,
        batch_size=s.batch_size,
        drop_rate=_runs.rate(s),
        kappa=kappa or _runs.kappa(found),
        second_moment=_runs.moment(found, s.batch_size),
        sampling="fixed",
    ).value
    return (bound - found.measure) / (bound + found.measure)


_BOX = {
    **{name: one for name, one in _runs.QUIET_BOX.items() if name != "weight"},
    "learning_rate": Range(0.02, 1.9, log=True),
}


def _symmetric(point: dict[str, float], steps: int) -> enumeration.Settings:
    return dataclasses.replace(_runs.at(**point, weight=0.5), steps=steps, clip=4.0)


@row.inequality(_BOX, wrong=lambda **point: _slack(_symmetric(point, 1), 1.0))
def _clipped_slack(**point: float) -> float:
    """inequality, any symmetric two-point deviation"""
    return _slack(_symmetric(point, 2), None)
