"""The ledger, the presets, the checking engine, errors."""

from dptheory import claims, papers
from tests.calls import Calls, call, dear

_PRESET = papers.all_presets()[0]

CALLS: Calls = {
    "dptheory.claims.all_claims": [call(paper="gip", verdict="FALSE")],
    "dptheory.claims.get": [call(id="gip.eq18")],
    "dptheory.claims.select": [call(patterns=["gip.*"])],
    "dptheory.claims.Claim.check": [dear(self=claims.get("gip.eq18"), budget=10.0, seed=0, executor=None)],
    "dptheory.papers.preset": [call(name=_PRESET.name)],
    "dptheory.papers.all_presets": [call()],
}
