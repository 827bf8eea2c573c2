"""BibTeX of a paper and of what the ledger says about it."""

import functools
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from dptheory import _validate
from dptheory.claims._claim import Claim

_PAPERS = {
    "rf": (
        "Differentially Private {SGD} with Sparse Gradients",
        "Anonymous",
        "Anonymous submission under double-blind review",
        None,
        None,
    ),
    "rs": (
        "Improving Differentially Private {SGD} via Randomly Sparsified Gradients",
        "Zhu, Junyi and Blaschko, Matthew B.",
        "Transactions on Machine Learning Research",
        2023,
        "2112.00845",
    ),
    "lf": (
        "{DP-SGD-LF}: Improving Utility under Differentially Private Learning via Layer Freezing",
        "Anonymous",
        "Anonymous submission under double-blind review",
        None,
        None,
    ),
    "gep": (
        "Do Not Let Privacy Overbill Utility: Gradient Embedding Perturbation for Private Learning",
        "Yu, Da and Zhang, Huishuai and Chen, Wei and Liu, Tie-Yan",
        "International Conference on Learning Representations",
        2021,
        "2102.12677",
    ),
    "gip": (
        "Improving Differentially-Private Deep Learning with Gradients Index Pruning",
        "Anonymous",
        "Anonymous submission under double-blind review",
        None,
        None,
    ),
}
"""Title, authors, where, when (None: undated), arXiv id; all but the last as the texts that the ledger was made from have them."""

_RELEASED = "2026-11-26"
"""Date of this version, as CITATION.cff has it."""


def bibtex(claim: Claim) -> str:
    """Two entries: the paper that makes the claim, and its row of the ledger.

    Args:
        claim: a row.

    Returns:
        BibTeX, with the keys ``dptheory_paper_<paper>`` and ``dptheory_<id>`` (the dots of the id as underscores).

    Raises:
        ValueError: something else than a claim.

    Example: the keys of an entry.
        >>> from dptheory import claims
        >>> [line for line in claims.bibtex(claims.get("gip.mse_t0")).splitlines() if line.startswith("@")]
        ['@misc{dptheory_paper_gip,', '@software{dptheory_gip_mse_t0,']
    """
    _validate.instance("claim", claim, Claim)
    title, authors, place, year, arxiv = _PAPERS[claim.source.paper]
    cited = (
        f"own result, {str(claim.source).removeprefix('new, ')}" if claim.ours else f"{claim.source}: {claim.judgement}"
    )
    paper = {"title": title, "author": authors, "year": year, "howpublished": place}
    paper |= {"eprint": arxiv, "archiveprefix": arxiv and "arXiv", "url": arxiv and f"https://arxiv.org/abs/{arxiv}"}
    if year is None:
        paper["note"] = "Undated; the text under review is the one judged"
    row = {
        "title": f"{{dptheory}}, {_plain(claim.id)}",
        "author": "{The dptheory maintainers}",
        "version": version("dptheory"),
        "date": _RELEASED,
        "year": _RELEASED[:4],
        "note": _plain(f"{cited}. Proof: proofs/{claim.page}{_at_commit()}"),
    }
    return "\n".join(
        [
            *_entry("misc", f"dptheory_paper_{claim.source.paper}", paper),
            *_entry("software", f"dptheory_{claim.id.replace('.', '_')}", row),
        ]
    )


@functools.cache
def _at_commit() -> str:
    """In a repository which commit the ledger is of; nothing in an installed package."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return f" at commit {subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()}"
    except (OSError, subprocess.CalledProcessError):
        return ""


def _entry(kind: str, key: str, fields: Mapping[str, object]) -> list[str]:
    return [
        f"@{kind}{{{key},",
        *(f"  {name} = {{{value}}}," for name, value in fields.items() if value is not None),
        "}",
    ]


def _plain(text: str) -> str:
    """Without what BibTeX and LaTeX read as markup."""
    return "".join(f"\\{letter}" if letter in "&%$#_" else letter for letter in text)
