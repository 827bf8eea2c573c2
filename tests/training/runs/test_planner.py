"""The planner held against made results: regret, order, coverage, and that the studies run what was forecast."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from dptheory.training.runs import _planner, read_study
from dptheory.training.runs._plan import Find, PlannedRun
from dptheory.training.runs._planner_page import _held, planner_page, summary, tables
from dptheory.training.runs._results import Result

ROOT = Path(__file__).parents[3]
STUDY, METHODS = (read_study(Path(f"configs/studies/{name}.toml")) for name in ("planner", "planner_methods"))
FORECASTS = _planner.read_plans()


def finding(accuracies: Mapping[str, float], without: str = "nothing") -> Find:
    """Accuracy in percent by arm; seed by seed a tenth of a point up and down in one, so that intervals have a width."""

    def find(run: PlannedRun) -> Result | None:
        if without in run.phase:
            return None
        wiggle = 0.1 * (run.config.seed % 2) if run.arm in ("planned", "random-k") else 0.0
        accuracy = (accuracies.get(run.arm, 50.0) + wiggle) / 100
        return {"epochs": {"test_accuracy": [accuracy]}, "diverged": False}

    return find


def held(accuracies: Mapping[str, float], results: tuple[Result, ...] = (), **settings: Any) -> _planner.Held:
    find = finding(accuracies, **settings)
    return _planner.hold(
        settings.get("forecasts", FORECASTS), regret=(STUDY, find), order=(METHODS, find), measured=lambda name: results
    )


def test_regret_by_hand() -> None:
    """Tuned 81, planned 79 and 79.1 by turns: 1.95, with the t interval of eight differences of 2 and 1.9."""
    found = held({"tuned": 81.0, "planned": 79.0}, without="mnist-3")
    reach = float(stats.t.ppf(0.975, 7)) * (0.1 / 2 * (8 / 7) ** 0.5) / 8**0.5
    assert [one.setting for one in found.regrets] == ["fashion-mnist-1", "mnist-1", "excerpt-3", "excerpt-8"]
    for one in found.regrets:
        assert (one.tuned, one.planned) == pytest.approx((81.0, 79.05))
        assert (one.mean, one.low, one.high) == pytest.approx((1.95, 1.95 - reach, 1.95 + reach))
    assert found.missing == ("fashion-mnist-3", "mnist-3")


def method(name: str, low: float, high: float) -> dict[str, Any]:
    span = {"lower": low, "upper": high, "claims": []}
    return {"method": name, "descent": span, "curved_descent": span}


def test_order_by_hand() -> None:
    """Forecast: random-k below dp-sgd, gep-joint above it, biased-gep not known. Measured: random-k above, gep-joint above."""
    spans = {
        "random-k": (0.2, 0.5),
        "gep-joint": (1.2, 1.5),
        "layer-freezing": (0.9, 1.1),
        "random-sparsification": (0.9, 1.1),
    }
    methods = [method("dp-sgd", 1.0, 1.0), *(method(name, *span) for name, span in spans.items())]
    methods.append({"method": "biased-gep", "descent": method("", 2.0, 3.0)["descent"], "curved_descent": None})
    forecasts = {name: {"methods": methods} for name in FORECASTS}
    accuracies = {"dp-sgd": 60.0, "random-k": 61.0, "gep-joint": 63.0, "biased-gep": 70.0, "layer-freezing": 60.0}
    find = finding(accuracies | {"random-sparsification": 60.0})
    found = _planner.hold(forecasts, regret=(STUDY, find), order=(METHODS, find), measured=lambda name: ())
    by_pair = {(one.first, one.second): one for one in found.pairs if one.setting == "excerpt-3"}
    assert len(found.pairs) == 4 * 15 and by_pair["dp-sgd", "random-k"].mean == pytest.approx(-1.05)
    assert {pair: one.outcome for pair, one in by_pair.items() if pair[0] == "dp-sgd"} == {
        ("dp-sgd", "random-sparsification"): "not separated", ("dp-sgd", "random-k"): "contradicts",
        ("dp-sgd", "layer-freezing"): "not separated", ("dp-sgd", "gep-joint"): "agrees",
        ("dp-sgd", "biased-gep"): "not forecast",
    }  # fmt: skip
    assert found.pairs[0].outcome == "contradicts" and found.pairs[-1].outcome == "not separated"


def test_order_by_one_descent_alone() -> None:
    """Isotropic: gep-joint far above dp-sgd; with curvature below it; measured below: both together say nothing."""
    flat, bent = (method("gep-joint", *span)["descent"] for span in ((5.0, 9.0), (0.2, 0.4)))
    known = [{"method": "gep-joint", "descent": flat, "curved_descent": bent}, method("dp-sgd", 1.0, 1.0)]
    others = set(METHODS.arms) - {"gep-joint", "dp-sgd"}
    known += [{"method": name, "descent": flat, "curved_descent": None} for name in others]
    find = finding({"dp-sgd": 60.0, "gep-joint": 50.0})
    forecasts = {name: {"methods": known} for name in FORECASTS}
    found = _planner.hold(forecasts, regret=(STUDY, find), order=(METHODS, find), measured=lambda name: ())
    pairs = [one for one in found.pairs if (one.first, one.second) == ("dp-sgd", "gep-joint")]
    assert {(one.outcome, one.isotropic, one.curved) for one in pairs} == {("not forecast", "contradicts", "agrees")}
    other = [one for one in found.pairs if (one.first, one.second) == ("dp-sgd", "random-k")]
    assert {(one.isotropic, one.curved) for one in other} == {("contradicts", "not forecast")}
    assert "isotropic one 0 agree" in list(summary(found))[2]


def test_coverage_by_hand() -> None:
    """Only where both an interval and a value are known; those outside first."""
    worth = {
        "relative_isotropic": 0.7,
        "relative_isotropic_error": 0.07,
        "relative_curved": 0.4,
        "relative_curved_error": 0.01,
    }
    moment = {"methods": {"dp-sgd": worth, "random-k": worth, "biased-gep": worth, "ranked-sparsification": worth}}
    result = {"arms": {"dp-sgd": {"measured": {"forecast": [moment, {"methods": {"random-k": dict.fromkeys(worth)}}]}}}}
    methods = [method("random-k", 0.5, 0.5), method("biased-gep", 0.3, 0.6)]
    methods.append(
        {"method": "ranked-sparsification", "descent": {"lower": 0.0, "upper": None}, "curved_descent": None}
    )
    found = _planner.hold(
        {name: {"methods": methods} for name in FORECASTS},
        regret=(STUDY, finding({}, without="")), order=(METHODS, finding({}, without="")),
        measured=lambda name: (result,) if name == "excerpt-3" else (),
    )  # fmt: skip
    assert found.regrets == () and found.pairs == ()
    assert [(one.method, one.kind, one.value, one.error, one.near, one.inside) for one in found.covered] == [
        ("random-k", "descent", 0.7, 0.07, False, False), ("random-k", "curved_descent", 0.4, 0.01, False, False),
        ("biased-gep", "descent", 0.7, 0.07, True, False), ("biased-gep", "curved_descent", 0.4, 0.01, True, True),
    ]  # fmt: skip
    written = json.loads(tables(found))["covered"]
    assert [(one["near"], one["inside"]) for one in written] == [(one.near, one.inside) for one in found.covered]
    assert next(line for line in summary(found) if line.startswith("Coverage")).startswith(
        "Coverage: 1 of 4 measured ratios lie in their forecast intervals, 0.25 (0.01 to 0.81), 2 within two standard errors, 0.5"
    )


def test_the_page_says_the_worst_first() -> None:
    found = held({"tuned": 81.0, "planned": 79.0}, without="mnist-3")
    page = planner_page(found)
    assert next(iter(summary(found))) == (
        "Regret: 4 of 6 settings measured, 1.95 points on average, at most 1.95 (1.91 to 1.99; fashion-mnist-1)."
    )
    assert (
        "| fashion-mnist-1 | 81.00 | 79.05 | 1.95 (1.91 to 1.99) |" in page
        and "Not measured yet: fashion-mnist-3" in page
    )
    current = (ROOT / "proofs" / "planner.md").read_text(encoding="utf-8")
    assert planner_page(_held(ROOT / "proofs" / "results")) == current, "run `dptheory planner`"
    assert tables(_held(ROOT / "proofs" / "results")) == (ROOT / "proofs" / "planner.json").read_text(encoding="utf-8")


def test_the_tables_hold_every_field() -> None:
    found = held({"tuned": 81.0, "planned": 79.0}, without="mnist-3")
    read = json.loads(tables(found))
    assert read["missing"] == list(found.missing) and len(read["pairs"]) == len(found.pairs)
    assert (
        _planner.Regret(**read["regrets"][0]) == found.regrets[0]
        and _planner.Pair(**read["pairs"][-1]) == found.pairs[-1]
    )


def test_shares_have_the_exact_interval() -> None:
    for hits, count in ((0, 5), (5, 5), (3, 20), (17, 40)):
        exact = stats.binomtest(hits, count).proportion_ci(0.95, method="exact")
        assert _planner.share_interval(hits, count) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_the_studies_run_what_was_forecast() -> None:
    """The planned arm has the forecast's choice, and the methods its settings; at least six settings."""
    wrong = []
    for study in (STUDY, METHODS):
        names = [phase.name.removeprefix("final-") for phase in study.phases if phase.name.startswith("final-")]
        for name in names:
            forecast, phase = FORECASTS[name], study.phase(f"final-{name}")
            for arm in set(phase.arms) - {"tuned"}:
                config = study.config(phase, arm=arm, point={}, seed=0)
                made = (config.epochs, config.batch_size, config.max_grad_norm, config.epsilon, config.delta)
                chosen = [forecast[key]["value"] for key in ("epochs", "batch_size", "clip_norm")]
                if made != (*chosen, forecast["setup"]["epsilon"], forecast["setup"]["delta"]):
                    wrong.append((study.name, name, arm, made))
                if arm == "planned" and config.optimizer.learning_rate != forecast["learning_rate"]["value"]:
                    wrong.append((study.name, name, "learning_rate", config.optimizer.learning_rate))
                parts = {one["method"]: {p["name"]: p["value"] for p in one["parts"]} for one in forecast["methods"]}
                own = {key: value for key, value in config.mechanism.items() if key in parts.get(arm, {})}
                if any(value != pytest.approx(parts[arm][key], rel=1e-5) for key, value in own.items()):
                    wrong.append((study.name, name, arm, own))
    assert wrong == [] and len(FORECASTS) >= 6
    assert {json.dumps(one["advice"][0]["text"])[:12] for one in FORECASTS.values()} == {'"Take DP-SGD'}
