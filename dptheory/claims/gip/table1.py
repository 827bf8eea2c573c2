"""gip.table1: ImageNet accuracy."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.table1",
        title="ImageNet accuracy",
        source=Source("gip", "Table 1"),
        statement="NF-ResNet-50 from scratch on ImageNet: the text has GIP 0.1 to 0.4 points above Jax-Privacy. But see gip.text.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gip.table1").quoted(),
    )
)
