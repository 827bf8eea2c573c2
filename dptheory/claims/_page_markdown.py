"""A claim's page as the site and ``dptheory claim ID --open`` show it: the page itself, and around it what the row says."""

from collections.abc import Sequence
from pathlib import Path

from dptheory import _validate
from dptheory.checks import Evidence
from dptheory.claims._claim import PAPERS, Claim, Verdict, source_file
from dptheory.claims._markdown import empirical_markdown, evidence_markdown, ledger_link, one_row, table_head
from dptheory.claims._registry import all_claims
from dptheory.errors import ArgumentError


def page_markdown(claim: Claim, evidence: Sequence[Evidence] = ()) -> str:
    """The whole page of a claim in Markdown, links relative to the page; of a measured claim that of its paper.

    Around what is written by hand it puts the neighbours in the ledger, the calculators and the checks.

    Args:
        claim: of the ledger.
        evidence: the outcomes of its checks; without them the checks are listed.

    Returns:
        The text.

    Raises:
        ValueError: something else than a claim and its evidence, or an installation without pages.

    Example: the way to the next page stands in no file.
        >>> from dptheory.claims import get, page_markdown
        >>> "next: [`gip.mse_t`](mse_t.md)" in page_markdown(get("gip.mse_t0"))
        True
    """
    _validate.instance("claim", claim, Claim)
    if not isinstance(evidence, Sequence) or not all(isinstance(one, Evidence) for one in evidence):
        raise ArgumentError("evidence", "be what Claim.check returns", evidence)
    if claim.verdict is Verdict.EMPIRICAL:
        return empirical_markdown(all_claims(claim.source.paper, Verdict.EMPIRICAL))
    first = opening(claim)
    text = claim.page_file.read_text(encoding="utf-8").removeprefix(first)
    around = [" · ".join(_neighbours(claim)), " · ".join(_material(claim)), *_kernel(claim)]
    return "\n\n".join([first, *filter(None, around), text.strip(), "## Evidence", _evidence(claim, evidence)]) + "\n"


def opening(claim: Claim) -> str:
    """The first two paragraphs of its page: the title; where the paper says it, and what tests it."""
    paper = claim.source.paper
    origin = (
        f"Our own result, {str(claim.source).removeprefix('new, ')} of {PAPERS[paper]}"
        if claim.ours
        else f"{PAPERS[paper]}, {claim.source}"
    )
    place = [f"{ledger_link(paper)} › {origin}", f"[checks](../../{claim.file})"]
    place += [f"[Coq](../kernel/{claim.kernel})"] if claim.kernel else []
    return f"# {claim.id}: {claim.title}\n\n{' · '.join(place)}"


def verdict_in_bold(claim: Claim) -> str:
    """How the paragraph begins that gives a claim's verdict."""
    return f"**{claim.judgement}** ({'proved on this page' if claim.proved else 'observed, not proved'}): "


def _neighbours(claim: Claim) -> list[str]:
    """The pages before and after this one in the ledger, within the paper."""
    pages = [one for one in all_claims(claim.source.paper) if one.verdict is not Verdict.EMPIRICAL]
    here = [one.id for one in pages].index(claim.id)
    sides = (("previous", pages[:here][-1:]), ("next", pages[here + 1 :][:1]))
    return [f"{side}: [`{one.id}`]({Path(one.page).name})" for side, ones in sides for one in ones]


def _material(claim: Claim) -> list[str]:
    """Calculators and figure."""
    named = zip(claim.calculator_names, claim.calculators, strict=True)
    calculators = ", ".join(f"[`{name}`](../../{source_file(one)})" for name, one in named)
    figure = f"figure: [{claim.figure}](../figures/{claim.figure}.png)" if claim.figure else ""
    return [part for part in (f"calculators: {calculators}" if calculators else "", figure) if part]


def _kernel(claim: Claim) -> list[str]:
    says = claim.kernel_says
    return [f"{says[:1].upper()}{says[1:]} ([`{claim.kernel}`](../kernel/{claim.kernel}))."] if says else []


def _evidence(claim: Claim, evidence: Sequence[Evidence]) -> str:
    if evidence:
        return f"Seed {evidence[0].seed}.\n\n{evidence_markdown(evidence)}"
    listed = [one_row((check.name, check.kind.value)) for check in claim.checks]
    return "\n".join([f"`dptheory check {claim.id}` runs them.", "", *table_head("check", "kind"), *listed])
