"""gep.appA.par: B-GEP on par with GP at a small budget."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.appA.par",
        title="B-GEP on par with GP at a small budget",
        source=Source("gep", "Appendix A, results"),
        statement=r"At $\epsilon = 0.1$ B-GEP performs on par with GP, as the residual's signal drowns in its noise. But "
        "see gep.text: by Table 3 it is on par with GEP.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (name, papers.table("gep.table3").cell(name).quoted)
            for name in (f"{method}, epsilon 0.1" for method in ("GP", "B-GEP", "GEP"))
        ),
    )
)
