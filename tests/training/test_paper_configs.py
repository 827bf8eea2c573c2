"""The configurations of the papers' runs against what the papers print of them, typed a second time from their text."""

from pathlib import Path
from typing import Any

import pytest

import training
from training import networks
from training.mechanisms import layers
from training.runs import read_config

CONFIGS = Path(training.__file__).parent / "configs"

GEP = {
    "batch_size": 1000, "max_grad_norm": 10, "delta": 1e-5, "optimizer.name": "sgd", "optimizer.learning_rate": 0.1,
    "optimizer.momentum": 0.9, "optimizer.weight_decay": 1e-4,
}  # fmt: skip
GEP_EPOCHS = {2: 50, 5: 100, 8: 200}
SUBSPACE = {"mechanism.residual_clip": 2}

GIP = {
    "batch_size": 4096, "max_grad_norm": 1, "delta": 1e-5, "optimizer.name": "sgd", "optimizer.learning_rate": 2,
    "model": "wrn-16-4", "data": "cifar-10",
}  # fmt: skip
GIP_SIGMA = {0.5: 13, 1: 10, 2: 6, 4: 4}
INDICES = {
    "mechanism.name": "index-pruning", "mechanism.keep_share": 0.1, "mechanism.start": 1, "mechanism.schedule": "linear",
    "mechanism.group_size": 256,
}  # fmt: skip

RF = {"data": "cifar-10", "delta": 1e-5, "mechanism.name": "random-sparsification", "mechanism.refreshes_per_epoch": 1}


def lf(data: str, clip: float, sigma: float, batch: int, rate: float, frozen: int, after: int) -> dict[str, Any]:
    return {
        "data": data, "max_grad_norm": clip, "noise_multiplier": sigma, "batch_size": batch, "optimizer.learning_rate": rate,
        "mechanism.name": "layer-freezing", "mechanism.frozen_layers": frozen, "frozen after": after,
    }  # fmt: skip


def rf(batch: int, sigma: float, rate: float, epochs: int, momentum: float, clip: float) -> dict[str, Any]:
    return RF | {
        "batch_size": batch, "noise_multiplier": sigma, "optimizer.learning_rate": rate, "epochs": epochs,
        "optimizer.momentum": momentum, "max_grad_norm": clip,
    }  # fmt: skip


def freezing(rate: float, cooling: int) -> dict[str, Any]:
    return {"mechanism.drop_rate": rate, "mechanism.cooling_epochs": cooling}


PRINTED: dict[str, dict[str, Any]] = {
    # GEP, section 4: epochs by epsilon; k from 500, 1000, 1500, 2000, halved for MNIST; 2000 anchors
    **{
        f"cifar10/gep_eps{e}": GEP | SUBSPACE
        | {"epsilon": e, "epochs": epochs, "mechanism.name": "gep", "mechanism.subspace_dim": 1000, "mechanism.anchors": 2000}
        for e, epochs in GEP_EPOCHS.items()
    },
    **{
        f"mnist/gep_eps{e}": GEP | SUBSPACE
        | {"epsilon": e, "epochs": epochs, "mechanism.name": "gep", "mechanism.subspace_dim": 500}
        for e, epochs in GEP_EPOCHS.items()
    },
    "cifar10/biased_gep_eps8": GEP | SUBSPACE
    | {"epsilon": 8, "epochs": 200, "mechanism.name": "biased-gep", "mechanism.subspace_dim": 1000, "mechanism.anchors": 2000},
    "cifar10/gp_eps8": GEP | {"epsilon": 8, "epochs": 200, "mechanism.name": "dp-sgd"},
    # GIP, section 6.1, Tables 3 and 4: 1 % of epsilon for the indices, k from 1.0 to 0.1 in equal steps, groups of 256
    **{
        f"cifar10/gip_eps{e}": GIP | INDICES | {"epsilon": e, "noise_multiplier": sigma, "mechanism.index_epsilon": e / 100}
        for e, sigma in GIP_SIGMA.items()
    },
    "cifar10/gip_dp_sgd_eps1": GIP | {"epsilon": 1, "noise_multiplier": 10, "mechanism.name": "dp-sgd"},
    "cifar10/gip_random_k_eps1": GIP
    | {"epsilon": 1, "noise_multiplier": 10, "mechanism.name": "random-k", "mechanism.keep_share": 0.5},
    # LF, Appendix D: C, sigma, B, learning rate, layers frozen, after which epoch
    **{
        f"mnist/lf_eps{e}": lf("mnist", 1.0, 1.923, 2048, 2.0, 2, after) | {"epsilon": e}
        for e, after in {1: 3, 2: 17, 3: 39}.items()
    },
    **{
        f"fashion_mnist/lf_eps{e}": lf("fashion-mnist", 1.0, 2.15, 2048, 4.0, 3, after) | {"epsilon": e}
        for e, after in {1: 4, 2: 19, 3: 40}.items()
    },
    "cifar10/lf_eps3": lf("cifar-10", 3.0, 1.0, 512, 0.15, 3, 20) | {"epsilon": 3},
    "cifar10/lf_eps7": lf("cifar-10", 1.0, 1.47, 2048, 4.0, 3, 75) | {"epsilon": 7},
    "cifar10/lf_wrn_eps1": GIP | {"epsilon": 1, "noise_multiplier": 10, "mechanism.name": "layer-freezing"},
    # RF, Tables 1, 5, 7 and 9: B, sigma, learning rate, epochs, momentum, clip; freeze rate, cooling time
    "cifar10/rf_end_to_end_eps3": rf(1000, 1.54, 1, 40, 0.9, 0.1) | freezing(0.7, 40) | {"epsilon": 3},
    "cifar10/rf_end_to_end_eps7.53": rf(1000, 1.10, 1, 80, 0.9, 0.1) | freezing(0.7, 80) | {"epsilon": 7.53},
    "cifar10/rf_handcrafted_eps3": rf(8000, 5.65, 4, 80, 0.9, 0.1) | freezing(0.6, 80) | {"epsilon": 3},
    "cifar10/rf_adjusted_end_to_end_eps3": rf(1000, 1.81, 1, 60, 0, 1) | freezing(0.9, 40) | {"epsilon": 3},
    "cifar10/rf_adjusted_end_to_end_eps7.53": rf(1000, 1.18, 1, 100, 0, 1) | freezing(0.9, 80) | {"epsilon": 7.53},
    # RS, Table 2: data set, network and epsilon alone; Figure 2 (e): sigma, C, B and epochs
    **{f"cifar10/rs_dp_cnn_eps{e}": {"data": "cifar-10", "model": "dp-cnn", "epsilon": e} for e in (1, 3)},
    **{
        f"fashion_mnist/rs_dp_cnn_s_eps{e}": {"data": "fashion-mnist", "model": "small-cnn", "epsilon": e}
        for e in (1, 3)
    },
    "cifar10/rs_figure2e": {
        "noise_multiplier": 2, "max_grad_norm": 0.5, "batch_size": 1000, "epochs": 100, "model": "dp-cnn",
        "mechanism.refreshes_per_epoch": 0,
    },
}  # fmt: skip
"""Configuration file: what the paper prints of the run."""


def flat(table: dict[str, Any]) -> dict[str, Any]:
    """Keys of the tables as "mechanism.drop_rate"."""
    found = {}
    for key, value in table.items():
        found.update({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value})
    return found


@pytest.mark.parametrize("name", PRINTED)
def test_a_configuration_is_as_printed(name: str) -> None:
    found = flat(read_config(CONFIGS / f"{name}.toml").as_dict())
    if "mechanism.after" in found and "frozen after" in PRINTED[name]:
        found["frozen after"] = round(found["mechanism.after"] * found["epochs"], 2)
    assert {key: found[key] for key in PRINTED[name]} == PRINTED[name]


def test_every_configuration_of_a_paper_has_its_second_copy() -> None:
    """All others say that their settings are of this project, and have them in common."""
    common = set()
    for path in sorted(p for p in CONFIGS.rglob("*.toml") if p.parent.name != "studies"):
        name = str(path.relative_to(CONFIGS).with_suffix(""))
        first = path.read_text(encoding="utf-8").splitlines()[0]
        if name in PRINTED:
            assert first.split(",")[0] in ("# GEP", "# GIP", "# LF", "# RF", "# RS"), first
        else:
            assert first == "# The small CNN on FashionMNIST; settings of this project, the same for every algorithm."
            plain = {k: v for k, v in flat(read_config(path).as_dict()).items() if not k.startswith("mechanism.")}
            common.add(repr(sorted(plain.items())))
    assert len(common) == 1


def test_the_layers_that_lf_freezes_of_wrn() -> None:
    """Appendix D (4): the first two convolution groups (and what lies before them), after update 800."""
    config = read_config(CONFIGS / "cifar10/lf_wrn_eps1.toml")
    model = networks.wrn_16_4(0)
    names = {module: name for name, module in model.named_modules()}
    frozen = {names[layer].split(".")[0] for layer in layers(model)[: config.mechanism["frozen_layers"]]}
    left = {names[layer].split(".")[0] for layer in layers(model)[config.mechanism["frozen_layers"] :]}
    assert frozen == {"0", "1", "2", "3", "4"} and not frozen & left  # the input layer and twice two blocks
    steps = round(config.epochs * 50_000 / config.batch_size)
    assert round(config.mechanism["after"] * steps) == 800
