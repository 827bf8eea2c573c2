"""gip.alg2: training algorithm."""

import itertools
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict


def _descend(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Gradient descent on w^2 / 2, the training that Algorithm 2 is meant to do."""
    weight = start
    for _ in range(steps):
        weight -= learning_rate * weight
    return weight


def printed_training(start: Fraction, learning_rate: Fraction, steps: int) -> Fraction:
    """Algorithm 2 as printed on w^2 / 2 without noise or pruning: line 12 stands behind the loop."""
    weight = start
    gradient = Fraction(0)
    for _ in range(steps):
        gradient = weight
    return weight - learning_rate * gradient


def _noise_of_average(sigma: Fraction, clip: Fraction, batch: int) -> Fraction:
    """sigma times the largest move of sum / |B| when one of |B| examples from {-C, 0, C} leaves."""
    examples = itertools.product((-clip, Fraction(0), clip), repeat=batch)
    moves = (abs(sum(batch_of, Fraction(0)) - sum(batch_of[1:], Fraction(0))) / batch for batch_of in examples)
    return sigma * max(moves)


row = Row(
    Claim(
        id="gip.alg2",
        title="training algorithm",
        source=Source("gip", "Algorithm 2, sections 3 and 4"),
        statement=r"""For $T$ steps, draw a batch with sampling probability $q = |B|/N$, clip each gradient to norm $C$, sum (line 8), draw the
index set $I$ (line 9), add $Z \sim N(0, \sigma^2C^2)$ to the sum, divide by $|B|$ and multiply by $I$ (line 10). Line 11
ends the loop. Line 12 updates the weights. Lemma 1 accounts for $T$ steps with $(q, \sigma)$, while sections 3 and 4 put the
noise $\sigma C$ on the average.""",
        verdict=Verdict.CONDITIONAL,
        summary=(
            "Algorithm 2 trains, with the accounting of Lemma 1, once the update stands inside the loop and the "
            r"noise $\sigma C$ belongs to the sum over the batch, not to its average."
        ),
        conditions=(
            "The update belongs inside the loop.",
            (
                r"The noise multiplier $\sigma$ of Lemma 1 is noise over sensitivity. The sum has sensitivity $C$ (neighbours add "
                r"or remove one example), so noise $\sigma C$ goes with the sum. The sum divided by a fixed $|B|$ has sensitivity "
                r"$C/|B|$, so noise $\sigma C/|B|$ goes with the average."
            ),
            (
                "$|B|$ in lines 8 and 10: under the sampling of line 3 the number of drawn examples is random. The sum runs over "
                "all drawn examples, and the divisor is a constant, the expected batch size. (If the divisor were the actual "
                "size, the sensitivity of the quotient would be another.)"
            ),
            "This page is about the value part. The index part and its budget: [gip.thm1](thm1.md), [gip.budget](budget.md).",
        ),
        correction=r"""Line 12 is the last line of the loop. The released value is $\frac1{|B|}(g_t + Z) \odot I$ with $g_t$ the *sum*; the noise of
the *average* is $\sigma C/|B|$ per entry. Section 4's $\sigma^2C^2d$ is the noise of the sum.""",
        printed=printed_training,
        proved=True,
    )
)


@row.equal(lambda: [(Fraction(1), Fraction(1, 2), steps) for steps in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(start: Fraction, rate: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """update inside the loop"""
    return _descend(start, rate, steps), start * (1 - rate) ** steps


@row.equal(lambda: [(Fraction(10), Fraction(3), batch) for batch in (1, 2, 5)], kind=Kind.COUNTEREXAMPLE)
def _(sigma: Fraction, clip: Fraction, batch: int) -> Sides:
    """noise on the average for the same privacy"""
    return (sigma * clip) / batch, lambda: _noise_of_average(sigma, clip, batch), sigma * clip
