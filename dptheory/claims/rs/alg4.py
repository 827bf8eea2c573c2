from dptheory import privacy
from dptheory.claims._row import Source, Verdict, new_row
from dptheory.claims.rf import ranked

row = new_row(
    id="rs.alg4",
    source=Source("rs", "Appendix I, Algorithm 4"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(privacy.combined_multiplier,),
)


row.add(
    ranked.mask_adds_nothing("RS: mask and release tell what the release tells, by enumeration"),
    ranked.printed_velocity("RS: one step of line 9 as printed"),
)
