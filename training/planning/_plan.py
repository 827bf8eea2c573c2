"""``plan``: candidates at exact noise, pilots at equal noise per step, and the choice."""

import copy
import math
from collections.abc import Sequence, Sized
from concurrent.futures import Executor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import scipy.stats
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn
from torch.utils.data import Dataset

from dptheory import _validate
from dptheory._progress import ProgressLines
from dptheory.errors import ArgumentError
from dptheory.planning import candidates
from dptheory.training import _argument_ranges
from dptheory.training._streams import digest
from dptheory.training.engine import check_rows_apart
from dptheory.training.planning._choice import MEAN_RUNS, Choice, MethodGain, PrivateTuning, noise_of_tuned_runs
from dptheory.training.planning._pilot import Job, Outcome, Problem, Score
from dptheory.training.planning._point import AVERAGES, SCHEDULES, Point, Range, Schedule
from dptheory.training.planning._public import Public, Shipped, Synthetic, public_records, refuse_private
from dptheory.training.planning._search import (
    FULL,
    LARGE_BATCH,
    SMALL_BATCH,
    Effort,
    Fixed,
    Found,
    Pace,
    Search,
    Tried,
    least_work,
    work,
)
from dptheory.training.planning._simulated import ASIDE, Metric, accuracy, accuracy_and_loss, simulated_records
from dptheory.training.planning._spectrum import hooked, median_norm, predicted_losses, spectrum_of
from dptheory.training.planning._training import DP_SGD, METHODS, Loss
from dptheory.training.planning._workers import Journal, Run, runner, workers

CLIP_SHARES = (0.003, 0.03, 0.1, 0.3)
"""Clips, in medians of the gradients' norms at the start, which training makes shorter."""
LEAST_SECONDS = 200.0
"""Of planning, where no time is given: all pilots of a small network on two cores."""
_FEW_RECORDS, _FOLDS, _FOLDS_OF_FEW = 500, 3, 5
_RATE_FACTORS = (0.5, 1.0, 2.0)
_METHOD_STEPS, _REPEATS = 300, 3
_PLENTY, _MOST_SIMULATED = 5000, 20_000


def plan(
    model: nn.Module,
    public: Public,
    *,
    num_examples: int,
    epsilon: float,
    delta: float,
    max_epochs: float,
    batch_size: int | None = None,
    epochs: float | None = None,
    clip_norm: float | None = None,
    learning_rate: float | None = None,
    momentum: float | None = None,
    schedule: Schedule | None = None,
    average: float | None = None,
    loss: Loss | None = None,
    metric: Metric | None = None,
    private: Dataset[Any] | None = None,
    seconds: float | None = None,
    executor: Executor | None = None,
    seed: int = 0,
    journal: Path | None = None,
    effort: Effort = FULL,
) -> Choice:
    r"""What to train a network with: batch, passes, clip, learning rate and the rest, at the noise that keeps a budget.

    The accountant gives every batch size its exact noise over all passes that can be afforded. Short trainings (*pilots*) then
    decide, on records that are simulated from the public ones, or on the public ones where these are many or a loss is given:
    each has the private run's clip and, per step, its noise :math:`\sigma C/B` on the mean gradient, but mostly smaller batches.
    Early ones have few steps, each as long as k of the private run with :math:`1/\sqrt k` of the noise; the last ones have as
    many as the private run, where the time allows. A Gaussian process over the points lets neighbours share what their pilots
    show. At the end the best meet the points next to what people take without a plan (a tutorial's choice, De et al.'s, Tramer and
    Boneh's), all with the same seeds: one of those is the answer unless another is better by more than a standard error. No
    private record is read, so that planning costs no privacy.

    It prints nothing. ``logging.basicConfig()`` and ``logging.getLogger("dptheory.progress").setLevel("INFO")`` show where it
    stands, every half a minute.

    Args:
        model: as it will be trained, at its starting weights, which stay; parameters that require no gradient stay frozen.
        public: a data set of pairs of features and label, 50 or more, that are not among the private records; or
            :class:`Shipped` or :class:`Synthetic` where there are none.
        num_examples: number of private records, 50 to 1e9; taken as public.
        epsilon: the budget, > 0.
        delta: of the budget, in [1e-30, 0.99].
        max_epochs: most passes over the private records that can be afforded.
        batch_size: expected size of the Poisson batches, where it is fixed.
        epochs: passes, where they are fixed; left out, all that can be afforded.
        clip_norm: C, where it is fixed.
        learning_rate: where it is fixed.
        momentum: in [0, 1), where it is fixed.
        schedule: "constant", "linear" or "cosine", where it is fixed.
        average: 0, 0.2 or 0.5, the last share of the steps whose weights are averaged, where it is fixed.
        loss: of outputs and labels, a mean over the records; cross entropy where it is left out.
        metric: of outputs and labels, larger is better; accuracy where it is left out, and minus the loss where a loss is given.
        private: the private records; only counted, and compared with the public ones, which must not be among them.
        seconds: for pilots, about; left out, 200, in which two cores make all of a small network. The least are some hundred short
            ones, however long they take. What simulates records comes before.
        executor: runs the pilots, as Dask's; left out, a process for each core.
        seed: of the pilots.
        journal: file of the pilots that have ended, from which a plan that was stopped goes on.
        effort: how many pilots there are at most.

    Returns:
        The choice; ``print`` it, or its ``code()``.

    Raises:
        ValueError: a bad argument; fewer than 50 public records; labels that are no classes of the network; a network or a loss
            that mixes records, or a loss that is no mean; an epsilon that no batch size and number of passes keeps.

    Example: a linear model, with next to no time for it.
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> from dptheory.training import plan
        >>> features = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        >>> public = TensorDataset(features, (features[:, 0] > 0).long())
        >>> model = torch.nn.Linear(5, 2)
        >>> choice = plan(model, public, num_examples=2000, epsilon=3.0, delta=1e-5, max_epochs=2, batch_size=500, seconds=2)
        >>> choice.batch_size, choice.expected.high > 0.6
        (500, True)
    """
    _validate.instance("model", model, nn.Module)
    fixed = _fixed(clip_norm, learning_rate, momentum, schedule, average)
    seed = _argument_ranges.seed("seed", seed)
    seconds = None if seconds is None else _validate.real("seconds", seconds, 0.0, ends="()")
    priced = candidates(
        num_examples=num_examples,
        epsilon=epsilon,
        delta=delta,
        max_epochs=max_epochs,
        batch_size=batch_size,
        epochs=max_epochs if epochs is None else epochs,
    )
    features, labels = public_records(public, seed=seed)
    if private is not None:
        refuse_private(features, private)
        if isinstance(private, Sized) and len(private) != num_examples:  # the noise would be that of another run
            raise ArgumentError("num_examples", f"be the number of the private records, {len(private)}", num_examples)
    device = next(iter(model.parameters())).device
    judge = metric or (accuracy if loss is None else lambda outputs, labels: -float(loss(outputs, labels)))
    problem = Problem(
        model=copy.deepcopy(model).train(),
        loss=nn.functional.cross_entropy if loss is None else loss,
        metric=judge,
        guide=accuracy_and_loss if metric is None and loss is None else judge,
        features=features.to(device),
        labels=labels.to(device),
        folds=_FOLDS_OF_FEW if len(labels) < _FEW_RECORDS else _FOLDS,
        weight=_weight(len(labels)),
    )
    check(problem, classes=loss is None)
    setup = (
        priced,
        fixed,
        seed,
        effort,
        seconds,
        [digest([t]) for t in (features, labels, *model.state_dict().values())],
        (
            version("dptheory"),
            torch.__version__,
            repr(model),
            [p.requires_grad for p in model.parameters()],
            _mark(loss),
            _mark(metric),
        ),
    )
    kept = Journal(journal, setup)
    pace = Pace(LEAST_SECONDS if seconds is None else seconds, workers(problem, executor))
    lines = ProgressLines()
    lines.say(
        f"plan: about {pace.left:,.0f} s of pilots if nothing else runs, {pace.workers} side by side, but some hundred short ones at "
        "least, however long they take; first the records that they train on"
    )
    lines.say(
        "no journal: a plan that is stopped starts again"
        if journal is None
        else f"pilots that have ended ({len(kept):,} so far) are kept in {journal}: the same plan goes on if it is stopped"
    )
    if loss is None and len(labels) < min(_PLENTY, num_examples):
        problem = _with_simulated(problem, num_examples, seed)
    clips = [clip_norm] if clip_norm is not None else [share * median_norm(problem) for share in CLIP_SHARES]
    spectrum, folds = spectrum_of(problem, clips), problem.folds if problem.simulated is None else 1
    with _bar() as bar, runner(problem, executor) as run:
        least = least_work(effort, folds=folds, swept=learning_rate is None)
        evaluate = _Evaluation(run, kept, bar, pace, lines, least)
        search = Search(
            candidates=priced,
            evaluate=evaluate,
            pace=pace,
            predict=lambda points: predicted_losses(points, spectrum),
            clips=clips,
            fixed=fixed,
            folds=folds,
            seed=seed,
            phase=evaluate.begin,
        )
        found = search.run(effort)
        evaluate.begin("the choice and the papers' methods")
        real = _on_real(found, evaluate, problem, seed)
        methods = [
            name for name, method in METHODS.items() if name != DP_SGD and method.serves(problem.model, problem.labels)
        ]
        gains, enough = _gains(methods, found.best, evaluate, problem, pace, seed)
        tuning = None
        if isinstance(public, Shipped | Synthetic):
            tuning = _tuning(found.best, evaluate, problem, num_examples, epsilon, delta, seed)
    return _choice(
        found,
        real,
        gains,
        num_examples=num_examples,
        epsilon=epsilon,
        delta=delta,
        private_tuning=tuning,
        metric="accuracy" if metric is None and loss is None else "metric",
        public=_in_words(public, problem),
        pilots=evaluate.count,
        not_compared=tuple(
            name for name in (METHODS if gains else methods) if name not in (DP_SGD, *(g.method for g in gains))
        ),
        seconds_to_compare=enough,
        seconds=kept.seconds,
    )


class _Evaluation:
    """Runs pilots, those that are not known yet; counts them, moves the bar and says where the plan stands."""

    def __init__(self, run: Run, journal: Journal, bar: Progress, pace: Pace, lines: ProgressLines, least: int) -> None:
        self._run, self._journal, self._bar, self._lines, self._least = run, journal, bar, lines, least
        self._workers, self._allowed, self._spent = pace.workers, pace.left, 0.0
        self._task = bar.add_task("plan", total=pace.left)
        self._phase, self._best = "", -math.inf
        self.count = self._work = 0

    def begin(self, phase: str) -> None:
        """A phase, of which the lines and the bar speak."""
        self._phase = phase
        self._bar.update(self._task, description=phase)

    def __call__(self, jobs: Sequence[Job]) -> list[Outcome]:
        found: dict[int, Outcome] = {}
        for place, job in enumerate(jobs):
            known = self._journal.known(job)
            if known is not None:
                found[place] = known
                self._ended(job, known)
        missing = [place for place in range(len(jobs)) if place not in found]
        for number, outcome in self._run([jobs[place] for place in missing]):
            place = missing[number]
            found[place] = outcome
            self._journal.add(jobs[place], outcome)
            self._ended(jobs[place], outcome)
        return [found[place] for place in range(len(jobs))]

    def _ended(self, job: Job, outcome: Outcome) -> None:
        self.count += 1
        self._work += work(job)
        self._spent += outcome.seconds / self._workers
        scores = [score.aside for score in outcome.scores.values() if math.isfinite(score.aside)]
        self._best = max([self._best, *scores])
        needed = self._spent / self._work * self._least
        self._bar.update(self._task, completed=self._spent, total=max(self._allowed, needed, self._spent))
        if needed > self._allowed and self.count == 2 * self._workers:  # the first ones are slow
            self._warn(
                f"the least pilots take about {needed:,.0f} s: longer than the {self._allowed:,.0f} s asked for, and made all the same"
            )
        self._lines.look(lambda: self._standing(max(self._allowed, needed) - self._spent))

    def _warn(self, line: str) -> None:
        self._lines.say(line)
        if not self._bar.disable:  # a terminal, which is shown no lines
            self._bar.console.print(line, soft_wrap=True, highlight=False)

    def _standing(self, left: float) -> str:
        time_left = f"about {left:,.0f} s left" if left > 0 else "the last pilots are left"
        return f"{self._phase}: {self.count} pilots done, best score {self._best:.3g}, {time_left}"


def _bar() -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _fixed(
    clip_norm: float | None,
    learning_rate: float | None,
    momentum: float | None,
    schedule: Schedule | None,
    average: float | None,
) -> Fixed:
    if schedule is not None:
        _validate.choice("schedule", schedule, SCHEDULES)
    return Fixed(
        clip_norm=None if clip_norm is None else _argument_ranges.clip("clip_norm", clip_norm),
        learning_rate=None if learning_rate is None else _argument_ranges.learning_rate("learning_rate", learning_rate),
        momentum=None if momentum is None else _validate.real("momentum", momentum, 0.0, 1.0, ends="[)"),
        schedule=schedule,
        average=None if average is None else _one_of("average", average, AVERAGES),
    )


def _one_of(name: str, value: float, allowed: Sequence[float]) -> float:
    if value not in allowed:
        raise ArgumentError(name, f"be one of {', '.join(f'{a:g}' for a in allowed)}", value)
    return float(value)


def _weight(public: int) -> float:
    """Of the records that a pilot was trained on, in its score.

    The records kept aside say what counts, with a sampling error that falls like the root of their number; those trained on flatter
    all points alike, with hardly any.
    """
    return 0.5 * min(1.0, math.sqrt(250.0 / public))


# --- what the plan cannot do with -----------------------------------------------------------------------------------------


def check(problem: Problem, *, classes: bool) -> None:
    """See that the network and its loss can be trained with DP-SGD on such records.

    Raises:
        ValueError: the network takes other inputs, labels are no classes of it, the loss is no mean, or records are not apart.
    """
    model, features, labels = problem.model, problem.features, problem.labels
    if not any(p.requires_grad for p in model.parameters()):
        raise ArgumentError("model", "have parameters that require gradients", model, got="none: nothing is trained")
    if features.is_floating_point() and not bool(features.isfinite().all()):
        bad = int((~features.isfinite()).flatten(1).any(1).sum())
        raise ArgumentError(
            "public",
            "hold finite features",
            bad,
            got=f"{bad} of {len(features)} records with an entry that is infinite or not a number",
        )
    some = slice(0, 8)
    network = copy.deepcopy(model).eval()
    with torch.no_grad():
        try:
            outputs = network(features[some])
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ArgumentError(
                "public",
                "hold records that the model takes",
                tuple(features.shape[1:]),
                got=f"features of shape {tuple(features.shape[1:])}, {str(features.dtype).removeprefix('torch.')}: {error}",
                then=" (a network that computes with its features takes float32)",
            ) from error
        if classes:
            _check_labels(outputs, labels)
        of_all = problem.loss(outputs, labels[some])
        if of_all.numel() != 1:
            raise ArgumentError(
                "loss",
                "be one number, the mean of the losses of single records",
                tuple(of_all.shape),
                got=f"a tensor of shape {tuple(of_all.shape)}: take reduction='mean'",
            )
        whole = float(of_all)
        each = [float(problem.loss(outputs[i : i + 1], labels[i : i + 1])) for i in range(len(outputs))]
    mean = math.fsum(each) / len(each)
    if not math.isclose(whole, mean, rel_tol=1e-3, abs_tol=1e-6):
        raise ArgumentError(
            "loss",
            "be the mean of the losses of single records",
            whole,
            got=f"{whole:.6g} of {len(each)} records whose own have the mean {mean:.6g}: take "
            "reduction='mean', without weights of classes",
        )
    _check_layers(model)
    check_rows_apart(model, (features[:16], labels[:16]), lambda net, batch: problem.loss(net(batch[0]), batch[1]))


def _check_layers(model: nn.Module) -> None:
    """See that the engine takes the network: a copy is wrapped as for a run, and makes no step."""
    try:
        hooked(model)
    except ArgumentError as error:
        raise error.renamed("model") from error


def _check_labels(outputs: Tensor, labels: Tensor) -> None:
    if labels.dim() != 1 or labels.dtype.is_floating_point or labels.dtype == torch.bool:
        raise ArgumentError(
            "public",
            "have whole numbers as labels, one a record",
            labels.dtype,
            got=f"{labels.dtype} of shape {tuple(labels.shape)}: give loss= and metric= for others",
        )
    if outputs.dim() != 2:
        raise ArgumentError(
            "model",
            "give a row of scores for each record",
            tuple(outputs.shape),
            got=f"outputs of shape {tuple(outputs.shape)}",
        )
    low, high = int(labels.min()), int(labels.max())
    if outputs.shape[1] == 1:
        raise ArgumentError(
            "model",
            "give a score for each class",
            tuple(outputs.shape),
            got="one score a record: give two classes two scores, or loss= and metric= of your own",
        )
    if low == high:
        raise ArgumentError("public", "have records of several classes", low, got=f"the label {low} alone")
    if low < 0 or high >= outputs.shape[1]:
        raise ArgumentError(
            "public", f"have labels in 0..{outputs.shape[1] - 1}, the classes of the model", low, got=f"{low}..{high}"
        )


def _mark(function: object) -> str:
    """What tells functions apart in another process too, as far as their names and code do."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name} {'' if code is None else code.co_code.hex()} {'' if code is None else code.co_names}"


# --- simulated records ------------------------------------------------------------------------------------------------------


def _with_simulated(problem: Problem, num_examples: int, seed: int) -> Problem:
    """As many simulated records as the private run has, at most 20,000, and some to judge by."""
    records = simulated_records(
        problem.model,
        problem.loss,
        problem.features,
        problem.labels,
        count=ASIDE + min(num_examples, _MOST_SIMULATED),
        seed=seed,
    )
    return replace(problem, simulated=records)


def _repeats(problem: Problem) -> int:
    """Paired pilots: with each part of the public records kept aside, or with other draws from the simulated ones."""
    return problem.folds if problem.simulated is None else _REPEATS


def _on_real(found: Found, evaluate: "_Evaluation", problem: Problem, seed: int) -> Sequence[Score]:
    """Scores of the choice where pilots train on public records and others of them are kept aside."""
    best = found.best
    if problem.simulated is None:
        return best.scores
    jobs = [
        Job(
            point=best.point,
            most_steps=found.steps,
            batch_size=LARGE_BATCH,
            fold=fold,
            seed=seed + fold,
            simulated=False,
        )
        for fold in range(problem.folds)
    ]
    return [outcome.scores[best.point.average] for outcome in evaluate(jobs)]


# --- the answer -------------------------------------------------------------------------------------------------------------


def _gains(
    methods: Sequence[str], best: Tried, evaluate: _Evaluation, problem: Problem, pace: Pace, seed: int
) -> tuple[tuple[MethodGain, ...], float]:
    """Paired pilots of every method at the choice, each at its own rate; none where there is no time for all, but the time for it."""
    repeats = _repeats(problem)
    count = (len(methods) + 1) * len(_RATE_FACTORS) * repeats
    steps, least = min(_METHOD_STEPS, int(pace.steps(1.0, slower=1.5) / count)), min(50, best.point.steps)
    if steps < least:
        return (), pace.enough(count * least, slower=1.5)

    def job(method: str, factor: float, fold: int) -> Job:
        point = replace(best.point, learning_rate=best.point.learning_rate * factor)
        return Job(point=point, most_steps=steps, batch_size=SMALL_BATCH, fold=fold, seed=seed + fold, method=method)

    keys = [(m, f, k) for m in (DP_SGD, *methods) for f in _RATE_FACTORS for k in range(repeats)]
    jobs = [job(*key) for key in keys]
    outcomes = dict(zip(keys, evaluate(jobs), strict=True))
    average = best.point.average

    def scores(method: str, factor: float) -> list[float]:
        return [outcomes[method, factor, k].scores[average].aside for k in range(repeats)]

    def best_rate(method: str) -> float:
        return max(
            _RATE_FACTORS, key=lambda f: _mean([s if math.isfinite(s) else -math.inf for s in scores(method, f)])
        )

    plain = scores(DP_SGD, best_rate(DP_SGD))
    found = []
    for name in methods:
        rate = best_rate(name)
        differences = [a - b for a, b in zip(scores(name, rate), plain, strict=True)]
        method = METHODS[name]
        found.append(
            MethodGain(
                method=name,
                setting=method.setting,
                gain=_range_95(differences),
                learning_rate=best.point.learning_rate * rate,
                why=method.why,
                claim=method.claim,
            )
        )
    return tuple(found), 0.0


def _tuning(
    best: Tried, evaluate: _Evaluation, problem: Problem, num_examples: int, epsilon: float, delta: float, seed: int
) -> PrivateTuning | None:
    """Paired pilots at the noise that private tuning would need."""
    point, repeats = best.point, _repeats(problem)
    noise = noise_of_tuned_runs(
        epsilon=epsilon,
        delta=delta,
        sampling_rate=point.batch_size / num_examples,
        steps=point.steps,
        noise_multiplier=point.noise_multiplier,
    )
    if noise is None:
        return None
    both = point, replace(point, noise_multiplier=noise)
    jobs = [
        Job(point=one, most_steps=_METHOD_STEPS, batch_size=SMALL_BATCH, fold=fold, seed=seed + fold)
        for one in both
        for fold in range(repeats)
    ]
    scores = [outcome.scores[point.average].aside for outcome in evaluate(jobs)]
    differences = [b - a for a, b in zip(scores[:repeats], scores[repeats:], strict=True)]
    return PrivateTuning(mean_runs=MEAN_RUNS, noise_multiplier=noise, gain=_range_95(differences))


def _range_95(differences: Sequence[float]) -> Range:
    """By Student's law."""
    quantile = float(scipy.stats.t.ppf(0.975, len(differences) - 1))
    middle, half = _mean(differences), quantile * _standard_error(differences)
    return Range(middle - half, middle + half)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _standard_error(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (len(values) - 1) / len(values))


def _choice(found: Found, real: Sequence[Score], gains: tuple[MethodGain, ...], **said: Any) -> Choice:
    best = found.best
    aside, seen = [s.aside for s in real], [s.seen for s in real]
    low, high = (
        _mean(aside) - 2.0 * _standard_error(aside),
        max(_mean(seen), _mean(aside)) + 2.0 * _standard_error(seen),
    )
    if said["metric"] == "accuracy":
        low, high = max(low, 0.0), min(high, 1.0)
    return Choice(
        **vars(best.point),
        expected=Range(low, high),
        ahead=found.ahead,
        usual=found.usual,
        methods=gains,
        **_around(found),
        **said,
    )


def _around(found: Found) -> dict[str, Any]:
    """Along each hyperparameter: what is as good as the choice, what was tried, and what a step aside costs, if pilots see it."""
    best = found.best.point
    place = {point: i for i, point in enumerate(found.points)}
    here, unsure = found.pooled.mean[place[best]], found.pooled.deviation[place[best]]
    names = ("learning_rate", "batch_size", "clip_norm")
    as_good, tried, costs = {}, {}, {}
    for name in names:
        line = sorted((p for p in found.points if _beside(p, best, name)), key=lambda p: getattr(p, name))
        good = [getattr(p, name) for p in line if found.pooled.mean[place[p]] >= here - unsure]
        words = name.replace("_", " ")
        as_good[words] = Range(min(good), max(good))
        tried[words] = Range(getattr(line[0], name), getattr(line[-1], name))
        for p in (p for p in line if found.pooled.mean[place[p]] < here - unsure):
            factor = getattr(p, name) / getattr(best, name)
            if any(math.isclose(factor, wanted, rel_tol=0.15) for wanted in (0.22, 0.25, 4.0, 4.5)):
                costs[f"{words} x {factor:.2g}"] = float(here - found.pooled.mean[place[p]])
    return {"as_good": as_good, "tried": tried, "costs": costs}


def _beside(point: Point, best: Point, name: str) -> bool:
    """Whether a point differs from the best in one hyperparameter, with what belongs to it."""
    free = {
        "learning_rate": ("learning_rate",),
        "batch_size": ("batch_size", "steps", "noise_multiplier"),
        "clip_norm": ("clip_norm", "learning_rate"),
    }[name]
    same = replace(best, **{key: getattr(point, key) for key in free})
    return same == point and (name != "clip_norm" or math.isclose(point.stride, best.stride, rel_tol=1e-6))


def _in_words(public: Public, problem: Problem) -> str:
    count = len(problem.labels)
    if isinstance(public, Shipped):
        return f"{count:,} records of {public.name} in place of public ones"
    if isinstance(public, Synthetic):
        return f"{count:,} synthetic records in place of public ones"
    return f"{count:,} public records" if problem.simulated is None else f"records simulated from {count:,} public ones"
