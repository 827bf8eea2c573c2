import itertools
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from dptheory import papers, sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

# --- Density of a run with gradual cooling, counted epoch by epoch


def counted_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> Fraction:
    """Share of non-zero entries, epoch by epoch as Algorithm 1 runs."""
    rates = [final * min(Fraction(e, cooling - 1), Fraction(1)) for e in range(epochs)]
    return sum((1 - r for r in rates), Fraction(0)) / baseline


def stated_density(final: Fraction, cooling: int, epochs: int, baseline: int) -> float:
    """The same by the calculator."""
    return sparsification.total_density(
        final_drop_rate=float(final), cooling_epochs=cooling, epochs=epochs, baseline_epochs=baseline
    )


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


density = new_row(
    id="rf.density",
    source=Source("rf", "section 4, Tables 2 and 9"),
    verdict=Verdict.HOLDS,
    calculators=(sparsification.total_density, sparsification.freeze_rate),
)


@density.equal(
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


@density.equal(lambda: itertools.product((2, 3, 40), (0, 1, 20, 39, 40, 99)), tolerance=1e-15)
def _(cooling: int, epoch: int) -> Sides:
    """rate of each epoch"""
    return (
        sparsification.freeze_rate(epoch=epoch, final_drop_rate=0.9, cooling_epochs=cooling),
        Fraction(9, 10) * min(Fraction(epoch, cooling - 1), Fraction(1)),
        0.9 * min(epoch / cooling, 1.0),  # the text: r* is reached in epoch e*
    )


@density.equal(lambda: [(where,) for where in PRINTED_DENSITIES])
def _(where: str) -> Sides:
    """the printed densities"""
    return _density_as_printed(where, False), _printed_density(where), _density_as_printed(where, True)


sparsity70 = new_row(
    id="rf.sparsity70",
    source=Source("rf", "abstract, section 4, Table 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(sparsification.total_density,),
)


@sparsity70.equal(
    lambda: [(Fraction(7, 10), epochs, epochs, epochs) for epochs in (2, 40, 50, 80)],
    tolerance=1e-13,
    kind=Kind.COUNTEREXAMPLE,
)
def _(final: Fraction, cooling: int, epochs: int, baseline: int) -> Sides:
    """sparsity of the whole run"""
    return (
        1 - stated_density(final, cooling, epochs, baseline),
        lambda: 1 - counted_density(final, cooling, epochs, baseline),
        float(final),
    )
