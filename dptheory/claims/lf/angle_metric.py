"""lf.angle_metric: a smaller angle helps at a fixed norm of the signal."""

import itertools
from fractions import Fraction

from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

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


row = Row(
    Claim(
        id="lf.angle_metric",
        title="the angle as a metric of utility",
        source=Source("lf", "Section 3.3, after Lemma 3.1"),
        statement=r"$\gamma_t$ is an effective metric for utility, because (1) a larger bias angle $\gamma_t^B$ and (2) a "
        r"larger variance of the noise ($\sigma$) make the upper bound larger; a smaller $\gamma_t^B$ makes it "
        "smaller.",
        verdict=Verdict.CONDITIONAL,
        kernel="lf/angle_metric.v",
        kernel_theorems=("reading_is_false", "correction_holds"),
        summary="a smaller angle helps if the norm of the signal stays the same; freezing and clipping change the norm "
        "too, and then a smaller angle can mean less progress.",
        conditions=(
            "Unstated: the norm $|s_t^B|$ is held fixed while the angle changes.",
            r"(2) needs no condition. The price of the noise is $\frac L2\eta^2d\tau^2$, not the $\frac "
            r"L2\eta^2\tau^2$ that is printed ([lf.appA.moment](appA.moment.md)).",
        ),
        correction=r"""One step makes at least the progress

$$f_t-Ef_{t+1}\ge\eta|\nabla f_t|\thinspace E[\cos(\gamma_t^B)|s_t^B|]-\frac L2\eta^2(E|s_t^B|^2+d\tau^2),\qquad\tau=\sigma C/B,$$

with equality for $f=\frac L2|\theta|^2$ ($\theta_t$ given). It rises with $\cos\gamma_t^B$ at fixed $|s_t^B|$, and falls with the
noise energy $d\tau^2$. So norm and angle count together, and freezing changes both. On $|\theta|^2/2$ at $(1,0)$ with
$\eta=\frac12$ and no noise, $s=(\frac1{100},0)$ has the angle 0 and gains .005, while $s=(\frac9{10},\frac3{10})$ has an angle of 18.4
degrees and gains .3375.""",
        proved=True,
    )
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
