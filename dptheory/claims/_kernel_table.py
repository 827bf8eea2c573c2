"""What Coq's kernel has checked, for ``proofs/kernel.md``: how much, and the statements themselves, which the site shows there."""

import re
from collections.abc import Iterable
from pathlib import Path

from dptheory.claims._claim import KERNEL_THEOREMS, PAPERS, Claim, Verdict
from dptheory.claims._markdown import one_row, table_head


def kernel_counts(claims: Iterable[Claim]) -> str:
    """How many claims are proved in which way, by verdict: a table."""
    rows = [claim for claim in claims if claim.kernel]
    by_verdict = {one.name: [claim for claim in rows if claim.verdict is one] for one in Verdict} | {"all": rows}
    lines = [*table_head("verdict", "claims", *KERNEL_THEOREMS.values())]
    for name, those in by_verdict.items():
        counts = (sum(theorem in claim.kernel_theorems for claim in those) for theorem in KERNEL_THEOREMS)
        lines += [one_row((name, str(len(those)), *map(str, counts)))] if those else []
    return "\n".join(lines)


def kernel_statements(claims: Iterable[Claim], directory: Path) -> str:
    """What the heads of the modules doubt, and per paper what they state and prove, without proofs; from the folder of the pages."""
    rows = [claim for claim in claims if claim.kernel]
    files = {
        name: (directory / "kernel" / str(name)).read_text(encoding="utf-8") for name in {one.kernel for one in rows}
    }
    texts = {claim.id: module_text(files[claim.kernel], str(claim.kernel_module)) for claim in rows}
    lines = [f"- `{name}`: {doubt}" for name, text in texts.items() for doubt in _doubts(text)]
    for key, paper in PAPERS.items():
        those = [claim for claim in rows if claim.source.paper == key]
        if those:
            head = table_head("claim", "verdict", "kernel-checked", "file")
            lines += ["", f"## {paper} (`{key}`)", "", *head, *map(_row, those)]
        for claim in those:
            lines += ["", f"### {claim.id}", "", "```coq", *_shown(texts[claim.id]), "```"]
    return "\n".join(lines) + "\n"


def module_text(text: str, module: str) -> str:
    """The head and the body of one claim's module in the Coq file of its paper."""
    name = module.rpartition(".")[2]
    found = re.search(rf"^Module {name}\.\n(.*?\n)End {name}\.$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"the Coq file must have a module {name}")
    return text[text.rindex("\n(* ", 0, found.start()) + 1 : found.start()] + found[1]


def _doubts(text: str) -> list[str]:
    """What a module's head says after the word Doubt or Doubts."""
    head = " ".join(text[2 : text.index("*)")].split())
    return re.findall(r"\bDoubts?: (.*)$", head)


def _shown(text: str) -> list[str]:
    """Statements and theorems of a module, without proofs."""
    found = re.findall(
        r"^(?:Definition (?:printed|part|reading|correction) : Prop|Theorem \w+_(?:false|holds)\b).*?\.$",
        text,
        re.DOTALL | re.MULTILINE,
    )
    return "\n".join(found).splitlines()


def _row(claim: Claim) -> str:
    cells = (
        f"[`{claim.id}`]({claim.page}) {claim.title}",
        claim.judgement,
        claim.kernel_proves,
        f"[`{claim.kernel}`](kernel/{claim.kernel})",
    )
    return one_row(cells)
