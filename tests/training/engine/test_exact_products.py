"""A step clips in full precision, whatever the loop has set for its own products."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import make_private
from dptheory.training.engine import GRAD_SAMPLE_MODES
from dptheory.training.engine._exact_products import exact_products
from dptheory.training.mechanisms import Constant, DpSgd, RandomSparsification

LONGEST = 1.00001
"""Of a clipped gradient at clip 1, as dptheory.training.mechanisms._clipping derives it."""

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def clipped(layer: nn.Module, inputs: torch.Tensor, mode: str, masked: bool, *, autocast: bool) -> float:
    """Norm of the clipped gradient of one record, with the whole loop under autocast."""
    mechanism = RandomSparsification(Constant(0.5), seed=0) if masked else DpSgd()
    model, optimizer, loader = make_private(
        module=layer, optimizer=torch.optim.SGD(layer.parameters(), lr=1.0), mechanism=mechanism, noise_multiplier=0.0,
        data_loader=DataLoader(TensorDataset(inputs), 1), max_grad_norm=1.0, grad_sample_mode=mode,
    )  # fmt: skip
    for (rows,) in loader:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            optimizer.zero_grad()
            (model(rows).float() ** 3).sum().mul(100).backward()
            optimizer.step()
    assert optimizer.clipped_total is not None
    return float(sum(total.double().square().sum() for total in optimizer.clipped_total)) ** 0.5


LAYERS = {
    "without a sequence": (lambda: nn.Linear(200, 300, bias=False), (200,)),
    "a long way from small": (lambda: nn.Linear(200, 300, bias=False), (5, 200)),
    "formed": (lambda: nn.Linear(6, 8, bias=False), (20, 6)),
    "convolution": (lambda: nn.Conv1d(200, 300, 3, bias=False), (200, 9)),
}


@pytest.mark.parametrize("mode", GRAD_SAMPLE_MODES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("setting", ["autocast", "medium", "high"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_clipped_gradient_is_longer_than_the_clip(name: str, setting: str, masked: bool, mode: str) -> None:
    build, shape = LAYERS[name]
    if setting != "autocast":
        torch.set_float32_matmul_precision(setting)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        found = clipped(
            build(), torch.randn(1, *shape, generator=generator), mode, masked, autocast=setting == "autocast"
        )
        assert 0.99 < found <= LONGEST


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch before 2.9")
def test_settings_of_the_loop_hold_again() -> None:
    torch.set_float32_matmul_precision("medium")
    before = torch.backends.mkldnn.matmul.fp32_precision
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(KeyError), exact_products():
            assert not torch.is_autocast_enabled("cpu")
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
            raise KeyError
        assert torch.is_autocast_enabled("cpu")
    assert (torch.get_float32_matmul_precision(), torch.backends.mkldnn.matmul.fp32_precision) == ("medium", before)
