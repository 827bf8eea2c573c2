"""`dptheory privacy`: epsilon, delta, noise, steps, trade-off and statement of DP-SGD; what an index budget buys."""

import dataclasses
import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from dptheory import privacy as accounting
from dptheory.cli._calculators import add, values_of
from dptheory.cli._common import console_for_output, say, show_values, user_errors
from dptheory.cli._compare import compare
from dptheory.cli._curves import draw, picture, require_picture
from dptheory.cli._other_samplers import other_sampler
from dptheory.cli._privacy_options import ALLOCATION, SHUFFLED, Delta, Epsilon, Given, of_a_run

privacy = typer.Typer(
    name="privacy",
    help="What training costs in privacy, and how much noise a budget asks for.",
    no_args_is_help=True,
)

_NOISE = "Least noise for the budget"
_PLACES = 24
_RUN = "--noise-multiplier 1 --sampling-rate 0.02 --steps 1000"


@privacy.command(
    "epsilon",
    epilog=f"Example: dptheory privacy epsilon {_RUN} --delta 1e-5; "
    "or dptheory privacy epsilon --noise-multiplier 1 --batch-size 256 --train-size 60000 --epochs 20 --delta 1e-5",
)
@of_a_run(
    sampling=Annotated[
        str,
        typer.Option(
            help="poisson, 'random allocation' (with --steps-per-epoch), 'without replacement' (batches of a fixed size), "
            "or shuffled (both bounds, far apart)."
        ),
    ]
)
def show_epsilon(
    given: Given,
    delta: Delta,
    records_per_user: Annotated[
        int | None, typer.Option(help="Protect a user with at most so many records: an upper bound.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(help="Poisson batches are cut to this size, with --train-size: an upper bound.")
    ] = None,
    mean_runs: Annotated[
        float | None,
        typer.Option(help="The best of a random number of runs with this mean is published: an upper bound."),
    ] = None,
    runs_law: Annotated[
        str | None, typer.Option(help="Law of that number: geometric, logarithmic or poisson; geometric if left out.")
    ] = None,
) -> None:
    """Bounds of epsilon: of steps that are alike, of steps that differ, and for other samplers and units."""
    others: dict[str, Any] = {
        "records_per_user": records_per_user,
        "max_batch_size": max_batch_size,
        "mean_runs": mean_runs,
        "runs_law": runs_law,
    }
    with user_errors():
        require_picture(given.plot)
        run = given.differing(**others)
        if run is not None:
            _show_bounds("Epsilon", run.epsilon(delta, certified=given.certified), given, run=run, delta=delta)
            return _privacy_curve(given.plot, run, delta=delta)
        if given.sampling == SHUFFLED or any(value is not None for value in others.values()):
            title, values, note = other_sampler(given, delta, **others)
            return show_values(title, values, given.as_json, f"{given.told(delta=delta)}{note}")
        alike = given.run
        found = accounting.epsilon_bounds(**alike, delta=delta, **_how(given))
        renyi = {}
        if given.neighbours == "add-remove" and given.sampling == "poisson":
            renyi["upper bound by Renyi privacy"] = accounting.rdp_epsilon(**alike, delta=delta)
        _show_bounds("Epsilon", found, given, renyi, delta=delta)
        _privacy_curve(given.plot, given.alike() if given.sampling in ("poisson", ALLOCATION) else None, delta=delta)


@privacy.command("delta", epilog=f"Example: dptheory privacy delta {_RUN} --epsilon 3")
@of_a_run()
def show_delta(given: Given, epsilon: Epsilon) -> None:
    """Bounds of delta at a given epsilon."""
    with user_errors():
        require_picture(given.plot)
        run = given.differing()
        if run is not None:
            _show_bounds("Delta", run.delta(epsilon, certified=given.certified), given, run=run, epsilon=epsilon)
            return _privacy_curve(given.plot, run, epsilon=epsilon)
        found = accounting.delta_bounds(**given.run, epsilon=epsilon, **_how(given))
        _show_bounds("Delta", found, given, epsilon=epsilon)
        _privacy_curve(
            given.plot, given.alike() if given.sampling in ("poisson", ALLOCATION) else None, epsilon=epsilon
        )


@privacy.command(
    "sigma",
    epilog="Example: dptheory privacy sigma --epsilon 3 --delta 1e-5 --sampling-rate 0.02 --steps 2000; "
    "or dptheory privacy sigma --epsilon 3 --delta 1e-5 --step 2,0.02,1000 --step 1,0.02,1000",
)
@of_a_run("noise_multiplier", "last_noise_multiplier")
def show_sigma(
    given: Given,
    epsilon: Annotated[float | None, typer.Option(help="The budget epsilon, with --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="The budget delta.")] = None,
    advantage: Annotated[
        float | None, typer.Option(help="In place of epsilon: the largest advantage of any attack on one record.")
    ] = None,
    true_positive_rate: Annotated[
        float | None, typer.Option(help="In place of epsilon: the largest share of records that any attack finds,")
    ] = None,
    false_positive_rate: Annotated[
        float | None, typer.Option(help="which accuses this share of those that are not in the data.")
    ] = None,
) -> None:
    """The least noise multiplier that keeps the budget; for steps that differ the factor on all of theirs."""
    attack: dict[str, Any] = {
        "advantage": advantage,
        "true_positive_rate": true_positive_rate,
        "false_positive_rate": false_positive_rate,
    }
    with user_errors():
        require_picture(given.plot)
        run = given.differing(**attack)
        if run is not None:
            if epsilon is None or delta is None:
                raise ValueError(f"{'epsilon' if epsilon is None else 'delta'} must be given for steps that differ")
            scale = run.noise_scale(epsilon=epsilon, delta=delta, certified=given.certified)
            scaled = run.scaled(scale)
            noises = [part.noise_multiplier for part in scaled.parts if hasattr(part, "noise_multiplier")]
            values: dict[str, Any] = {"factor on the noise multipliers": scale, "noise multipliers": noises}
            values |= dataclasses.asdict(scaled.epsilon(delta, certified=given.certified))
            show_values(_NOISE, values, given.as_json, given.told(scaled, delta=delta), "epsilon")
            label = "factor on the noise multipliers"
            spent = lambda factor: run.scaled(factor).epsilon(delta).upper  # noqa: E731
            return _budget_curve(given.plot, spent, around=scale, epsilon=epsilon, label=label)
        if epsilon is None and given.plot is not None:
            raise ValueError(f"plot must be left out without a budget of epsilon, got {str(given.plot)!r}")
        alike = dataclasses.replace(given, noise_multiplier=1.0).run | {"delta": delta}
        del alike["noise_multiplier"]
        sigma = accounting.least_noise_multiplier(epsilon=epsilon, **attack, **alike, **_how(given))
        if epsilon is None:
            return show_values(_NOISE, {"noise multiplier": sigma}, given.as_json, given.told(delta=delta))
        found = accounting.epsilon_bounds(noise_multiplier=sigma, **alike, **_how(given))
        least, most = accounting.NOISE
        values = {"noise multiplier": sigma, **dataclasses.asdict(found)}
        if sigma == least:
            values["note"] = f"{least} is the least that is accounted for: it keeps the budget, and less may"
        show_values(_NOISE, values, given.as_json, given.told(delta=delta), "epsilon")

        def with_noise(noise: float) -> float:
            within = min(max(noise, least), most)
            return accounting.epsilon_bounds(noise_multiplier=within, **alike, **_how(given, certified=False)).upper

        _budget_curve(given.plot, with_noise, around=sigma, epsilon=epsilon, label="noise multiplier")


@privacy.command(
    "steps",
    epilog="Example: dptheory privacy steps --epsilon 3 --delta 1e-5 --noise-multiplier 1.5 --sampling-rate 0.02",
)
@of_a_run(
    *("steps", "step", "composition", "epochs", "last_noise_multiplier"),
    adjacency=Annotated[str | None, typer.Option(help="add-remove or replace-one.")],
)
def show_steps(
    given: Given,
    epsilon: Epsilon,
    delta: Delta,
    noise_multiplier: Annotated[float, typer.Option(help="Noise multiplier.")],
    sampling_rate: Annotated[float | None, typer.Option(help="Sampling rate; left out for random allocation.")] = None,
) -> None:
    """The most steps that keep the budget."""
    with user_errors():
        require_picture(given.plot)
        alike: dict[str, Any] = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate, "delta": delta}
        steps = accounting.max_steps(epsilon=epsilon, **alike, **_how(given))
        epochs = steps / given.steps_per_epoch if given.steps_per_epoch is not None else steps * (sampling_rate or 0.0)
        values: dict[str, Any] = {"steps": steps, "epochs": epochs}
        if steps == accounting.MAX_STEPS:
            values["note"] = "so many are the most that is accounted for: they keep the budget, and more may"
        run = dataclasses.replace(given, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate)
        show_values("The most steps for the budget", values, given.as_json, run.told(epsilon=epsilon, delta=delta))

        def after(count: float) -> float:
            within = min(max(1, round(count)), accounting.MAX_STEPS)
            return accounting.epsilon_bounds(steps=within, **alike, **_how(given, certified=False)).upper

        _budget_curve(given.plot, after, around=float(max(steps, 1)), epsilon=epsilon, label="steps")


@privacy.command("tradeoff", epilog=f"Example: dptheory privacy tradeoff {_RUN} --plot tradeoff.png")
@of_a_run()
def show_tradeoff(
    given: Given,
    false_positive_rate: Annotated[
        float, typer.Option(help="Share of the records outside the data that the attacker accuses.")
    ] = 0.01,
) -> None:
    """What the best attacker can do, in plain words; --json for the bounds, --plot for the whole curve."""
    with user_errors():
        require_picture(given.plot)
        run = given.differing() or given.alike()
        found = run.attack(false_positive_rate=false_positive_rate, certified=given.certified)
        if given.as_json:
            show_values("Attack", dataclasses.asdict(found), given.as_json)
        else:
            say(str(found))
        if given.plot is not None:
            with picture(given.plot) as axes:
                run.plot(ax=axes)


@privacy.command(
    "statement",
    epilog=f"Example: dptheory privacy statement runs/mine; or dptheory privacy statement {_RUN} --delta 1e-5",
)
@of_a_run(
    "plot",
    adjacency=Annotated[
        str | None,
        typer.Option(
            help="add-remove, replace-one or zero-out; add-remove if left out, and zero-out with --train-size, which is public then."
        ),
    ],
    as_json=Annotated[bool, typer.Option("--json", help="Write JSON instead of Markdown.")],
)
def statement(
    given: Given,
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of a finished run; or leave it out and give the settings.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the guarantee.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="What was run; DP-SGD if left out.")] = None,
    unit: Annotated[str | None, typer.Option(help="What is protected; one record if left out.")] = None,
    public: Annotated[list[str] | None, typer.Option(help="What is taken to be public; repeat it.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="How batches were drawn: words that name the law accounted for.")
    ] = None,
    randomness: Annotated[str | None, typer.Option(help="Where batches and noise come from, and their seeds.")] = None,
    tuning: Annotated[str | None, typer.Option(help="What choosing among runs costs; not counted if left out.")] = None,
    seeded: Annotated[
        bool, typer.Option("--seeded", help="The randomness can be repeated: the run is a simulation.")
    ] = False,
) -> None:
    """The privacy statement of a finished run, or of given settings, as Markdown or JSON."""
    texts: dict[str, Any] = {
        "mechanism": mechanism,
        "unit": unit,
        "sampler": sampler,
        "randomness": randomness,
        "tuning": tuning,
        "adjacency": given.adjacency,
    }
    told = {name: text for name, text in texts.items() if text is not None}
    with user_errors(path="folder"):
        if any(not text.strip() for text in (*told.values(), *(public or ()))):
            name = next((name for name, text in told.items() if not text.strip()), "public")
            raise ValueError(f"{name} must be a text, got ''")
        if folder is not None:
            settings = dataclasses.asdict(given) | {"delta": delta, "public": public, "seeded": seeded, **texts}
            for name, value in settings.items():
                if value and name != "as_json" and (name, value) != ("sampling", "poisson"):
                    raise ValueError(f"{name} must be left out with the folder of a run, got {value!r}")
            found = accounting.read_statement(folder)
        else:
            if delta is None:
                raise ValueError("delta must be given, or the folder of a finished run")
            if given.train_size is not None and given.adjacency != "add-remove" and given.composition is None:
                # a rate that is computed from the number of records is public only if that number is
                if given.adjacency is None:
                    told["adjacency"] = "zero-out"
                public = [*(public or ()), f"the number of records, {given.train_size}"]
                told["train_size"] = given.train_size
            neighbours = "replace-one" if given.adjacency == "replace-one" else "add-remove"
            # the statement knows which adjacencies go with those of a file
            run = dataclasses.replace(given, adjacency=neighbours if given.composition is None else None)
            found = accounting.privacy_statement(
                composition=run.differing() or run.alike(),
                delta=delta,
                public=tuple(public or ()),
                secure=not seeded,
                software=(f"dptheory {importlib.metadata.version('dptheory')}",),
                certified=given.certified,
                **told,
            )
    console = console_for_output()
    if given.as_json or not console.is_terminal:
        typer.echo(found.json() if given.as_json else found.markdown(), nl=False)
    else:  # a window breaks long lines within words
        console.print(found.markdown(), markup=False, highlight=False, end="")


def _index(found: accounting.index_sets.IndexAccountings) -> dict[str, Any]:
    values = {} if found.values_epsilon is None else {"epsilon of the values alone (RDP)": found.values_epsilon}
    for name, choice in (
        ("basic composition", found.basic),
        ("zCDP", found.zcdp),
        ("exact composition", found.exact),
        ("values and indices of one sample (RDP)", found.joint),
    ):
        if choice is not None:
            values[f"theta, {name}"] = choice.theta
            values[f"retained gain, {name}"] = choice.retained_gain
    return values | {"retained gain needed to beat DP-SGD's direction": found.least_retained_gain}


add(
    privacy,
    "index",
    accounting.index_sets.compare_index_accountings,
    values_of("What an index budget buys", _index),
    example="--dim 256 --keep 26 --epsilon 1 --groups 100 --steps 10",
    given={"delta": 1e-5},
)


privacy.command(
    "compare",
    epilog=f"Example: dptheory privacy compare {_RUN} --delta 1e-5; or dptheory privacy compare --search 100 --law core",
)(compare)


def _how(given: Given, *, certified: bool | None = None) -> dict[str, Any]:
    """What all questions are asked with."""
    certified = given.certified if certified is None else certified
    law = {"steps_per_epoch": given.steps_per_epoch, "participations": given.participations}
    return {"adjacency": given.neighbours, "sampling": given.sampling, "certified": certified, **law}


def _show_bounds(
    title: str,
    found: Any,
    given: Given,
    more: Mapping[str, float] = MappingProxyType({}),
    *,
    run: accounting.Composition | None = None,
    **budget: float,
) -> None:
    counted: dict[str, Any] = {}
    if given.batch_size is not None:
        counted = {"sampling rate": given.sampling_rate, "steps per epoch": given.steps_per_epoch, "steps": given.steps}
        counted = {name: value for name, value in counted.items() if value is not None}
    if run is not None and given.as_json:
        counted = {"composition": accounting.in_words(run)}
    values = dataclasses.asdict(found) | dict(more) | counted
    told = given.told(run, **budget)
    show_values(f"{title}; report the upper bound", values, given.as_json, told, title.lower())


def _privacy_curve(
    plot: Path | None,
    run: accounting.Composition | None,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> None:
    """Delta over epsilon, at most, around the point that was asked for."""
    if plot is None:
        return
    if run is None:
        raise ValueError(f"plot must be left out for sampling 'without replacement', got {str(plot)!r}")
    if epsilon is None:
        epsilon = run.epsilon(delta or 0.0).upper
    at = run.delta(epsilon).upper if delta is None else delta
    most = max(1.5 * epsilon, 0.1)
    draw(
        plot,
        lambda place: max(run.delta(place).upper, 1e-300),
        [most * number / _PLACES for number in range(_PLACES + 1)],
        marked=(epsilon, at),
        labels=("epsilon", "delta, at most"),
        logarithmic=True,
    )


def _budget_curve(
    plot: Path | None, curve: Callable[[float], float], *, around: float, epsilon: float, label: str
) -> None:
    """Epsilon, at most, from half to twice of what keeps the budget."""
    if plot is not None:
        places = [around * 2.0 ** (2 * number / _PLACES - 1) for number in range(_PLACES + 1)]
        draw(plot, curve, places, marked=(around, epsilon), labels=(label, "epsilon, at most"))
