"""One step of every mechanism against its claim: no audit refutes a private one, and every broken one is caught."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dptheory import auditing
from training import audits, mechanisms
from training.audits import StepAudit

AUDITS = audits.step_audits()
COMMITTED = Path(__file__).parents[2] / "proofs" / "figures" / "audit_claims.json"


@cache
def result(name: str) -> auditing.AuditResult:
    return next(audit for audit in AUDITS if audit.name == name).run()


@pytest.mark.parametrize("audit", [a for a in AUDITS if a.private], ids=lambda a: a.name)
def test_private_mechanisms_stay_below_their_claim(audit: StepAudit) -> None:
    assert 0.0 < result(audit.name).epsilon_lower <= audit.claimed


@pytest.mark.parametrize("audit", [a for a in AUDITS if not a.private], ids=lambda a: a.name)
def test_broken_mechanisms_exceed_the_naive_claim(audit: StepAudit) -> None:
    assert audit.method == "events"  # valid whatever the law of the output
    assert result(audit.name).epsilon_lower > audit.claimed


def test_the_audit_of_dp_sgd_is_strong() -> None:
    (audit,) = (a for a in AUDITS if a.name == "DP-SGD")
    assert result("DP-SGD").epsilon_lower >= 0.8 * audit.claimed
    assert result("random sparsification").epsilon_lower >= 0.8 * audit.claimed
    assert result("GEP, optimal split").epsilon_lower >= 0.8 * audit.claimed


def test_the_audit_of_the_index_set_is_strong() -> None:
    assert result("index pruning, indices alone").epsilon_lower >= 0.8 * 1.6


def test_too_little_noise_is_caught() -> None:
    """The same audits with a fifth of the noise missing: the claim of SIGMA does not stand."""
    (audit,) = (a for a in AUDITS if a.name == "DP-SGD")

    def less(like, std):
        return 0.8 * noise(like, std)

    noise = audits._seeded_noise(1)
    found = auditing.audit(*audit.scores(audit.trials, less), audits.DELTA, method=audit.method)
    assert found.epsilon_lower > audit.claimed


def test_every_mechanism_is_audited() -> None:
    """Ablations that promise nothing, layer freezing (DP-SGD on fewer layers) and abstract parts aside."""
    kinds = {
        name
        for name in mechanisms.__all__
        if isinstance(getattr(mechanisms, name), type) and issubclass(getattr(mechanisms, name), mechanisms.Mechanism)
    }
    source = Path(audits.__file__).read_text()
    missing = {name for name in kinds if not re.search(rf"\bm\.{name}\b", source)}
    assert missing == {"Mechanism", "NoisySgd", "ClippedSgd", "LayerFreezing"}


def test_committed_results_are_fresh() -> None:
    rows = json.loads(COMMITTED.read_text())
    assert [row["name"] for row in rows] == [a.name for a in AUDITS]
    for row, audit in zip(rows, AUDITS, strict=True):
        assert row["private"] == audit.private
        np.testing.assert_allclose(row["claimed"], audit.claimed, rtol=1e-9)
        # float32 sums may round otherwise elsewhere and move a score across the threshold
        np.testing.assert_allclose(row["audited"], result(audit.name).epsilon_lower, rtol=0.02, atol=0.02)
