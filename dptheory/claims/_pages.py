"""Writing the few pages that are generated and kept: the ledger, our own results, the errata's tables."""

import os
from dataclasses import dataclass
from pathlib import Path

from dptheory.claims._claim import PAPERS
from dptheory.claims._errata import write_erratum
from dptheory.claims._markdown import ledger_markdown
from dptheory.claims._own_results import own_results_markdown
from dptheory.claims._registry import all_claims
from dptheory.errors import ArgumentError
from dptheory.files import write_atomically


@dataclass(frozen=True, kw_only=True)
class WrittenPages:
    """What was written.

    Attributes:
        ledger: the page of all claims, ``README.md``.
        own_results: the page of what no paper prints, ``new.md``.
        errata: the errata whose table was renewed.
    """

    ledger: Path
    own_results: Path
    errata: tuple[Path, ...]


def write_pages(directory: Path) -> WrittenPages:
    """Renew what is generated in the folder of the proof pages; what is written by hand stays.

    The ledger and the page of our own results are written whole; of the errata that are there the table of verdicts, between its
    markers.

    Args:
        directory: folder of the proof pages, with a folder per paper.

    Returns:
        Which files were written.

    Raises:
        ValueError: a folder that is not that of the pages, or an erratum without its markers.
        OSError: a page cannot be written.
    """
    directory = _folder(directory)
    claims = all_claims()
    errata = {paper: page for paper in PAPERS if (page := directory / paper / "erratum.md").is_file()}
    for paper, page in errata.items():
        write_erratum(page, paper)
    own_results, ledger = directory / "new.md", directory / "README.md"
    write_atomically(own_results, own_results_markdown(claims, directory))
    write_atomically(ledger, ledger_markdown(claims))
    return WrittenPages(ledger=ledger, own_results=own_results, errata=tuple(errata.values()))


def _folder(directory: object) -> Path:
    """The folder, if it is that of the pages: in any other a README.md may be somebody's own."""
    if not isinstance(directory, str | os.PathLike) or not all((Path(directory) / paper).is_dir() for paper in PAPERS):
        raise ArgumentError("directory", f"be the folder of the proof pages, with {', '.join(PAPERS)} in it", directory)
    return Path(directory)
