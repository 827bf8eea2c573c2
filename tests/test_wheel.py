"""The wheel beside a user's own ``training/``: it holds all that it needs, takes no name of theirs, and trains."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_TAKEN = ("dptheory", "training", "proofs", "pyproject.toml", "setup.py", "README.md", "LICENSE")

TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
import dptheory
from dptheory.training import data, make_private, mechanisms
from dptheory.training.runs import read_config
from pathlib import Path

shown = data.load(name="excerpt", train=True).pixels[:64].flatten(1)
model = torch.nn.Linear(shown.shape[1], 10)
weight, before = model.weight, model.weight.detach().clone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = make_private(mechanism=mechanisms.DpSgd(), module=model, optimizer=optimizer,
    data_loader=DataLoader(TensorDataset(shown, torch.zeros(64, dtype=torch.long)), batch_size=32),
    noise_multiplier=1.0, max_grad_norm=1.0)
for features, labels in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(features), labels).backward()
    optimizer.step()
assert not torch.equal(weight, before) and 0 < optimizer.epsilon(delta=1e-5) < 100
read_config(Path("configs/fashion_mnist/random_sparsification.toml"))
try:
    import training
except RuntimeError as error:
    print(Path(dptheory.__file__).parent, Path(mechanisms.__file__).parent, error, sep="\\n")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is written into the checkout, by what pip calls; no network is needed."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in _TAKEN:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, source / name)
        else:
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=leave)
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-P", "-c", code], cwd=source, check=True, capture_output=True)
    (found,) = built.glob("*.whl")
    return found


def test_it_holds_training_under_its_new_name_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"dptheory"}
    folder = ROOT / "training"
    ours = {f"dptheory/training/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} <= set(names)


def test_it_trains_beside_a_folder_of_the_user_that_is_called_training(wheel: Path, tmp_path: Path) -> None:
    """A pure wheel is installed by unpacking it."""
    installed, theirs = tmp_path / "site-packages", tmp_path / "theirs"
    zipfile.ZipFile(wheel).extractall(installed)
    (theirs / "training").mkdir(parents=True)
    (theirs / "training" / "__init__.py").write_text("raise RuntimeError('their own')")
    (theirs / "train.py").write_text(TRAIN)
    around = os.environ | {"PYTHONPATH": str(installed)}
    said = subprocess.check_output([sys.executable, "train.py"], cwd=theirs, env=around, text=True)
    assert said.split("\n")[:3] == [
        str(installed / "dptheory"),
        str(installed / "dptheory" / "training" / "mechanisms"),
        "their own",
    ]
    helped = subprocess.check_output(
        [sys.executable, "-m", "dptheory", "run", "--help"], cwd=theirs, env=around, text=True
    )
    assert "Usage: dptheory run" in helped
    shown = subprocess.check_output(
        [sys.executable, "-m", "dptheory", "claim", "gip.mse_t0"], cwd=theirs, env=around, text=True
    )
    assert shown.startswith("FALSE, repairable: ") and "\ngip.mse_t0: top-k pruning MSE\n" in shown
