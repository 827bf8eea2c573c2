"""What a mask keeps and the sums that are ranked: numbers by hand, and the formula of the theory at the sizes of users."""

import math

import pytest
import torch

from dptheory.sparsification import captured_energy
from dptheory.training import mechanisms
from dptheory.training.measure import _captured
from tests.training.measure.looked_at import invented, run_after, view_of


def ranked(entries: int, steps_per_epoch: int) -> mechanisms.RankedSparsification:
    mechanism = mechanisms.RankedSparsification(mechanisms.Constant(0.5), steps_per_epoch=steps_per_epoch, seed=0)
    mechanism.begin_step([torch.zeros(entries)])
    return mechanism


def test_energy_on_the_kept_entries() -> None:
    gradients = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]])  # clipped to half of the first
    view = invented(gradients, clip=2.5, kept=torch.tensor([True, False, False, False]))
    assert _captured.captured(view) == {"kept_share": 0.25, "energy": pytest.approx(9 / 25), "snr": None}
    none = invented(torch.zeros(2, 3), clip=1.0, kept=torch.ones(3, dtype=torch.bool))
    assert _captured.captured(none) == {"kept_share": 1.0, "energy": None, "snr": None}


def test_signal_over_noise_of_the_sums() -> None:
    mechanism = ranked(4, 3)
    view = invented(torch.ones(2, 4), clip=0.5, sigma=2.0, kept=torch.ones(4, dtype=torch.bool))
    view.run.optimizer.mechanism = mechanism
    assert _captured.captured(view)["snr"] is None  # nothing is summed yet
    found = []
    for _ in range(3):
        mechanism.end_step([torch.full((4,), 2.0)], std=1.0)
        found.append(_captured.captured(view)["snr"])
    # sums of 2 and 4 in each entry, of variance 1 and 2; then they are ranked, and begin anew
    assert found == [pytest.approx(math.sqrt(3)), pytest.approx(math.sqrt(7)), None]


def test_sums_below_their_noise_show_no_signal() -> None:
    view = invented(torch.ones(2, 4), clip=1.0, kept=torch.ones(4, dtype=torch.bool))
    view.run.optimizer.mechanism = ranked(4, 3)
    view.run.optimizer.mechanism.end_step([torch.full((4,), 0.5)], std=1.0)
    assert _captured.captured(view)["snr"] == 0.0


@pytest.mark.parametrize("signal", [0.1, 0.8])
def test_a_mask_keeps_what_the_theory_says(signal: float) -> None:
    entries, steps = 200_000, 25
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(1, entries, generator=generator)
    mechanism = ranked(entries, steps)
    view = invented(gradient, clip=1.0, kept=torch.ones(entries, dtype=torch.bool))
    view.run.optimizer.mechanism = mechanism
    per_step = gradient[0] * signal / math.sqrt(steps)
    for step in range(steps):
        if step == steps - 1:
            assert _captured.captured(view)["snr"] == pytest.approx(signal * math.sqrt(step / steps), abs=0.03)
        mechanism.end_step([per_step + torch.randn(entries, generator=generator)], std=1.0)
    after = invented(gradient, clip=1.0, kept=mechanism.mask[0])
    found = _captured.captured(after)
    assert found["kept_share"] == 0.5
    assert found["energy"] == pytest.approx(captured_energy(entries, entries // 2, snr=signal), abs=0.01)


def test_true_gradients_are_summed_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        name: _captured.captured(
            view_of(run_after(1, monkeypatch, {"name": name, "drop_rate": 0.5, "cooling_epochs": 2}))
        )["snr"]
        for name in ("ranked-sparsification", "ranked-by-true-gradients")
    }
    assert found["ranked-sparsification"] is not None and found["ranked-by-true-gradients"] is None
