"""LF: statements that stand in the text alone."""

import itertools
import math
from fractions import Fraction
from functools import partial

from scipy.integrate import quad
from scipy.stats import norm

from dptheory import privacy
from dptheory.checks import ExactCheck, Kind, MeanCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _privacy, tables

# --- lf.def3.1 --------------------------------------------------------------------------------------------------------


def printed_mean_factor(batch_size: int) -> Fraction:
    """E s^U over the mean gradient as Definition 3.1 is printed: B + 1 terms over B."""
    return Fraction(batch_size + 1, batch_size)


def _mean_signal(gradients: tuple[int, ...], batch_size: int, terms: int) -> Fraction:
    """E of 1/B times the sum of ``terms`` gradients, over all ordered draws with replacement."""
    draws = list(itertools.product(gradients, repeat=terms))
    return Fraction(sum(sum(draw) for draw in draws), len(draws) * batch_size)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


_DEF31 = Claim(
    id="lf.def3.1",
    title="signals of a batch",
    source=Source("lf", "Definition 3.1"),
    statement=r"$s_t^U=\frac1B\sum_{i=0}^Bg_t(x_i)$ is the mean gradient of a batch of $B$ and an unbiased estimate of $\nabla f_t$; "
    r"$s_t^B=\frac1B\sum_{i=0}^B\mathrm{clip}(g_t(x_i),C)$.",
    verdict=Verdict.FALSE,
    conditions=("uniform sampling, with or without replacement, or Poisson sampling at rate B/N",),
    correction=r"Sums over $i=1,\dots,B$, as in equation (2). With $B+1$ terms $E[s_t^U]=\frac{B+1}B\nabla f_t$, and $|s_t^B|$ can reach "
    r"$\frac{B+1}BC$. (Algorithm 1 likewise indexes its $N$ records from 0 to $N$.)",
    printed=printed_mean_factor,
    checks=(
        ExactCheck(
            name="mean over all batches, in fractions",
            cases=lambda: [(values, size) for values in ((1, 2), (3, -1, 4), (-2, 5)) for size in (1, 2, 4)],
            truth=lambda values, size: _mean_signal(values, size, size),
            statement=lambda values, size: _mean(values),
            wrong=lambda values, size: printed_mean_factor(size) * _mean(values),
        ),
        ExactCheck(
            name="what the printed sum estimates",
            cases=lambda: [(values, size) for values in ((1, 2), (3, -1, 4)) for size in (1, 2, 4)],
            truth=lambda values, size: _mean_signal(values, size, size + 1),
            statement=lambda values, size: printed_mean_factor(size) * _mean(values),
            wrong=lambda values, size: _mean(values),
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

# --- lf.angle_metric --------------------------------------------------------------------------------------------------

Plane = tuple[Fraction, Fraction]


def _decrease(signal: Plane, eta: Fraction, tau: Fraction) -> Fraction:
    """f(theta) - E f(theta - eta (s + z)) for f = |theta|^2 / 2 at theta = (1, 0), z = +-tau in each coordinate."""
    total = Fraction(0)
    for first, second in itertools.product((tau, -tau), repeat=2):
        total += ((1 - eta * (signal[0] + first)) ** 2 + (eta * (signal[1] + second)) ** 2) / 2
    return Fraction(1, 2) - total / 4


def _square_cosine(signal: Plane) -> Fraction:
    """cos^2 of the angle to (1, 0), for signals on its side."""
    return signal[0] ** 2 / (signal[0] ** 2 + signal[1] ** 2)


def _smaller_angle_helps(first: Plane, second: Plane, eta: Fraction, tau: Fraction) -> bool:
    """Does the signal with the smaller angle give the larger decrease?"""
    closer, other = sorted((first, second), key=_square_cosine, reverse=True)
    return _decrease(closer, eta, tau) >= _decrease(other, eta, tau)


def _signals() -> list[tuple[Plane, Plane, Fraction, Fraction]]:
    """Pairs of signals; of one norm in the first three."""
    pairs = (((1, 0), ("3/5", "4/5")), (("4/5", "3/5"), ("3/5", "4/5")), (("12/13", "5/13"), ("3/5", "4/5")))
    free = ((("1/100", 0), ("9/10", "3/10")), (("1/10", 0), ("1/2", "1/4")))

    def plane(signal: tuple[str | int, str | int]) -> Plane:
        return Fraction(signal[0]), Fraction(signal[1])

    return [
        (plane(first), plane(second), Fraction(1, 2), tau)
        for first, second in (*pairs, *free)
        for tau in (Fraction(0), Fraction(1, 3))
    ]


def _norm2(signal: Plane) -> Fraction:
    return signal[0] ** 2 + signal[1] ** 2


_ANGLE_METRIC = Claim(
    id="lf.angle_metric",
    title="the angle as a metric of utility",
    source=Source("lf", "Section 3.3, after Lemma 3.1"),
    statement=r"$\gamma_t$ is an effective metric for utility: a larger bias ($\gamma_t^B$) and a larger variance ($\sigma$) make the upper bound larger, a smaller "
    r"$\gamma_t^B$ makes it smaller.",
    verdict=Verdict.CONDITIONAL,
    conditions=(r"the norm of the signal, |s^B|, is held fixed while the angle changes",),
    correction=r"$E f_{t+1}\le f_t-\eta|\nabla f_t|E[\cos(\gamma_t^B)|s_t^B|]+\frac L2\eta^2(E|s_t^B|^2+d\tau^2)$, equality for $f=\frac L2|\theta|^2$: norm and angle count "
    r"together, and freezing changes both. On $|\theta|^2/2$ at $(1,0)$, $\eta=\frac12$: $s=(\frac1{100},0)$ has angle 0 and gains .005, $s=(\frac9{10},\frac3{10})$ has angle 18.4° and gains .3375.",
    checks=(
        ExactCheck(
            name="smaller angle, larger decrease? In fractions",
            cases=_signals,
            truth=_smaller_angle_helps,
            statement=lambda first, second, eta, tau: _norm2(first) == _norm2(second),
            wrong=lambda *case: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="decrease from angle, norm and noise, in fractions",
            cases=lambda: [(first, eta, tau) for first, _, eta, tau in _signals()],
            truth=_decrease,
            statement=lambda s, eta, tau: eta * s[0] - eta**2 / 2 * (_norm2(s) + 2 * tau**2),
            wrong=lambda s, eta, tau: eta * s[0] - eta**2 / 2 * tau**2,  # the second moment of appendix A
        ),
    ),
    proved=True,
)

# --- lf.privacy -------------------------------------------------------------------------------------------------------


def _free_freezing() -> float:
    return privacy.gaussian_delta(math.sqrt(_privacy.STEPS) / _privacy.SIGMA, _privacy.EPSILON)


def _cheaper_freezing() -> float:
    """As if half of the coordinates cost half of the budget."""
    return privacy.gaussian_delta(math.sqrt(1.5) / _privacy.SIGMA, _privacy.EPSILON)


def _hockey_stick(epsilon: float, adaptive: bool) -> float:
    """delta(epsilon) of one step that freezes layer 1 always, or, if ``adaptive``, where its gradient is 0.

    One parameter a layer, noise of standard deviation 1. The added record has the gradient (3/5, 4/5), the others 0. If the step
    is adaptive, layer 1 stays exactly where it is without the record, and moves with it: densities on sets that do not meet.
    Otherwise layer 2 alone is released, from gradients 0 and 1, the record being clipped to norm 1 after freezing.
    """
    if adaptive:
        without, added = 0.0, 3 / 5
        frozen_without, frozen_with = without == 0.0, without + added == 0.0
        return float(frozen_without != frozen_with)
    crossing = epsilon + 0.5  # where the log of the ratio of the densities is epsilon
    return float(
        quad(lambda x: norm.pdf(x, 1) - math.exp(epsilon) * norm.pdf(x, 0), crossing, 40, epsabs=1e-13, limit=200)[0]
    )


_PRIVACY = Claim(
    id="lf.privacy",
    title="the freezing schedule is free",
    source=Source("lf", "Section 3.1"),
    statement=r"As freezing is decided by the hyperparameters $t^f$, $m^f$ without adapting to the data, the privacy analysis of DP-SGD-LF is that of DP-SGD.",
    verdict=Verdict.HOLDS,
    conditions=(
        "t^f and m^f do not depend on the private data; choosing them by runs on it costs privacy (section 4 says so)",
        "gradients of frozen layers are set to 0 before the noise is added, and their parameters do not move",
        "the noise on the parameters that are trained stays at sigma C",
    ),
    checks=(
        MeanCheck(
            name="privacy loss of two steps, a layer frozen at the second",
            sampler=partial(_privacy.delta_draws, frozen=(0, 1)),
            claimed=_free_freezing,
            wrong=_cheaper_freezing,
            row_bytes=200,
        ),
        ExactCheck(
            name="fixed and data-dependent schedule: delta",
            cases=lambda: [(epsilon, adaptive) for epsilon in (0.1, 1.0, 5.0) for adaptive in (False, True)],
            truth=_hockey_stick,
            statement=lambda epsilon, adaptive: 1.0 if adaptive else privacy.gaussian_delta(1.0, epsilon),
            wrong=lambda epsilon, adaptive: privacy.gaussian_delta(1.0, epsilon),
            tolerance=1e-7,
        ),
    ),
    proved=True,
)

# --- lf.abstract, lf.spread -------------------------------------------------------------------------------------------


def _gain(setting: str) -> Fraction:
    """Percentage points that freezing adds to the median."""
    without, frozen = (Fraction(tables.median(cell)) for cell in tables.TABLE_1[setting])
    return 100 * (frozen - without)


_ABSTRACT = Claim(
    id="lf.abstract",
    title="largest gain",
    source=Source("lf", "Section 1, against Table 1"),
    statement="Freezing improves the final accuracy by up to 1.3 percentage points.",
    verdict=Verdict.FALSE,
    correction="By up to 1.5 points, by the paper's own Table 1 (CIFAR10, CNN, epsilon 3: 0.533 to 0.548). Three of its ten settings gain more than 1.3 points; one gains nothing.",
    checks=(
        ExactCheck(
            name="largest difference in Table 1",
            cases=lambda: [()],
            truth=lambda: max(map(_gain, tables.TABLE_1)),
            statement=lambda: Fraction("1.5"),
            wrong=lambda: Fraction("1.3"),
        ),
        ExactCheck(
            name="settings that gain more than 1.3 points, and none",
            cases=lambda: [("more",), ("none",)],
            truth=lambda which: Fraction(
                sum(gain > Fraction("1.3") if which == "more" else gain == 0 for gain in map(_gain, tables.TABLE_1))
            ),
            statement=lambda which: Fraction({"more": 3, "none": 1}[which]),
            wrong=lambda which: Fraction(0),
        ),
    ),
    proved=True,
)


def _change_of_spread(setting: str) -> Fraction:
    """-1, 0 or 1: smaller, equal or larger as printed with freezing."""
    before, after = (tables.spread(cell) for cell in tables.TABLE_1[setting])
    assert before is not None and after is not None
    if before == after:
        return Fraction(0)
    return Fraction(-1 if float(after) < float(before) else 1)


_EQUAL_SPREAD = tuple(
    f"{data}, CNN, epsilon {epsilon}" for data, epsilon in (("MNIST", 2), ("MNIST", 3), ("FashionMNIST", 1), ("FashionMNIST", 3))
)  # fmt: skip
_WITH_SPREAD = tuple(name for name, (cell, _) in tables.TABLE_1.items() if tables.spread(cell))

_SPREAD = Claim(
    id="lf.spread",
    title="smaller standard deviation",
    source=Source("lf", "Section 4, Table 1"),
    statement="Layer freezing generally improves the performance, as it has a smaller standard deviation over five runs.",
    verdict=Verdict.LOOSE,
    conditions=(
        "generally: not in every setting",
        "as printed, with three digits; five runs tell little of a standard deviation",
    ),
    correction="Table 1 prints a smaller one in 5 of its 9 settings with repeated runs, the same one in 4 (MNIST epsilon 2 and 3, FashionMNIST epsilon 1 and 3), a larger one in none.",
    checks=(
        ExactCheck(
            name="standard deviations of Table 1",
            cases=lambda: [(name,) for name in _WITH_SPREAD],
            truth=_change_of_spread,
            statement=lambda name: Fraction(0 if name in _EQUAL_SPREAD else -1),
            wrong=lambda name: Fraction(-1),  # smaller in every setting
        ),
    ),
    proved=True,
)

# --- lf.tf ------------------------------------------------------------------------------------------------------------

_FROZEN_STEPS = {
    "MNIST, CNN, epsilon 1": 50,
    "MNIST, CNN, epsilon 2": 43,
    "MNIST, CNN, epsilon 3": 18,
    "FashionMNIST, CNN, epsilon 1": 69,
    "FashionMNIST, CNN, epsilon 2": 158,
    "FashionMNIST, CNN, epsilon 3": 343,
    "CIFAR10, CNN, epsilon 3": 118,
    "CIFAR10, CNN, epsilon 7": 41,
}

_TF = Claim(
    id="lf.tf",
    title="when to freeze",
    source=Source("lf", "Section 4, against appendix D"),
    statement=r"$t^f$ is set about 20 steps before the privacy budget is spent; this default is used for all experiments of Table 1.",
    verdict=Verdict.FALSE,
    correction="By the epochs of appendix D, if the runs go on until the budget of Table 1 is spent, layers are frozen for at least the last 18, 43 and 50 steps (MNIST, epsilon "
    "3, 2, 1), 69, 158 and 343 (FashionMNIST, epsilon 1, 2, 3), 118 and 41 (CIFAR10, epsilon 3, 7): about 20 in one setting of eight.",
    checks=(
        ExactCheck(
            name="steps left at the epochs of appendix D",
            cases=lambda: [(name,) for name in tables.SETTINGS],
            truth=lambda name: math.floor(_privacy.frozen_steps(name)),
            statement=_FROZEN_STEPS.__getitem__,
            wrong=lambda name: 20,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_DEF31, _ANGLE_METRIC, _PRIVACY, _ABSTRACT, _SPREAD, _TF)
