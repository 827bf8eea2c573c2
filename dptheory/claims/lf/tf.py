"""lf.tf: how long before the budget is spent layers are frozen."""

import math

from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.lf import _privacy, _tables

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


row = Row(
    Claim(
        id="lf.tf",
        title="when to freeze",
        source=Source("lf", "Section 4, against appendix D"),
        statement="Given the budget, compute the number of steps $T$, and set $t^f$ about 20 steps earlier; this default "
        "is used for all experiments of Table 1.",
        verdict=Verdict.FALSE,
        summary="by the epochs of appendix D the layers are frozen for at least 18 to 343 steps, about 20 in one setting "
        "of eight.",
        conditions=(
            r"$\delta=10^{-5}$, $\sigma$ and $B$ of appendix D, Poisson sampling at $B/N$ as in Algorithm 1, "
            "$N=60000$ (MNIST, FashionMNIST) or 50000; an epoch is $N/B$ steps.",
            "The runs go on until the budget that Table 1 names is spent, as Algorithm 1 has it. $T$ is found by "
            "Renyi orders 2 to 64: a tighter accountant allows more steps, which makes the differences larger, so "
            '"at least".',
            r"Wide-ResNet: left out, as $\sigma$ is not in the paper.",
        ),
        correction=r"""With $T$ the last step within the budget and the epochs of appendix D, $T-t^f$ is at least

| | epsilon 1 | epsilon 2 | epsilon 3 | epsilon 7 |
|---|---|---|---|---|
| MNIST, CNN (29.3 steps per epoch) | 50 | 43 | 18 | |
| FashionMNIST, CNN (29.3) | 69 | 158 | 343 | |
| CIFAR10, CNN (97.7; 24.4 at epsilon 7) | | | 118 | 41 |""",
        proved=True,
    )
)


@row.equal(lambda: [(name,) for name in _tables.SETTINGS])
def _(name: str) -> Sides:
    """steps left at the epochs of appendix D"""
    return _FROZEN_STEPS[name], lambda: math.floor(_privacy.frozen_steps(name)), 20
