"""``python -m tests.practice_page``: the page "What people train", whose cells are what models and loops did here and with Opacus.

It needs what the extra ``architectures`` installs.
"""

import copy
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from opacus import GradSampleModule
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn import functional as F

from dptheory.files import write_atomically
from dptheory.training.engine import attach
from dptheory.training.mechanisms import DpSgd
from dptheory.training.networks import standardise_weights
from dptheory.training.per_example import HookedModule
from tests.practice_costs import RESULTS, goals, machine
from tests.practice_loops import PRACTICES
from tests.said import marked, page, table
from tests.training import architectures as a
from tests.training import errors_table as t
from tests.training import sgd
from tests.training.per_example.test_whole_network import Experts
from tests.two_engines import network, ours, quiet, theirs, told

PAGE = Path(__file__).parents[1] / "proofs" / "practice.md"
PARTS = ("transformers", "peft", "torch", "opacus")

# --- gradients --------------------------------------------------------------------------------------------------------

Loss = Callable[[nn.Module, Any], torch.Tensor]


def attached(model: nn.Module, **options: Any) -> tuple[HookedModule, Any]:
    trained = [p for p in model.parameters() if p.requires_grad]
    return attach(  # type: ignore[return-value]
        module=model, optimizer=torch.optim.SGD(trained, lr=0.1), mechanism=DpSgd(), sampling_rate=0.1, expected_batch_size=a.N,
        noise_multiplier=1.0, max_grad_norm=1.0, **options,
    )  # fmt: skip


def alone(model: nn.Module, batch: Any, loss: Loss) -> list[torch.Tensor]:
    plain, count = copy.deepcopy(model), len(next(iter(batch.values())))
    return sgd.alone(plain, count, lambda place: loss(plain, {name: v[place] for name, v in batch.items()}).sum())


def error(found: Sequence[Any], wanted: Sequence[torch.Tensor]) -> float:
    """The largest difference, as a share of the largest entry."""
    if any(one is None for one in found):
        raise ValueError("no gradients of single examples at some parameters")
    counts = {len(one) for one in found}
    if counts != {len(wanted[0])}:
        raise ValueError(f"gradients of {' and '.join(map(str, sorted(counts)))} rows for {len(wanted[0])} examples")
    gaps = [
        float((torch.as_tensor(one.detach()) - right).abs().max()) for one, right in zip(found, wanted, strict=True)
    ]
    return max(gaps) / max(float(right.abs().max()) for right in wanted)


def judged(share: float) -> str:
    return "right" if share < 1e-5 else f"**wrong**: off by {share:.2f} of the largest entry"


def here(model: nn.Module, batch: Any, loss: Loss) -> str:
    wanted = alone(model, batch, loss)
    private, optimizer = attached(model)
    size = len(next(iter(batch.values())))
    optimizer.begin_batch(size)
    optimizer.zero_grad()
    loss(private, batch).mean().backward()
    said = judged(error([p.grad_sample for p in optimizer.params], wanted))
    optimizer.step()
    passed, every = len(private.passes.alone), len(optimizer.params)
    return f"{said}; {passed} of {every} tensors by a pass for each example" if passed else said


def opacus(model: nn.Module, batch: Any, loss: Loss) -> str:
    wanted = alone(model, batch, loss)
    private = GradSampleModule(model)
    loss(private, batch).mean().backward()
    return judged(error([p.grad_sample for p in model.parameters() if p.requires_grad], wanted))


def both(build: Callable[[], nn.Module], batch: Mapping[str, Any], loss: Loss, seed: int) -> list[str]:
    """The cells of a model: here, and with Opacus."""
    batch = {name: v.double() if v.is_floating_point() else v for name, v in batch.items()}
    cells = []
    for way in (here, opacus):
        torch.manual_seed(seed)
        with quiet():
            model = build().double().train()
        cells.append(told(way, model, batch, loss))
    return cells


def of_case(case: a.Case) -> list[str]:
    return both(case.build, case.batch, case.loss, 0)


def of_layers(build: Callable[[], nn.Module], inputs: Sequence[torch.Tensor], loss: Any) -> list[str]:
    batch = {str(i): one for i, one in enumerate(inputs)}
    return both(build, batch, lambda net, b: loss(net, *b.values()), 1)


# --- layers by hand ---------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """A block of a residual network whose activations write in place."""

    def __init__(self) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 3, 3, padding=1)]
        self.block, self.out = nn.Sequential(*parts), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.block(x)
        h += x
        return self.out(F.relu_(h).mean((2, 3)))  # type: ignore[no-any-return]


def tied() -> nn.Module:
    """The last layer has the weight of the first one, as language models have it."""
    model = t.Model(lambda s, x: s.b(s.a(x).tanh().mean(1)), a=nn.Embedding(10, 6), b=nn.Linear(6, 10))
    model.b.weight = model.a.weight  # type: ignore[union-attr, assignment]
    return model


LAYERS: dict[str, tuple[Callable[[], nn.Module], Sequence[torch.Tensor], Any]] = {
    "a residual block after `ModuleValidator.fix`": (
        lambda: ModuleValidator.fix(Residual()), (a.PICTURES[:, :, :6, :6], a.LABELS), t.cross_entropy),
    "a loop over `nn.GRUCell`": t.RIGHT["GRUCell"],
    "spectral norm": t.RIGHT["spectral norm"],
    "weight standardisation (`standardise_weights`)": (
        lambda: standardise_weights(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))),
        (a.PICTURES[:, :, :6, :6], a.LABELS), t.cross_entropy),
    "weight norm": t.RIGHT["weight_norm"],
    "a recurrence by hand": t.RIGHT["a call for each frame"],
    "a siamese network": (
        lambda: t.Model(lambda s, x: s.b((s.a(x) - s.a(x.flip(1))).tanh()), a=nn.Linear(6, 4), b=nn.Linear(4, 3)), (t.X, t.Y),
        t.cross_entropy),
    "tied weights": (tied, (t.TOKENS, t.Y), t.cross_entropy),
    "a weight used outside of its layer": t.RIGHT["used outside of its layer"],
    "a weight used in its layer and outside": t.RIGHT["used in its layer and outside"],
    "one row for all examples": t.RIGHT["one row for all"],
    "frames folded into the batch": t.RIGHT["frames folded"],
    "windows, and a buffer in a trained layer": t.RIGHT["windows and a buffer"],
    "a table of places, as many as examples": t.RIGHT["as many places as examples"],
    "a layer with numbers among its arguments": t.RIGHT["numbers and None"],
    "`checkpoint` with `use_reentrant=True`": t.RIGHT["reentrant checkpoint"],
    "experts with room for some tokens of the batch": (Experts, (t.FRAMES, t.Y), t.cross_entropy),
}  # fmt: skip


# --- loops ------------------------------------------------------------------------------------------------------------


def made_here(model: nn.Module) -> Any:
    return t.private_loop(model, (t.X, t.Y))


def made_there(model: nn.Module) -> Any:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(t.X, t.Y), t.N)
    return theirs().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader, noise_multiplier=0.0,
        max_grad_norm=1e6, poisson_sampling=False,
    )  # fmt: skip


def stepped(made: Any, gradients: Callable[..., object]) -> nn.Module:
    """The private model after a pass."""
    private, optimizer, loader = made
    for x, y in loader:
        optimizer.zero_grad()
        gradients(private, x, y)
        optimizer.step()
    return private  # type: ignore[no-any-return]


def by(gradients: Callable[..., object]) -> Callable[[Any], str]:
    return lambda made: "trains" if stepped(made, gradients) else ""


def usual(private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    F.cross_entropy(private(x), y).backward()


def metric_first(private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    private(torch.cat([x, x]))  # a metric, kept or not, whose backward pass never comes
    usual(private, x, y)


def no_grad(private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    with torch.no_grad():
        scores = private(x)
    F.cross_entropy(scores.requires_grad_(), y).backward()


def twice(private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = F.cross_entropy(private(x), y)
    loss.backward(retain_graph=True)
    loss.backward()


def penalty(private: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(private(x).sum(), x, create_graph=True)
    (F.cross_entropy(private(x), y) + slope.norm(dim=1).mean()).backward()


def closure(made: Any) -> str:
    private, optimizer, loader = made
    ((x, y),) = loader

    def evaluated() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(private(x), y)
        loss.backward()
        return loss

    return "gives the loss" if optimizer.step(evaluated) is not None else "gives None"


WAYS_OUT: dict[str, Callable[[nn.Module], Any]] = {
    "torch.export": lambda model: torch.export.export(model, (t.X,)),
    "torch.jit.script": torch.jit.script,
    "torch.save": lambda model: torch.save(model, io.BytesIO()),
}


def after(way: Callable[[nn.Module], Any], out: Callable[[Any], nn.Module]) -> Callable[[Any], str]:
    """Does the way with what comes ``out`` of a private model after a pass."""

    def run(made: Any) -> str:
        way(out(stepped(made, usual)))
        return "works"

    return run


def given_model(private: HookedModule) -> nn.Module:
    return private._module  # type: ignore[no-any-return]


LOOPS: dict[str, Callable[[Any], str]] = {
    "a forward pass without a backward one (a metric)": by(metric_first),
    "`no_grad` around the forward pass": by(no_grad),
    "`backward(retain_graph=True)` and once more": by(twice),
    "gradient penalty (`create_graph=True`)": by(penalty),
    "`optimizer.step(closure)`": closure,
    **{
        f"`{name}` of the model that was handed in": after(way, lambda private: private._module)
        for name, way in WAYS_OUT.items()
    },
    **{
        f"`{name}` after `to_standard_module()`": after(way, lambda private: private.to_standard_module())
        for name, way in WAYS_OUT.items()
    },
}


def of_adapters() -> Iterator[list[str]]:
    """What becomes of models of the two libraries after training."""
    for name, way in {
        "`save_pretrained` and `from_pretrained` of BERT": lambda model, folder: (
            model.save_pretrained(folder), type(model).from_pretrained(folder))[1],
        "`save_pretrained` of LoRA": lambda model, folder: model.save_pretrained(folder),
        "`merge_and_unload` of LoRA": lambda model, _: model.merge_and_unload(),
        "`merge_and_unload` of DoRA": lambda model, _: model.merge_and_unload(),
    }.items():  # fmt: skip
        case = a.ALL[{"BERT": "BERT", "DoRA": "DoRA"}.get(name.split()[-1], "LoRA on BERT")]

        def run(case: a.Case = case, way: Any = way) -> str:
            torch.manual_seed(0)
            private, optimizer = attached(case.build().train())
            optimizer.begin_batch(a.N)
            case.loss(private, case.batch).mean().backward()
            optimizer.step()
            model = private.to_standard_module().eval()
            given = {n: v for n, v in case.batch.items() if n != "labels"}
            wanted = model(**given).logits
            with tempfile.TemporaryDirectory() as folder:
                again = way(model, folder)
            if again is None:
                return "works"
            gap = float((again.eval()(**given).logits - wanted).abs().max())
            return (
                "works, the same outputs" if gap < 1e-4 * float(wanted.abs().max()) else f"**other outputs**: {gap:.1e}"
            )

        yield [name, told(run)]


# --- the page ---------------------------------------------------------------------------------------------------------


def versions() -> str:
    return ", ".join(f"{name} {version(name).split('+')[0]}" for name in PARTS)


def _loops() -> Iterator[list[str]]:
    for name, run in LOOPS.items():
        cells = [name]
        for make in (made_here, made_there):
            torch.manual_seed(0)
            cells.append(told(run, make(network(3))))
        yield cells


def written() -> list[str]:
    """What stands between the markers, part by part."""
    results, ways = json.loads(RESULTS.read_text(encoding="utf-8")), ("here", "Opacus")
    models = table(("model", *ways), ([name, *of_case(case)] for name, case in a.TRANSFORMERS.items()))
    parts: dict[str, Iterable[str]] = {
        "models": [f"Made with {versions()}, in double precision, on a CPU.", "", *models],
        "adapters": table(("adapter", *ways), ([name, *of_case(case)] for name, case in a.PEFT.items())),
        "layers": table(("layer", *ways), ([name, *of_layers(*case)] for name, case in LAYERS.items())),
        "loops": table(("loop", *ways), _loops()),
        "practices": table(("practice", *ways), PRACTICES.cells(ours, theirs)),
        "after training": table(("what", "here"), of_adapters()),
        "costs": [machine(results), "", *table(("what", "goal", "found", "reached"), goals(results))],
    }
    return [marked("tests.practice_page", lines, part=part) for part, lines in parts.items()]


if __name__ == "__main__":
    write_atomically(PAGE, page(PAGE, *written()))
    sys.stdout.write(f"wrote {PAGE}\n")
