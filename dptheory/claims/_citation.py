"""BibTeX of a paper and of what the ledger says about it."""

from collections.abc import Mapping
from importlib.metadata import version

from dptheory import _validate
from dptheory.claims._claim import Claim

_PAPERS = {
    "rf": ("Differentially Private {SGD} with Sparse Gradients", "Anonymous", "Paper under double-blind review", None),
    "rs": (
        "Improving Differentially Private {SGD} via Randomly Sparsified Gradients",
        "Zhu, Junyi and Blaschko, Matthew B.",
        "Transactions on Machine Learning Research",
        2023,
    ),
    "lf": (
        "{DP-SGD-LF}: Improving Utility under Differentially Private Learning via Layer Freezing",
        "Anonymous",
        "Paper under double-blind review",
        None,
    ),
    "gep": (
        "Do Not Let Privacy Overbill Utility: Gradient Embedding Perturbation for Private Learning",
        "Yu, Da and Zhang, Huishuai and Chen, Wei and Liu, Tie-Yan",
        "International Conference on Learning Representations",
        2021,
    ),
    "gip": (
        "Improving Differentially-Private Deep Learning with Gradients Index Pruning",
        "Anonymous",
        "Paper under double-blind review",
        None,
    ),
}
"""Title, authors, where and when, as the texts that the ledger was made from have them."""


def bibtex(claim: Claim) -> str:
    """Two entries: the paper that makes the claim, and its row of the ledger.

    Args:
        claim: a row.

    Returns:
        BibTeX, with the keys ``<paper>`` and ``dptheory_<id>`` (the dots of the id as underscores).

    Raises:
        ValueError: something else than a claim.

    Example: the keys of an entry.
        >>> from dptheory import claims
        >>> [line for line in claims.bibtex(claims.get("gip.mse_t0")).splitlines() if line.startswith("@")]
        ['@misc{gip,', '@software{dptheory_gip_mse_t0,']
    """
    _validate.instance("claim", claim, Claim)
    title, authors, place, year = _PAPERS[claim.source.paper]
    cited = f"own result beside {claim.source}" if claim.ours else f"{claim.source}: {claim.judgement}"
    paper = {"title": title, "author": authors, "year": year, "note" if year is None else "howpublished": place}
    row = {
        "title": f"{{dptheory}}, {claim.id}",
        "author": "{The dptheory maintainers}",
        "version": version("dptheory"),
        "note": f"{_plain(cited)}. Proof: proofs/{claim.page}",
    }
    return "\n".join(
        [*_entry("misc", claim.source.paper, paper), *_entry("software", f"dptheory_{claim.id.replace('.', '_')}", row)]
    )


def _entry(kind: str, key: str, fields: Mapping[str, object]) -> list[str]:
    return [
        f"@{kind}{{{key},",
        *(f"  {name} = {{{value}}}," for name, value in fields.items() if value is not None),
        "}",
    ]


def _plain(text: str) -> str:
    """Without what BibTeX and LaTeX read as markup."""
    return "".join(f"\\{letter}" if letter in "&%$#_" else letter for letter in text)
