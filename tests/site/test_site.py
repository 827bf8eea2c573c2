"""The site: it builds without a warning, its links hold, and a browser shows it as it is meant, from files alone.

One build and one browser for all. Where the extra ``docs`` is missing everything is left out, and where no Chromium is found
what needs one.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from dptheory import claims, planning
from dptheory.claims import Verdict

ROOT = Path(__file__).parents[2]
LEDGER = "proofs/README.html"
_CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WIDE, _PHONE = 1300, 390
_HANGS = 300_000
"""Milliseconds after which something hangs, however busy the machine is."""

if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("math_core") is None:
    pytest.skip("needs the extra docs", allow_module_level=True)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one command, every warning an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-c",
        "proofs/website",
        ".",
        str(folder / "out"),
        "-d",
        str(folder / "trees"),
    ]
    done = subprocess.run([*command, "-q", "-W", "--keep-going"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "out"


# --- without a browser --------------------------------------------------------------------------------------------------


class _Reader(HTMLParser):
    """What a page links to, what can be linked to in it, and the text that a reader sees."""

    _UNSEEN = frozenset({"script", "style", "math", "pre", "code", "title", "svg"})

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.formulas = 0
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := given.get(key))}
        self.links += [value for key in ("href", "src") if (value := given.get(key))]
        self.formulas += tag == "math"
        if tag in self._UNSEEN:
            self._hidden.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden and self._hidden[-1] == tag:
            self._hidden.pop()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


@pytest.fixture(scope="module")
def read(site: Path) -> dict[str, _Reader]:
    """Every page by its path."""
    pages: dict[str, _Reader] = {}
    for path in sorted(site.rglob("*.html")):
        reader = pages[path.relative_to(site).as_posix()] = _Reader()
        reader.feed(path.read_text(encoding="utf-8"))
    return pages


def test_every_proof_page_and_every_public_package_has_a_page(read: dict[str, _Reader]) -> None:
    sources = [path for path in (ROOT / "proofs").rglob("*.md")]
    expected = {path.relative_to(ROOT).with_suffix(".html").as_posix() for path in sources}
    packages = {path.parent.name for path in (ROOT / "dptheory").glob("*/__init__.py")} - {"cli", "training"}
    expected |= {f"proofs/website/modules/{package}.html" for package in packages}
    trained = {path.parent.name for path in (ROOT / "training").glob("*/__init__.py")} - {"benchmarks"}
    expected |= {f"proofs/website/modules/training_{package}.html" for package in trained}
    assert expected | {"index.html", "README.html", "search.html"} <= set(read)
    assert len(expected) > 140


def test_modules_that_need_torch_show_what_is_public(read: dict[str, _Reader]) -> None:
    """Torch stands aside while the site is built; every public function and class is there all the same."""
    public = {
        f"dptheory.training.{path.parent.name}.{name}"
        for path in (ROOT / "training").glob("*/__init__.py")
        for name in re.findall(r'"(\w+)"', path.read_text(encoding="utf-8").partition("__all__")[2])
        if not name.isupper()
    }
    shown = {id for page, reader in read.items() if "/modules/training_" in page for id in reader.ids}
    types = {"mechanisms.Noise", "mechanisms.Tensors", "per_example.Tensors"}
    assert public - shown == {f"dptheory.training.{name}" for name in types}
    assert len(public) > 150


def test_links_within_the_site_hold(site: Path, read: dict[str, _Reader]) -> None:
    broken = []
    for page, reader in read.items():
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (site / page).parent / unquote(parts.path) if parts.path else site / page
            target = target.resolve()
            if not target.is_file():
                broken.append((page, link))
            elif parts.fragment and target.suffix == ".html":
                there = read[target.relative_to(site.resolve()).as_posix()].ids
                if unquote(parts.fragment) not in there:
                    broken.append((page, link))
    assert broken == []


_LOADED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc="((?:https?:)?//[^"]*)"""
    r"""|<link\b[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="((?:https?:)?//[^"]*)"""
    r"""|url\(\s*["\']?((?:https?:)?//[^)]*)|@import\s+["\']((?:https?:)?//[^"\']*)"""
)


def test_a_reader_needs_no_network(site: Path) -> None:
    """Scripts, styles, fonts and pictures come with the site; only links that are clicked lead out."""
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert {(path.name, found[0]) for path in files for found in _LOADED.finditer(path.read_text("utf-8"))} == set()
    assert _LOADED.search('<script async src="https://example.org/x.js">') and _LOADED.search(
        "src: url(//example.org/f.woff)"
    )


def test_no_formula_is_left_raw(read: dict[str, _Reader]) -> None:
    raw = {
        (page, mark)
        for page, reader in read.items()
        for mark in ("$", "\\frac", "\\mathrm", "\\le", "\\sigma", "\\*", "\\|")
        if mark in "".join(reader.text)
    }
    assert raw == set()
    assert sum(reader.formulas for reader in read.values()) > 10_000


def test_every_row_of_the_ledger_says_what_the_filters_ask(site: Path) -> None:
    rows = re.findall(
        r'<tr class="([^"]*)"><td><p><a [^>]*>(?:<[^>]*>)*([\w.-]+)<', (site / LEDGER).read_text(encoding="utf-8")
    )
    said = {id: set(classes.split()) for classes, id in rows}
    for claim in claims.all_claims():
        kinds = {f"kind-{check.kind.value.replace(' ', '-')}" for check in claim.checks}
        expected = {"claim", f"paper-{claim.source.paper}", f"verdict-{claim.verdict.name.lower()}", *kinds}
        assert expected <= said[claim.id], claim.id


# --- in a browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if _CHROMIUM is None:
        pytest.skip("needs Chromium: put it on the PATH or name it in CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=_CHROMIUM, args=_OPTIONS)
        yield started
        started.close()


class _Visit:
    """A page that is open, and what it complained of."""

    def __init__(self, browser: Any, site: Path, width: int) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(_HANGS)
        self.site = site
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("requestfailed", lambda request: self.said.append(f"not loaded: {request.url}"))

    def open(self, address: str) -> Any:
        self.page.goto(f"{self.site.as_uri()}/{address}")
        return self.page


@pytest.fixture
def visit(browser: Any, site: Path, request: pytest.FixtureRequest) -> Iterator[_Visit]:
    visit = _Visit(browser, site, getattr(request, "param", _WIDE))
    yield visit
    visit.page.close()
    assert visit.said == []


_SHOWN = [
    "index.html",
    LEDGER,
    "proofs/gip/mse_t0.html",
    "proofs/rs/tuned.html",
    "proofs/gep/thm3.1.html",
    "proofs/measured.html",
    "proofs/results.html",
    "proofs/glossary.html",
    "proofs/website/sharp_edges.html",
    "proofs/website/tutorial.html",
    "proofs/website/plan.html",
    "proofs/website/modules/privacy.html",
    "proofs/website/modules/training_engine.html",
    "proofs/website/modules/training_mechanisms.html",
    "search.html?q=kappa",
]
_TOO_WIDE = """() => {
  const scrolls = (one) => ["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX);
  const own = (one) => one.matches("pre, .formula, .long-formula, .table-wrapper, .highlight, .sidebar-scroll, .toc-scroll");
  const found = [];
  for (const one of document.querySelectorAll("article *")) {
    if (one.getBoundingClientRect().right <= innerWidth + 1) continue;
    let up = one, held = false;
    while (up && up !== document.body) { held = held || (own(up) && scrolls(up)); up = up.parentElement; }
    if (!held) found.push(one.tagName + " " + one.className + ": " + one.textContent.slice(0, 60));
  }
  return found.slice(0, 5).concat(document.documentElement.scrollWidth > innerWidth ? ["the page itself"] : []);
}"""


@pytest.mark.parametrize("visit", [_WIDE, _PHONE], ids=["wide", "phone"], indirect=True)
def test_pages_load_in_silence_and_scroll_sideways_only_in_tables_formulas_and_code(visit: _Visit) -> None:
    wide = {address: visit.open(address).evaluate(_TOO_WIDE) for address in _SHOWN}
    assert {address: found for address, found in wide.items() if found} == {}


_CUT_CODE = """() => Array.from(document.querySelectorAll("article .highlight pre")).filter(
  (one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 60))"""


def test_code_of_the_front_page_and_of_a_guide_is_read_without_scrolling(visit: _Visit) -> None:
    for address in ("index.html", "proofs/guides/calculators.html"):
        assert visit.open(address).evaluate(_CUT_CODE) == []


def test_formulas_are_drawn_in_the_font_that_comes_along(visit: _Visit) -> None:
    page = visit.open("proofs/gip/mse_t0.html")
    page.evaluate("document.fonts.ready")
    assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"')")
    assert page.evaluate("Array.from(document.fonts).some(f => f.family.includes('STIX') && f.status == 'loaded')")
    high = page.evaluate("document.querySelector('.formula mfrac').getBoundingClientRect().height")
    assert high > 25  # a fraction has two lines


def _rows(page: Any) -> list[str]:
    """The claims that the ledger shows now."""
    found: list[str] = page.locator("tr.claim:not([hidden]) td:first-child a").all_inner_texts()
    return found


def test_the_filters_of_the_ledger(visit: _Visit) -> None:
    page = visit.open(LEDGER)
    everything = [claim.id for claim in claims.all_claims()]
    assert _rows(page) == everything
    page.select_option("#ledger-paper", "gip")
    assert _rows(page) == [one for one in everything if one.startswith("gip.")]
    page.select_option("#ledger-verdict", "false")
    assert _rows(page) == [claim.id for claim in claims.all_claims("gip", Verdict.FALSE)]
    assert page.locator("#ledger-count").inner_text() == f"{len(_rows(page))} of {len(everything)} claims"
    assert page.locator("h2:visible").count() == 1
    page.select_option("#ledger-paper", "")
    page.select_option("#ledger-verdict", "")
    page.select_option("#ledger-kind", "counterexample")
    has = {claim.id for claim in claims.all_claims() if "counterexample" in {one.kind.value for one in claim.checks}}
    assert set(_rows(page)) == has
    page.select_option("#ledger-kind", "")
    page.fill("#ledger-text", "no such words")
    assert _rows(page) == []


@pytest.mark.parametrize("visit", [_WIDE, _PHONE], ids=["wide", "phone"], indirect=True)
def test_a_proposition_is_found_by_its_name_in_the_ledger(visit: _Visit) -> None:
    for words in ("GIP Proposition 2", "gip prop. 2", "Gradient index pruning proposition 2"):
        page = visit.open(LEDGER)
        page.fill("#ledger-text", words)
        assert _rows(page) == ["gip.mse_r", "gip.mse_t0", "gip.mse_t", "gip.order", "gip.retained_gain"]
        verdict = page.locator("tr.claim:not([hidden]) td:nth-child(2)").nth(1)
        assert verdict.inner_text().startswith("FALSE") and verdict.is_visible()
    again = visit.open(page.url.split("/", 3 + len(visit.site.parts) - 1)[-1])
    assert len(_rows(again)) == 5, "the address keeps the filters"


def test_the_search_finds_a_proposition_by_its_name_and_shows_its_verdict(visit: _Visit) -> None:
    for words in ("GIP Proposition 2", "GIP Prop. 2", "Proposition 2 of GIP"):
        page = visit.open("index.html")
        page.locator(".sidebar-search").fill(words)
        page.locator(".sidebar-search").press("Enter")
        page.wait_for_selector("#search-results li a")
        page.wait_for_function(
            "document.querySelector('#search-results p.search-summary').textContent.includes('found')"
        )
        shown = page.locator("#search-results li a").all_inner_texts()[:4]
        assert "gip.mse_t0: top-k pruning MSE [FALSE]" in shown and "gip.mse_r: random-k pruning MSE [HOLDS]" in shown
    page.get_by_text("gip.mse_t0: top-k pruning MSE [FALSE]").click()
    assert page.locator("h1").inner_text().startswith("gip.mse_t0")


@pytest.mark.parametrize("epsilon, delta, epochs", [(3, 1e-5, 40), (0.3, 1e-7, 2), (8, 1e-6, 1)])
def test_the_page_of_budgets_finds_the_noise_of_the_planner(
    visit: _Visit, epsilon: float, delta: float, epochs: float
) -> None:
    """Rounded up at four decimals; the planner's is the least to 1e-6 relative, the page searches to 1e-6."""
    page = visit.open("proofs/website/plan.html")
    for name, value in {"epsilon": epsilon, "delta": delta, "epochs": epochs, "smallest": 128, "largest": 8192}.items():
        page.fill(f"#plan [name={name}]", str(value))
    assert not page.locator("#plan-rows").is_visible(), "no head without rows"
    page.click("#plan button")
    page.wait_for_selector("#plan-rows tbody tr")
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('#plan-rows th')).paddingLeft)") > 2
    rows = [one.split("\t") for one in page.locator("#plan-rows tbody tr").all_inner_texts()]
    found = planning.candidates(num_examples=60_000, epsilon=epsilon, delta=delta, max_epochs=epochs)
    wanted = [one for one in found if one.epochs == epochs and 128 <= one.batch_size <= 8192]
    assert [(int(row[0]), int(row[1])) for row in rows] == [(one.batch_size, one.steps) for one in wanted]
    for row, one in zip(rows, wanted, strict=True):
        assert 0 <= float(row[3]) - one.noise_multiplier * (1 - 2e-6) <= 1e-4 + 4e-6 * one.noise_multiplier
