"""Released statistics: what they say by the noise's law, what they cost a plan, and what a plan must not take from them."""

import dataclasses
import functools
import json
import math
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dptheory import privacy
from dptheory.planning import (
    Interval,
    Plan,
    PrivateStats,
    TrainingSetup,
    advice,
    config_text,
    plan,
    plan_training,
    read_statistics,
    statistics_text,
    to_json,
    to_markdown,
)
from tests.planning.made import STATS

EDGES, COUNTS, SUMS = (0.5, 1.0, 2.0, 4.0), (100.0, 600.0, 1290.0, 10.0), (500.0, 1500.0)
GIVEN: dict[str, Any] = {
    "name": "made/by-hand", "data": "by-hand", "network": "made", "num_examples": 2000, "layer_sizes": (150, 50),
    "norm_edges": EDGES, "norm_counts": COUNTS, "layer_sums": SUMS, "noise_multiplier": 15.0, "secure": True,
}  # fmt: skip
PRIVATE = PrivateStats(**GIVEN)
SETUP = TrainingSetup(
    num_examples=2000, epsilon=3.0, delta=1e-5, dim=200, batch_size=1000, epochs=10, clip_norm=1.0, learning_rate=0.7
)
REACH = [norm.isf(0.025 / 8) * 15.0 * math.sqrt(bins) / 2000 for bins in (4, 3, 2, 1)]


@functools.cache
def planned(**changes: Any) -> Plan:
    return plan(dataclasses.replace(SETUP, **changes), stats=PRIVATE)


def ends(found: Interval) -> tuple[float, float]:
    assert found.claims == ("gip.lem1",)
    return found.lower, found.upper


def test_shares_above_a_clip_by_hand() -> None:
    """Sums of four to one counts: 1, .95, .65, .005 of 2,000 records."""
    above = [1.0, 0.95, 0.65, 0.005]
    for edge, share, reach in zip(EDGES, above, REACH, strict=True):
        assert ends(PRIVATE.clip_probability(edge)) == pytest.approx((max(0.0, share - reach), min(1.0, share + reach)))
    low, high = 0.65 - REACH[2], 0.95 + REACH[1]
    assert ends(PRIVATE.clip_probability(1.5)) == pytest.approx((low, high))
    assert ends(PRIVATE.clip_probability(0.1)) == pytest.approx((1 - REACH[0], 1.0))
    assert ends(PRIVATE.clip_probability(5.0)) == pytest.approx((0.0, 0.005 + REACH[3]))


def test_shares_above_a_clip_fall_however_the_noise_falls() -> None:
    """A share above a higher edge is no larger: each end is the best of all edges."""
    odd = dataclasses.replace(PRIVATE, norm_counts=(-200.0, 200.0, -200.0, 1900.0))
    spans = [ends(odd.clip_probability(edge)) for edge in EDGES]
    assert [low for low, _ in spans] == pytest.approx([0.95 - REACH[3]] * 4)
    assert [high for _, high in spans] == pytest.approx(sorted((high for _, high in spans), reverse=True))
    assert spans[0][1] == pytest.approx(0.85 + REACH[0]) and spans[2][1] == pytest.approx(0.85 + REACH[2])


def test_quantiles_by_hand() -> None:
    for level, span in {
        0.01: (0.0, 1.0),
        0.2: (1.0, 2.0),
        0.5: (2.0, 4.0),
        0.9: (2.0, 4.0),
        0.999: (2.0, math.inf),
    }.items():
        assert ends(PRIVATE.norm_quantile(level)) == span
    assert ends(dataclasses.replace(PRIVATE, norm_counts=(2000.0, 0.0, 0.0, 0.0)).norm_quantile(0.5)) == (0.5, 1.0)


def test_shares_of_layers_by_hand() -> None:
    """Every share was rounded down to a part of 2^20."""
    reach = norm.isf(0.025 / 4) * 15.0 / 2000
    for found, share in zip(PRIVATE.layer_shares(), (0.25, 0.75), strict=True):
        assert ends(found) == pytest.approx((share - reach, share + reach + 2.0**-20), rel=1e-12)
    far = dataclasses.replace(PRIVATE, layer_sums=(-900.0, 5000.0)).layer_shares()
    assert [ends(one) for one in far] == [(0.0, 0.0), (1.0, 1.0)]


def test_all_intervals_hold_together() -> None:
    """Of 4,000 draws of the noise at most 5 % miss somewhere; 1.4 times the noise would be seen, at 5 standard errors."""
    rng, draws = np.random.default_rng(0), 4000
    truth, shares = np.array([2000.0, 1900.0, 1300.0, 10.0]) / 2000, (0.25, 0.75)

    def missed(scale: float) -> float:
        bad = 0
        for noise in rng.normal(0.0, 15.0 * scale, (draws, 6)):
            noisy = dataclasses.replace(
                PRIVATE, norm_counts=tuple(COUNTS + noise[:4]), layer_sums=tuple(SUMS + noise[4:])
            )
            inside = [
                one.lower <= t <= one.upper for one, t in zip(map(noisy.clip_probability, EDGES), truth, strict=True)
            ]
            inside += [one.lower <= t <= one.upper for one, t in zip(noisy.layer_shares(), shares, strict=True)]
            bad += not all(inside)
        return bad / draws

    error = math.sqrt(0.05 * 0.95 / draws)
    assert missed(1.0) <= 0.05 + 5 * error < missed(1.4)


def test_the_file_holds_all_digits_and_is_read_again() -> None:
    odd = dataclasses.replace(PRIVATE, norm_counts=(100 / 3, 1e6 / 7, -3.0, 0.1), secure=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.json"
        path.write_text(statistics_text(odd))
        found = read_statistics(path)
    assert found == odd
    assert json.loads(statistics_text(odd)) == {
        "format": "dptheory-private-statistics-1",
        **{key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(odd).items()},
    }


def test_nothing_else_is_in_the_file() -> None:
    refused = {
        "alignments",
        "mean_squares",
        "second_moments",
        "curvatures",
        "spectrum",
        "skewness",
        "entry_shares",
        "grad_norm",
    }
    text = statistics_text(PRIVATE)
    assert [word for word in refused if word in text] == [] and "moments" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_edges": (0.5, 0.5, 2.0, 4.0)}, "norm_edges must be 1 to 10000 rising numbers above 0"),
        ({"norm_edges": (0.0, 1.0, 2.0, 4.0)}, "norm_edges must be 1 to 10000 rising numbers above 0"),
        ({"norm_counts": COUNTS[:3]}, "norm_counts must be one per edge, 4"),
        ({"layer_sums": (1.0,)}, "layer_sums must be one per layer, 2"),
        ({"layer_sums": (math.nan, 1.0)}, "layer_sums must hold finite numbers"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a number"),
        ({"num_examples": 1}, "num_examples must be an integer"),
        ({"secure": 1}, "secure must be"),
        ({"name": 3}, "name must be"),
    ],
)
def test_numbers_that_are_none_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        PrivateStats(**(GIVEN | changes))
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"format": "dptheory-private-statistics-1", **GIVEN, **changes}))
    with pytest.raises(ValueError, match=r"must hold statistics, got|must be JSON"):
        read_statistics(path)


def test_statistics_that_are_not_public_are_not_taken_as_if_they_were() -> None:
    with pytest.raises(ValueError, match=r"stats\.public must be true, got False: for private records"):
        plan(SETUP, stats=dataclasses.replace(STATS, public=False))


# --- what they cost a plan --------------------------------------------------------------------------------------------


def test_release_and_training_together_keep_the_budget() -> None:
    assert PRIVATE.release == privacy.Step(noise_multiplier=15.0, sampling_rate=1.0, count=2)
    for found in (planned(), planned(batch_size=None, epochs=3)):
        epsilon = found.setup.epsilon

        def spent(sigma: float, found: Plan = found) -> float:
            step = privacy.Step(noise_multiplier=sigma, sampling_rate=found.sampling_rate, count=found.steps)
            return privacy.Composition((PRIVATE.release, step)).epsilon(1e-5).upper

        assert spent(found.noise_multiplier) <= epsilon < spent(found.noise_multiplier * (1 - 2e-6))


def test_every_field_of_the_cost() -> None:
    found = plan(SETUP, stats=PRIVATE)
    assert PRIVATE.dim == 200
    cost, run = found.released, {"sampling_rate": 0.5, "steps": 20, "delta": 1e-5}
    assert cost is not None and plan(SETUP, stats=PRIVATE, borrowed=False).released == cost
    alone = privacy.least_noise_multiplier(epsilon=3.0, **run)  # type: ignore[arg-type]
    own = privacy.epsilon_bounds(noise_multiplier=found.noise_multiplier, **run)  # type: ignore[arg-type]
    assert dataclasses.asdict(cost) == {
        "noise_multiplier": 15.0,
        "count": 2,
        "secure": True,
        "epsilon": pytest.approx(privacy.gaussian_epsilon(math.sqrt(2) / 15.0, 1e-5), rel=1e-6),
        "training_epsilon": own.upper,
        "noise_alone": alone,
        "clip_probability": dataclasses.asdict(PRIVATE.clip_probability(1.0)),
        "norm_quantiles": tuple(
            (level, dataclasses.asdict(PRIVATE.norm_quantile(level))) for level in (0.05, 0.25, 0.5, 0.75, 0.95)
        ),
        "layer_shares": tuple(dataclasses.asdict(one) for one in PRIVATE.layer_shares()),
    }
    assert found.noise_multiplier > alone and own.upper < 3.0
    assert planned(clip_norm=None).released.clip_probability is None  # type: ignore[union-attr]
    assert plan(SETUP, stats=STATS).released is None and plan(SETUP).released is None


def test_what_was_not_released_is_not_measured() -> None:
    """Intervals as without statistics, for the same noise; nothing of the clip or the rate is decided."""
    found, without = planned(), plan(dataclasses.replace(SETUP, layer_sizes=(150, 50)))
    assert (found.statistics, found.moments, found.borrowed) == ("made/by-hand", (), False)
    assert found.setup.layer_sizes == (150, 50) and found.measured_dim == 200 and without.measured_dim is None
    more = (found.noise_multiplier / without.noise_multiplier) ** 2
    for ours, theirs in zip(found.methods, without.methods, strict=True):
        assert (ours.method, ours.verdict, ours.curved_descent) == (
            theirs.method,
            theirs.verdict,
            theirs.curved_descent,
        )
        assert ours.noise_energy.lower == pytest.approx(more * theirs.noise_energy.lower, rel=1e-2)
        assert ours.descent.upper == pytest.approx(theirs.descent.upper, rel=0.02)
    open_ones = planned(clip_norm=None, learning_rate=None)
    assert open_ones.clip_norm.value is None and open_ones.learning_rate.value is None


def test_the_advice_tells_the_cost_and_what_is_known() -> None:
    found = planned()
    said = [one.text for one in advice(found)]
    (cost,) = (text for text in said if text.startswith("The statistics are of the private records"))
    ours, alone = re.findall(r"noise multiplier is ([\d.]+) in place of ([\d.]+)\. ", cost)[0]
    for text, exact in ((ours, found.noise_multiplier), (alone, found.released.noise_alone)):  # type: ignore[union-attr]
        assert 0.0 <= float(text) - exact < 1e-3
    assert "Step(noise_multiplier=15, sampling_rate=1, count=2) and the training." in cost and "simulation" not in cost
    (clip,) = (text for text in said if text.startswith("At the start"))
    assert "the clip 1 shortens 91.4 to 98.6 % of the gradients; a clip up to 0.5 shortens 95 % or more" in clip
    assert "one from 4 on shortens 5 % or fewer" in clip and clip.endswith("later norms were not measured.")
    (frozen,) = (text for text in said if text.startswith("layer-freezing"))
    assert "the frozen layers hold 23.1 to 26.9 % of the records' squared norms, and 75 % of the noise." in frozen
    nothing = dataclasses.replace(PRIVATE, noise_multiplier=10_000.0, secure=False)
    told = [one.text for one in advice(plan(dataclasses.replace(SETUP, clip_norm=None), stats=nothing))]
    assert any("the noise leaves nothing to tell of the norms" in text for text in told)
    assert any("a simulation: seeded" in text for text in told)
    assert "released of the private records at the start" in to_markdown(found)
    assert json.loads(to_json(found))["released"]["count"] == 2


def test_a_configuration_carries_the_release() -> None:
    whole = tomllib.loads(config_text(planned(), data="excerpt", model="small-cnn"))
    assert whole["statistics"] == {"noise_multiplier": 15.0, "count": 2}
    assert (whole["epsilon"], whole["noise_multiplier"]) == (3.0, planned().noise_multiplier)
    assert "statistics" not in tomllib.loads(config_text(plan(SETUP), data="excerpt", model="small-cnn"))


def test_a_plan_from_the_file() -> None:
    setup = {
        name: getattr(SETUP, name) for name in ("num_examples", "epsilon", "delta", "batch_size", "epochs", "clip_norm")
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.json"
        path.write_text(statistics_text(PRIVATE))
        found = plan_training(setup, stats=path, like=None, runs=[]).plan
    assert found.released == planned().released
    assert found.setup.layer_sizes == (150, 50) and found.noise_multiplier == planned().noise_multiplier


@pytest.mark.parametrize(
    ("changes", "borrowed", "message"),
    [
        ({"num_examples": 2001}, False, "stats must be of the num_examples = 2001 records of the training, got 2000"),
        ({"dim": 300}, False, "stats must be of a network of 300 parameters as dim says, got 200"),
        ({"layer_sizes": (100, 100)}, False, r"stats must be of layer_sizes = \(100, 100\), got \(150, 50\)"),
        ({}, True, "stats must be public where borrowed is true"),
        ({"epsilon": 0.3}, False, r"epsilon must be more than the 0\.3\d+ that stats took at this delta, got 0.3"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(changes: dict[str, Any], borrowed: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(dataclasses.replace(SETUP, **changes), stats=PRIVATE, borrowed=borrowed)
