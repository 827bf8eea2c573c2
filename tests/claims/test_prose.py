"""The words of a claim, read from its page."""

from pathlib import Path

import pytest

from dptheory import claims
from dptheory.claims import Prose, _prose

PAGE = """# gip.x: a title: with a colon

[Ledger](../README.md#x) › Somewhere

**NOT_SHOWN** (observed, not proved): why it is so: in short.

The mistake is that of [`gip.y`](y.md).

**For a user.** Less noise.

## Key points

- One
  goes on.
- Two - with a dash.

## Statement

First.

- an item

Last.

## Sharper

Better.

## Conditions

None.

## Where the print errs

There.

## Proof
## Statement
of another thing
"""


def test_every_part_is_read() -> None:
    assert _prose.prose_of(PAGE) == Prose(
        title="a title: with a colon",
        statement="First.\n\n- an item\n\nLast.",
        summary="why it is so: in short.",
        for_users="Less noise.",
        key_points=("One\n  goes on.", "Two - with a dash."),
        conditions=(),
        correction="Better.",
        printed_error="There.",
    )


def test_a_severity_may_stand_behind_the_verdict() -> None:
    page = PAGE.replace("**NOT_SHOWN**", "**FALSE, serious**")
    assert _prose.prose_of(page).summary == "why it is so: in short."


def test_what_a_page_may_leave_out() -> None:
    found = _prose.prose_of("# gip.x: a title\n\n## Statement\n\nIt is so.\n")
    assert found == Prose(title="a title", statement="It is so.")


@pytest.mark.parametrize(
    "text",
    ["", "no title\n## Statement\nx\n", "# gip.x: a title\n", PAGE.replace("## Sharper", "## Key points")],
    ids=["empty", "no title", "no statement", "a section twice"],
)
def test_a_page_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"page must"):
        _prose.prose_of(text)


def test_the_page_is_read_when_its_words_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_prose, "page_folders", lambda: (tmp_path / "none", tmp_path))
    claim = claims.Claim("gip.x", claims.Source("gip", "Lemma 1"), claims.Verdict.FALSE)
    with pytest.raises(ValueError, match=r"proofs/gip/x\.md did not come with this installation"):
        _ = claim.title
    page = tmp_path / "gip" / "x.md"
    page.parent.mkdir()
    page.write_text("# gip.x: a title\n")
    with pytest.raises(ValueError, match=r"gip.x\.md: a page must"):
        _ = claim.title
    page.write_text(PAGE)
    assert (claim.title, claim.page_file) == ("a title: with a colon", page)
    page.unlink()
    assert claim.statement.startswith("First."), "read once"
