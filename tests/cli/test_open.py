"""`dptheory claim ID --open`: what the browser is given."""

import re
import sys
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from typer.testing import CliRunner

from dptheory import claims, cli
from dptheory.claims import _prose
from dptheory.cli import _open

_UNSEEN = re.compile(r"<(style|math|pre|code)\b.*?</\1>", re.DOTALL)


def test_the_page_is_written_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    done = CliRunner().invoke(cli.app, ["claim", "gip.mse_t0", "--open"])
    assert done.exit_code == 0 and done.stdout.startswith("opened ")
    text = Path(url2pathname(urlsplit(opened[0]).path)).read_text(encoding="utf-8")
    assert "<h1>gip.mse_t0: top-k pruning MSE</h1>" in text and "<strong>FALSE</strong>" in text
    assert text.count("<math") > 50


def test_without_a_browser_the_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    monkeypatch.setattr(webbrowser, "open", lambda _address: False)
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert done.exit_code == 0
    assert Path(done.stdout.removeprefix("no browser was found; the page is ").strip()).is_file()


def test_without_pages_or_library_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "math_core", None)
    monkeypatch.delitem(sys.modules, "dptheory.cli._mathml", raising=False)
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert (done.exit_code, done.stderr) == (2, "Error: --open needs the extra docs: pip install 'dptheory[docs]'\n")
    monkeypatch.setattr(_prose, "page_folders", lambda: (tmp_path,))
    done = CliRunner().invoke(cli.app, ["claim", "gip.thm1", "--open"])
    assert done.exit_code == 2 and "proofs/gip/thm1.md did not come with this installation" in done.stderr


def test_no_page_is_left_with_a_raw_formula() -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    left = {}
    for page in {claim.page: claim for claim in claims.all_claims()}.values():
        text = _UNSEEN.sub("", _open.page_html(page.id, claims.page_markdown(page), page.page_file.parent))
        if "$" in text or "\\frac" in text or "\ue000" in text:
            left[page.id] = text
    assert list(left) == []


def test_a_large_closing_bracket_with_an_exponent_is_drawn_as_closing() -> None:
    pytest.importorskip("math_core", reason="needs the extra docs")
    from dptheory.cli._mathml import mathml

    found = mathml(r"\big(a+b\big)^2", display=False)
    assert '<msup><mrow><mo form="postfix" minsize="1.2em" maxsize="1.2em">)</mo></mrow><mn>2</mn></msup>' in found
    assert mathml(r"(a)^2", display=False).count("postfix") == 0


def test_displayed_formulas_keep_the_layout_of_mathematics(tmp_path: Path) -> None:
    """With display: block a browser sets each sign of a formula on a line of its own."""
    pytest.importorskip("math_core", reason="needs the extra docs")
    text = _open.page_html("x", "$$a+b$$", tmp_path)
    assert 'math[display="block"] { display: block math;' in text and '<math display="block">' in text
