"""The ledger, the presets, what theory alone proposes, the checking engine, errors."""

from dptheory import checks, claims, papers
from tests.calls import Calls, call, dear, slow

_PRESET = papers.all_presets()[0]
_SETTING = papers.setting(_PRESET.name)
_TABLE = papers.table("rs.table2")

_EVIDENCE = checks.Evidence(
    check="by hand", kind=checks.Kind.EXACT, passed=True, claimed=1.0, observed=1.0, standard_error=None, detectable=1e-12,
    samples=1, seconds=0.1, seed=0, detail="",
)  # fmt: skip

CALLS: Calls = {
    "dptheory.planning.candidates": [
        slow(num_examples=2000, epsilon=3.0, delta=1e-5, max_epochs=2.0, batch_size=2000, epochs=2.0),
    ],
    "dptheory.claims.all_claims": [call(paper="gip", verdict="FALSE")],
    "dptheory.claims.get": [call(id="gip.eq18")],
    "dptheory.claims.select": [call(patterns=["gip.*"])],
    "dptheory.claims.Claim.check": [dear(self=claims.get("gip.eq18"), budget=10.0, seed=0, executor=None)],
    "dptheory.claims.find": [call(query="GIP Proposition 2", max_matches=5)],
    "dptheory.claims.ledger_markdown": [call(claims=[claims.get("gip.eq18")])],
    "dptheory.claims.bibtex": [call(claim=claims.get("gip.eq18"))],
    "dptheory.claims.page_markdown": [call(claim=claims.get("gip.eq18"), evidence=[_EVIDENCE])],
    "dptheory.claims.Answer.far": [call(self=claims.get("rs.table2").answer)],
    "dptheory.claims.Answer.lines": [call(self=claims.get("rs.table2").answer)],
    "dptheory.claims.Watcher": [call()],
    "dptheory.papers.preset": [call(name=_PRESET.name)],
    "dptheory.papers.all_presets": [call()],
    "dptheory.papers.table": [call(id=_TABLE.id)],
    "dptheory.papers.tables": [call()],
    "dptheory.papers.setting": [call(id=_SETTING.id)],
    "dptheory.papers.settings": [call(group="gip.wrn-16-4")],
    "dptheory.papers.Setting.number": [call(self=_SETTING, name="noise_multiplier")],
    "dptheory.papers.Setting.whole": [call(self=_SETTING, name="batch_size")],
    "dptheory.papers.Cell.number": [call(self=_TABLE.cells[0])],
    "dptheory.papers.Cell.spread": [call(self=_TABLE.cells[0])],
    "dptheory.papers.Cell.key": [call(self=_TABLE.cells[0], name="epsilon")],
    "dptheory.papers.Table.cell": [call(self=_TABLE, name=_TABLE.cells[0].name)],
    "dptheory.papers.Table.quoted": [call(self=_TABLE)],
}
