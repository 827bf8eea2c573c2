"""proofs/opacus.md says what both engines do today."""

import difflib

from tests.opacus_page import PAGE, page


def test_the_page_is_what_the_code_does() -> None:
    written = PAGE.read_text(encoding="utf-8")
    changes = list(difflib.unified_diff(written.splitlines(), page().splitlines(), "proofs/opacus.md", "now", n=0))
    assert changes == [], "python -m tests.opacus_page writes it anew"
