"""The pilots that have ended, kept in a file: a plan that was stopped goes on where it was."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from dptheory.errors import ArgumentError
from dptheory.training._json_lines import JsonLines, Line
from dptheory.training.planning._pilot import Job, Outcome, Score

_BEGINS = '{"plan": "'


class Journal:
    """A line of JSON for every pilot that has ended.

    Args:
        path: of the file; None for none.
        setup: all that the pilots depend on, beside their jobs; a file of another setup is begun anew.
    """

    def __init__(self, path: Path | None, setup: Any) -> None:
        self._file = None if path is None else JsonLines(path)
        self._known: dict[str, Outcome] = {}
        if path is None or self._file is None:
            return
        if path.exists() and not f"{path.read_text('utf-8')}{_BEGINS}".startswith(_BEGINS):
            raise ArgumentError("journal", "be a file of a plan, or none yet", str(path), then=", which is another one")
        head: Line = {"plan": hashlib.sha256(repr(setup).encode()).hexdigest()}
        lines = self._file.lines()
        if lines and lines[0] == head:
            self._known = {line["job"]: _outcome(line) for line in lines[1:]}
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", "utf-8")
        self._file.add(head)

    def known(self, job: Job) -> Outcome | None:
        """How this very pilot went, where it has ended."""
        return self._known.get(_key(job))

    def add(self, job: Job, outcome: Outcome) -> None:
        """Note a pilot that has ended, at once."""
        if self._file is not None:
            scores = [[share, score.aside, score.seen, score.guide] for share, score in outcome.scores.items()]
            self._file.add({"job": _key(job), "seconds": outcome.seconds, "scores": scores})


def _outcome(found: Line) -> Outcome:
    scores = {share: Score(aside=aside, seen=seen, guide=guide) for share, aside, seen, guide in found["scores"]}
    return Outcome(scores=scores, seconds=found["seconds"])


def _key(job: Job) -> str:
    return hashlib.sha256(repr(dataclasses.astuple(job)).encode()).hexdigest()
