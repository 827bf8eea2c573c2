"""A valid command line for every command of ``dptheory``, every option given; and the commands themselves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from dptheory import cli
from dptheory.cli._joining import joining


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        if path or name not in joining():
            yield from _leaves(command.get_command(None, name), (*path, name))


LEAVES: dict[str, Any] = dict(_leaves(typer.main.get_command(cli.app)))
"""The commands of the theory by name."""

_EXAMPLE = Path(__file__).parents[2] / "proofs" / "refute" / "layer_freezing.py"
_COMPOSITION = Path(__file__).parent / "composition" / "run.toml"

COMMANDS: dict[str, dict[str, str]] = {
    "claims": {"--paper": "gip", "--verdict": "false", "--format": "json"},
    "claim": {"ID": "gip.eq18"},
    "check": {"PATTERNS": "gip.eq18", "--budget": "20s", "--seed": "0", "--workers": "1", "--json": "evidence.json"},
    "pages": {"DIRECTORY": "."},
    "find": {"QUERY": "kappa", "--max-matches": "3"},
    "refute": {"FILE": str(_EXAMPLE), "NAMES": "corrected", "--budget": "20s", "--seed": "0"},
    "bound prune": {"--dim": "10", "--keep": "3", "--sigma-g": "1", "--noise-std": "1"},
    "bound mse": {
        "--grad-norm": "1", "--dim": "10", "--deviation": "0.1", "--clip-norm": "1", "--noise-multiplier": "1",
        "--batch-size": "4",
        "--drop-rate": "0.5",
    },
    "bound kappa": {"--grad-norm": "2", "--dim": "10", "--clip-norm": "4", "--drop-rate": "0.5", "--deviation": "0.05"},
    "bound rate": {"--delta-c": "0.1", "--step-noise": "1"},
    "bound reconstruction": {"--vector": "1,2,3,4", "--drop-rate": "0.5", "--noise-std": "0.1", "--prior-std": "1"},
    "bound angle": {"--dim": "100", "--snr": "3"},
    "bound freeze": {
        "--layer-sizes": "90,20", "--layer-norms": "1,2", "--frozen-layers": "1", "--clip-norm": "1", "--noise-multiplier": "1",
        "--batch-size": "64", "--alignment": "1", "--learning-rate": "0.1", "--steps": "10", "--smoothness": "1",
        "--objective-gap": "1", "--sampling": "poisson", "--sampling-rate": "0.01",
    },
    "bound embedding": {
        "--dim": "100", "--subspace-dim": "10", "--clip-norm": "10", "--residual-clip": "2", "--mu": "1", "--residual-norm": "1",
    },
    "preset list": {},
    "preset embedding": {"--mu": "1"},
    "privacy epsilon": {
        "--noise-multiplier": "2", "--sampling-rate": "1", "--steps": "1", "--delta": "1e-5", "--adjacency": "add-remove",
        "--sampling": "poisson",
    },
    "privacy delta": {
        "--noise-multiplier": "2", "--sampling-rate": "1", "--steps": "1", "--epsilon": "1", "--adjacency": "add-remove",
        "--sampling": "poisson",
    },
    "privacy sigma": {
        "--epsilon": "1", "--delta": "1e-5", "--sampling-rate": "1", "--steps": "1", "--adjacency": "add-remove",
        "--sampling": "poisson",
    },
    "privacy steps": {
        "--epsilon": "1", "--delta": "1e-5", "--noise-multiplier": "20", "--sampling-rate": "1", "--adjacency": "add-remove",
        "--sampling": "poisson",
    },
    "privacy tradeoff": {
        "--noise-multiplier": "2", "--sampling-rate": "1", "--steps": "1", "--false-positive-rate": "0.01",
        "--adjacency": "add-remove",
    },
    "privacy statement": {
        "--noise-multiplier": "2", "--sampling-rate": "1", "--steps": "1", "--delta": "1e-5", "--adjacency": "zero-out",
        "--mechanism": "DP-SGD", "--unit": "one user", "--public": "N", "--sampler": "Poisson", "--randomness": "seed 0",
        "--tuning": "none",
    },
    "privacy compare": {
        "--noise-multiplier": "2", "--sampling-rate": "0.1", "--steps": "10", "--delta": "1e-5", "--tool": "dptheory RDP",
        "--limit": "20",
    },
    "privacy index": {
        "--dim": "8", "--keep": "3", "--epsilon": "1", "--delta": "1e-5", "--groups": "1", "--steps": "1",
    },
}  # fmt: skip
"""The options that stand for others are tried beside them: --epsilon and --delta in place of --mu, and so on."""

_DIFFER = {"--step": "2,1,3", "--plot": "curve.svg"}
_FILE = {"--composition": str(_COMPOSITION)}
_EPOCHS = {"--sampling": "random allocation", "--steps-per-epoch": "3", "--participations": "2"}
_BATCHES = {"--batch-size": "2", "--train-size": "4"}
_PASSES = {**_BATCHES, "--epochs": "1"}
_FALLING = {"--noise-multiplier": "2", "--last-noise-multiplier": "1", **_PASSES}
_RUN = {"--noise-multiplier": "2", "--sampling-rate": "0.5", "--steps": "2", "--delta": "1e-5"}

ALTERNATIVES: dict[str, tuple[dict[str, str], ...]] = {
    "bound embedding": (
        {
            "--dim": "100", "--subspace-dim": "10", "--clip-norm": "10", "--residual-clip": "2", "--epsilon": "1",
            "--delta": "1e-5",
        },
    ),
    "privacy compare": (
        {"--search": "1", "--law": "core", "--seed": "0", "--tool": "dptheory RDP", "--out": "found.jsonl"},
        {"--noise-multiplier": "2", "--delta": "1e-5", "--tool": "dptheory RDP", **_PASSES},
    ),
    "privacy index": (
        {"--dim": "8", "--keep": "3", "--epsilon": "1", "--sampling-rate": "1", "--noise-multiplier": "4"},
    ),
    "privacy epsilon": (
        {**_DIFFER, "--delta": "1e-5"},
        {**_FILE, "--delta": "1e-5"},
        {**_RUN, "--records-per-user": "2"},
        {**_RUN, "--max-batch-size": "2", "--train-size": "4"},
        {**_RUN, "--mean-runs": "2", "--runs-law": "poisson"},
        {"--noise-multiplier": "2", "--steps": "6", "--delta": "1e-5", **_EPOCHS},
        {**_FALLING, "--delta": "1e-5"},
    ),
    "privacy delta": (
        {**_DIFFER, "--epsilon": "1"},
        {**_FILE, "--epsilon": "1"},
        {"--noise-multiplier": "2", "--steps": "6", "--epsilon": "1", **_EPOCHS},
        {**_FALLING, "--epsilon": "1"},
    ),
    "privacy sigma": (
        {"--advantage": "0.1", "--sampling-rate": "1", "--steps": "1"},
        {"--true-positive-rate": "0.1", "--false-positive-rate": "0.01", "--sampling-rate": "1", "--steps": "1"},
        {**_DIFFER, "--epsilon": "1", "--delta": "1e-5"},
        {**_FILE, "--epsilon": "1", "--delta": "1e-5"},
        {"--epsilon": "1", "--delta": "1e-5", "--steps": "6", **_EPOCHS},
        {"--epsilon": "1", "--delta": "1e-5", **_PASSES},
        {"--advantage": "0.5", "--sampling-rate": "1", "--steps": "1"},
        {"--true-positive-rate": "0.5", "--false-positive-rate": "0.1", "--sampling-rate": "1", "--steps": "1"},
    ),
    "privacy tradeoff": (_DIFFER, _FILE, {"--noise-multiplier": "2", "--steps": "6", **_EPOCHS}, _FALLING),
    "privacy steps": (
        {
            "--epsilon": "1", "--delta": "1e-5", "--noise-multiplier": "20", "--sampling-rate": "1", "--plot": "curve.svg",
        },
        {"--epsilon": "1", "--delta": "1e-5", "--noise-multiplier": "20", **_EPOCHS},
        {"--epsilon": "1", "--delta": "1e-5", "--noise-multiplier": "20", **_BATCHES},
    ),
    "privacy statement": (
        {"--step": "2,1,3", "--delta": "1e-5"}, {**_FILE, "--delta": "1e-5"}, {"FOLDER": str(_COMPOSITION.parent / "finished")},
        {"--noise-multiplier": "2", "--steps": "6", "--delta": "1e-5", **_EPOCHS},
        {**_FALLING, "--delta": "1e-5"},
    ),
}  # fmt: skip
