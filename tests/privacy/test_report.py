"""What is reported of a training: the statement, and audits of scores."""

import dataclasses
import datetime
import json
import math
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest, norm

from dptheory import privacy
from dptheory.privacy import (
    Composition,
    FreshMask,
    IndexSteps,
    JointStep,
    MaskedStep,
    PrivacyStatement,
    RandomAllocation,
    Step,
    gaussian_delta,
    gaussian_epsilon,
    privacy_statement,
    read_statement,
)
from dptheory.privacy.report._statement import _number, described
from dptheory.pruning import SubsetMallows
from tests.refused import refused
from tests.said import says

# --- The privacy statement: every field, in words and as JSON ---


RUN = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
LAW = SubsetMallows(12, 4, theta=0.05)


def test_a_statement_names_the_law_that_is_accounted_for() -> None:
    """A shuffled run is not what the epsilon of Poisson batches speaks of."""
    poisson = Composition([Step(noise_multiplier=1.1, sampling_rate=0.01, count=100)])
    allocated = Composition([RandomAllocation(noise_multiplier=1.1, steps_per_epoch=10, count=2)])
    for run, named, other in ((poisson, "Poisson", "shuffled"), (allocated, "random allocation", "Poisson")):
        assert privacy_statement(composition=run, delta=1e-5).sampler == named
        assert privacy_statement(composition=run, delta=1e-5, sampler=f"{named}, seed 1").sampler == f"{named}, seed 1"
        with refused("sampler", other):
            privacy_statement(composition=run, delta=1e-5, sampler=other)
    assert privacy_statement(composition=RUN, delta=1e-5, sampler="every record in every step").sampler


def stated(**changes: object) -> PrivacyStatement:
    given = {
        "mechanism": "an algorithm",
        "train_size": 1234,
        "unit": "one user",
        "adjacency": "zero-out",
        "public": ("clip", "noise"),
        "sampler": "Poisson, as run",
        "randomness": "seed 7",
        "secure": False,
        "epsilon_if_secure": 2.5,
        "tuning": "none",
        "software": ("a 1",),
    }
    return privacy_statement(composition=RUN, delta=1e-5, **(given | changes))  # type: ignore[arg-type]


def test_every_field() -> None:
    found, exact = stated(), gaussian_epsilon(math.sqrt(10) / 4, 1e-5)
    assert found.output and found.covered and "Gaussian" in found.accountant
    assert found.epsilon_lower <= exact <= found.epsilon <= found.epsilon_lower + 1e-6
    attack = RUN.attack()
    assert dataclasses.replace(found, epsilon=0.0, epsilon_lower=0.0) == PrivacyStatement(
        date=found.date,
        mechanism="an algorithm",
        train_size=1234,
        unit="one user",
        adjacency="zero-out",
        output=found.output,
        covered=found.covered,
        public=("clip", "noise"),
        sampler="Poisson, as run",
        composition=(described(RUN.parts[0]),),
        steps=10,
        delta=1e-5,
        epsilon=0.0,
        epsilon_lower=0.0,
        accountant=found.accountant,
        randomness="seed 7",
        secure=False,
        epsilon_if_secure=2.5,
        attack=attack,
        tuning="none",
        software=("a 1",),
    )
    plain = privacy_statement(composition=RUN, delta=1e-5)
    assert plain.tuning not in ("", "none")
    assert plain.epsilon_if_secure == plain.epsilon == found.epsilon and plain.epsilon_lower == found.epsilon_lower
    assert dataclasses.replace(plain, epsilon_if_secure=2.5) == dataclasses.replace(
        found,
        mechanism="DP-SGD",
        train_size=None,
        unit="one record",
        adjacency="add-remove",
        public=(),
        sampler="Poisson",
        randomness="not stated",
        secure=True,
        tuning=plain.tuning,
        software=(),
    )


def test_all_of_it_is_in_the_text_and_in_the_json() -> None:
    found = stated()
    text, data = found.markdown(), json.loads(found.json())
    assert list(data) == [field.name for field in dataclasses.fields(found)]
    assert data["epsilon"] == found.epsilon and data["attack"]["advantage_upper"] == found.attack.advantage_upper  # type: ignore[union-attr]
    assert data == json.loads(json.dumps(dataclasses.asdict(found)))
    plain = " ".join(text.split())
    for told in (found.date, "1,234", found.mechanism, found.unit, found.adjacency, found.output, found.covered,
                 ", ".join(found.public), found.sampler,
                 *found.composition, found.accountant, found.randomness, found.tuning, *found.software):  # fmt: skip
        assert told in plain
    assert (
        says(text, "2.5", "3.34141", "1e-05", "28.3", "1e-05")
        and says(text, 10, 10, 4, 1)
        and says(text, "3.3414", "3.34141")
    )
    assert text.splitlines()[-len(str(found.attack).splitlines()) :] == str(found.attack).splitlines()
    assert "null record" in plain and "simulation" in plain
    assert "simulation" not in stated(secure=True).markdown()
    assert "one | two lines" in stated(unit="one | two\nlines").markdown()


def test_the_day_and_what_epsilon_means_in_words() -> None:
    before = datetime.datetime.now(datetime.UTC).date()
    found = stated()
    assert before <= datetime.date.fromisoformat(found.date) <= datetime.datetime.now(datetime.UTC).date()
    held = {"epsilon": 2.0, "epsilon_lower": 1.9}
    text = dataclasses.replace(found, **held).markdown()
    assert "more than 7.39 times as likely" in text and "plus 1e-05" in text, "e^2 = 7.389..."
    assert "e^800" in dataclasses.replace(found, epsilon=800.0).markdown()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", "zero-out"])
def test_the_number_of_records_is_stated_where_it_is_public(adjacency: str) -> None:
    run = Composition(RUN.parts, adjacency="replace-one") if adjacency == "replace-one" else RUN
    given: dict[str, Any] = {"composition": run, "delta": 1e-5, "adjacency": adjacency}
    assert "1,234" not in privacy_statement(**given).markdown()
    if adjacency == "add-remove":
        with refused("train_size"):
            privacy_statement(**given, train_size=1234)
    else:
        assert "1,234" in privacy_statement(**given, train_size=1234).markdown()


def test_a_statement_of_before_is_read_without_day_and_number(tmp_path: Path) -> None:
    old = json.loads(stated().json())
    del old["date"], old["train_size"]
    (tmp_path / "statement.json").write_text(json.dumps(old))
    assert read_statement(tmp_path) == dataclasses.replace(stated(), date="", train_size=None)


def test_it_fits_a_screen() -> None:
    lines = [row for line in stated().markdown().splitlines() for row in (textwrap.wrap(line, 100) or [""])]
    assert len(lines) <= 40


def test_a_schedule_is_named_by_its_ends() -> None:
    run = Composition([Step(noise_multiplier=30.0 + i, sampling_rate=1.0, count=1) for i in range(12)])
    found = privacy_statement(composition=run, delta=1e-5)
    lines = [line for line in found.markdown().splitlines() if "Steps" in line]
    assert len(found.composition) == 12 and says(lines[0], 34, 1, 6, 1, 41, 1)


def test_what_nothing_protects_says_so_and_is_null() -> None:
    found = dataclasses.replace(stated(), epsilon=math.inf, attack=None)
    assert "no privacy guarantee" in found.markdown() and "an attacker" not in found.markdown()
    assert json.loads(found.json())["epsilon"] is None and json.loads(found.json())["attack"] is None


def test_before_the_first_step() -> None:
    found = privacy_statement(composition=None, delta=1e-5)
    assert (found.epsilon, found.epsilon_lower, found.steps, found.composition, found.attack) == (0.0, 0.0, 0, (), None)
    assert "(0, 1e-05)" in found.markdown()


def test_steps_in_words() -> None:
    values = {"noise_multiplier": 2.0, "sampling_rate": 0.25, "count": 3}
    assert says(described(Step(**values)), 3, 2, 0.25)
    assert says(described(JointStep(**values, mechanism=LAW, groups=5)), 3, 2, 0.25, 5, 4, 12, 0.05)
    assert says(described(MaskedStep(**values, mask=FreshMask(dim=9, keep=2))), 3, 2, 0.25, 2, 9)
    assert says(described(IndexSteps(steps=7, mechanism=LAW, groups=5)), 7, 5, 4, 12, 0.05)


@pytest.mark.parametrize(
    ("value", "above", "below"),
    [
        (3.34140721, "3.34141", "3.3414"),
        (0.01234494, "0.012345", "0.0123449"),
        (123456.4, "123457", "123456"),
        (2.5, "2.5", "2.5"),
        (0.0, "0", "0"),
    ],
)
def test_printed_numbers_hold(value: float, above: str, below: str) -> None:
    assert (_number(value), _number(value, up=False)) == (above, below)


def test_bad_input() -> None:
    with refused("adjacency", "'add-remove'", "'replace-one'"):
        stated(adjacency="replace-one")
    with refused("adjacency"):
        stated(adjacency="users")


def test_it_is_read_as_it_was_written() -> None:
    nothing = privacy_statement(composition=None, delta=1e-5)
    for found in (stated(), dataclasses.replace(nothing, epsilon=math.inf, epsilon_if_secure=math.inf)):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "statement.json").write_text(found.json())
            assert read_statement(folder) == read_statement(Path(folder) / "statement.json") == found


def test_what_is_no_statement_is_refused(tmp_path: Path) -> None:
    good, file = json.loads(stated().json()), tmp_path / "statement.json"
    with refused("path"):
        read_statement(tmp_path)
    changes = [
        ({"delta": -1.0}, 'path'), ({"attack": {}}, 'path'),
        ({"attack": good["attack"] | {"advantage_upper": 2.0}}, 'path'), ({"public": "N"}, 'path'),
        ({"adjacency": "near"}, 'path'), ({"steps": 1.5}, 'path'), ({"unit": 1}, 'path'),
        ({"date": "today"}, 'path'), ({"train_size": 0.5}, 'path'), ({"secure": "yes"}, 'path'), ({"more": 1}, 'path'),
    ]  # fmt: skip
    for text, said in [("{", "path"), ("3", "path"), ("[" * 10**5, "path")] + [
        (json.dumps(good | change), said) for change, said in changes
    ]:
        file.write_text(text)
        with refused(said):
            read_statement(file)


# --- Audits: their coverage, power and limits, on scores whose true epsilon is known ---


DELTA = 1e-5


def gaussian_scores(mu: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(mu, 1.0, n), rng.normal(0.0, 1.0, n)


def _lower(scores: Sequence[np.ndarray], *, delta: float = DELTA, **how: Any) -> float:
    present, absent = scores
    return privacy.auditing.audit(scores_with=present, scores_without=absent, delta=delta, **how).epsilon_lower


@pytest.mark.parametrize("method", privacy.auditing.AUDIT_METHODS)
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.5])
def test_false_claims_are_as_rare_as_stated(method: str, mu: float) -> None:
    """At confidence 0.8 and 400 audits, more than 1 in 5 false claims is refuted; delta is large, so that it matters."""
    delta, audits = 0.05, 400
    truth = gaussian_epsilon(mu, delta)
    found = [
        _lower(gaussian_scores(mu, 200, seed), delta=delta, confidence=0.8, method=method) for seed in range(audits)
    ]
    false = sum(value > truth + 1e-12 for value in found)
    assert binomtest(false, audits, 0.2, alternative="greater").pvalue > 1e-3


def test_the_order_of_the_scores_has_no_part() -> None:
    """62 of 4,000 runs against none, the ones first: half of them taken in that order prove nothing."""
    hits, none = np.r_[np.ones(62), np.zeros(3938)], np.zeros(4000)
    rng = np.random.default_rng(0)
    found = {_lower((scores, none), confidence=0.99) for scores in (hits, hits[::-1], rng.permutation(hits))}
    (only,) = found
    assert 1.85 < only < 1.95
    first, second = gaussian_scores(2.0, 1000, 0)
    assert _lower((first, second)) == _lower((np.sort(first), np.sort(second)[::-1])) > 0.5


def test_every_bound_of_a_rank_holds_as_often_as_stated() -> None:
    """Of the likelier world at least a share with the law Beta(k, n - k + 1) lies at or beyond its k-th score, with ties too."""
    n, level, audits = 40, 0.05, 4000
    rng = np.random.default_rng(5)
    for ties in (False, True):
        scores = rng.random((audits, n))
        scores = np.sort(np.floor(5 * scores) / 5 if ties else scores, axis=1)
        for k in (1, 4, 20, 39, 40):
            threshold = scores[:, -k]
            share = 1.0 - threshold  # of uniform scores; of rounded ones too
            false = int((share < beta.ppf(level, k, n - k + 1)).sum())
            assert binomtest(false, audits, level, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize("method", privacy.auditing.AUDIT_METHODS)
def test_more_trials_prove_more(method: str) -> None:
    found = [
        np.mean([_lower(gaussian_scores(1.0, n, seed), method=method) for seed in range(6)])
        for n in (100, 1000, 10_000, 100_000)
    ]
    assert found == sorted(found)
    limits = [privacy.auditing.largest_bound(scores=n, delta=DELTA, method=method) for n in (16, 50, 400, 10_000)]
    assert limits == sorted(limits) and limits[0] > 0


def test_the_gaussian_version_comes_near_and_beats_events() -> None:
    for mu in (0.5, 1.0, 2.0):
        scores = gaussian_scores(mu, 50_000, 3)
        sharp = _lower(scores, method="gaussian")
        assert 0.85 * gaussian_epsilon(mu, DELTA) < sharp <= gaussian_epsilon(mu, DELTA)
        assert _lower(scores) < sharp


def test_events_come_near_where_they_are_tight() -> None:
    """Randomized response: one event has the ratio e^epsilon."""
    epsilon, n = 1.2, 400_000
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    rng = np.random.default_rng(5)
    found = privacy.auditing.audit(
        scores_with=rng.random(n) < truth, scores_without=rng.random(n) < 1 - truth, delta=1e-9
    )
    assert 0.97 * epsilon < found.epsilon_lower < epsilon
    assert (found.event, found.likelier) in {("above", "with"), ("below", "without")}
    assert found.trials == (n, n)


def test_gaussian_version_may_exceed_epsilon_where_the_trade_off_is_not_gaussian() -> None:
    """Why its condition stands: a release with chance q alone has a smaller epsilon than its best error rates suggest."""
    q, mu, n, delta = 0.05, 20.0, 40_000, 0.06
    rng = np.random.default_rng(1)
    scores_with = np.where(rng.random(n) < q, mu, 0.0) + rng.normal(size=n)
    scores_without = rng.normal(size=n)
    # delta(0) of the mixture is at most q < delta, so epsilon = 0
    assert q * gaussian_delta(mu, 0.0) < delta
    assert (
        privacy.auditing.audit(scores_with=scores_with, scores_without=scores_without, delta=delta).epsilon_lower == 0.0
    )
    assert (
        privacy.auditing.audit(
            scores_with=scores_with, scores_without=scores_without, delta=delta, method="gaussian"
        ).epsilon_lower
        > 1.0
    )


@pytest.mark.parametrize("method", privacy.auditing.AUDIT_METHODS)
@pytest.mark.parametrize(
    ("with_example", "without"), [(math.inf, 0.0), (-math.inf, 0.0), (0.0, math.inf), (math.inf, -math.inf), (1.0, 0.0)]
)
def test_point_masses_are_perfect_evidence(method: str, with_example: float, without: float) -> None:
    rng = np.random.default_rng(2)

    def scores(centre: float) -> np.ndarray:
        return np.full(500, centre) if abs(centre) > 0 else rng.normal(0.0, 0.01, 500)

    found = privacy.auditing.audit(
        scores_with=scores(with_example), scores_without=scores(without), delta=DELTA, method=method
    )
    # all scores of one world, by the bounds of a rank in place of those of a count
    best = privacy.auditing.largest_bound(scores=500, delta=DELTA, method=method)
    assert 0.85 * best < found.epsilon_lower < best


def test_rare_infinities_are_evidence_of_their_size() -> None:
    rng = np.random.default_rng(4)
    base = rng.normal(size=4000)
    found = privacy.auditing.audit(
        scores_with=np.where(rng.random(4000) < 0.2, -np.inf, base), scores_without=rng.normal(size=4000), delta=DELTA
    )
    assert found.event == "below" and found.likelier == "with"
    assert found.epsilon_lower > 3.5


def test_every_orientation_is_found() -> None:
    low, high = gaussian_scores(-3.0, 4000, 0)
    values = [_lower(pair) for pair in ((low, high), (high, low), (-low, -high), (-high, -low))]
    assert min(values) > 2.5


def test_equal_worlds_and_constant_scores_prove_nothing() -> None:
    for method in privacy.auditing.AUDIT_METHODS:
        assert _lower((np.zeros(100), np.zeros(100)), method=method) == 0.0
        assert _lower(gaussian_scores(0.0, 1000, 8), method=method) == 0.0


@settings(max_examples=40, deadline=None)
@given(
    st.integers(16, 300),
    st.integers(16, 300),
    st.floats(-3, 3),
    st.floats(1e-6, 0.2),
    st.sampled_from(privacy.auditing.AUDIT_METHODS),
)
def test_bounds_are_finite_and_invariant(n: int, m: int, mu: float, delta: float, method: str) -> None:
    rng = np.random.default_rng(n * 1000 + m)
    first, second = rng.normal(mu, 1.0, n).round(1), rng.normal(0.0, 1.0, m).round(1)
    found = privacy.auditing.audit(scores_with=first, scores_without=second, delta=delta, method=method)
    assert 0.0 <= found.epsilon_lower < math.inf
    assert 0.0 <= found.likelier_rate <= 1.0 and 0.0 < found.other_rate <= 1.0
    # the unit of the scores changes nothing, and a stricter confidence proves less
    assert (
        privacy.auditing.audit(
            scores_with=4 * first, scores_without=4 * second, delta=delta, method=method
        ).epsilon_lower
        == found.epsilon_lower
    )
    if min(n, m) >= 24:
        stricter = privacy.auditing.audit(
            scores_with=first, scores_without=second, delta=delta, confidence=0.999, method=method
        )
        if (stricter.threshold, stricter.event, stricter.likelier) == (found.threshold, found.event, found.likelier):
            assert stricter.epsilon_lower <= found.epsilon_lower


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    rng = np.random.default_rng(11)
    found = privacy.auditing.audit(
        scores_with=rng.random(300) < 0.7, scores_without=rng.random(500) < 0.2, delta=DELTA, confidence=0.9
    )
    assert found.trials == (300, 500)
    rng = np.random.default_rng(11)
    hits, alarms = int((rng.random(300) < 0.7).sum()), int((rng.random(500) < 0.2).sum())
    both = 1 - 2 * 0.75 * 0.1 / 4
    if found.event == "above":
        low = binomtest(hits, 300).proportion_ci(both, "exact").low
        high = binomtest(alarms, 500).proportion_ci(both, "exact").high
    else:
        low = binomtest(500 - alarms, 500).proportion_ci(both, "exact").low
        high = binomtest(300 - hits, 300).proportion_ci(both, "exact").high
    assert found.likelier_rate == pytest.approx(low, rel=1e-9) and found.other_rate == pytest.approx(high, rel=1e-9)
    assert found.epsilon_lower == pytest.approx(math.log((low - DELTA) / high), rel=1e-9)


GOOD = np.linspace(0, 1, 30)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores_with": GOOD[:9]}, "scores_with 10"),
        ({"scores_without": GOOD[:15], "confidence": 0.9999}, "scores_without 16"),
        ({"scores_with": GOOD.reshape(5, 6)}, "scores_with"),
        ({"scores_with": np.ma.masked_array(GOOD)}, "scores_with"),
        ({"method": "bayes"}, "method 'events' 'gaussian'"),
    ],
)
def test_bad_input_of_audit(change: dict, message: str) -> None:
    arguments = {"scores_with": GOOD, "scores_without": GOOD, "delta": DELTA} | change
    with refused(*message.split()):
        privacy.auditing.audit(**arguments)


def test_too_few_scores_for_a_limit() -> None:
    with refused("scores", "10"):
        privacy.auditing.largest_bound(scores=9, delta=DELTA)


def test_bound_at_a_known_rate() -> None:
    """All hits: the Clopper-Pearson bound is level^(1/n); no hit proves nothing; a perfect attack by a rare event proves much."""
    level, q, delta = 1e-6, 0.0062, 0.01
    found = privacy.auditing.bound_at_known_rate(hits=40, trials=40, false_rate=q, delta=delta, confidence=1 - level)
    assert found == pytest.approx(math.log((level ** (1 / 40) - delta) / q), rel=1e-9)
    assert privacy.auditing.bound_at_known_rate(hits=0, trials=40, false_rate=q, delta=delta) == 0.0
    half = privacy.auditing.bound_at_known_rate(hits=150, trials=300, false_rate=q, delta=delta)
    p = beta.ppf(0.01, 150, 151)
    assert half == pytest.approx(math.log((p - delta) / q), rel=1e-9)
    # a Gaussian mechanism of mu = 2 at the threshold 2.5: the bound stays below the true epsilon
    rng = np.random.default_rng(0)
    hits = int((rng.standard_normal(5000) + 2 > 2.5).sum())
    assert (
        3.0
        < privacy.auditing.bound_at_known_rate(hits=hits, trials=5000, false_rate=norm.sf(2.5), delta=delta)
        < gaussian_epsilon(2.0, delta)
    )


def test_number_of_scores_ends_where_it_says() -> None:
    assert privacy.auditing.largest_bound(scores=10**12, delta=1e-5) > 20
    assert privacy.auditing.largest_bound(scores=10, delta=0.999) == 0.0
    with refused("scores", "1000000000000"):
        privacy.auditing.largest_bound(scores=10**12 + 1, delta=1e-5)
