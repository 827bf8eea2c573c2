"""A plan as a configuration: word for word, and read by the reader of runs."""

import dataclasses
import functools
import tomllib
from typing import Any

import pytest

from dptheory.planning import Interval, Plan, config_text, plan
from tests.planning.test_plan import STATS, setup_of


@functools.cache
def planned() -> Plan:
    return plan(setup_of(dim=200, batch_size=1000, epochs=10, clip_norm=1.0, learning_rate=0.7), stats=STATS)


def taking(method: str) -> Plan:
    """The same with one method that is sure to gain, or none."""
    span = {False: Interval(lower=0.5, upper=2.0, claims=()), True: Interval(lower=1.05, upper=2.0, claims=())}
    chosen = [
        dataclasses.replace(one, descent=(s := span[one.method == method]), curved_descent=s)
        for one in planned().methods
    ]
    return dataclasses.replace(planned(), methods=tuple(chosen))


@pytest.mark.parametrize("physical", [512, 100])
@pytest.mark.parametrize(
    ("method", "table"),
    [
        ("none", {"name": "dp-sgd"}),
        ("random-sparsification", {"name": "random-sparsification", "drop_rate": 0.5}),
        ("ranked-sparsification", {"name": "ranked-sparsification", "drop_rate": 0.5}),
        ("random-k", {"name": "random-k", "keep_share": 0.5}),
        ("gep-joint", {"name": "gep-joint", "subspace_dim": 10, "residual_clip": 0.2, "grouping": "none"}),
        ("layer-freezing", {"name": "layer-freezing", "frozen_layers": 1, "after": 0.0}),
        ("biased-gep", {"name": "biased-gep", "subspace_dim": 10, "residual_clip": 1.0, "grouping": "none"}),
    ],
)
def test_every_key(method: str, table: dict[str, object], physical: int) -> None:
    given = {} if physical == 512 else {"physical_batch_size": physical}
    text = config_text(taking(method), data="excerpt", model="small-cnn", **given)
    assert tomllib.loads(text) == {
        "data": "excerpt",
        "model": "small-cnn",
        "epochs": 10,
        "batch_size": 1000,
        "physical_batch_size": physical,
        "max_grad_norm": 1.0,
        "noise_multiplier": planned().noise_multiplier,
        "epsilon": 3.0,
        "delta": 1e-5,
        "optimizer": {"name": "sgd", "learning_rate": 0.7},
        "mechanism": table,
    }
    assert text.startswith("# Planned: 2000 records, epsilon = 3, delta = 1e-05.\n") and not text.endswith("?")


def test_what_cannot_be_written_is_refused() -> None:
    open_rate = dataclasses.replace(planned(), learning_rate=dataclasses.replace(planned().learning_rate, value=None))
    with pytest.raises(ValueError, match="learning_rate must be given, or statistics that decide it"):
        config_text(open_rate, data="excerpt", model="small-cnn")
    with pytest.raises(
        ValueError, match="plan must recommend a method that a configuration can hold, got 'index-pruning'"
    ):
        config_text(taking("index-pruning"), data="excerpt", model="small-cnn")


@pytest.mark.parametrize("name", ["", 'a"', "a\nb", "A", "no-such-name", 3, None])
def test_names_that_no_run_knows_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="data must be one of 'excerpt', 'fashion-mnist', 'mnist', 'cifar-10', got "):
        config_text(planned(), data=name, model="small-cnn")
    with pytest.raises(ValueError, match=r"model must be one of 'small-cnn', .*, 'linear-probe', got "):
        config_text(planned(), data="excerpt", model=name)


def test_data_of_another_size_than_planned_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_examples must be 60000, the training images of data='mnist', got 2000"):
        config_text(planned(), data="mnist", model="small-cnn")
