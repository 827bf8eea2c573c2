"""gip.table2: training time."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gip import _tables

row = Row(
    Claim(
        id="gip.table2",
        title="training time",
        source=Source("gip", "Table 2"),
        statement="GIP has mild additional overhead compared to Jax-Privacy and Random-k (WRN-16-4, SVHN, 875 steps). By the printed "
        "hours, 7.08 against 6.68, it is 6 %, by the seconds of a batch 6 %: our quotients.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (method, f"{hours} h in all, {batch} s a batch") for method, (hours, batch) in _tables.TABLE_2.items()
        ),
    )
)
