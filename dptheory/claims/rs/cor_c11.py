import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dptheory import convergence
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rs._runs import least, spelled

# The bound at a privacy budget, term by term, at small sizes and at users': from the law of a step on a quadratic.


CONSTANT = Fraction(3, 2)
TERMS = ("optimization", "clipping", "noise", "bias", "value")


def printed_noise(
    steps: int, epsilon: float, delta: float, clip: float, dim: int, sampling_rate: float, constant: float
) -> float:
    """Delta_eps as printed: the sampling rate q stands in it as if it did not depend on T."""
    return dim * (clip * constant * sampling_rate / epsilon) ** 2 * math.log(1 / delta) / (2 * math.sqrt(steps))


@dataclass(frozen=True)
class Budget:
    """T = root^2 steps at gamma = 1/(G root) with delta = 10^-digits; all numbers but the logarithm are rational.

    ``kappa`` None is its least value. Poisson batches have the rate B/N; that of "any" is not told.
    """

    root: int
    dim: int
    kept: int
    samples: int
    batch_size: int
    gap: Fraction
    smoothness: Fraction
    clip: Fraction
    epsilon: Fraction
    digits: int
    kappa: Fraction | None
    sampling: str

    def __str__(self) -> str:
        kappa = "least" if self.kappa is None else f"{float(self.kappa):g}"
        return f"d = {self.dim}, {self.kept} kept, T = {self.root**2}, B = {self.batch_size}, {self.sampling}, kappa {kappa}"

    @property
    def divisor(self) -> Fraction:
        """kappa."""
        return Fraction(self.kept, self.dim) if self.kappa is None else self.kappa

    @property
    def largest_moment(self) -> Fraction:
        """E|update|^2 where every clipped gradient is one vector of norm C: C^2 E K^2 / B^2, K the size of the batch."""
        size, rate = self.batch_size, Fraction(self.batch_size, self.samples)
        variance = {"fixed": Fraction(0), "poisson": self.samples * rate * (1 - rate), "any": Fraction(size)}
        return self.clip**2 * (size**2 + variance[self.sampling]) / size**2

    @property
    def step_noise(self) -> float:
        """What the noise of one step adds to G|w|^2 / 2, over gamma: the variance of an entry, entry by entry kept."""
        variance = (CONSTANT * Fraction(self.batch_size, self.samples) * self.root / self.epsilon) ** 2
        entry = variance * (self.clip / self.batch_size) ** 2 / (self.smoothness * self.root)
        return float(self.smoothness / 2 * self.kept * entry) * self.digits * math.log(10)

    def by_hand(self, term: str) -> float:
        """A term of the bound on one step, decrease Delta / T, over kappa."""
        gamma = 1 / (self.smoothness * self.root)
        found = {
            "optimization": float(self.gap / self.root**2 / gamma / self.divisor),
            "clipping": float(self.smoothness / 2 * gamma * self.largest_moment / self.divisor),
            "noise": self.step_noise / float(self.divisor),
            "bias": 0.0,
        }
        return sum(found.values()) if term == "value" else found[term]

    def by_printed(self, term: str) -> float | None:
        """The noise, and with it the bound, as printed, q held at its value for T = 400 and B = sqrt T."""
        if term not in ("noise", "value"):
            return None
        noise = printed_noise(
            self.root**2, float(self.epsilon), 10.0**-self.digits, float(self.clip), self.dim, 20 / self.samples, float(CONSTANT)
        )  # fmt: skip
        wrong = self.kept / self.dim * noise / float(self.divisor)
        return wrong if term == "noise" else wrong + self.by_hand("optimization") + self.by_hand("clipping")

    def stated(self, term: str) -> float:
        """The same by the calculators."""
        masked = spelled(r=1 - self.kept / self.dim, kappa=None if self.kappa is None else float(self.kappa))
        found = convergence.private_bound(**self._run, **masked, steps=self.root**2)
        return float(getattr(found, term))

    @property
    def noise(self) -> float:
        """D by the calculator."""
        run = spelled(C=float(self.clip), d=self.dim, r=1 - self.kept / self.dim, train_size=self.samples)
        budget = spelled(epsilon=float(self.epsilon), delta=10.0**-self.digits)
        return convergence.privacy_term(**run, **budget, constant=float(CONSTANT))

    @property
    def _run(self) -> dict[str, Any]:
        run = spelled(gap=float(self.gap), G=float(self.smoothness), C=float(self.clip), B=self.batch_size)
        run |= {"noise_per_root_step": self.noise, "sampling": "fixed" if self.sampling == "fixed" else "poisson"}
        return run | ({"sampling_rate": self.batch_size / self.samples} if self.sampling == "poisson" else {})

    def stated_optimum(self) -> float:
        """T* by the calculator."""
        return convergence.optimal_steps(**self._run)

    def balanced_steps(self) -> float:
        """T at which what falls like 1/sqrt T and what grows like sqrt T are equal, from their sizes at T = root^2; 1 at least."""
        falling = self.by_hand("optimization") + self.by_hand("clipping")
        return max(1.0, self.root**2 * falling / self.by_hand("noise"))


F = Fraction
_SIZES = (
    (3, 8, 2, 40, 5, F(2), F(3), F(1, 2), F(8), 2),
    (1, 600, 600, 2000, 4, F(1, 3), F(1), F(2), F(1), 3),
    (30, 20_000, 5000, 60_000, 256, F(2), F(10), F(3, 2), F(2), 5),
    (30, 20_000, 5000, 60_000, 30, F(2), F(10), F(3, 2), F(2), 5),  # B = sqrt T, the paper's choice
    (30, 20_000, 5000, 60_000, 1, F(2), F(10), F(3, 2), F(2), 5),
    (2, 10**6, 10**6, 1000, 10, F(1, 8), F(1), F(1), F(1, 10), 5),  # T* below 1: one step is best
    (100, 10**7, 10**6, 50_000, 1024, F(1, 2), F(4), F(1), F(4), 6),
)
BUDGETS = tuple(
    Budget(*sizes, kappa=kappa, sampling=sampling)
    for sizes in _SIZES
    for kappa in (None, F(1))
    for sampling in ("fixed", "poisson", "any")
)


row = new_row(
    id="rs.cor_c11",
    source=Source(
        "rs", "sentence before Corollary C.1.1, on Theorem C.1 (cited from Abadi et al.)", tuple(range(90, 99))
    ),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    printed=printed_noise,
    calculators=(convergence.privacy_term, convergence.private_bound, convergence.optimal_steps),
)


_U = 1.5


@dataclass(frozen=True)
class Setting:
    """What does not depend on the number of steps."""

    objective_gap: float
    smoothness: float
    clip: float
    dim: int
    samples: int
    epsilon: float
    delta: float
    rate: float

    def __str__(self) -> str:
        return f"d = {self.dim}, N = {self.samples}, epsilon = {self.epsilon:g}, r = {self.rate:g}"

    @property
    def noise(self) -> float:
        """D of the calculators."""
        run = spelled(C=self.clip, d=self.dim, r=self.rate, train_size=self.samples)
        return convergence.privacy_term(**run, epsilon=self.epsilon, delta=self.delta, constant=_U)


_SETTINGS = (
    Setting(2.0, 1.0, 1.0, 100_000, 50_000, 1.0, 1e-5, 0.0),
    Setting(2.0, 10.0, 0.5, 10_000_000, 50_000, 4.0, 1e-5, 0.5),
    Setting(0.5, 3.0, 2.0, 600_000, 60_000, 2.0, 1e-6, 0.9),
)


def _by_theorem(s: Setting, root: int, batch_size: int) -> float:
    """Theorem 3.5 with T = root^2 and the noise multiplier of equation 90."""
    sigma = _U * batch_size / s.samples * root * math.sqrt(math.log(1 / s.delta)) / s.epsilon
    gamma = 1 / (s.smoothness * root)
    run = spelled(gap=s.objective_gap, gamma=gamma, T=root**2, G=s.smoothness, C=s.clip, r=s.rate)
    return convergence.dpsgd_bound(**run, **spelled(sigma=sigma, d=s.dim, B=batch_size), sampling="fixed").value


def _optimum(s: Setting, sampling: str = "fixed") -> float:
    """Of batches of size 2, or of Poisson batches of that mean size and unknown rate."""
    run = spelled(gap=s.objective_gap, G=s.smoothness, C=s.clip, B=2, noise_per_root_step=s.noise)
    return convergence.optimal_steps(**run, sampling=sampling)


@row.equal(
    lambda: [
        (setting, max(1, round(math.sqrt(share * _optimum(setting)))))
        for setting in _SETTINGS
        for share in (0.01, 0.2, 0.3, 4.0, 100.0)
    ],
    kind=Kind.COUNTEREXAMPLE,
)
def _(s: Setting, root: int) -> Sides:
    """falls up to T*, grows after it"""
    # from T to 4 T, with B = sqrt T as in the corollary: A/sqrt T + D sqrt T falls iff A/(2 sqrt T) > D sqrt T, that is T < T*/2
    falls = root**2 < _optimum(s) / 2
    return falls, lambda: _by_theorem(s, 2 * root, 2 * root) < _by_theorem(s, root, root), True


def _searched_optimum(s: Setting, sampling: str) -> float:
    """The best T of Theorem 3.5's right side by search over log T; T enters as a real number; the noise does not depend on B."""
    moment = s.clip**2 if sampling == "fixed" else 1.5 * s.clip**2

    def value(log_steps: float) -> float:
        steps = math.exp(log_steps)
        sigma = _U / s.samples / s.epsilon * math.sqrt(steps * math.log(1 / s.delta))
        noise = convergence.noise_term(**spelled(G=s.smoothness, C=s.clip, sigma=sigma, d=s.dim, B=1))
        step = spelled(gamma=1 / (s.smoothness * math.sqrt(steps)), G=s.smoothness, M=moment, r=s.rate)
        return convergence.alignment_bound(**step, decrease=s.objective_gap / steps, noise_term=noise).value

    return math.exp(least(value, 0.0, 40.0)[0])


@row.equal(lambda: [(setting, sampling) for setting in _SETTINGS for sampling in ("fixed", "poisson")], tolerance=1e-5)
def _(s: Setting, sampling: str) -> Sides:
    """best number of steps, by search"""
    return _optimum(s, sampling), lambda: _searched_optimum(s, sampling), lambda: _optimum(s, sampling) / 2


@row.equal(lambda: [(budget, term) for budget in BUDGETS for term in TERMS], tolerance=1e-12)
def _(budget: Budget, term: str) -> Sides:
    """Theorem 3.5 with the noise put in, every term: from the law of a step on a quadratic"""
    return budget.stated(term), lambda: budget.by_hand(term), budget.by_printed(term)


@row.equal(lambda: [(budget,) for budget in BUDGETS], tolerance=1e-12)
def _(budget: Budget) -> Sides:
    """best number of steps: the two parts are equal"""
    return budget.stated_optimum(), budget.balanced_steps, budget.balanced_steps() / 2


@row.equal(lambda: [(dim,) for dim in (5, 10**6)])
def _(dim: int) -> Sides:
    """no budget: no noise, and no end to the steps"""
    noise = convergence.privacy_term(
        epsilon=math.inf, delta=1e-5, clip_norm=1.0, dim=dim, train_size=50_000, constant=1.5
    )
    # wrong: the falling part over a noise of 1
    return convergence.optimal_steps(**spelled(gap=2.0, G=1.0, C=1.0), noise_per_root_step=noise), math.inf, 2.5
