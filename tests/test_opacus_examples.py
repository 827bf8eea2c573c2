"""Opacus's example scripts, with their import and their constructor changed, train with the papers' mechanisms.

``tests/opacus_examples.zip`` holds five scripts and the licence of ``opacus-1.6.0.tar.gz`` (Apache-2.0), as they are; the test
changes the lines.
"""

import difflib
import re
import runpy
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from dptheory import privacy
from dptheory.training.audits import LoopAudit, Stated, Steps
from tests.opacus_stand_ins import EXAMPLES, stand_in, write_names

with zipfile.ZipFile(Path(__file__).with_name("opacus_examples.zip")) as _archive:
    KEPT = {Path(name).stem: _archive.read(name).decode() for name in _archive.namelist()}
IMPORT = ("from opacus import PrivacyEngine", "from dptheory.training import PrivacyEngine, mechanisms")
UNSHUFFLED = ("            poisson_sampling=False,\n", "")
"""Of imdb.py: batches that are no Poisson batches, which are refused here."""
IN_PLACE = ("nn.LeakyReLU(0.2, inplace=True)", "nn.LeakyReLU(0.2)")
"""Of dcgan.py, four times: with it the script fails under Opacus 1.6 as well, by torch's rule for hooks."""
ONE_LENGTH = (
    "        padding_value=padding_idx,\n    )\n",
    "        padding_value=padding_idx,\n    )\n    x = nn.functional.pad(x, (0, 9 - x.shape[1]))\n",
)
"""Of imdb.py: padded to the longest text of the batch, over which its model takes a mean, so that it changes every gradient."""
ONE_NAME_LENGTH = (
    "    y = torch.stack([elem[1] for",
    "    x = nn.functional.pad(x, (0, 40 - x.shape[1]))\n    y = torch.stack([elem[1] for",
)
"""Of char-lstm-classification.py: its model reads the state after the padding, whose length is that of the longest name."""
MORE = {"imdb": (UNSHUFFLED, ONE_LENGTH), "char-lstm-classification": (ONE_NAME_LENGTH,), "dcgan": (IN_PLACE,)}
REMOVED = {"mnist": 2, "cifar10": 2, "char-lstm-classification": 2, "imdb": 3, "dcgan": 6}
"""Lines of the original that the moved script does not have."""
STEPS, EPOCHS = EXAMPLES // 10, 2
TINY = {
    "mnist": ["--device", "cpu", "-b", "10", "-n", "2", "--sigma", "1.1", "--data-root", "."],
    "cifar10": [
        "--device", "cpu", "-j", "0", "--batch-size", "10", "--epochs", "2", "--sigma", "1.1", "--data-root", ".",
        "--checkpoint-file", "state", "--print-freq", "1", "--log-dir", "stat",
    ],
    "char-lstm-classification": [
        "--device", "cpu", "-b", "10", "--epochs", "2", "--sigma", "1.1", "--delta", "1e-5", "--data-root", "names",
        "--embedding-size", "8", "--hidden-size", "8",
    ],
    "imdb": ["--device", "cpu", "-b", "10", "-n", "2", "--sigma", "1.1", "-j", "0", "--max-sequence-length", "9"],
    "dcgan": [
        "--device", "cpu", "--workers", "0", "--batch-size", "10", "--epochs", "2", "--sigma", "1.1", "--data-root", ".",
        "--ngf", "4", "--ndf", "4", "--manualSeed", "1",
    ],
}  # fmt: skip
MECHANISMS = {
    "mnist": "mechanisms.RandomSparsification(mechanisms.Constant(0.5), seed=0)",
    "cifar10": "mechanisms.LayerFreezing(mechanisms.DpSgd(), frozen_layers=1, from_step=5)",
    "char-lstm-classification": "mechanisms.RankedSparsification(mechanisms.Constant(0.5), steps_per_epoch=4, seed=0)",
    "imdb": "mechanisms.PosteriorFreeze(mechanisms.Constant(0.5), seed=0)",
    "dcgan": "mechanisms.DpSgd()",
}


def changed(name: str) -> tuple[str, str]:
    """A script as it is, and as it runs here."""
    script = KEPT[name]
    constructor = ("PrivacyEngine(", f"PrivacyEngine({MECHANISMS[name]}, ")
    moved = script
    for before, after in (IMPORT, constructor):
        assert moved.count(before) == 1, before
        moved = moved.replace(before, after)
    for more in MORE.get(name, ()):
        assert more[0] in moved
        moved = moved.replace(*more)
    return script, moved


def run(text: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    write_names(folder / "names")
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(path), *TINY[name]])
    torch.manual_seed(0)
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("name", sorted(TINY))
@pytest.mark.filterwarnings("ignore")
def test_an_example_moves_over_by_two_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It trains, and prints the epsilon that an accountant of its own gives for its steps."""
    script, moved = changed(name)
    lines = [
        line for line in difflib.unified_diff(script.splitlines(), moved.splitlines(), n=0) if re.match(r"-[^-]", line)
    ]
    assert len(lines) == REMOVED[name]
    run(moved, name, tmp_path, monkeypatch)
    printed = re.findall(r"ε = ([\d.]+)", capsys.readouterr().out)
    spent = privacy.epsilon_bounds(noise_multiplier=1.1, sampling_rate=10 / EXAMPLES, steps=EPOCHS * STEPS, delta=1e-5)
    assert printed and printed[-1] == f"{spent.upper:.2f}"


def test_the_examples_keep_their_notices() -> None:
    assert "Apache License" in KEPT["LICENSE"]
    assert {name for name, text in KEPT.items() if "Copyright (c) Meta Platforms" in text} == set(TINY)


# --- the loop of an example, audited ------------------------------------------------------------------------------------

WRAPPED = (
    ("def main():\n", "def train_on(data):\n"),
    ('if __name__ == "__main__":\n    main()\n', ""),
    ("        optimizer.step()\n", "        optimizer.step()\n        steps.add()\n"),
    (
        "        for epoch in range(1",
        "        global steps\n        steps = Steps(model)\n        for epoch in range(1",
    ),
    ("        run_results.append(test(model, device, test_loader))\n", "    return steps\n"),
    ("        batch_size=args.batch_size,\n", "        batch_size=math.ceil(len(data) / 10),\n"),
    ("import argparse\n", "import argparse\nimport math\n"),
)
"""mnist.py as a function of the data that returns the gradients which it releases; a batch is a tenth of the data."""
THREE_LINES = """\
from dptheory.training import audit
stated = lambda records: Stated(noise_multiplier=1.1, max_grad_norm=1.0, sampling_rate=0.1, batch_size=records // 10)
result = audit(train_on, data, canaries=200, epsilon=claim, delta=1e-5, access="gradients", stated=stated, seed=1)
"""


def audited(claim: float, folder: Path, monkeypatch: pytest.MonkeyPatch) -> LoopAudit:
    """What the three lines find of a copy of mnist.py."""
    script = re.sub(
        r"        datasets\.MNIST\(\n\s+args.data_root,\n\s+train=True.*?\n        \),\n",
        "        data,\n",
        KEPT["mnist"],
        flags=re.S,
    )
    for before, after in WRAPPED:
        assert script.count(before) == 1, before
        script = script.replace(before, after)
    stand_in(monkeypatch)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["mnist.py", *TINY["mnist"]])
    torch.manual_seed(0)
    source = torch.Generator().manual_seed(2)
    data = [(torch.randn(1, 28, 28, generator=source), i % 10) for i in range(100)]
    names: dict[str, Any] = {"__name__": "mnist", "data": data, "claim": claim, "Steps": Steps, "Stated": Stated}
    exec(compile(script + THREE_LINES, "mnist.py", "exec"), names)  # what a user's file would hold
    found: LoopAudit = names["result"]
    return found


SPENT = privacy.epsilon_bounds(noise_multiplier=1.1, sampling_rate=0.1, steps=20, delta=1e-5).upper


@pytest.mark.filterwarnings("ignore")
def test_the_true_claim_of_an_example_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(SPENT, tmp_path, monkeypatch)
    assert found.stands and all(one.passed for one in found.findings) and len(found.findings) > 10


@pytest.mark.filterwarnings("ignore")
def test_false_claims_of_an_example_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of what is spent; and noise left out."""
    tenth = audited(SPENT / 10, tmp_path, monkeypatch)
    assert not tenth.stands and tenth.findings[0].name == "account"
    noise = "opacus.optimizers.optimizer._generate_noise"
    monkeypatch.setattr(noise, lambda reference, **_: torch.zeros_like(reference))
    left_out = audited(SPENT, tmp_path, monkeypatch)
    assert not left_out.stands and left_out.findings[0].name == "noise"
