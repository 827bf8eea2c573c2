"""A study's standing in words: runs and phases, what was chosen, and the comparisons that can be made by now."""

from rich.console import Console
from rich.table import Table

from dptheory.training.studies import _plan as plans
from dptheory.training.studies._comparisons import ComparisonResult, compare
from dptheory.training.studies._study import Study
from dptheory.training.studies._sweep import Places, Standing, standing


def show(study: Study, places: Places, console: Console) -> None:
    """Print how far a study is, and what its results say.

    Args:
        study: whose runs are counted and compared.
        places: of results and state.
        console: where to print.

    Raises:
        ValueError: a result file that is none.

    Example: a study none of whose runs was made.
        >>> import io
        >>> from pathlib import Path
        >>> from rich.console import Console
        >>> from dptheory.training.studies import Places, read_study, show
        >>> study, text = read_study(Path("configs/studies/masking.toml")), io.StringIO()
        >>> show(study, Places(results=Path("nowhere"), state=Path("nowhere")), Console(file=text, width=100))
        >>> text.getvalue().startswith("masking: "), f"0 of {len(study.comparisons)} comparisons" in text.getvalue()
        (True, True)
    """
    now, find = standing(study, places), places.find(study)
    console.print(f"{study.name}: {study.title}", markup=False, soft_wrap=True)
    console.print(_phases(study, now))
    for words in plans.choices_in_words(study, find):
        console.print(words, soft_wrap=True)
    found = [compare(study, comparison, find) for comparison in study.comparisons]
    console.print(f"{sum(a is not None for a in found)} of {len(found)} comparisons can be made")
    if any(found):
        console.print(_comparisons([a for a in found if a is not None]))


def _phases(study: Study, now: Standing) -> Table:
    table = Table("phase", "runs", "finished", "running", "to be made again")
    for phase in study.phases:
        names = {run.name for run in now.plan.runs if run.phase == phase.name}
        count = len(names) + now.plan.waiting.get(phase.name, 0)
        table.add_row(
            phase.name, str(count), *(str(len(names & part)) for part in (now.finished, now.running, now.stale))
        )
    table.caption = f"{now.epochs} of {now.epochs_in_all} epochs"
    return table


def _comparisons(results: list[ComparisonResult]) -> Table:
    table = Table(
        "comparison (points)", "pairs", "last epoch", "sign-flip p", "times comparisons", "best epoch", "diverged"
    )
    for found in results:
        last, best, within = found.last, found.best, found.equivalence
        name = f"{found.arm} - {found.against}{' (main)' if found.comparison.main else ''}"
        shown = str(last)
        if within is not None:
            shown += f"; {'' if within.equivalent else 'not shown to be '}within {within.margin:g}: p = {within.p:.2g}"
        table.add_row(
            name,
            str(last.pairs),
            shown,
            f"{last.sign_flip_p:.3g}",
            f"{found.adjusted_p:.3g}",
            str(best),
            f"{found.diverged[0]}, {found.diverged[1]}",
        )
    return table
