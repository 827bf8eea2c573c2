"""The configurations of the papers' runs against what the papers print of them (``dptheory/papers/*.toml``)."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import dptheory.training
from dptheory import papers
from dptheory.papers import Setting
from dptheory.training import networks
from dptheory.training.mechanisms import layers
from dptheory.training.runs import read_config
from dptheory.training.runs._config import shipped_runs
from tests.training.tiny import said_of

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

PLAIN = (
    "residual_clip",
    "anchors",
    "keep_share",
    "first_keep_share",
    "group_size",
    "index_share",
    "subspace_dims",
)
"""Fields of mechanisms that DP-SGD does without."""

GEP = {"mechanism.name": "gep", "optimizer.name": "sgd"}
GIP = {"mechanism.name": "index-pruning", "mechanism.schedule": "linear", "optimizer.name": "sgd"}
LF = {"mechanism.name": "layer-freezing"}
RF = {"mechanism.name": "random-sparsification", "mechanism.refreshes_per_epoch": 1}
GP = {"mechanism.name": "dp-sgd", "optimizer.name": "sgd"}

Expected = tuple[str, dict[str, Any], tuple[str, ...]]
PAPER_CONFIGS: dict[str, Expected] = {
    # file: (setting, words, fields that its head says to differ or that its mechanism does without)
    **{f"cifar10/gep_eps{e}": (f"gep.cifar10.eps{e}", GEP, ()) for e in (2, 5, 8)},
    **{f"mnist/gep_eps{e}": (f"gep.mnist.eps{e}", GEP, ("anchors",)) for e in (2, 5, 8)},
    "cifar10/biased_gep_eps8": ("gep.cifar10.eps8", GEP | {"mechanism.name": "biased-gep"}, ()),
    "cifar10/gp_eps8": ("gep.cifar10.eps8", GP, PLAIN),
    **{f"cifar10/gip_eps{e}": (f"gip.wrn-16-4.eps{e}", GIP, ()) for e in (0.5, 1, 2, 4)},
    "cifar10/gip_dp_sgd_eps1": ("gip.wrn-16-4.eps1", GP, PLAIN),
    "cifar10/gip_random_k_eps1": (
        "gip.wrn-16-4.eps1",
        GP | {"mechanism.name": "random-k", "mechanism.keep_share": papers.setting("gip.random-k").keep_share},
        PLAIN,
    ),
    **{f"mnist/lf_eps{e}": (f"lf.mnist.eps{e}", LF, ()) for e in (1, 2, 3)},
    **{f"fashion_mnist/lf_eps{e}": (f"lf.fashion-mnist.eps{e}", LF, ()) for e in (1, 2, 3)},
    **{f"cifar10/lf_eps{e}": (f"lf.cifar10.eps{e}", LF, ()) for e in (3, 7)},
    "cifar10/lf_wrn_eps1": ("gip.wrn-16-4.eps1", LF, PLAIN),
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
    "cuda_embedding": (("gep.cifar10.eps8", GEP, ()), "gep"),
    "cuda_freeze": (("rf.adjusted-end-to-end-cnn.eps3", RF, ("momentum",)), "freeze-90"),
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
            assert first == "# The small CNN on FashionMNIST; settings of this project, the same for every algorithm."
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
