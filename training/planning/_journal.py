"""The pilots that have ended, kept in a file: a plan that was stopped goes on where it was."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from dptheory import _validate
from dptheory.training.planning._pilot import Job, Outcome, Score


class Journal:
    """A line of JSON for every pilot that has ended.

    Args:
        path: of the file; None for none.
        setup: all that the pilots depend on, beside their jobs; a file of another setup is begun anew.
    """

    def __init__(self, path: Path | None, setup: Any) -> None:
        self._path = path
        self._known: dict[str, Outcome] = {}
        if path is None:
            return
        mark = hashlib.sha256(repr(setup).encode()).hexdigest()
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        if lines and _read(lines[0]) == {"plan": mark}:
            for line in lines[1:]:
                found = _read(line)
                if found is not None:
                    self._known[found["job"]] = _outcome(found)
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")  # the last line may have been cut off
            return
        if lines and "plan" not in (_read(lines[0]) or {}):
            raise ValueError(
                f"journal must be a file of a plan, or none yet, got {_validate.shown(str(path))}, which is another one"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"plan": mark}) + "\n", "utf-8")

    def known(self, job: Job) -> Outcome | None:
        """How this very pilot went, where it has ended."""
        return self._known.get(_key(job))

    def add(self, job: Job, outcome: Outcome) -> None:
        """Note a pilot that has ended, at once."""
        if self._path is None:
            return
        scores = [[share, score.aside, score.seen, score.guide] for share, score in outcome.scores.items()]
        line = json.dumps({"job": _key(job), "seconds": outcome.seconds, "scores": scores})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _read(line: str) -> dict[str, Any] | None:
    """A line; None for one that was cut off in the middle."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _outcome(found: dict[str, Any]) -> Outcome:
    scores = {share: Score(aside=aside, seen=seen, guide=guide) for share, aside, seen, guide in found["scores"]}
    return Outcome(scores=scores, seconds=found["seconds"])


def _key(job: Job) -> str:
    return hashlib.sha256(repr(dataclasses.astuple(job)).encode()).hexdigest()
