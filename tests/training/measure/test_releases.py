"""Cosines of released gradients against their law, and entries against laws that are known."""

import pytest
import torch

from dptheory import gradients
from dptheory.training.measure import _releases
from tests.training.measure.looked_at import invented, run_after, view_of

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")


def test_cosine_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(run_after(1, monkeypatch))
    found = _releases.cosines(view, 20)
    snr = found["norm_over_noise"] * 26010**0.5
    predicted = gradients.DistortionAngle(26010, snr=snr).expected_cos()
    assert found["cosine"] == pytest.approx(predicted, abs=5 * found["standard_error"])
    half = _releases.cosines(view_of(run_after(1, monkeypatch, {"name": "random-k", "keep_share": 0.5})), 20)
    assert half["cosine"] == pytest.approx(predicted / 2**0.5, abs=6 * half["standard_error"])


def test_entries_against_a_gaussian_law() -> None:
    normal = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    found = _releases.entries(invented(normal[None], clip=1e6))
    assert found["ks_distance"] < 0.01 and abs(found["excess_kurtosis"]) < 0.1 and found["outside"] == 0
    assert sum(found["histogram"]) == 20_000
    signs = _releases.entries(invented(normal.sign()[None], clip=1e6))
    assert signs["excess_kurtosis"] == pytest.approx(-2.0, abs=1e-3)
    assert signs["ks_distance"] == pytest.approx(
        0.3413, abs=0.01
    )  # N(0, 1) has .16 below -1, where half of the signs are
    spike = torch.ones(400)
    spike[0] = 1000.0
    assert _releases.entries(invented(spike[None], clip=1e6))["outside"] == 1
