"""rf.density: the density of a run with gradual cooling, and those that the tables print."""

import itertools
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from dptheory import papers, sparsification
from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.rf._cooling import counted_density, stated_density


def _rounded(value: float, digits: int) -> Fraction:
    """Half up at ``digits`` places; the twelfth place absorbs what float64 lost."""
    unit = Decimal(1).scaleb(-digits)
    return Fraction(Decimal(f"{value:.12f}").quantize(unit, ROUND_HALF_UP))


PRINTED_DENSITIES = {
    # where: the setting; the dense run was as long as the ramp
    "Table 2, End-to-end CNN, epsilon = 7.53": "rf.end-to-end-cnn.eps7.53",
    "Table 2, End-to-end CNN, epsilon = 3": "rf.end-to-end-cnn.eps3",
    "Table 2, Handcrafted CNN": "rf.handcrafted-cnn.eps3",
    "Table 2, GEP": "rf.gep.eps8",
    "Table 2, DP-Transfer Learning": "rf.dp-transfer-learning.eps2",
    "Table 9, epsilon = 3": "rf.adjusted-end-to-end-cnn.eps3",
    "Table 9, epsilon = 7.53": "rf.adjusted-end-to-end-cnn.eps7.53",
}


def _printed_density(where: str) -> Fraction:
    return Fraction(str(papers.setting(PRINTED_DENSITIES[where]).total_density))


def _density_as_printed(where: str, own_epochs: bool) -> Fraction:
    one = papers.setting(PRINTED_DENSITIES[where])
    cooling, epochs = one.whole("cooling_epochs"), one.whole("epochs")
    value = sparsification.total_density(
        final_drop_rate=one.number("drop_rate"),
        cooling_epochs=cooling,
        epochs=epochs,
        baseline_epochs=epochs if own_epochs else cooling,
    )
    return _rounded(value, len(str(one.total_density).split(".")[1]))


row = Row(
    Claim(
        id="rf.density",
        title="total density",
        source=Source("rf", "section 4, Tables 2 and 9"),
        statement=r"""The total density is the number of non-zero gradient entries of random freeze over that of the original dense run. The paper gives 0.65, 0.7, 0.8
and 0.65 for $r^\ast = 0.7, 0.6, 0.4, 0.7$ (ramp over the whole run), and 0.6 and 0.58 for $r^\ast = 0.9$ with a ramp of 40 in 60
and of 80 in 100 epochs.""",
        verdict=Verdict.HOLDS,
        summary=r"the densities of Table 2 are $1-r^\ast/2$ exactly; those of Table 9 are right when counted against the "
        "shorter dense run.",
        conditions=(
            "Stated: the definition of the density; the ramp of Algorithm 1, with $T$ steps in every epoch.",
            r"Unstated: $e^\ast\ge2$ (for $e^\ast = 1$ the ramp is $0/0$); "
            "$d(1-r(e))$ is rounded to an integer, which changes the density by less than $E/(E_0d)$.",
            'The entry in Table 9 counts against the 40 and 80 epochs of the baseline, which fits "the original '
            """dense representation". Against the runs' own 60 and 100 epochs the densities are 0.4 and 0.46.""",
            r"The text of section 4 says that $r^\ast$ is reached at epoch $e = e^\ast$; by its own formula it is "
            r"reached at $e = e^\ast-1$. So the rate at the 20th epoch of Fig. 2, printed as 0.45, is $0.9\cdot19/39 "
            "= 0.438$ counting from 0, or 0.462 at $e = 20$.",
        ),
        correction=r"""With the rate $r(e) = r^\ast\min(\frac e{e^\ast-1},1)$ of Algorithm 1, $E$ epochs, and $E_0$ epochs of the dense run,

$$\frac1{E_0}\sum_{e=0}^{E-1}(1-r(e)) = \frac{E-r^\ast(e^\ast/2+E-e^\ast)}{E_0}\quad(E\ge e^\ast),\qquad
\frac{E-r^\ast\frac{E(E-1)}{2(e^\ast-1)}}{E_0}\quad(E\le e^\ast) .$$

For $e^\ast = E = E_0$ it is $1-r^\ast/2$, whatever $E\ge2$.""",
        calculators=(sparsification.total_density, sparsification.freeze_rate),
        proved=True,
    )
)


@row.equal(
    lambda: itertools.product((Fraction(0), Fraction(7, 10), Fraction(1)), (2, 3, 40), (1, 2, 40, 100), (40, 100)),
    tolerance=1e-13,
)
def _(final: Fraction, cooling: int, epochs: int, baseline: int) -> Sides:
    """counted epoch by epoch, in fractions"""
    return (
        stated_density(final, cooling, epochs, baseline),
        lambda: counted_density(final, cooling, epochs, baseline),
        1 - final / 2,  # whatever the lengths
    )


@row.equal(lambda: itertools.product((2, 3, 40), (0, 1, 20, 39, 40, 99)), tolerance=1e-15)
def _(cooling: int, epoch: int) -> Sides:
    """rate of each epoch"""
    return (
        sparsification.freeze_rate(epoch=epoch, final_drop_rate=0.9, cooling_epochs=cooling),
        Fraction(9, 10) * min(Fraction(epoch, cooling - 1), Fraction(1)),
        0.9 * min(epoch / cooling, 1.0),  # the text: r* is reached in epoch e*
    )


@row.equal(lambda: [(where,) for where in PRINTED_DENSITIES])
def _(where: str) -> Sides:
    """the printed densities"""
    return _density_as_printed(where, False), _printed_density(where), _density_as_printed(where, True)
