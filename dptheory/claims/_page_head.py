"""The head of a proof page, generated from the claim's row: what the page says beyond it is proof."""

from pathlib import Path

from dptheory.claims._claim import PAPERS, Claim, Verdict, source_file
from dptheory.claims._markdown import ledger_link
from dptheory.claims._registry import all_claims
from dptheory.files import write_atomically

_BEGIN, _END = "<!-- row:begin -->", "<!-- row:end -->"

_CORRECTION = {
    Verdict.HOLDS: "In full",
    Verdict.LOOSE: "Sharper",
    Verdict.CONDITIONAL: "Corrected",
    Verdict.FALSE: "Corrected",
}


def page_head(claim: Claim) -> str:
    """Title, links, verdict, key points, statement, correction, conditions and the printed error, between their markers."""
    state = "proved on this page" if claim.proved else "observed, not proved"
    parts = [
        _BEGIN,
        f"# {claim.id}: {claim.title}",
        " · ".join(_navigation(claim)),
        " · ".join(_material(claim)),
        f"**{claim.verdict.name}** ({'our own result' if claim.ours else claim.verdict.value}; {state}): "
        f"{claim.summary}{_part(claim)}",
        *([f"{_kernel(claim)} ([`{claim.kernel}`](../kernel/{claim.kernel}))."] if claim.kernel else []),
        *(["## Key points", _bullets(claim.key_points)] if claim.key_points else []),
        "## Statement",
        f"{_origin(claim)}. {claim.statement}",
        *([f"## {_CORRECTION[claim.verdict]}", claim.correction] if claim.correction else []),
        "## Conditions",
        _bullets(claim.conditions) or "None.",
        *(["## Where the print errs", claim.printed_error] if claim.printed_error else []),
        _END,
    ]
    return "\n\n".join(parts)


def has_head(page: Path) -> bool:
    """Whether the page has the markers of a generated head, once each.

    Raises:
        OSError: no such page.
        ValueError: one marker without the other, or more than one pair.
    """
    text = page.read_text(encoding="utf-8")
    counts = text.count(_BEGIN), text.count(_END)
    if counts not in ((0, 0), (1, 1)):
        raise ValueError(f"{page} must hold the markers {_BEGIN} and {_END} once each")
    return counts == (1, 1)


def write_head(page: Path, claim: Claim) -> None:
    """Renew the head of a page that has the markers (see :func:`has_head`)."""
    before, rest = page.read_text(encoding="utf-8").split(_BEGIN)
    _, after = rest.split(_END)
    write_atomically(page, before + page_head(claim) + after)


def _bullets(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _navigation(claim: Claim) -> list[str]:
    """The ledger, and the pages before and after this one in it, within the paper."""
    pages = [one for one in all_claims(claim.source.paper) if one.verdict is not Verdict.EMPIRICAL]
    here = [one.id for one in pages].index(claim.id)
    before, after = pages[:here][-1:], pages[here + 1 :][:1]
    return [
        ledger_link(claim.source.paper),
        *(f"previous: {_to_page(one)}" for one in before),
        *(f"next: {_to_page(one)}" for one in after),
    ]


def _to_page(claim: Claim) -> str:
    return f"[`{claim.id}`]({Path(claim.page).name})"


def _material(claim: Claim) -> list[str]:
    """Checks, calculators and figure."""
    calculators = [
        f"[`{name}`](../../{source_file(one)})"
        for name, one in zip(claim.calculator_names, claim.calculators, strict=True)
    ]
    return [
        f"checks: [`{claim.file}`](../../{claim.file})",
        *(["calculators: " + ", ".join(calculators)] if calculators else []),
        *([f"figure: [{claim.figure}](../figures/{claim.figure}.png)"] if claim.figure else []),
    ]


def _origin(claim: Claim) -> str:
    """Paper and label, or what an own result extends."""
    paper = PAPERS[claim.source.paper]
    return (
        f"Our own result, {str(claim.source).removeprefix('new, ')} of {paper}"
        if claim.ours
        else f"{paper}, {claim.source}"
    )


def _kernel(claim: Claim) -> str:
    says = str(claim.kernel_says)
    return says[:1].upper() + says[1:]


def _part(claim: Claim) -> str:
    """The other row that holds the same mistake; both belong to one paper."""
    if claim.part_of is None:
        return ""
    return f" The mistake is that of [`{claim.part_of}`]({claim.part_of.split('.', 1)[1]}.md)."
