"""Writing what is generated in the proof pages: the ledger, the measured claims, our own results, errata, heads, evidence."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from dptheory import _validate
from dptheory.checks import Evidence
from dptheory.claims._checking import CheckedClaim, CheckReport, Watcher, each_checked
from dptheory.claims._claim import MOST_SEEDS, PAPERS, Verdict
from dptheory.claims._errata import write_erratum
from dptheory.claims._kernel_table import kernel_markdown
from dptheory.claims._markdown import empirical_markdown, evidence_markdown, ledger_markdown
from dptheory.claims._own_results import own_results_markdown
from dptheory.claims._page_head import has_head, write_head
from dptheory.claims._registry import all_claims, select
from dptheory.errors import ArgumentError
from dptheory.files import write_atomically

_BEGIN, _END = "<!-- evidence:begin -->", "<!-- evidence:end -->"


@dataclass(frozen=True, kw_only=True)
class WrittenPages:
    """What was written.

    Attributes:
        ledger: the page of all claims, ``README.md``.
        measured: the pages of measured claims, one per paper.
        own_results: the page of what no paper prints, ``new.md``.
        kernel: the page of what Coq's kernel has checked, ``kernel.md``; None where the folder holds no Coq files.
        errata: the errata whose table was renewed.
        heads: the proof pages whose head was renewed.
        report: the outcomes that the evidence tables of the chosen claims now hold; None where none was asked for.
    """

    ledger: Path
    measured: tuple[Path, ...]
    own_results: Path
    kernel: Path | None
    errata: tuple[Path, ...]
    heads: tuple[Path, ...]
    report: CheckReport | None


def write_pages(
    directory: Path,
    *,
    patterns: Iterable[str] = (),
    evidence: bool = True,
    budget: float = 60.0,
    seed: int = 0,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
) -> WrittenPages:
    """Renew what is generated in the folder of the proof pages; what is written by hand stays.

    The ledger, the pages of measured claims and that of our own results are written whole; of the errata that are there the
    table of verdicts, and of the chosen claims' pages the head and the table of evidence, each between its markers. Nothing is
    changed where a page of a chosen claim is missing or lacks its markers.

    Args:
        directory: folder of the proof pages, with a folder per paper.
        patterns: ids or globs of the argued claims whose pages are renewed; all where none is given.
        evidence: whether the checks are run and their outcomes written.
        budget: seconds for one check, > 0; inf sets no limit.
        seed: of the random draws, 0..10^18.
        executor: where the checks are spread; None runs them here.
        watcher: told of the progress of the checks.

    Returns:
        Which files were written, and the outcome of the checks.

    Raises:
        ValueError: an argument outside its range, or a page without its markers.
        OSError: a page is missing or cannot be written.
    """
    directory = _folder(directory)
    seed = _validate.integer("seed", seed, 0, MOST_SEEDS)
    evidence = _validate.flag("evidence", evidence)
    chosen = [claim for claim in select(patterns) if claim.verdict is not Verdict.EMPIRICAL]
    runs = each_checked(chosen, budget=budget, seed=seed, executor=executor, watcher=watcher)
    pages = {claim.id: directory / claim.page for claim in chosen}
    _check_markers(pages.values())
    headed = [claim for claim in chosen if has_head(pages[claim.id])]

    claims = all_claims()
    own_results = directory / "new.md"
    write_atomically(own_results, own_results_markdown(claims, directory))
    kernel = directory / "kernel.md" if (directory / "kernel").is_dir() else None
    if kernel is not None:
        write_atomically(kernel, kernel_markdown(claims, directory))
    errata = {paper: page for paper in PAPERS if (page := directory / paper / "erratum.md").is_file()}
    for paper, page in errata.items():
        write_erratum(page, paper)
    ledger = directory / "README.md"
    write_atomically(ledger, ledger_markdown(claims))
    measured = []
    for paper in dict.fromkeys(claim.source.paper for claim in claims):
        measured.append(directory / paper / "empirical.md")
        write_atomically(measured[-1], empirical_markdown(all_claims(paper, Verdict.EMPIRICAL)))
    for claim in headed:
        write_head(pages[claim.id], claim)
    checked: list[CheckedClaim] = []
    for one in runs if evidence else ():
        _write_evidence(pages[one.claim.id], one.evidence)
        checked.append(one)
    return WrittenPages(
        ledger=ledger,
        measured=tuple(measured),
        own_results=own_results,
        kernel=kernel,
        errata=tuple(errata.values()),
        heads=tuple(pages[claim.id] for claim in headed),
        report=CheckReport(seed=seed, checked=tuple(checked)) if evidence else None,
    )


def _folder(directory: object) -> Path:
    if not isinstance(directory, str | os.PathLike) or not Path(directory).is_dir():
        raise ArgumentError("directory", "be the folder of the proof pages", directory)
    return Path(directory)


def _check_markers(pages: Iterable[Path]) -> None:
    """Make sure that every page can take its evidence, before any is changed."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if text.count(_BEGIN) != 1 or text.count(_END) != 1:
            raise ValueError(f"{page} must hold the markers {_BEGIN} and {_END} once each")


def _write_evidence(page: Path, evidence: Sequence[Evidence]) -> None:
    """Put the outcomes between the markers of a proof page."""
    head, rest = page.read_text(encoding="utf-8").split(_BEGIN)
    _, tail = rest.split(_END)
    table = f"Seed {evidence[0].seed}." + "\n\n" + evidence_markdown(evidence) if evidence else "No check."
    write_atomically(page, f"{head}{_BEGIN}\n{table}\n{_END}{tail}")
