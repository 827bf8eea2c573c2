"""proofs/practice.md says what models, layers and loops do today."""

import difflib
from importlib.metadata import version

import pytest

pytest.importorskip("transformers")
pytest.importorskip("peft")
from tests.practice_page import PAGE, PARTS, page

pytestmark = [pytest.mark.architectures, pytest.mark.filterwarnings("ignore")]


def test_the_page_is_what_the_code_does() -> None:
    written = PAGE.read_text(encoding="utf-8")
    here = ", ".join(f"{name} {version(name).split('+')[0]}" for name in PARTS)
    if f"Made with {here}," not in written:
        pytest.skip(f"the page is of other versions, here are {here}")
    changes = list(difflib.unified_diff(written.splitlines(), page().splitlines(), "proofs/practice.md", "now", n=0))
    assert changes == [], "python -m tests.practice_page writes it anew"
