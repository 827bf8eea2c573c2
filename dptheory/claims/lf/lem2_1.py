"""lf.lem2.1: the descent lemma."""

import numpy as np

from dptheory.claims._row import Claim, Range, Row, Source, Verdict
from dptheory.claims.lf import _testbed, _worst_case

row = Row(
    Claim(
        id="lf.lem2.1",
        title="descent lemma",
        source=Source("lf", "Lemma 2.1"),
        statement=r"""Let $f:\mathbb R^d\to\mathbb R$ be continuously differentiable with $|\nabla f(v)-\nabla f(w)|\le L|v-w|$ for all $v,w$.
Then for all $v,w$

$$f(v)\le f(w)+\nabla f(w)^T(v-w)+\frac L2|v-w|^2 .$$""",
        verdict=Verdict.HOLDS,
        kernel="lf/lem2_1.v",
        kernel_theorems=("printed_holds",),
        summary="the standard lemma on functions with a Lipschitz gradient; the constant $L/2$ is the best one.",
        conditions=(
            r"Stated: $f$ is continuously differentiable on the whole space, and $\nabla f$ is Lipschitz with constant $L>0$.",
            "Unstated: none. Convexity is not needed. The loss of a ReLU network does not meet the condition; that of a smooth "
            "network often meets it on bounded sets only: then the lemma holds for $v,w$ whose connecting segment stays in such a "
            "set, with its $L$.",
        ),
        proved=True,
    )
)


@row.certificate(
    (1.0, 1.0),
    (2.0, 3.0),
    (0.1, 5.0),
    problem=_worst_case.descent,
    wrong=lambda smoothness, distance: smoothness / 4 * distance**2,
)
def _(smoothness: float, distance: float) -> float:
    """worst case over smooth functions"""
    return smoothness / 2 * distance**2


def _gap(start: float, step: float) -> float:
    """f(v) - f(w) - f'(w)(v - w) for f = log cosh, v = w + step, over step^2."""
    loss, slope = _testbed.LOSSES["log cosh"]
    low, high = np.array(start), np.array(start + step)
    return float(loss(high) - loss(low) - slope(low) * step) / step**2


def _lowered(start: float, step: float) -> float:
    return 0.49 - _gap(start, step)


@row.inequality({"start": Range(-5, 5), "step": Range(1e-2, 10, log=True)}, wrong=_lowered)
def log_cosh_slack(start: float, step: float) -> float:
    """log cosh, L = 1"""
    return 0.5 - _gap(start, step)
