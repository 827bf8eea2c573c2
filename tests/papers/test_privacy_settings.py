"""What the papers print of their runs, typed a second time from their text, against the settings and presets of the library."""

import pytest

from dptheory import papers
from dptheory import papers as embedding
from dptheory.papers import paper_settings

CIFAR10, MNIST, FASHION, SVHN = 50_000, 60_000, 60_000, 604_388
"""Published sizes of the training sets; SVHN with its extra images (73,257 + 531,131)."""

_GIP = "GIP, section 6.1, Tables 3"
_LF = "LF, Appendix D"
# name: (epsilon, sigma, epochs) of every row, then (delta, batch size, training images, vectors released per step)
PRINTED = {
    "RF, Tables 1, 2 and 5: End-to-end CNN, CIFAR10": ([(3, 1.54, 40), (7.53, 1.10, 80)], (1e-5, 1000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 6: DP-Transfer Learning, CIFAR10": ([(2, 2.30, 50)], (1e-5, 1000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 7: Handcrafted CNN, CIFAR10": ([(3, 5.65, 80)], (1e-5, 8000, CIFAR10, 1)),
    "RF, Tables 1, 2 and 8: GEP, CIFAR10": ([(8, None, 200)], (1e-5, 1000, CIFAR10, 2)),
    "RF, Tables 1 (d) and 9: Adjusted End-to-end CNN, CIFAR10": (
        [(3, 1.81, 60), (7.53, 1.18, 100)],
        (1e-5, 1000, CIFAR10, 1),
    ),
    f"{_LF} (1): 2-layered CNN, MNIST": ([(e, 1.923, None) for e in (1, 2, 3)], (1e-5, 2048, MNIST, 1)),
    f"{_LF} (2): 5-layered CNN, FashionMNIST": ([(e, 2.15, None) for e in (1, 2, 3)], (1e-5, 2048, FASHION, 1)),
    # GIP, section 6.1: 45K training images of CIFAR-10, 1.27M of ImageNet
    f"{_GIP} and 4: WRN-16-4, CIFAR10": (
        [(0.99 * 0.5, 13.0, None), (0.99 * 1.0, 10.0, None), (0.99 * 2.0, 6.0, None), (0.99 * 4.0, 4.0, None)],
        (1e-5, 4096, 45_000, 1),
    ),
    f"{_GIP} to 5: WRN-28-10, CIFAR10": (
        [(0.99 * 0.25, 30.0, None), (0.99 * 0.5, 22.0, None), (0.99 * 1.0, 21.1, None), (0.99 * 2.0, 15.8, None)],
        (1e-5, 16384, 45_000, 1),
    ),
    f"{_GIP} and 4: NF-ResNet-50, ImageNet": (
        [(0.99 * e, 2.5, None) for e in (0.2, 0.4, 0.6, 0.8)],
        (8e-7, 16384, 1_270_000, 1),
    ),
    "GEP, section 4: CNN, MNIST": ([(2, None, 50), (5, None, 100), (8, None, 200)], (1e-5, 1000, MNIST, 2)),
    "GEP, section 4: ResNet20, SVHN extended": ([(2, None, 5), (5, None, 10), (8, None, 20)], (1e-6, 1000, SVHN, 2)),
    "GEP, section 4: ResNet20, CIFAR10": ([(2, None, 50), (5, None, 100), (8, None, 200)], (1e-5, 1000, CIFAR10, 2)),
}
LF_CIFAR10 = [(3, 1.0, 512), (7, 1.47, 2048)]
"""Epsilon, sigma and B of LF, Appendix D (3)."""


def test_every_setting_is_as_printed() -> None:
    expected = [
        (name, epsilon, sigma, epochs, *common)
        for name, (rows, common) in PRINTED.items()
        for epsilon, sigma, epochs in rows
    ] + [
        (f"{_LF} (3): 5-layered CNN, CIFAR10", e, sigma, None, 1e-5, batch, CIFAR10, 1)
        for e, sigma, batch in LF_CIFAR10
    ]
    found = [
        (s.name, s.epsilon, s.noise_multiplier, s.epochs, s.delta, s.batch_size, s.train_size, s.releases)
        for s in paper_settings()
    ]
    assert sorted(map(repr, map(numbers, found))) == sorted(map(repr, map(numbers, expected)))
    assert len(found) == 36


def numbers(row: tuple[object, ...]) -> tuple[object, ...]:
    """Whole numbers as floats, so that 3 and 3.0 are one."""
    return tuple(float(cell) if isinstance(cell, int) else cell for cell in row)


@pytest.mark.parametrize(
    ("dataset", "delta", "budgets"),
    [("cifar10", 1e-5, ((2, 50), (5, 100), (8, 200))), ("svhn", 1e-6, ((2, 5), (5, 10), (8, 20)))],
)
def test_settings_of_gep(dataset: str, delta: float, budgets: tuple[tuple[float, int], ...]) -> None:
    """Section 4: k from 500, 1000, 1500, 2000; clips 10 and 2; batches of 1000; epochs by epsilon."""
    found = {one.name: one for one in embedding.embedding_presets()}
    for k in (500, 1000, 1500, 2000):
        one = found[f"gep.{dataset}.k{k}"]
        assert (one.subspace_dim, one.clip_norm, one.residual_clip, one.batch_size) == (k, 10, 2, 1000)
        assert (one.delta, one.budgets, one.source) == (delta, budgets, "GEP, section 4")
    assert len(found) == len(embedding.embedding_presets()) == 9


def test_the_released_example_of_gep() -> None:
    """RF, Table 8: Clip0 5, Clip1 2, subspace 1000, batches of 1000."""
    one = next(one for one in embedding.embedding_presets() if one.name == "gep.code.k1000")
    assert (one.clip_norm, one.residual_clip, one.subspace_dim, one.batch_size) == (5, 2, 1000, 1000)
    assert one.delta is None and one.budgets == ()


def test_resnet20_is_counted_from_its_architecture() -> None:
    """3 x 3 convolutions 3-16, six 16-16, 16-32 and five 32-32, 32-64 and five 64-64, scale and shift behind each; 64-10."""

    def convolution(channels: int, width: int) -> int:
        return 9 * channels * width + 2 * width

    stages = (
        [convolution(16, 16)] * 6,
        [convolution(16, 32)] + [convolution(32, 32)] * 5,
        [convolution(32, 64)] + [convolution(64, 64)] * 5,
    )
    groups = (convolution(3, 16), *(sum(stage) for stage in stages), 64 * 10 + 10)
    assert groups == embedding.RESNET20_GROUPS
    assert sum(groups) == embedding.RESNET20_DIM
    assert {one.dim for one in embedding.embedding_presets()} == {sum(groups)}


def test_what_else_rf_prints() -> None:
    """Epochs of the ramp (section 4: those of the run; Table 9: cooling time), and the last columns of Tables 6, 7 and 8."""
    ramps = {
        "rf.end-to-end-cnn.eps3": 40,
        "rf.end-to-end-cnn.eps7.53": 80,
        "rf.dp-transfer-learning.eps2": 50,
        "rf.handcrafted-cnn.eps3": 80,
        "rf.gep.eps8": 200,
        "rf.adjusted-end-to-end-cnn.eps3": 40,
        "rf.adjusted-end-to-end-cnn.eps7.53": 80,
    }
    assert {name: papers.preset(name).ramp_epochs for name in ramps} == ramps
    assert dict(papers.preset("rf.gep.eps8").others) == {
        "Clip0": "5", "Clip1": "2", "Subspace": "1000", "Sample gradients": "2000", "Aux. dataset": "ImageNet",
    }  # fmt: skip
    assert dict(papers.preset("rf.handcrafted-cnn.eps3").others) == {
        "Input norm": "BN", "BN norm": "8", "Architecture": "ScatterNet + CNN",
    }  # fmt: skip
    assert dict(papers.preset("rf.dp-transfer-learning.eps2").others) == {
        "Source model": "SIMCLR v2", "Aux. dataset": "ImageNet",
    }  # fmt: skip


def test_training_images_of_rs() -> None:
    sizes = {"CIFAR10": 50_000, "FMNIST": 60_000, "SVHN": None}
    for one in papers.all_presets():
        if one.source == "RS, Table 2":
            assert one.train_size == sizes[str(one.dataset)]
