"""The journal: a plan that was killed goes on with the pilots it has, and its choice is the same."""

import json
from pathlib import Path

import pytest

from dptheory.training.planning import Choice
from dptheory.training.planning._journal import Journal
from dptheory.training.planning._pilot import Job, Outcome, Score
from tests.refused import refused
from tests.training.planning.small import Here, linear, planned, point

JOB = Job(point=point(), most_steps=5, batch_size=64, fold=0, seed=1)
OUTCOME = Outcome(
    scores={0.0: Score(aside=0.5, seen=0.75, guide=0.25), 0.2: Score(aside=float("nan"), seen=1.0, guide=float("nan"))},
    seconds=0.25,
)


def chosen(choice: Choice) -> object:
    return choice.point, choice.expected, choice.as_good, choice.costs, choice.methods


@pytest.mark.parametrize("cut", [0, 9], ids=["whole lines", "the last line cut off"])
def test_a_killed_plan_goes_on_and_chooses_the_same(tmp_path: Path, cut: int) -> None:
    journal, whole = tmp_path / "pilots.jsonl", Here()
    wanted = planned(executor=whole)
    with pytest.raises(KeyboardInterrupt):
        planned(executor=Here(most=20), journal=journal)
    text = journal.read_text("utf-8")
    journal.write_text(text[: len(text) - cut], "utf-8")
    rest = Here()
    found = planned(executor=rest, journal=journal)
    assert chosen(found) == chosen(wanted)
    noted = [line for line in text.splitlines()[1:] if line]
    assert 0 < len(noted) <= 20
    assert rest.done == whole.done - len(noted) + (cut > 0)
    last = Here()
    assert chosen(planned(executor=last, journal=journal)) == chosen(wanted)
    assert last.done == 0, "nothing is left"


@pytest.mark.parametrize("change", ["seed", "metric", "frozen"])
def test_a_journal_of_another_plan_is_begun_anew(tmp_path: Path, change: str) -> None:
    journal, whole, other, model = tmp_path / "pilots.jsonl", Here(), Here(), linear()
    planned(journal=journal, executor=whole)
    if change == "frozen":
        model.bias.requires_grad_(False)  # type: ignore[union-attr]
    more = {"seed": {"seed": 1}, "metric": {"metric": lambda outputs, labels: 0.5}, "frozen": {}}[change]
    planned(model, journal=journal, executor=other, **more)
    assert other.done >= whole.done / 2, "pilots are made anew"


def test_what_ended_is_known_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pilots.jsonl"
    Journal(path, "setup").add(JOB, OUTCOME)
    found = Journal(path, "setup").known(JOB)
    assert found is not None and found.seconds == 0.25
    assert found.scores[0.0] == OUTCOME.scores[0.0]
    assert found.scores[0.2].seen == 1.0 and found.scores[0.2].aside != found.scores[0.2].aside
    assert Journal(path, "setup").known(Job(**vars(JOB) | {"seed": 2})) is None
    assert Journal(path, "another").known(JOB) is None


def test_another_file_is_not_written_over(tmp_path: Path) -> None:
    for text in ("some notes\n", json.dumps({"a": 1}) + "\n"):
        path = tmp_path / "notes"
        path.write_text(text)
        with refused("journal"):
            Journal(path, "setup")
        assert path.read_text() == text


def test_without_a_file_nothing_is_kept() -> None:
    journal = Journal(None, "setup")
    journal.add(JOB, OUTCOME)
    assert journal.known(JOB) is None
