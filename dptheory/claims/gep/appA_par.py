"""gep.appA.par: B-GEP on par with GP at a small budget."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gep._tables import TABLE_3, percent

row = Row(
    Claim(
        id="gep.appA.par",
        title="B-GEP on par with GP at a small budget",
        source=Source("gep", "Appendix A, results"),
        statement=r"At $\epsilon = 0.1$ B-GEP performs on par with GP, as the residual's signal drowns in its noise. But "
        "see gep.text: by Table 3 it is on par with GEP.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple((f"{method}, epsilon 0.1", percent(*TABLE_3[method][0])) for method in ("GP", "B-GEP", "GEP")),
    )
)
