import itertools
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

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


row = new_row(
    id="lf.angle_metric",
    source=Source("lf", "Section 3.3, after Lemma 3.1"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


@row.equal(_signals, kind=Kind.COUNTEREXAMPLE)
def _(first: Plane, second: Plane, eta: Fraction, tau: Fraction) -> Sides:
    """smaller angle, larger decrease? In fractions"""
    return (
        _norm2(first) == _norm2(second),
        lambda: _smaller_angle_helps(first, second, eta, tau),
        True,
    )


@row.equal(lambda: [(first, eta, tau) for first, _, eta, tau in _signals()])
def _(s: Plane, eta: Fraction, tau: Fraction) -> Sides:
    """decrease from angle, norm and noise, in fractions"""
    second_moment_of_appendix_a = tau**2
    return (
        eta * s[0] - eta**2 / 2 * (_norm2(s) + 2 * tau**2),
        lambda: _decrease(s, eta, tau),
        eta * s[0] - eta**2 / 2 * second_moment_of_appendix_a,
    )
