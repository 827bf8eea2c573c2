"""One version, one license and one description in all files that state them, and Pythons that the code is written for."""

import re
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def cited(field: str) -> str:
    """A line of CITATION.cff."""
    found = re.findall(rf'^{field}: "?(.+?)"?$', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(found) == 1, field
    return found[0]


def test_version_license_and_title_are_said_alike() -> None:
    headings = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert PROJECT["version"] == cited("version") == headings[0]
    assert PROJECT["license"] == cited("license") == "Apache-2.0"
    title = cited("title")
    assert title.lower() == f"{PROJECT['name']}: {PROJECT['description']}".lower()


def test_the_pythons_declared_are_those_allowed() -> None:
    """Each was installed into and tried; a later one is allowed, not promised."""
    declared = [
        one.rsplit(" ", 1)[1]
        for one in PROJECT["classifiers"]
        if one.startswith("Programming Language :: Python :: 3.")
    ]
    assert declared == ["3.11", "3.12", "3.13"]
    assert all(one in SpecifierSet(PROJECT["requires-python"]) for one in declared)
    assert "3.10" not in SpecifierSet(PROJECT["requires-python"])


def test_every_extra_is_in_all_or_named_apart() -> None:
    extras = set(PROJECT["optional-dependencies"])
    (everything,) = PROJECT["optional-dependencies"]["all"]
    together = set(re.findall(r"\w+", everything.partition("[")[2]))
    assert extras - together == {"all", "architectures", "browser", "cluster", "docs", "evidence"}


def test_the_source_archive_carries_what_its_tests_and_pages_need() -> None:
    carried = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    top = {
        path.name for path in ROOT.iterdir() if not path.name.startswith(".") and not path.name.endswith(".egg-info")
    }
    named = {name for name in top if re.search(rf"^(graft|include) .*\b{re.escape(name)}", carried, re.MULTILINE)}
    ours = {
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "conftest.py",
        "constraints.txt",
        "figures",
        "proofs",
        "tests",
        "training",
    }
    assert ours <= named
