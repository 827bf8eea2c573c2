"""rs.eq63: deviation near convergence."""

import math
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Range, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rs.eq63",
        title="deviation near convergence",
        source=Source("rs", "Appendix B.3", (63,)),
        statement=r"""As the network converges, $P(\lVert\xi_t\rVert<3C/4)\ge\sqrt{1-r}$ "will be definitely satisfied", i.e.
$\lVert\nabla w\rVert\to0$, $\lVert\xi_t\rVert\to0$ (equation 63 and the text after equation 76). "So the condition of
choosing $\tilde p_t$ will not lead to significant bias term $b_t$".""",
        verdict=Verdict.FALSE,
        kernel="rs/eq63.v",
        kernel_theorems=("reading_is_false", "correction_holds"),
        summary=(
            r"$\nabla w = 0$ does not give the $\xi_t\to0$ that the paper's i.e. takes as part of convergence: $P\ge\sqrt{1-r}$ can fail at a "
            "minimum for every $r<1$; it holds if the model interpolates."
        ),
        conditions=(
            r"False is the sentence of equation 63, which names no such limit, and what follows from it. "
            r"$\lVert\xi\rVert\to0$ in probability is enough (for fixed $C$ and $0<r<1$). The paper's *i.e.* takes it as "
            r"part of convergence; $\nabla w = 0$ does not give it. It follows if every example's gradient vanishes at the "
            "limit (interpolation) and all are Lipschitz with one constant, or if all examples are equal.",
        ),
        correction=r"""The examples' gradients need not vanish where their mean does. What is enough, at any point:

$$E\lVert\xi\rVert^2\le\frac{9C^2}{16}\big(1-\sqrt{1-r}\big)\implies P(\lVert\xi\rVert<3C/4)\ge\sqrt{1-r},$$

and no larger constant does. Where $P$ is smaller, the proxy law $\tilde p_t$ that the condition asks for differs from the law of
$\xi_t$ by at least $\sqrt{1-r}-P$ in total variation, and the bias need not be small: for $w = |w|e_1$, $|w|\le\frac C4$, and
$\xi_t = \pm Ce_1$ with equal chances, DP-SGD on $\frac12|w|^2$ is drawn to the minimum, and *every* symmetric $\tilde p_t$ with
$\tilde P = \tilde P(|\xi_t|<\frac{3C}4)>\frac12$ has $-b_t\ge(\tilde P-\frac12)h(w)|w|$ and, with masks,
$-E_m[b'_t]\ge\kappa(\tilde P-\frac12)h(w)|w|$: the share $1-\frac1{2\tilde P}$ of what Theorems 3.3 and 3.4 bound, however near the
minimum; at $r = \frac12$ more than 0.29.""",
        proved=True,
    )
)


def _condition_at_minimum(spread: Fraction, clip: Fraction, rate: Fraction) -> bool:
    """L(w) = E (w - x)^2 / 2 for x = +-spread: deviations at its minimum against equation 63, by enumeration."""
    minimum = Fraction(0)
    gradients = [minimum - x for x in (spread, -spread)]
    mean = sum(gradients, Fraction(0)) / 2
    below = Fraction(sum(abs(g - mean) < Fraction(3, 4) * clip for g in gradients), 2)
    return below**2 >= 1 - rate


@row.equal(
    lambda: [(Fraction(a, 4), Fraction(1), Fraction(r, 10)) for a in (1, 2, 3, 4, 40) for r in (1, 5, 9)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(spread: Fraction, clip: Fraction, rate: Fraction) -> Sides:
    """the minimum of E (w - x)^2 / 2, x = +-a"""
    return spread < Fraction(3, 4) * clip, lambda: _condition_at_minimum(spread, clip, rate), True


def _bias(weight: Fraction, proxy: Fraction, spread: Fraction) -> Fraction:
    """b = E <w, clip(w + xi)> of xi = +-spread less that of the proxy law +-proxy, one dimension, C = 1."""

    def mean(size: Fraction) -> Fraction:
        clipped = [max(Fraction(-1), min(Fraction(1), weight + xi)) for xi in (size, -size)]
        return weight * sum(clipped, Fraction(0)) / 2

    return mean(spread) - mean(proxy)


@row.equal(
    lambda: [(Fraction(w, 16), Fraction(a, 8), Fraction(1)) for w in (-4, -1, 2, 4) for a in (0, 3, 5)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(weight: Fraction, proxy: Fraction, spread: Fraction) -> Sides:
    """the bias where all deviations have norm C, proxy law +-a: half of what is bounded"""
    # wrong: no bias
    return -abs(weight) * min(abs(weight), Fraction(1, 4)) / 2, lambda: _bias(weight, proxy, spread), Fraction(0)


def _twice_markov_slack(share: float, size: float, keep_share: float) -> float:
    """Wrong statement: twice that second moment is enough."""
    return _markov_slack(2 * share, size, keep_share)


@row.inequality(
    {"share": Range(0, 1), "size": Range(0.75, 10, log=True), "keep_share": Range(0.01, 0.99)},
    wrong=_twice_markov_slack,
)
def _markov_slack(share: float, size: float, keep_share: float) -> float:
    """second moment that is enough

    Two-point deviations 0 and size (C = 1) with E|xi|^2 at the stated limit: P against sqrt x.
    """
    root = math.sqrt(keep_share)
    limit = 9 / 16 * (1 - root)
    probability = min(1.0, share * limit / size**2)
    below = 1.0 if size < 0.75 else 1.0 - probability
    return below / root - 1
