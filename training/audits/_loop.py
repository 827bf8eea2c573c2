"""``audit``: whether the epsilon that any training loop claims can be, from one run, and what is wrong where it cannot."""

import json
import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import ConcatDataset, Dataset, Subset

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.files import write_atomically
from dptheory.privacy import Composition
from dptheory.privacy.auditing import OneRunResult, one_run_epsilon
from dptheory.training.audits import _released
from dptheory.training.audits._diagnosis import Stated, diagnosis
from dptheory.training.audits._findings import Finding
from dptheory.training.audits._released import Steps
from dptheory.training.engine import check_rows_apart

MOST = 10**6
_LOOKED_AT = 256
"""Records from which labels and the largest size of an input are read."""
_LEAST_LENGTH = 10.0
"""Of an input, in units of the clip: its gradient is to be longer than the clip, and longer than that of the bias, which all share."""


class Records(Dataset[Any]):
    """Records that were made, each a pair of an input and a label."""

    def __init__(self, rows: Sequence[tuple[Any, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return self.rows[i]


def length(name: str, records: Any) -> int:
    """Number of records, at least one."""
    if not hasattr(records, "__getitem__") or not hasattr(records, "__len__") or len(records) < 1:
        raise ArgumentError(name, "be a Dataset with a length and at least one record", records)
    return len(records)


def made(data: Any, canaries: int, access: str, rng: np.random.Generator, clip: float = 1.0) -> Dataset[Any]:
    """So many canaries: records with another label, or, where gradients are seen, inputs that are orthogonal to each other.

    An input of the second kind is 0 but for one entry, as large as the largest input is long, at least 10 and 10 ``clip``. The
    gradients of a first layer that is dense are then orthogonal, too, as long as there are no more canaries than entries; the next
    ones are their opposites.
    """
    size = length("data", data)
    rows = [data[int(i)] for i in rng.choice(size, min(size, _LOOKED_AT), replace=False)]
    for row in rows:
        _require_pair(row)
    classes = max(int(label) for _, label in rows) + 1
    if access == "gradients":
        longest = max(
            _LEAST_LENGTH * max(1.0, clip), *(float(torch.linalg.vector_norm(features)) for features, _ in rows)
        )
        most = 2 * min(row[0].numel() for row in rows)
        if canaries > most:  # the same inputs again
            raise ArgumentError(
                "canaries", f"be at most two for each entry of an input, {most}, or a Dataset of your own", canaries
            )
        kinds = [rows[i % len(rows)] for i in range(canaries)]
        return Records([_spike(row[0], row[1], i, longest, classes, rng) for i, row in enumerate(kinds)])
    if classes < 2:
        raise ArgumentError("data", "have at least two labels, so that a record can be given a wrong one", data)
    if canaries > size:
        # the same record twice, with coins of its own each time: a guess would not tell which of both was in
        raise ArgumentError("canaries", f"be at most the number of records, {size}, or a Dataset of your own", canaries)
    chosen = rng.choice(size, canaries, replace=False)
    wrong = []
    for i in chosen:
        features, label = data[int(i)]
        _require_pair((features, label))
        other = int(rng.integers(classes - 1)) if int(label) < classes else int(rng.integers(classes))
        wrong.append((features, _like(label, other + (other >= int(label)))))
    return Records(wrong)


def with_drawn(data: Any, canaries: Any, coins: NDArray[np.bool_]) -> Dataset[Any]:
    """The user's records, and behind them the canaries whose coin says "in"."""
    return ConcatDataset([data, Subset(canaries, np.flatnonzero(coins).tolist())])


def _require_pair(row: Any) -> None:
    pair = isinstance(row, tuple | list) and len(row) == 2
    if not pair or not isinstance(row[0], torch.Tensor) or not row[0].is_floating_point():
        raise ArgumentError(
            "canaries", "be a Dataset where records are no pairs of a tensor of floats and a whole label", row
        )
    try:
        label: Any = row[1].item() if isinstance(row[1], torch.Tensor) else row[1]
        _validate.integer("canaries", label, 0)
    except (ValueError, RuntimeError):
        raise ArgumentError("canaries", "be a Dataset where labels are no whole numbers >= 0", row[1]) from None


def _spike(
    features: torch.Tensor, label: Any, place: int, longest: float, classes: int, rng: np.random.Generator
) -> tuple[torch.Tensor, Any]:
    spike = torch.zeros_like(features)
    spike.view(-1)[place % features.numel()] = longest * (-1.0) ** (place // features.numel())
    return spike, _like(label, int(rng.integers(classes)))


def _like(label: Any, value: int) -> Any:
    """A label of the same kind."""
    return torch.full_like(label, value) if isinstance(label, torch.Tensor) else type(label)(value)


ACCESSES = ("model", "gradients")
_STREAM = 0x617564
_ROWS = 16
"""Records of the batch in which they have to be apart."""


@dataclass(frozen=True, kw_only=True)
class LoopAudit:
    """What an audit of one run of a loop says; ``print`` it.

    Attributes:
        epsilon: what was claimed.
        delta: its delta.
        epsilon_lower: proved, at the confidence: epsilon is at least this.
        proof: the guesses that prove it, and by which bound.
        findings: what released gradients say of the usual mistakes, and whether the model keeps records apart, where it can be asked:
            not with BatchNorm or another layer that `check_rows_apart` refuses. Those that do not hold come first, the likeliest
            cause at their head.
        composition: the settings and steps that the bound rests on; None where it holds for every mechanism.

    Example: nothing was guessed.
        >>> from dptheory.privacy.auditing import OneRunResult
        >>> from dptheory.training.audits import LoopAudit
        >>> proof = OneRunResult(epsilon_lower=0.0, method="events", hits=50, guesses=100, canaries=1000, confidence=0.95)
        >>> print(LoopAudit(epsilon=4.0, delta=1e-5, epsilon_lower=0.0, proof=proof, findings=()))
        epsilon 4 at delta 1e-05 is not refuted: at least 0.00 is proved, at confidence 0.95
        50 of 100 guesses of 1000 canaries are right (events); all of them right would have proved 3.49
        this audit could not have refuted epsilon 4: take more canaries, or show it the gradients
    """

    epsilon: float
    delta: float
    epsilon_lower: float
    proof: OneRunResult
    findings: tuple[Finding, ...]
    composition: Composition | None = None

    @property
    def stands(self) -> bool:
        """Neither the claim is refuted nor what it rests on; that it is true is never shown."""
        return self.epsilon_lower <= self.epsilon and all(one.passed for one in self.findings)

    @cached_property
    def epsilon_most(self) -> float:
        """What as many guesses would have proved had each been right.

        A claim beyond it could not have fallen here, and that it stands says nothing.
        """
        coins = np.arange(1, self.proof.canaries + 1) % 2
        all_right = one_run_epsilon(
            scores=coins,
            coins=coins,
            delta=self.delta,
            confidence=self.proof.confidence,
            guesses=self.proof.guesses,
            composition=self.composition,
        )
        return all_right.epsilon_lower

    def __str__(self) -> str:
        refuted = "is false" if self.epsilon_lower > self.epsilon else "does not stand"
        verdict = "is not refuted" if self.stands else refuted
        proof = self.proof
        lines = [
            f"epsilon {self.epsilon:g} at delta {self.delta:g} {verdict}: "
            f"at least {math.floor(100 * self.epsilon_lower) / 100:.2f} is proved, "
            f"at confidence {proof.confidence:g}",
            f"{proof.hits} of {proof.guesses} guesses of {proof.canaries} canaries are right ({proof.method}); "
            f"all of them right would have proved {self.epsilon_most:.2f}",
        ]
        if self.stands and self.epsilon_most <= self.epsilon:
            lines.append(
                f"this audit could not have refuted epsilon {self.epsilon:g}: take more canaries, or show it the gradients"
            )
        for one in self.findings:
            if not one.passed:
                lines.append(
                    f"wrong: {one.name}: {one.measured:.3g} where {one.claimed:.3g} was stated; {one.statement}"
                )
        return "\n".join(lines)


def audit(
    train: Callable[[Any], Any],
    data: Any,
    *,
    epsilon: float,
    delta: float,
    canaries: Any = 1000,
    confidence: float = 0.95,
    score: Callable[[Any, Any], Any] | None = None,
    access: str = "model",
    stated: Stated | Callable[[int], Stated] | None = None,
    seed: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    tell: Callable[[str, int, int], None] | None = None,
) -> LoopAudit:
    """Train once on the data and on canaries that coins put in, guess the coins from what the loop releases, and see what that proves.

    Whatever the loop is, a true claim is refuted with probability 1 - confidence at most: the bound holds for every mechanism.
    With ``stated``, it is that for DP-SGD at these settings with an unknown scale of the noise, which proves more. Which of both it is
    is decided by what is handed in, before the run, and so is the number of guesses: 4 sqrt(canaries), or more where the claim asks for
    it. Without ``stated`` some 3 e^epsilon of them have to be right at confidence .95, so that a claim of 4 needs 300 canaries or more.
    A claim that is not refuted may still be false: compare it with ``epsilon_most``.

    Args:
        train: the loop; called once, with a Dataset: ``data`` and behind it the canaries that were drawn. It returns the model, a list
            of models that it releases, or, where ``access`` is "gradients", :class:`Steps`.
        data: a Dataset with a length; pairs of a tensor and a whole label, unless ``canaries`` and ``score`` are given.
        epsilon: what the loop claims for one record more or less, >= 0.
        delta: in (0, 1).
        canaries: a Dataset; or how many are to be made, 5 to 1e6: records with a wrong label, or, for "gradients", inputs that are
            orthogonal to each other. At most one for each record with a wrong label; at most two for each entry of an input, of which
            the second half are opposites of the first.
        confidence: in (0, 1).
        score: of what ``train`` returned (each model, if they are several) and a record, a number: the larger, the likelier it was in.
            None for minus the loss, or for the released gradients along that of the record.
        access: what ``train`` returns, "model" (or models) or "gradients".
        stated: the settings that the claim was computed from, or a function that gives them for a number of records, where the loop
            divides by a share of these; with "gradients" alone. They bring the findings.
        seed: of coins and canaries, 0 to 10^18; None for one that nobody knows.
        checkpoint: a file that keeps the seed until the audit ends. One that was killed is called again in the same way: ``train`` gets
            the same data, and goes on where it keeps a state of its own. None for no file. Who can read it knows the coins.
        tell: called with a word for what is done, how much of it, and of how much.

    Returns:
        The verdict, the bound and the findings.

    Raises:
        ValueError: an argument outside its range, canaries that cannot be made of such records, or a loop that returns something else.

    Example: a loop that ignores its data.
        >>> import torch
        >>> from dptheory.training import audit
        >>> data = [(torch.randn(4), i % 3) for i in range(100)]
        >>> result = audit(lambda data: torch.nn.Linear(4, 3), data, canaries=100, epsilon=0.5, delta=1e-5, seed=0)
        >>> result.stands
        True
    """
    _validate.calls("train", train)
    size = length("data", data)
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e4)
    delta = _validate.real("delta", delta, 0.0, 1.0, ends="()")
    confidence = _validate.real("confidence", confidence, 0.0, 1.0, ends="()")
    access = _validate.choice("access", access, ACCESSES)
    if score is not None:
        _validate.calls("score", score)
    settings = _settings(stated, size)
    if settings is not None and (access != "gradients" or score is not None):
        raise ArgumentError("stated", "be left out where no gradients are seen, or with a score of your own", stated)
    if seed is not None:
        seed = _validate.integer("seed", seed, 0, 10**18)
    report = tell or (lambda what, done, of: None)
    number = hasattr(canaries, "__index__")
    if number:
        canaries = _validate.integer("canaries", canaries, 5, MOST)
    kept = None if checkpoint is None else Path(checkpoint)
    if kept is not None:
        seed = _kept_seed(kept, seed, [size, canaries if number else length("canaries", canaries), access])
    # a stream of its own: a loop that seeds NumPy with the same number draws other numbers than the coins
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    clip = 1.0 if settings is None else settings.max_grad_norm
    chosen = made(data, canaries, access, rng, clip) if number else canaries
    count = length("canaries", chosen)
    if count < 5:
        raise ArgumentError("canaries", "be at least 5", canaries)
    coins = rng.random(count) < 0.5  # fair, and seen by nobody but through the data

    drawn = size + int(coins.sum())
    settings = _settings(stated, drawn)
    report("training", 0, 1)
    released = train(with_drawn(data, chosen, coins))
    report("training", 1, 1)
    findings: tuple[Finding, ...] = ()
    composition = None
    if access == "gradients":
        if not isinstance(released, Steps) or len(released) == 0:
            raise ArgumentError("train", "return Steps with at least one step", released)
        if score is not None:
            scores = np.array([float(score(released, chosen[i])) for i in range(count)])
        else:
            found = _released.seen(
                released,
                chosen,
                clip=math.inf if settings is None else settings.max_grad_norm,
                unit=1.0 if settings is None else settings.max_grad_norm / settings.batch_size,
                noise=1.0 if settings is None else settings.noise_multiplier,
                share=0.05 if settings is None else settings.sampling_rate / 2.0,
                done=lambda done: report("looking at steps", done, len(released)),
            )
            scores = found.along.sum(axis=0)
            if settings is not None:
                scores = _released.likelihood(found, settings.sampling_rate)
                composition = settings.composition(len(released))
                findings = diagnosis(released, settings, found, coins, records=drawn, epsilon=epsilon, delta=delta)
        model = released.model
    else:
        models = list(released) if isinstance(released, Sequence) else [released]
        if not models or not (score is not None or all(isinstance(one, nn.Module) for one in models)):
            raise ArgumentError("train", "return the model, or a list of models", released)
        scores = _released.model_scores(models, chosen, score)
        model = models[-1]
    report("proving", 0, 1)
    proof = one_run_epsilon(
        scores=scores,
        coins=coins,
        delta=delta,
        confidence=confidence,
        epsilon=epsilon,
        composition=composition,
    )
    report("proving", 1, 1)
    if isinstance(model, nn.Module):
        findings = (*_apart(model, data, min(size, _ROWS)), *findings)
    if kept is not None:
        kept.unlink(missing_ok=True)
    # what does not hold comes first; causes stand before what follows from them
    findings = tuple(sorted(findings, key=lambda one: one.passed))
    return LoopAudit(
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=proof.epsilon_lower,
        proof=proof,
        findings=findings,
        composition=composition,
    )


def _settings(stated: Stated | Callable[[int], Stated] | None, records: int) -> Stated | None:
    if stated is None:
        return None
    found = stated if isinstance(stated, Stated) or not callable(stated) else stated(records)
    return _validate.instance("stated", found, Stated)


def _kept_seed(file: Path, seed: int | None, asked: list[Any]) -> int:
    """The seed of the audit that was begun with this file, or of a new one."""
    if file.exists():
        try:
            begun = json.loads(file.read_text(encoding="utf-8"))
            found, before = int(begun["seed"]), begun["asked"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ArgumentError("checkpoint", "be a file that an audit has written, or none yet", file) from None
        if before != asked or seed not in (None, found):
            # other canaries, or other coins: what `train` has kept would be of other data
            raise ArgumentError(
                "checkpoint", "be of the same data, canaries, access and seed; remove it to begin anew", file
            )
        return found
    chosen = secrets.randbelow(10**18) if seed is None else seed
    write_atomically(file, json.dumps({"seed": chosen, "asked": asked}) + "\n", mode=0o600)
    return chosen


def _apart(model: nn.Module, data: Any, rows: int) -> tuple[Finding, ...]:
    """Whether the model keeps the records of a batch apart; nothing where that cannot be asked of it.

    The layer is not named: the loss here is not the user's, so that what `check_rows_apart` says of the loss would mislead.
    """
    plain = getattr(model, "_module", model)
    try:
        batch = next(_released.records_of([data[i] for i in range(rows)]))
    except ValueError:
        return ()
    if rows < 2:
        return ()
    name, statement = "records of a batch", "no record changes another one's gradient in the model's own layers"
    try:
        other = _released._copied(plain).train()
        check_rows_apart(other, batch, lambda one, pair: _released.loss_of(one, *pair).mean())
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        if getattr(error, "argument", None) != "records":
            return ()  # it could not be compared, which says nothing
        return (Finding(name, statement, 0.0, 1.0, passed=False),)
    return (Finding(name, statement, 1.0, 1.0, passed=True),)
