"""``python -m dptheory.training.measure._loss_divisor``: how far one record moves the clipped sum, measured in two trainings.

A small language model is trained on one text and tuned on another, whose records differ in length, and a small network on a
table with a rare class. At the start and at the end of the tuning a batch is drawn, and each of its records is replaced by every
record of a pool: once under the loss divided by the weights of the batch, once under the mean of the records' own losses
(rs.loss_divisor). Nothing is private here: trainings and batches are those of somebody who measures with public data.
"""

import hashlib
import importlib
import inspect
import json
import pydoc_data.topics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from dptheory._arrays import Array
from dptheory.privacy import gaussian_epsilon
from dptheory.privacy.clipping import weighted_mean_sensitivity
from dptheory.training._files import JsonLines
from dptheory.training._machine import versions
from dptheory.training.studies import code_that_counts

RESULTS = Path("proofs/results/loss_divisor.jsonl")
SEEDS = (0, 1, 2)
BATCH, POOL = 64, 256
CLIPS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Clipping norms, over the median norm of the batch's gradients, each of its own loss."""
CONTEXT, IGNORED, SYMBOLS = 128, -100, 128
_SHORTEST = 8
_MODULES = (
    "argparse", "ast", "asyncio", "calendar", "collections", "concurrent.futures", "contextlib", "copy", "csv", "datetime",
    "decimal", "difflib", "email.message", "fractions", "functools", "heapq", "html", "http.client", "inspect", "itertools",
    "json", "logging", "math", "operator", "os", "os.path", "pathlib", "pickle", "random", "re", "shutil", "socket", "statistics",
    "string", "subprocess", "tempfile", "textwrap", "threading", "typing", "unittest", "urllib.parse", "zipfile",
)  # fmt: skip
_RARE, _RARE_WEIGHT, _COLUMNS = 0.02, 49.0, 12

Losses = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From outputs and labels of a batch to the loss of each record."""


@dataclass(frozen=True)
class Records:
    """Inputs, labels and weights: the number of predicted tokens, or that of the class."""

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: Array

    def at(self, rows: Any) -> "Records":
        """Some of them."""
        return Records(self.inputs[rows], self.labels[rows], self.weights[np.asarray(rows)])


# --- how far the sum moves ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moves:
    """The largest moves of the clipped sum, over C: one record replaced; one that joins or leaves."""

    replaced: float
    joined_or_left: float


def moves(gram: Array, weights: Array, clip_norm: float, *, batch: int) -> Moves:
    """The largest moves, from inner products alone.

    Args:
        gram: inner products of the gradients of the records' own losses, those of the batch first, then those of a pool.
        weights: of these records in the loss; ones for the mean of their own losses.
        batch: how many of them are the batch, >= 2.
    """
    norms = np.sqrt(np.diag(gram))

    def kept(rows: Any, count: int, total: Any) -> Array:
        """What a clipped contribution is of the gradient of the record's own loss."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.minimum(count * weights[rows] / total, clip_norm / norms[rows]))

    inside, pool = np.arange(batch), np.arange(batch, len(weights))
    total = weights[:batch].sum()
    before = kept(inside, batch, total)
    replaced, others = 0.0, 0.0
    for row in inside:
        shared = np.delete(inside, row)
        totals = total - weights[row] + weights[pool]
        change = np.zeros((len(pool), batch))
        change[:, shared] = kept(shared, batch, totals[:, None]) - before[shared]
        change[:, row] = -before[row]
        replaced = max(replaced, _longest(gram, change, kept(pool, batch, totals), pool))
        left = kept(shared, batch - 1, total - weights[row]) - before[shared]
        alone = np.insert(left, row, -before[row])
        others = max(others, float(np.sqrt(alone @ gram[:batch, :batch] @ alone)))
    grown = total + weights[pool]
    change = kept(inside, batch + 1, grown[:, None]) - before
    others = max(others, _longest(gram, change, kept(pool, batch + 1, grown), pool))
    return Moves(replaced / clip_norm, others / clip_norm)


def _longest(gram: Array, change: Array, own: Array, pool: NDArray[np.int64]) -> float:
    """Largest norm of ``change[j]`` on the batch and ``own[j]`` on record j of the pool."""
    batch = change.shape[1]
    squares = (change @ gram[:batch, :batch] * change).sum(1) + own**2 * gram[pool, pool]
    squares += 2 * own * (change * gram[pool, :batch]).sum(1)
    return float(np.sqrt(squares.max()))


def gram_matrix(model: nn.Module, records: Records, losses: Losses) -> Array:
    """Inner products of the gradients of the records' own losses."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return losses(functional_call(model, values, (inputs[None],)), labels[None])[0]

    parts = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=32)(parameters, records.inputs, records.labels)
    gram = sum(part.flatten(1).double() @ part.flatten(1).double().T for part in parts.values())
    return np.asarray(gram)


def measured(model: nn.Module, records: Records, losses: Losses) -> dict[str, Any]:
    """Moves under both losses at several clips, of two batches: the first records as they were drawn, and the lightest."""
    gram = gram_matrix(model, records, losses)
    with torch.no_grad():
        mean = losses(model(records.inputs), records.labels).mean()
    orders = {"drawn": np.arange(len(gram)), "lightest": np.argsort(records.weights, kind="stable")}
    return {"mean_loss": float(mean)} | {
        name: _moves_at_clips(gram[np.ix_(order, order)], records.weights[order]) for name, order in orders.items()
    }


def _moves_at_clips(gram: Array, weights: Array) -> dict[str, Any]:
    median = float(np.median(np.sqrt(np.diag(gram)[:BATCH])))
    rows = []
    for share in CLIPS:
        weighted = moves(gram, weights, share * median, batch=BATCH)
        own = moves(gram, np.ones(len(gram)), share * median, batch=BATCH)
        rows.append({"clip_over_median": share, "weighted": vars(weighted), "own": vars(own)})
    batch, pool = weights[:BATCH], weights[BATCH:]
    ranges = {"batch": [batch.min(), np.median(batch), batch.max()], "pool": [pool.min(), np.median(pool), pool.max()]}
    return {"weights": ranges, "median_norm": median, "moves": rows}


# --- a language model -----------------------------------------------------------------------------------------------------


class _Block(nn.Module):
    """Causal attention with two heads, and a layer of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.into(self.norms[0](x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) / (width // 2) ** 0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        x = x + self.out((scores.softmax(-1) @ parts[2]).transpose(1, 2).flatten(2))
        wide: torch.Tensor = self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))
        return x + wide


class LanguageModel(nn.Module):
    """A transformer over characters."""

    def __init__(self, width: int = 48, depth: int = 2) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(CONTEXT, width)
        self.blocks, self.out = nn.Sequential(*(_Block(width) for _ in range(depth))), nn.Linear(width, SYMBOLS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(x.shape[1]).expand(x.shape))
        scores: torch.Tensor = self.out(self.blocks(self.characters(x) + places))
        return scores


def own_token_means(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Of each record the mean over its own tokens."""
    each = nn.functional.cross_entropy(scores.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return each.sum(1) / (labels != IGNORED).sum(1)


def _symbols(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode("ascii", "replace")), dtype=torch.long)


def docstrings() -> list[str]:
    """Docstrings of Python's standard library, each once: one is a record."""
    found = set()
    for name in _MODULES:
        module = importlib.import_module(name)
        for one in (getattr(module, part) for part in dir(module) if not part.startswith("_")):
            members = [getattr(one, part, None) for part in dir(one)] if inspect.isclass(one) else []
            found |= {inspect.getdoc(member) or "" for member in (one, *members) if callable(member)}
    return sorted(text for text in found if len(text) > _SHORTEST)


def as_records(texts: list[str]) -> Records:
    """Texts cut to the context, padded, with what follows each character."""
    inputs = torch.zeros(len(texts), CONTEXT, dtype=torch.long)
    labels = torch.full((len(texts), CONTEXT), IGNORED)
    for row, text in enumerate(texts):
        symbols = _symbols(text)[: CONTEXT + 1]
        inputs[row, : len(symbols) - 1], labels[row, : len(symbols) - 1] = symbols[:-1], symbols[1:]
    return Records(inputs, labels, np.asarray((labels != IGNORED).sum(1), dtype=np.float64))


def language_model(seed: int, *, steps: int, tuning_steps: int) -> dict[str, Any]:
    """Trained on the language reference, tuned on docstrings."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model, texts = LanguageModel(), docstrings()
    reference = "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
    symbols = _symbols(reference)

    def of_reference() -> Iterator[Records]:
        while True:
            starts = torch.randint(len(symbols) - CONTEXT - 1, (16,), generator=generator)
            rows = torch.stack([symbols[start : start + CONTEXT + 1] for start in starts.tolist()])
            yield Records(rows[:, :-1], rows[:, 1:], np.full(16, float(CONTEXT)))

    _train(model, of_reference(), own_token_means, steps)
    records = as_records([texts[i] for i in torch.randperm(len(texts), generator=generator).tolist()])
    text = "\x00".join((reference, *texts))
    return {
        "texts": {"records": len(texts), "sha256": hashlib.sha256(text.encode()).hexdigest()},
        **_tuned(model, records, own_token_means, tuning_steps, generator),
    }


# --- a table --------------------------------------------------------------------------------------------------------------


def table(seed: int, *, tuning_steps: int) -> dict[str, Any]:
    """A synthetic table: normal columns, a rare class that some of them tell, weights by which both classes count alike."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randn(4000, _COLUMNS, generator=generator)
    score = columns[:, :4].sum(1) / 2 + torch.randn(len(columns), generator=generator)
    labels = (score > score.quantile(1 - _RARE)).long()
    records = Records(columns, labels, np.where(np.asarray(labels) == 1, _RARE_WEIGHT, 1.0))
    model = nn.Sequential(nn.Linear(_COLUMNS, 16), nn.Tanh(), nn.Linear(16, 2))
    return _tuned(model, records, _own_losses, tuning_steps, generator)


def _own_losses(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores, labels, reduction="none")


# --- what both share ------------------------------------------------------------------------------------------------------


def _train(model: nn.Module, batches: Iterator[Records], losses: Losses, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = next(batches)
        optimizer.zero_grad()
        losses(model(batch.inputs), batch.labels).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _tuned(
    model: nn.Module, records: Records, losses: Losses, steps: int, generator: torch.Generator
) -> dict[str, Any]:
    """Measured before and after some steps on the records that are neither in the batch nor in the pool."""
    watched, rest = records.at(range(BATCH + POOL)), records.at(range(BATCH + POOL, len(records.weights)))

    def of_rest() -> Iterator[Records]:
        while True:
            yield rest.at(torch.randint(len(rest.weights), (BATCH // 2,), generator=generator).tolist())

    before = measured(model, watched, losses)
    _train(model, of_rest(), losses, steps)
    return {"before": before, "after": measured(model, watched, losses)}


def measure_loss_divisor(seed: int, *, steps: int = 400, tuning_steps: int = 60) -> dict[str, Any]:
    """Both measurements with one seed."""
    return {
        "seed": seed,
        "batch": BATCH,
        "pool": POOL,
        "steps": steps,
        "tuning_steps": tuning_steps,
        "versions": versions(),
        "language_model": language_model(seed, steps=steps, tuning_steps=tuning_steps),
        "table": table(seed, tuning_steps=tuning_steps),
    }


# --- the page -------------------------------------------------------------------------------------------------------------

_HEAD = (
    "| batch, its weights (smallest, median, largest) | replaced: own means | weighted | at most | joins or leaves: own means | "
    "weighted | at most | epsilon said | at least |"
)
_SIGMA, _DELTA = 4.0, 1e-5
_CASES = {"language_model": "texts", "table": "table"}


def page_table(results: Sequence[dict[str, Any]]) -> list[str]:
    """The table of proofs/rs/loss_divisor.md: the largest moves over seeds and clips, in units of C."""
    said = gaussian_epsilon(1.0 / _SIGMA, _DELTA)
    lines = [_HEAD, "|" + "---|" * _HEAD.count(" |")]
    for case, name in _CASES.items():
        for when in ("before", "after"):
            for batch in ("drawn", "lightest"):
                parts = [found[case][when][batch] for found in results]
                joined = _largest(parts, "weighted", "joined_or_left")
                cells = [
                    *(_largest(parts, loss, "replaced") for loss in ("own", "weighted")),
                    max(_bound(part, results[0]["batch"], "replace-one") for part in parts),
                    _largest(parts, "own", "joined_or_left"),
                    joined,
                    max(_bound(part, results[0]["batch"] + 1, "add-remove") for part in parts),
                    said,
                    gaussian_epsilon(joined / _SIGMA, _DELTA),
                ]
                weights = ", ".join(
                    f"{float(np.median([part['weights']['batch'][i] for part in parts])):g}" for i in range(3)
                )
                head = f"{name} {when} tuning, {batch} ({weights})"
                lines.append(f"| {head} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return lines


def _largest(parts: Sequence[dict[str, Any]], loss: str, kind: str) -> float:
    return max(float(row[loss][kind]) for part in parts for row in part["moves"])


def _bound(part: dict[str, Any], size: int, adjacency: str) -> float:
    ends = [end for of in ("batch", "pool") for end in part["weights"][of]]
    return weighted_mean_sensitivity(
        batch_size=size, clip_norm=1.0, weight_ratio=max(ends) / min(ends), adjacency=adjacency
    )


def main() -> None:
    code = code_that_counts(allow_dirty=False)
    for seed in SEEDS:
        found = measure_loss_divisor(seed) | {"code": code}
        rounded = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.6g}"))
        JsonLines(RESULTS).add({"run": f"seed={seed}", **rounded}, allow_nan=False)


if __name__ == "__main__":
    main()
