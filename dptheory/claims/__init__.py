"""The ledger: every numbered claim of the five papers, its verdict, and what tests it."""

from dptheory.claims._answer import STATES, Answer, Baseline, Compared, Finding, Measured
from dptheory.claims._checking import CheckedClaim, CheckReport, Watcher, check_claims
from dptheory.claims._citation import bibtex
from dptheory.claims._claim import PAPERS, Claim, Severity, Source, Verdict
from dptheory.claims._find import Match, SearchResult, find
from dptheory.claims._markdown import ledger_markdown, page_markdown
from dptheory.claims._pages import WrittenPages, write_pages
from dptheory.claims._prose import Prose
from dptheory.claims._registry import all_claims, get, select

__all__ = [
    "PAPERS",
    "STATES",
    "Answer",
    "Baseline",
    "CheckReport",
    "CheckedClaim",
    "Claim",
    "Compared",
    "Finding",
    "Match",
    "Measured",
    "Prose",
    "SearchResult",
    "Severity",
    "Source",
    "Verdict",
    "Watcher",
    "WrittenPages",
    "all_claims",
    "bibtex",
    "check_claims",
    "find",
    "get",
    "ledger_markdown",
    "page_markdown",
    "select",
    "write_pages",
]
