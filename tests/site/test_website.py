"""What the site is made of: the parts that need neither Sphinx nor a browser."""

import json
import runpy
import sys
from pathlib import Path

import pytest

import dptheory
from dptheory import claims
from dptheory.claims import _prose

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
sys.path.append(str(PROOFS))

from website import notebooks  # noqa: E402 -- from the folder of the site
from website.docstrings import readable  # noqa: E402 -- from the folder of the site


def test_the_wheel_carries_the_pages_of_all_claims_where_open_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that setup.py adds to a build, without the build: whatever setuptools is at hand."""
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    step = runpy.run_path(str(ROOT / "setup.py"))["WithPages"]
    monkeypatch.setattr(step.__base__, "run", lambda _self: None)
    command = step(setuptools.Distribution())
    command.build_lib, command.editable_mode = str(tmp_path), False
    command.run()
    pages = tmp_path / _prose.page_folders()[0].relative_to(Path(dptheory.__path__[0]).parent)
    claimed = {claim.page for claim in claims.all_claims()}
    assert [page for page in claimed if not (pages / page).is_file()] == []
    assert {path.name for path in pages.glob("figures/*.png")} == {path.name for path in PROOFS.glob("figures/*.png")}
    assert not (pages / "website").exists()


def test_every_guide_with_code_is_a_notebook_of_all_its_code(tmp_path: Path) -> None:
    written = notebooks.write(tmp_path)
    assert {path.stem for path in written} >= {"training", "fine_tuning", "audit"}
    for path in written:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        for source in code:
            if not source.startswith("%%bash\n"):
                compile(source, path.name, "exec")
        page = (PROOFS / "guides" / f"{path.stem}.md").read_text(encoding="utf-8")
        assert len(code) == page.count("```python\n") + page.count("```sh\n")
        assert len({cell["id"] for cell in cells}) == len(cells)
        raising = [cell for cell in cells if cell["metadata"].get("tags") == ["raises-exception"]]
        assert len(raising) == page.count("Traceback (most recent call last):")


def test_an_entry_per_attribute_in_the_pages_of_modules() -> None:
    """Described together in a docstring, two attributes are two entries: Napoleon took the first name for a type."""
    docstring = [
        "Ends of an interval, and more.", "", "Args:", "    one, other: stay.", "", "Attributes:", "    pairs: how many.",
        "    low, high: ends,", "        of both.", "    p: of a * b, c: d.", "", "Example: one, two: three.",
    ]  # fmt: skip
    assert readable(docstring)[:12] == [
        *docstring[:7], "    low: ends,", "        of both.", "    high: ends,", "        of both.", r"    p: of a \* b, c: d.",
    ]  # fmt: skip


def test_text_within_an_example_stands_apart_from_the_code_below_it() -> None:
    """Else Sphinx reads the code as text, and two stars in it as the start of bold letters."""
    docstring = ["Example: one.", "    >>> 1 * 1", "    1", "", "    Two * two:", "    >>> f(**g)", "    4"]
    assert readable(docstring)[3:-1] == ["one.", "", "", ">>> 1 * 1", "1", "", r"Two \* two:", "", ">>> f(**g)", "4"]
