import math

from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _privacy

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


row = new_row(
    id="lf.tf",
    source=Source("lf", "Section 4, against appendix D"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
)


@row.equal(lambda: [(name,) for name in _privacy.SETTINGS])
def _(name: str) -> Sides:
    """steps left at the epochs of appendix D"""
    return _FROZEN_STEPS[name], lambda: math.floor(_privacy.frozen_steps(name)), 20
