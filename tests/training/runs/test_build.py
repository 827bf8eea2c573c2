"""From the words of a configuration: every argument arrives, and every default and range is the documented one."""

import inspect
import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from dptheory.errors import ArgumentError
from dptheory.pruning import theta_for_budget
from dptheory.training import mechanisms as m
from dptheory.training import runs
from dptheory.training._streams import LABELS, derived
from dptheory.training.data import Images
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs._prepare import last_step
from tests.refused import refused
from tests.training.tiny import tiny_config

pytestmark = pytest.mark.usefixtures("simulated")
STEPS, EPOCH, SEED = 12, 4, 9
IMAGES = Images("excerpt", torch.zeros(30, 1, 28, 28), torch.arange(30) % 10)


def setting(seed: int | None = SEED, steps: int = STEPS) -> runs.MechanismSetting:
    return runs.MechanismSetting(
        run=tiny_config(seed=5), model=small_tanh_cnn(0), steps_per_epoch=EPOCH, steps=steps, seed=seed,
        auxiliary=runs.Auxiliary(lambda name: IMAGES, own="excerpt"),
    )  # fmt: skip


def made(name: str, seed: int | None = SEED, steps: int = STEPS, **arguments: Any) -> Any:
    return runs.build_mechanism(setting(seed, steps), {"name": name} | arguments)


def inside(mechanism: Any) -> dict[str, Any]:
    return vars(mechanism)


def values(schedule: Any, steps: int = STEPS) -> list[float]:
    return [schedule(step) for step in range(steps)]


@pytest.mark.parametrize(
    ("examples", "batch", "epochs"), [(2000, 1300, 10), (60_000, 4096, 50), (2000, 1999, 7), (60_000, 256, 4)]
)
@pytest.mark.parametrize("name", ["random-sparsification", "posterior-freeze", "ranked-sparsification"])
def test_cooling_reaches_the_final_rate_in_the_last_epoch(name: str, examples: int, batch: int, epochs: int) -> None:
    """Also where epochs hold no whole number of steps; there a rounded number let a run end before its schedule did."""
    rate = batch / examples
    steps = last_step(epochs, rate)
    run = tiny_config(epochs=epochs, batch_size=batch)
    given = runs.MechanismSetting(
        run=run, model=small_tanh_cnn(0), steps_per_epoch=last_step(1, rate), steps=steps, seed=0,
        auxiliary=runs.Auxiliary(lambda name: IMAGES, own="excerpt"),
    )  # fmt: skip
    schedule = inside(runs.build_mechanism(given, {"name": name, "drop_rate": 0.8, "cooling_epochs": epochs}))[
        "_drop_rate"
    ]
    found = values(schedule, steps)
    assert found[0] == 0.0 and found[-1] == 0.8 and found == sorted(found)
    assert len(set(found)) == epochs


EMBEDDING = {
    "subspace_dim": None,
    "residual_clip": None,
    "anchors": 250,
    "grouping": "blocks",
    "iterations": 1,
    "auxiliary": None,
    "labels": "random",
}
MASKED = {"drop_rate": None, "cooling_epochs": 0}
HELD = MASKED | {"refreshes_per_epoch": 0}
PRUNED = {"keep_share": None, "start": 1.0, "schedule": "constant"}
GROUPED = PRUNED | {"group_size": 256}
BY_RULES = {"clipping": None}
DEFAULTS = {
    "dp-sgd": BY_RULES, "noisy-sgd": {}, "clipped-sgd": {},
    "random-sparsification": HELD | BY_RULES, "posterior-freeze": HELD | BY_RULES, "noisy-sparsification": HELD,
    "ranked-sparsification": MASKED | BY_RULES, "ranked-by-true-gradients": MASKED,
    "layer-freezing": {"after": None, "frozen_layers": 0} | BY_RULES, "quiet-layers": {"after": None, "frozen_layers": 0},
    "random-k": PRUNED | BY_RULES, "index-pruning": GROUPED | {"index_epsilon": None} | BY_RULES,
    "top-k-of-released": GROUPED | BY_RULES, "noisy-magnitudes": GROUPED | {"selection_multiplier": None} | BY_RULES,
    "gep": EMBEDDING, "gep-optimal": EMBEDDING, "gep-joint": EMBEDDING, "biased-gep": EMBEDDING,
}  # fmt: skip
"""By mechanism, its arguments in a configuration; None for what must be given, and for flat clipping."""


@pytest.mark.parametrize("name", sorted(runs.BUILDERS | DEFAULTS))
def test_arguments_and_defaults(name: str) -> None:
    _, *parameters = inspect.signature(runs.BUILDERS[name]).parameters.values()
    found = {p.name: None if p.default is p.empty else p.default for p in parameters}
    assert found == DEFAULTS.get(name), "write the arguments of this mechanism and their defaults into DEFAULTS"


def test_a_table_without_a_name_is_dp_sgd() -> None:
    assert isinstance(runs.build_mechanism(setting(), {}), m.DpSgd)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("random-sparsification", m.RandomSparsification),
        ("noisy-sparsification", m.NoisySparsification),
        ("posterior-freeze", m.PosteriorFreeze),
    ],
)
def test_random_masks(name: str, kind: type) -> None:
    plain = made(name, drop_rate=0.3)
    assert type(plain) is kind and values(inside(plain)["_drop_rate"]) == [0.3] * STEPS
    assert inside(plain)["_stream"].on("cpu").initial_seed() == SEED and not made(name, seed=None, drop_rate=0.3).seeded
    for times, steps in ((0, 1), (1, 4), (2, 2), (3, 1), (4, 1)):
        assert inside(made(name, drop_rate=0.3, refreshes_per_epoch=times))["_refresh_steps"] == steps
    cooled = inside(made(name, drop_rate=0.3, cooling_epochs=3))["_drop_rate"]
    assert values(cooled) == pytest.approx([0.0] * 4 + [0.15] * 4 + [0.3] * 4)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ranked-sparsification", m.RankedSparsification), ("ranked-by-true-gradients", m.RankedByTrueGradients)],
)
def test_ranked_masks(name: str, kind: type) -> None:
    plain = made(name, drop_rate=0.3)
    assert type(plain) is kind and values(inside(plain)["_drop_rate"]) == [0.3] * STEPS
    assert inside(plain)["_epoch"] == EPOCH and inside(plain)["_stream"].on("cpu").initial_seed() == SEED
    assert values(inside(made(name, drop_rate=0.3, cooling_epochs=3))["_drop_rate"])[4] == pytest.approx(0.15)


def test_random_k() -> None:
    found = made("random-k", keep_share=0.2)
    assert type(found) is m.PosteriorFreeze and values(inside(found)["_drop_rate"]) == [0.8] * STEPS
    assert inside(found)["_refresh_steps"] == 1 and inside(found)["_stream"].on("cpu").initial_seed() == SEED
    moved = inside(made("random-k", keep_share=0.5, schedule="exponential"))["_drop_rate"]
    assert values(moved) == pytest.approx([1 - 0.5 ** (step / 11) for step in range(12)]) and values(moved)[0] == 0.0
    moved = inside(made("random-k", keep_share=0.5, start=0.8, schedule="linear"))["_drop_rate"]
    assert values(moved) == pytest.approx([0.2 + 0.3 * step / 11 for step in range(12)])


def test_layer_freezing() -> None:
    for arguments, count, step in (
        ({"after": 0.5}, 2, 6), ({"after": 0.0, "frozen_layers": 1}, 1, 0), ({"after": 1.0, "frozen_layers": 3}, 3, 12),
        ({"after": 0.3}, 2, 4),
    ):  # fmt: skip
        found = inside(made("layer-freezing", **arguments))
        assert (found["_frozen"], found["_from_step"]) == (count, step) and isinstance(found["_inner"], m.DpSgd)
        quiet = inside(made("quiet-layers", **arguments))
        assert (quiet["_count"], quiet["_from_step"]) == (count, step)
    assert inside(made("layer-freezing", after=0.5, frozen_layers=[1, 3]))["_frozen"] == (1, 3)


@pytest.mark.parametrize("name", ["index-pruning", "top-k-of-released", "noisy-magnitudes"])
def test_selections(name: str) -> None:
    more = {"index-pruning": {"index_epsilon": 2.0}, "noisy-magnitudes": {"selection_multiplier": 3.0}}.get(name, {})
    plain = inside(made(name, keep_share=0.2, **more))
    assert values(plain["_keep_share"]) == [0.2] * STEPS and plain["_size"] == 256
    moved = inside(made(name, keep_share=0.2, start=0.8, schedule="linear", group_size=64, **more))
    assert values(moved["_keep_share"]) == pytest.approx([0.8 - 0.6 * step / 11 for step in range(12)])
    assert moved["_size"] == 64
    shrunk = inside(made(name, keep_share=0.2, start=0.8, schedule="exponential", **more))["_keep_share"]
    assert values(shrunk) == pytest.approx([0.8 * 0.25 ** (step / 11) for step in range(12)])
    assert values(inside(made(name, keep_share=0.2, schedule="linear", **more))["_keep_share"])[0] == 1.0
    for steps, first in ((1, 0.2), (2, 0.8)):  # one step has the last value
        one = inside(made(name, steps=steps, keep_share=0.2, start=0.8, schedule="linear", **more))["_keep_share"]
        assert values(one, steps) == pytest.approx([first, 0.2][-steps:] if steps > 1 else [0.2])
    if name == "noisy-magnitudes":
        assert plain["_selection"] == 3.0
    if name == "index-pruning":
        assert plain["_theta"](64, 16, 7) == theta_for_budget(epsilon=2.0, dim=64, keep=16, steps=STEPS, groups=7)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gep", m.Gep), ("gep-optimal", m.GepOptimal), ("gep-joint", m.GepJoint), ("biased-gep", m.BiasedGep)],
)
def test_embeddings(name: str, kind: type) -> None:
    whole = setting()
    found = runs.build_mechanism(whole, {"name": name, "subspace_dim": 6, "residual_clip": 0.4, "anchors": 7})
    own = inside(found)
    assert type(found) is kind and whole.auxiliary.used == 7
    assert (own["_quota"], own["_residual_clip"], own["_iterations"]) == (6, 0.4, 1)
    assert own["_stream"].on("cpu").initial_seed() == SEED and own["_members"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    source = vars(own["_anchors"])
    assert torch.equal(source["_pixels"], IMAGES.pixels[:7]) and source["_model"] is whole.model
    assert (source["_classes"], source["_stream"].on("cpu").initial_seed(), source["_labels"]) == (
        10,
        derived(SEED, LABELS),
        None,
    )
    true = made(name, subspace_dim=6, residual_clip=0.4, anchors=7, labels="true")
    assert torch.equal(vars(inside(true)["_anchors"])["_labels"], torch.arange(7))
    secure = inside(made(name, seed=None, subspace_dim=6, residual_clip=0.4, anchors=7, grouping="none", iterations=3))
    assert secure["_stream"] is None and secure["_members"] == [list(range(8))] and secure["_iterations"] == 3
    assert vars(secure["_anchors"])["_stream"].on("cpu").initial_seed() == derived(5, LABELS)  # labels are public


RANGES: list[tuple[str, str, dict[str, Any], list[Any], list[Any]]] = [
    ("random-sparsification", "drop_rate", {}, [0.0, 0.999], [-1e-9, 1.0]),
    ("random-sparsification", "cooling_epochs", {"drop_rate": 0.3}, [0, 2], [-1, 1]),
    ("random-sparsification", "refreshes_per_epoch", {"drop_rate": 0.3}, [0, 4], [-1, 5]),
    ("random-k", "keep_share", {}, [1e-9, 1.0], [0.99e-9, 1.0000001]),
    ("random-k", "start", {"keep_share": 0.2}, [1e-9, 1.0], [0.0, 1.0000001]),
    ("random-k", "schedule", {"keep_share": 0.2}, ["constant", "linear", "exponential"], ["x"]),
    ("layer-freezing", "after", {}, [0.0, 1.0], [-1e-9, 1.0000001]),
    ("layer-freezing", "frozen_layers", {"after": 0.5}, [0, 3, [1], [4]], [-1, 4, [0], [5], "1"]),
    ("quiet-layers", "after", {}, [0.0, 1.0], [-1e-9, 1.0000001]),
    ("quiet-layers", "frozen_layers", {"after": 0.5}, [0, 3], [-1, 4]),
    ("index-pruning", "index_epsilon", {"keep_share": 0.2}, [5e-324, 1e6], [0.0, 1.0001e6]),
    ("index-pruning", "keep_share", {"index_epsilon": 1.0}, [1e-9, 1 - 1e-9], [0.0, 1.0]),
    ("top-k-of-released", "start", {"keep_share": 0.2}, [1e-9, 1.0], [0.0, 1.0000001]),
    ("top-k-of-released", "schedule", {"keep_share": 0.2}, ["constant", "linear", "exponential"], ["x"]),
    ("noisy-magnitudes", "selection_multiplier", {"keep_share": 0.2}, [1e-6, 1e6], [0.99e-6, 1.0001e6]),
    ("gep", "subspace_dim", {"residual_clip": 1.0, "anchors": 7}, [1, 28], [0, 29]),
    ("gep", "iterations", {"residual_clip": 1.0, "anchors": 7, "subspace_dim": 1}, [1, 1000], [0, 1001]),
    ("gep", "residual_clip", {"anchors": 7, "subspace_dim": 1}, [1e-12, 1e12], [0.99e-12, 1.01e12]),
    ("gep", "anchors", {"residual_clip": 1.0, "subspace_dim": 1}, [1, 30], [0, 31]),
    ("gep", "auxiliary", {"residual_clip": 1.0, "subspace_dim": 1, "anchors": 7}, ["mnist", "cifar-10"], ["x", 3, ""]),
    ("gep", "labels", {"residual_clip": 1.0, "subspace_dim": 1, "anchors": 7}, ["random", "true"], ["x", None]),
    ("gep", "grouping", {"residual_clip": 1.0, "subspace_dim": 1, "anchors": 7}, ["none", "blocks"], ["x"]),
]


@pytest.mark.parametrize(
    ("name", "argument", "others", "good", "bad"), RANGES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_ranges(name: str, argument: str, others: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        made(name, **others, **{argument: value})
    own = "" if argument == "cooling_epochs" else "mechanism."
    for value in bad:
        with pytest.raises(ArgumentError) as error:
            made(name, **others, **{argument: value})
        assert error.value.argument in (own + argument, f"mechanism.{argument}")


def test_unknown_arguments_name_those_there_are() -> None:
    for name, shown in (("random-k", "keep_share"), ("noisy-sgd", "noisy-sgd")):
        with refused("mechanism.x", name, shown):
            made(name, x=1, y=2)
    with refused("mechanism", "'random-k'", "'keep_share'"):  # and not as our function of another name has it
        made("random-k")


def test_images_taken_are_the_most_that_were_asked_for() -> None:
    asked: list[str | None] = []
    auxiliary = runs.Auxiliary(lambda name: asked.append(name) or IMAGES, own="excerpt")
    assert auxiliary.used == 0
    with pytest.raises(TypeError):
        runs.Auxiliary(lambda name: IMAGES, "excerpt", 3)  # type: ignore[call-arg]
    for count, used in ((5, 5), (3, 5), (30, 30)):
        found = auxiliary.take(count)
        assert (len(found.pixels), found.labels.tolist()) == (count, IMAGES.labels[:count].tolist())
        assert auxiliary.used == used
    assert asked == [None] * 3
    other = runs.Auxiliary(lambda name: asked.append(name) or IMAGES, own="mnist")
    other.take(7, name="excerpt")
    assert other.used == 0 and asked[-1] == "excerpt"  # the run is judged by none of these


def test_groups_leave_frozen_tensors_out() -> None:
    frozen = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    frozen[0].weight.requires_grad_(False)
    assert runs.parameter_groups(frozen, "blocks") == [[0], [1, 2]] and runs.parameter_groups(frozen, "none") == [
        [0, 1, 2]
    ]


def clipped_run(clipping: Any, **mechanism: Any) -> Any:
    table = {
        "data": "excerpt", "model": "small-cnn", "epochs": 2, "batch_size": 50, "max_grad_norm": 1.0, "noise_multiplier": 4.0,
        "mechanism": {"name": "dp-sgd", "clipping": clipping} | mechanism,
    }  # fmt: skip
    return runs.prepare(runs.from_dict(table), torch.device("cpu"))


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "dp-sgd"},
        {"name": "random-sparsification", "drop_rate": 0.5},
        {"name": "posterior-freeze", "drop_rate": 0.5},
        {"name": "random-k", "keep_share": 0.5},
        {"name": "ranked-sparsification", "drop_rate": 0.5},
        {"name": "layer-freezing", "after": 0.25},
        {"name": "index-pruning", "keep_share": 0.2, "index_epsilon": 0.5},
        {"name": "top-k-of-released", "keep_share": 0.2},
        {"name": "noisy-magnitudes", "keep_share": 0.2, "selection_multiplier": 20.0},
    ],
    ids=lambda one: one["name"],
)
def test_runs_clip_by_another_rule(mechanism: dict[str, Any]) -> None:
    adaptive = {"name": "adaptive", "quantile": 0.4, "clip_rate": 0.3, "count_share": 0.02, "by_layer": True}
    made = []
    for clipping in ({"name": "flat"}, {"name": "by-layer"}, {"name": "automatic", "gamma": 0.1}, adaptive):
        made.append(clipped_run(clipping, **mechanism))
        for _ in range(2):
            runs.one_step(made[-1])
    epsilons = [run.optimizer.epsilon(1e-5) for run in made]
    assert epsilons == pytest.approx([epsilons[0]] * 4, rel=1e-9)  # roots of sums of squares
    for one, other in itertools.combinations(made, 2):
        assert not torch.equal(*(parameters_to_vector(run.model.parameters()) for run in (one, other)))
    found = made[-1].optimizer.mechanism
    assert (found._size, found._quantile, found._rate, found._share) == (50, 0.4, 0.3, 0.02)
    assert found.clip_of(1.0) != 1.0


@pytest.mark.parametrize(
    ("clipping", "name"),
    [
        ("adaptive", "mechanism.clipping"),
        ({"name": "layers"}, "mechanism.clipping.name"),
        ({"name": "automatic", "quantile": 0.5}, "mechanism.clipping.quantile"),
        ({"name": "adaptive", "gamma": 0.5}, "mechanism.clipping.gamma"),
        ({"name": "adaptive", "by_layer": 1}, "mechanism.clipping.by_layer"),
        ({"name": "by-layer", "shares": [1.0]}, "shares"),
    ],
)
def test_clipping_is_a_table_of_a_rule(clipping: Any, name: str) -> None:
    with refused(name):
        clipped_run(clipping)


@pytest.mark.parametrize("name", ["gep", "gep-optimal", "gep-joint", "biased-gep", "noisy-sgd"])
def test_what_clips_otherwise_has_no_rule(name: str) -> None:
    """GEP clips coordinates and residuals, each by one norm of its own."""
    with refused("mechanism.clipping"):
        clipped_run({"name": "by-layer"}, name=name)
