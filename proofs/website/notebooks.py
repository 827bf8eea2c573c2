"""``python -m proofs.website.notebooks FOLDER``: a notebook of every guide, its code in cells to run; nothing of them is kept."""

import json
import re
import sys
from pathlib import Path
from typing import Any

GUIDES = Path(__file__).parents[1] / "guides"
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)


def notebook(page: str) -> dict[str, Any]:
    """A page of Markdown as a notebook: blocks of Python and of commands are cells of code, what stands between them is text."""
    cells, at = [], 0
    for block in _BLOCK.finditer(page):
        cells += _text(page[at : block.start()])
        source = _typed(block[2]) if block[1] == "python" else f"%%bash\n{block[2]}"
        tags = ["raises-exception"] if "Traceback (most recent call last):" in block[2] else []  # the guide shows it
        cells.append(
            {
                "cell_type": "code",
                "metadata": {"tags": tags},
                "execution_count": None,
                "outputs": [],
                "source": source.rstrip("\n"),
            }
        )
        at = block.end()
    for number, cell in enumerate(cells := [*cells, *_text(page[at:])]):
        cell["id"] = f"cell{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def _text(part: str) -> list[dict[str, Any]]:
    plain = _COMMENT.sub("", part).strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": plain}] if plain else []


def _typed(block: str) -> str:
    """What is typed: of a session the lines with a prompt."""
    if not block.startswith(">>>"):
        return block
    return "\n".join(line[4:] for line in block.splitlines() if line.startswith((">>>", "...")))


def write(folder: Path) -> list[Path]:
    """A notebook of every guide with code to run."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(GUIDES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            written.append(folder / f"{page.stem}.ipynb")
            written[-1].write_text(json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
