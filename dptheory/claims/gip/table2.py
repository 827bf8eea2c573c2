"""gip.table2: training time."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

_CELLS = papers.table("gip.table2").cells  # of each method hours, then seconds

row = Row(
    Claim(
        id="gip.table2",
        title="training time",
        source=Source("gip", "Table 2"),
        statement="GIP adds a mild overhead to Jax-Privacy and Random-k (WRN-16-4, SVHN, 875 steps; RGP 100 epochs). By the printed "
        "hours, 7.08 against 6.68, it is 6 %, by the seconds of a batch 6 %: our quotients.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (hours.key("method"), f"{hours.quoted} {hours.key('column')}, {batch.quoted} a batch")
            for hours, batch in zip(_CELLS[::2], _CELLS[1::2], strict=True)
        ),
    )
)
