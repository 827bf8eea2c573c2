"""Configurations, and networks and optimizers by their names."""

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dptheory.training
from dptheory import papers, privacy
from dptheory.papers import Setting
from dptheory.training import networks, runs
from dptheory.training.engine import BudgetError, PrivacyAccountant
from dptheory.training.mechanisms import StepCost, layers
from dptheory.training.networks import small_tanh_cnn
from dptheory.training.runs import (
    BUILDERS,
    OptimizerConfig,
    RunConfig,
    _config,
    _prepare,
    _train,
    build_mechanism,
    build_model,
    from_dict,
    read_config,
)
from dptheory.training.runs._config import shipped_runs
from tests.refused import refused
from tests.training.tiny import OF_ANY_SIZE, TRAIN, look_once, said_of, small_images, tiny_config, tiny_load

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG")

# --- Configurations: what is read, what is refused, and that every one that comes with the package builds and steps
# ---


FOLDER = Path(dptheory.training.__file__).parent
SHIPPED = _config.shipped_runs(FOLDER)
PLAIN = Path("configs/fashion_mnist/dp_sgd")
PRUNED = {"name": "index-pruning", "keep_share": 0.5, "index_epsilon": 1.0}
GEP = {"name": "gep", "subspace_dim": 20, "residual_clip": 1.0, "anchors": 20}


def test_reads_the_file_and_its_changes() -> None:
    plain = read_config(PLAIN)
    assert (plain.data, plain.epochs, plain.noise_multiplier, plain.optimizer.momentum) == (
        "fashion-mnist",
        20,
        1.3,
        0.9,
    )
    changed = read_config(
        PLAIN,
        changes=["data=excerpt", "epochs = 1", "optimizer.learning_rate=0.25", "mechanism.name=random-k",
        "mechanism.keep_share=0.5",
         "epsilon=3", "noise_multiplier="],
    )  # fmt: skip
    assert (changed.data, changed.epochs, changed.epsilon) == ("excerpt", 1, 3) and changed.noise_multiplier is None
    assert changed.optimizer.learning_rate == 0.25 and changed.optimizer.momentum == 0.9
    assert changed.mechanism == {"name": "random-k", "keep_share": 0.5}


SMALL = 'data = "mnist"\nmodel = "small-cnn"\nepochs = {}\nbatch_size = 7\nmax_grad_norm = 1\nnoise_multiplier = 2\n'


def test_ones_own_files_come_before_those_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's are found from anywhere, and named where a file is missing; files of other folders are no runs."""
    package = tmp_path / "package"
    for folder, epochs in ((tmp_path, 2), (package, 3)):
        (folder / "configs" / "studies").mkdir(parents=True)
        (folder / "configs" / "a.toml").write_text(SMALL.format(epochs))
    (package / "configs" / "new").mkdir()
    (package / "configs" / "new" / "b.toml").write_text(SMALL.format(4) + "# ü", encoding="utf-8")
    (package / "configs" / "answers").mkdir()
    for other in ("studies/c", "answers/c", "instruments"):
        (package / "configs" / f"{other}.toml").write_text("")
    monkeypatch.setattr(_config, "_HERE", package)
    monkeypatch.chdir(tmp_path)
    a, b = Path("configs/a.toml"), Path("configs/new/b.toml")
    assert [read_config(path).epochs for path in (a, tmp_path / a, package / a, b)] == [2, 2, 3, 4]
    for missing in (Path("none.toml"), tmp_path / b):
        with pytest.raises(FileNotFoundError) as refused:
            read_config(missing)
        assert str(refused.value).startswith(f"no file {missing}; of the 2 runs ")
        assert str(package / "configs") in str(refused.value)
    for near, nearest in (("configs/aa.toml", a), ("new/bb.toml", b)):
        with pytest.raises(FileNotFoundError, match=f"nearest: {nearest}"):
            read_config(Path(near))


def test_a_file_of_many_runs(tmp_path: Path) -> None:
    """A table is one run, also by the name that a file of its own had; one's own files come first."""
    first, second = SMALL.format(5), SMALL.format(6)
    (tmp_path / "many.toml").write_text(f'[one]\n{first}\n["two.5"]\n{second}')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "one.toml").write_text(SMALL.format(7))
    (tmp_path / "mine.toml").write_text(f"[one]\n{first}")
    names = ("many/one", "many/one.toml", "many/two.5", "mine/one.toml", "mine/one")
    assert [read_config(tmp_path / name).epochs for name in names] == [5, 5, 6, 7, 5]
    with refused("config"):
        read_config(tmp_path / "many.toml")
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "many" / "three")


def test_how_changes_are_written() -> None:
    """As in TOML or as bare words; the rest of the text may hold another "="; a key without a value is taken out."""
    changed = read_config(
        PLAIN, changes=["optimizer.momentum = 0.5 ", "mechanism.name='random-k'", "mechanism.keep_share=1e-1", "delta="]
    )
    assert changed.optimizer.momentum == 0.5 and changed.mechanism == {"name": "random-k", "keep_share": 0.1}
    assert changed.delta == 1e-5
    assert read_config(PLAIN, changes=["nothing=", "secure=true"]).secure is True
    with refused("data", "'a=b'"):
        read_config(PLAIN, changes=["data=a=b"])
    with refused("data"):
        read_config(PLAIN, changes=["data= two words "])


def test_every_key_that_is_missing_or_unknown_is_named() -> None:
    for table, named in (
        ({}, ["data", "model", "epochs", "batch_size", "max_grad_norm"]),
        ({"a": 1, "b": 2}, ["a", "b"]),
        ({"optimizer": {"a": 1, "b": 2}}, ["optimizer.a", "optimizer.b"]),
    ):
        with refused(named[0], ", ".join(named)) as error:
            from_dict(table)
        assert error.value.value == named
    with refused("learning_rate", "optimizer.learning_rate"):
        from_dict({"learning_rate": 0.5})
    with refused("optimizer.epochs", "epochs"):  # a line at the end of the file
        from_dict({"optimizer": {"epochs": 2}})
    for near in ({"optimizer": {"learnin_rate": 0.5}}, {"optimizer": {"Learning_Rate": 0.5}}):
        with pytest.raises(ValueError, match=r"optimizer\.learning_rate\?"):
            from_dict(near)
    for name in ("optimizer", "mechanism"):
        with refused(name, name, name, "3"):
            from_dict({name: 3})
    with refused("mechanism", "3"):
        RunConfig(
            data="excerpt",
            model="small-cnn",
            epochs=1,
            batch_size=1,
            max_grad_norm=1.0,
            noise_multiplier=1.0,
            mechanism=3,
        )  # type: ignore[arg-type]


def test_sampling_in_parts_asks_for_noise_and_no_secrecy() -> None:
    part = {
        "data": "excerpt",
        "model": "small-cnn",
        "epochs": 1,
        "batch_size": 1,
        "max_grad_norm": 1,
        "sampling": "partition",
    }
    assert from_dict(part | {"noise_multiplier": 0.0}).noise_multiplier == 0.0
    assert from_dict(part | {"sampling": "poisson", "secure": True, "epsilon": 1}).secure is True
    with refused("noise_multiplier", "'partition'"):
        from_dict(part | {"epsilon": 1.0})
    with refused("sampling", "'poisson'", "'partition'"):
        from_dict(part | {"noise_multiplier": 1.0, "secure": True})
    with refused("noise_multiplier or epsilon"):
        from_dict(part | {"sampling": "poisson"})


@pytest.mark.parametrize(
    "case",
    [
        ("epoch=1", "epoch"),
        ("optimizer.lr=1", "optimizer.lr"),
        ("optimizer=adam", "optimizer", "'adam'"),
        ("mechanism=gep", "mechanism"),
        ("epochs", "--set", "'epochs'"),
        ("epochs.x=1", "epochs", "--set epochs.x=1"),
        ("epochs=", "epochs"),
        ("noise_multiplier=", "noise_multiplier or epsilon"),
        ("data=imagenet", "data", "'excerpt'"),
        ("model=vgg", "model"),
        ("grad_sample_mode=ghost", "grad_sample_mode", "'factors'", "'hooks'", "'functorch'"),
        ("optimizer.name=lion", "optimizer.name", "'sgd'", "'adam'"),
        ("optimizer.learning_rate=0", "optimizer.learning_rate"),
    ],
)
def test_refuses(case: tuple[str, ...]) -> None:
    change, argument, *shown = case
    with refused(argument, *shown):
        read_config(PLAIN, changes=[change])


def test_refuses_what_is_not_toml(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("data = ")
    with refused("broken.toml"):
        read_config(broken)


@pytest.mark.parametrize(
    "case",
    [
        ({"name": "sgd"}, {}, "mechanism.name", "'dp-sgd'"),
        ({"name": "dp-sgd", "drop_rate": 0.5}, {}, "mechanism.drop_rate", "'dp-sgd'"),
        ({"name": "random-k", "drop_rate": 0.5}, {}, "mechanism.drop_rate", "'random-k'", "keep_share"),
        ({"name": "random-k"}, {}, "mechanism", "'random-k'", "'keep_share'"),
        ({"name": "ranked-sparsification", "drop_rate": 1.0}, {}, "mechanism.drop_rate", "[0, 1)", "1.0"),
        ({"name": "posterior-freeze", "drop_rate": 0.5, "cooling_epochs": -1}, {}, "mechanism.cooling_epochs"),
        (PRUNED | {"start": 0}, {}, "mechanism.start"),
        ({"name": "layer-freezing", "after": 0.5, "frozen_layers": {}}, {}, "mechanism.frozen_layers", "0..3"),
        (GEP | {"name": "gep-joint", "residual_clip": 1.5}, {"max_grad_norm": 1.0}, "mechanism.residual_clip", "(0, 1]"),
        ({"name": "layer-freezing", "after": 0.5, "frozen_layers": 1.5}, {"model": "linear-probe"}, "model"),
        ({"name": "quiet-layers", "after": 0.5}, {"model": "linear-probe"}, "model"),
        (None, {"batch_size": 121}, "batch_size", "120"),
        (None, {"model": "dp-cnn"}, "model", "'dp-cnn'", "(1, 28, 28)", "'excerpt'"),
        (None, {"model": "scattering-cnn"}, "model", "'scattering-cnn'", "(3, 32, 32)"),
    ],
)  # fmt: skip
def test_refuses_what_does_not_fit_together(monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]) -> None:
    mechanism, changes, argument, *shown = case
    monkeypatch.setattr(_prepare, "load", tiny_load)
    with refused(argument, *shown):
        runs.prepare(tiny_config(mechanism, **changes), torch.device("cpu"))


def test_every_algorithm_has_a_shipped_configuration() -> None:
    shipped = {read_config(p).mechanism["name"] for p in SHIPPED}
    assert shipped == set(BUILDERS), "give each a table in training/configs/fashion_mnist.toml"


LOOKED_AT: set[Any] = set()


@pytest.mark.usefixtures("small_data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: str(p)[8:])
def test_every_shipped_configuration_builds_and_steps(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    look_once(monkeypatch, LOOKED_AT)
    config = read_config(path)
    if config.model in OF_ANY_SIZE:
        small_images(monkeypatch)
    assert path.parent.name == config.data.replace("-1", "1").replace("-", "_")
    small = {"batch_size=4", "physical_batch_size=4", "noise_multiplier=1", "epsilon="}
    if "subspace_dim" in config.mechanism:
        small |= {"mechanism.subspace_dim=12", "mechanism.anchors=8"}
    run = runs.prepare(read_config(path, changes=sorted(small)), torch.device("cpu"))
    start = [p.detach().clone() for p in run.model.parameters()]
    assert len(run.train) == TRAIN and _prepare.last_step(config.epochs, 4 / TRAIN) == run.steps
    loss, size = _train.one_step(run)
    assert run.step == 1 and run.optimizer.accountant.steps == 1 and loss >= 0 and size >= 0
    moved = [not torch.equal(a, b) for a, b in zip(start, run.model.parameters(), strict=True)]
    assert any(moved) and all(torch.isfinite(p).all() for p in run.model.parameters())


EXAMPLES = {"cifar-10": 50_000, "fashion-mnist": 60_000, "mnist": 60_000}
PRUNING = [p for p in SHIPPED if read_config(p).mechanism["name"] == "index-pruning"]


def costs_of_a_run(config: RunConfig) -> list[StepCost]:
    """What the mechanism tells the accountant in every step of the whole run."""
    model = build_model(config.model, features=0, seed=0)
    rate = config.batch_size / EXAMPLES[config.data]
    steps = _prepare.last_step(config.epochs, rate)
    setting = runs.MechanismSetting(
        run=config, model=model, steps_per_epoch=_prepare.last_step(1, rate), steps=steps, seed=0,
        auxiliary=runs.Auxiliary(lambda name: tiny_load("excerpt", train=False), own="excerpt"),
    )  # fmt: skip
    mechanism, costs = build_mechanism(setting, config.mechanism), []
    assert config.noise_multiplier is not None
    for _ in range(steps):
        mechanism.begin_step(list(model.parameters()))
        costs.append(mechanism.cost(config.noise_multiplier))
        mechanism.end_step([], 0.0)
    return costs


@pytest.mark.parametrize("path", PRUNING, ids=lambda p: p.name)
def test_the_indices_of_a_run_spend_their_budget_and_no_more(path: Path) -> None:
    """Basic composition over every group of every step, each with the sensitivity of its own keep."""
    config = read_config(path)
    spent = math.fsum(
        groups * law.epsilon(2 * law.max_swaps) for cost in costs_of_a_run(config) for groups, law in [cost.selection]
    )
    declared = config.mechanism["index_epsilon"]
    assert 0.999 * declared <= spent <= (1 + 1e-12) * declared


@pytest.mark.parametrize("path", [p for p in PRUNING if read_config(p).epsilon is not None], ids=lambda p: p.name)
def test_the_budget_affords_every_step_of_a_pruned_run(path: Path) -> None:
    """The noisy sums spend at most 99 % of epsilon, and the indices the rest (gip.thm2, step 5)."""
    config = read_config(path)
    assert config.epsilon is not None and config.noise_multiplier is not None
    rate = config.batch_size / EXAMPLES[config.data]
    steps = _prepare.last_step(config.epochs, rate)
    values = privacy.epsilon_bounds(
        noise_multiplier=config.noise_multiplier, sampling_rate=rate, steps=steps, delta=config.delta
    )
    assert 0.97 * config.epsilon < values.lower < values.upper < 0.99 * config.epsilon
    assert config.mechanism["index_epsilon"] == pytest.approx(0.01 * config.epsilon, rel=1e-12)


def test_the_accountant_counts_a_pruned_run_so() -> None:
    config = read_config(Path("configs/cifar10/gip_eps0.5"))
    accountant = PrivacyAccountant(config.batch_size / EXAMPLES[config.data])
    assert config.epsilon is not None
    accountant.limit(epsilon=config.epsilon, delta=config.delta)
    *before, last = costs_of_a_run(config)
    for cost in before:
        accountant.record(cost)
    accountant.clear(last)
    accountant.record(last)
    assert 0.98 * config.epsilon < accountant.epsilon(config.delta) < 0.99 * config.epsilon


STOPPED = re.compile(r"the budget stops the run after (\d+) of (\d+) steps")


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in SHIPPED
        for config in [read_config(path)]
        if path not in PRUNING and None not in (config.epsilon, config.noise_multiplier)
    ],
    ids=lambda p: str(p)[8:],
)
def test_a_configuration_says_where_its_budget_stops_it(path: Path) -> None:
    """All others run to their end."""
    config = read_config(path)
    assert config.epsilon is not None and config.noise_multiplier is not None
    cost = StepCost(config.noise_multiplier)
    rate = config.batch_size / EXAMPLES[config.data]
    steps = _prepare.last_step(config.epochs, rate)
    said = STOPPED.search(said_of(path))
    last = int(said[1]) if said else steps
    accountant = PrivacyAccountant(rate)
    accountant.limit(epsilon=config.epsilon, delta=config.delta)
    for _ in range(last - 1):
        accountant.record(cost)
    accountant.clear(cost)
    if said:
        accountant.record(cost)
        assert last < steps == int(said[2])
        with pytest.raises(BudgetError):
            accountant.clear(cost)


def test_a_decay_is_written_down_where_there_is_one() -> None:
    plain, decayed = (read_config(PLAIN, changes=changes) for changes in ([], ["optimizer.decay=0.5"]))
    assert "decay" not in plain.as_dict()["optimizer"] and decayed.as_dict()["optimizer"]["decay"] == 0.5
    assert from_dict(decayed.as_dict()) == decayed and from_dict(plain.as_dict()) == plain
    with refused("epochs", "2", "0", "1"):
        read_config(PLAIN, changes=["optimizer.decay=0.5", "epochs=1"])


def test_views_are_in_a_configuration_where_there_are_some() -> None:
    plain, viewed = tiny_config(), tiny_config(views=16, augmentation="crops")
    assert not {"views", "augmentation"} & set(plain.as_dict())
    assert viewed.as_dict()["views"] == 16 and from_dict(viewed.as_dict()) == viewed


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"views": 16}, "augmentation"),
        ({"views": 1.5, "augmentation": "crops"}, "views"),
        ({"augmentation": "mixup"}, "augmentation"),
        ({"views": 4, "augmentation": "crops", "model": "scattering-linear"}, "augmentation"),
    ],
)
def test_bad_views(changes: dict, argument: str) -> None:
    with refused(argument):
        tiny_config(**changes)


# --- Networks and optimizers by their names ---


def test_networks() -> None:
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "small-cnn": small_tanh_cnn, "mlp": networks.mlp, "dp-cnn": networks.dp_cnn, "resnet20": networks.resnet20,
        "wrn-16-4": networks.wrn_16_4,
        "scattering-cnn": networks.scattering_cnn,
        "scattering-linear": networks.scattering_linear,
        "scattering-small-cnn": networks.scattering_small_cnn,
    }  # fmt: skip
    for name, kind in kinds.items():
        found, wanted = runs.build_model(name, features=3, seed=7).state_dict(), kind(7).state_dict()
        assert all(torch.equal(value, wanted[key]) for key, value in found.items())
    assert torch.equal(
        runs.build_model("linear-probe", features=3, seed=7)[1].weight, networks.linear_probe(7, features=3)[1].weight
    )


def test_optimizers() -> None:
    layer = nn.Linear(2, 1)
    sgd = runs.build_optimizer(layer, OptimizerConfig(name="sgd", learning_rate=0.5, momentum=0.25, weight_decay=0.125))
    assert isinstance(sgd, torch.optim.SGD)
    assert [sgd.param_groups[0][key] for key in ("lr", "momentum", "weight_decay")] == [0.5, 0.25, 0.125]
    adam = runs.build_optimizer(
        layer, OptimizerConfig(name="adam", learning_rate=0.5, momentum=0.25, weight_decay=0.125)
    )
    assert isinstance(adam, torch.optim.Adam)
    assert [adam.param_groups[0][key] for key in ("lr", "betas", "weight_decay")] == [0.5, (0.25, 0.999), 0.125]
    unsaid = runs.build_optimizer(layer, OptimizerConfig(name="adam", learning_rate=0.5))
    assert unsaid.param_groups[0]["betas"] == torch.optim.Adam(layer.parameters()).param_groups[0]["betas"]
    assert runs.build_optimizer(layer, OptimizerConfig()).param_groups[0]["momentum"] == 0.0


# --- The configurations of the papers' runs against what the papers print of them (`dptheory/papers/*.toml`) ---


CONFIGS = Path(dptheory.training.__file__).parent / "configs"

KEYS = {
    "epsilon": "epsilon", "delta": "delta", "batch_size": "batch_size", "epochs": "epochs", "clip_norm": "max_grad_norm",
    "noise_multiplier": "noise_multiplier", "learning_rate": "optimizer.learning_rate", "momentum": "optimizer.momentum",
    "weight_decay": "optimizer.weight_decay", "residual_clip": "mechanism.residual_clip",
    "anchors": "mechanism.anchors", "drop_rate": "mechanism.drop_rate", "cooling_epochs": "mechanism.cooling_epochs",
    "keep_share": "mechanism.keep_share", "first_keep_share": "mechanism.start", "group_size": "mechanism.group_size",
    "frozen_layers": "mechanism.frozen_layers",
}  # fmt: skip
"""Field of a setting: key of a configuration."""
DATA = {"CIFAR10": "cifar-10", "MNIST": "mnist", "FashionMNIST": "fashion-mnist", "FMNIST": "fashion-mnist"}

MODELS = {"WRN-16-4": "wrn-16-4", "ResNet20": "resnet20", "DP-CNN": "dp-cnn", "DP-CNN/S": "small-cnn",
          "End-to-end CNN": "dp-cnn", "Adjusted End-to-end CNN": "dp-cnn"}  # fmt: skip

PLAIN_OF_PAPER_CONFIGS = (
    "residual_clip",
    "anchors",
    "keep_share",
    "first_keep_share",
    "group_size",
    "index_share",
    "subspace_dims",
)
"""Fields of mechanisms that DP-SGD does without."""
GEP_OF_PAPER_CONFIGS = {"mechanism.name": "gep", "optimizer.name": "sgd"}
GIP = {"mechanism.name": "index-pruning", "mechanism.schedule": "linear", "optimizer.name": "sgd"}
LF = {"mechanism.name": "layer-freezing"}
RF = {"mechanism.name": "random-sparsification", "mechanism.refreshes_per_epoch": 1}
GP = {"mechanism.name": "dp-sgd", "optimizer.name": "sgd"}
Expected = tuple[str, dict[str, Any], tuple[str, ...]]

PAPER_CONFIGS: dict[str, Expected] = {
    # file: (setting, words, fields that its head says to differ or that its mechanism does without)
    **{f"cifar10/gep_eps{e}": (f"gep.cifar10.eps{e}", GEP_OF_PAPER_CONFIGS, ()) for e in (2, 5, 8)},
    **{f"mnist/gep_eps{e}": (f"gep.mnist.eps{e}", GEP_OF_PAPER_CONFIGS, ("anchors",)) for e in (2, 5, 8)},
    "cifar10/biased_gep_eps8": ("gep.cifar10.eps8", GEP_OF_PAPER_CONFIGS | {"mechanism.name": "biased-gep"}, ()),
    "cifar10/gp_eps8": ("gep.cifar10.eps8", GP, PLAIN_OF_PAPER_CONFIGS),
    **{f"cifar10/gip_eps{e}": (f"gip.wrn-16-4.eps{e}", GIP, ()) for e in (0.5, 1, 2, 4)},
    "cifar10/gip_dp_sgd_eps1": ("gip.wrn-16-4.eps1", GP, PLAIN_OF_PAPER_CONFIGS),
    "cifar10/gip_random_k_eps1": (
        "gip.wrn-16-4.eps1",
        GP | {"mechanism.name": "random-k", "mechanism.keep_share": papers.setting("gip.random-k").keep_share},
        PLAIN_OF_PAPER_CONFIGS,
    ),
    **{f"mnist/lf_eps{e}": (f"lf.mnist.eps{e}", LF, ()) for e in (1, 2, 3)},
    **{f"fashion_mnist/lf_eps{e}": (f"lf.fashion-mnist.eps{e}", LF, ()) for e in (1, 2, 3)},
    **{f"cifar10/lf_eps{e}": (f"lf.cifar10.eps{e}", LF, ()) for e in (3, 7)},
    "cifar10/lf_wrn_eps1": ("gip.wrn-16-4.eps1", LF, PLAIN_OF_PAPER_CONFIGS),
    "cifar10/rf_end_to_end_eps3": ("rf.end-to-end-cnn.eps3", RF, ()),
    "cifar10/rf_end_to_end_eps7.53": ("rf.end-to-end-cnn.eps7.53", RF, ()),
    "cifar10/rf_handcrafted_eps3": ("rf.handcrafted-cnn.eps3", RF, ()),
    "cifar10/rf_adjusted_end_to_end_eps3": ("rf.adjusted-end-to-end-cnn.eps3", RF, ()),
    "cifar10/rf_adjusted_end_to_end_eps7.53": ("rf.adjusted-end-to-end-cnn.eps7.53", RF, ()),
    "cifar10/rs_figure2e": (
        "rs.fig2.e",
        {"mechanism.name": "random-sparsification", "mechanism.refreshes_per_epoch": 0},
        (),
    ),
}

ROWS_OF_RS = {
    "cifar10/rs_dp_cnn_eps1": ("CIFAR10", "DP-CNN", 1), "cifar10/rs_dp_cnn_eps3": ("CIFAR10", "DP-CNN", 3),
    "fashion_mnist/rs_dp_cnn_s_eps1": ("FMNIST", "DP-CNN/S", 1), "fashion_mnist/rs_dp_cnn_s_eps3": ("FMNIST", "DP-CNN/S", 3),
}  # fmt: skip
"""RS, Table 2, which prints data set, network and epsilon alone."""

STUDIES: dict[str, tuple[Expected, str]] = {
    # file: (as above, arm)
    "cuda_embedding": (("gep.cifar10.eps8", GEP_OF_PAPER_CONFIGS, ()), "gep"),
    "cuda_freeze": (("rf.adjusted-end-to-end-cnn.eps3", RF, ("momentum",)), "freeze-90"),
    "cuda_layers": (("lf.cifar10.eps3", LF, ()), "freezing"),
    "cuda_index_pruning": (("gip.wrn-16-4.eps1", GIP, ("group_size",)), "index-pruning"),
}


def printed(setting: Setting, words: dict[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    """What a configuration has to say: every field of the setting that has a key, except ``without``."""
    found = {key: getattr(setting, field) for field, key in KEYS.items() if field not in without}
    found["data"] = DATA.get(str(setting.dataset))
    found["model"] = MODELS.get(str(setting.model))
    if setting.index_share is not None and "index_share" not in without:
        found["mechanism.index_epsilon"] = setting.index_share * setting.number("epsilon")
    return {key: value for key, value in found.items() if value is not None} | words


def flat(table: dict[str, Any]) -> dict[str, Any]:
    """Keys of the tables as "mechanism.drop_rate"."""
    found = {}
    for key, value in table.items():
        found.update({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value})
    return found


@pytest.mark.parametrize("name", PAPER_CONFIGS)
def test_a_configuration_is_as_printed(name: str) -> None:
    id, words, without = PAPER_CONFIGS[name]
    setting = papers.setting(id)
    found = flat(read_config(CONFIGS / name).as_dict())
    expected = printed(setting, words, without)
    assert {key: found.get(key) for key in expected} == expected
    if setting.subspace_dims and "subspace_dims" not in without:
        assert found["mechanism.subspace_dim"] in setting.subspace_dims
    if setting.frozen_after_epoch is not None:
        assert round(found["mechanism.after"] * found["epochs"], 2) == setting.frozen_after_epoch


@pytest.mark.parametrize("name", ROWS_OF_RS)
def test_a_configuration_is_a_row_of_rs(name: str) -> None:
    dataset, model, epsilon = ROWS_OF_RS[name]
    preset = papers.preset(f"rs.{model.lower().replace('/', '-')}.{dataset.lower()}.eps{epsilon}")
    found = read_config(CONFIGS / name)
    assert (found.data, found.model, found.epsilon) == (DATA[dataset], MODELS[model], preset.epsilon)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_a_paper_is_as_printed(name: str) -> None:
    (id, words, without), arm = STUDIES[name]
    study = tomllib.loads((CONFIGS / f"studies/{name}.toml").read_text(encoding="utf-8"))
    found = flat(study["base"] | study["arms"][arm])
    expected = {key: value for key, value in printed(papers.setting(id), words, without).items() if value is not None}
    assert {key: found.get(key) for key in expected} == expected


def test_every_configuration_of_a_paper_is_held() -> None:
    """All others say that their settings are of this project, and have them in common."""
    common = set()
    for path in shipped_runs(CONFIGS.parent):
        name = str(path.relative_to("configs"))
        first = said_of(path).splitlines()[0]
        if name in PAPER_CONFIGS or name in ROWS_OF_RS:
            assert first.split(",")[0] in ("# GEP", "# GIP", "# LF", "# RF", "# RS"), first
        else:
            assert (
                first == "# The small CNN on FashionMNIST; settings of this project, the same for every algorithm."
            ), name
            plain = {k: v for k, v in flat(read_config(path).as_dict()).items() if not k.startswith("mechanism.")}
            common.add(repr(sorted(plain.items())))
    assert len(common) == 1


def test_the_layers_that_lf_freezes_of_wrn() -> None:
    """Appendix D (4): the first two convolution groups (and what lies before them), after update 800."""
    config = read_config(CONFIGS / "cifar10/lf_wrn_eps1")
    model = networks.wrn_16_4(0)
    names = {module: name for name, module in model.named_modules()}
    frozen = {names[layer].split(".")[0] for layer in layers(model)[: config.mechanism["frozen_layers"]]}
    left = {names[layer].split(".")[0] for layer in layers(model)[config.mechanism["frozen_layers"] :]}
    assert frozen == {"0", "1", "2", "3", "4"} and not frozen & left  # the input layer and twice two blocks
    steps = round(config.epochs * 50_000 / config.batch_size)
    assert round(config.mechanism["after"] * steps) == papers.setting("lf.wide-resnet.eps1").frozen_after_step
