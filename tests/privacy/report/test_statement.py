"""The privacy statement: every field, in words and as JSON."""

import dataclasses
import json
import math
import tempfile
from pathlib import Path

import pytest

from dptheory.privacy import (
    Composition,
    FreshMask,
    IndexSteps,
    JointStep,
    MaskedStep,
    PrivacyStatement,
    Step,
    gaussian_epsilon,
    privacy_statement,
    read_statement,
)
from dptheory.privacy.report._statement import _number, described
from dptheory.pruning import SubsetMallows
from tests.refused import refused
from tests.said import says

RUN = Composition([Step(noise_multiplier=4.0, sampling_rate=1.0, count=10)])
LAW = SubsetMallows(12, 4, theta=0.05)


def stated(**changes: object) -> PrivacyStatement:
    given = {
        "mechanism": "an algorithm",
        "unit": "one user",
        "adjacency": "zero-out",
        "public": ("clip", "noise"),
        "sampler": "Poisson, as run",
        "randomness": "seed 7",
        "secure": False,
        "epsilon_if_secure": 2.5,
        "tuning": "none",
        "software": ("a 1",),
    }
    return privacy_statement(composition=RUN, delta=1e-5, **(given | changes))  # type: ignore[arg-type]


def test_every_field() -> None:
    found, exact = stated(), gaussian_epsilon(math.sqrt(10) / 4, 1e-5)
    assert found.output and found.covered and "Gaussian" in found.accountant
    assert found.epsilon_lower <= exact <= found.epsilon <= found.epsilon_lower + 1e-6
    attack = RUN.attack()
    assert dataclasses.replace(found, epsilon=0.0, epsilon_lower=0.0) == PrivacyStatement(
        mechanism="an algorithm",
        unit="one user",
        adjacency="zero-out",
        output=found.output,
        covered=found.covered,
        public=("clip", "noise"),
        sampler="Poisson, as run",
        composition=(described(RUN.parts[0]),),
        steps=10,
        delta=1e-5,
        epsilon=0.0,
        epsilon_lower=0.0,
        accountant=found.accountant,
        randomness="seed 7",
        secure=False,
        epsilon_if_secure=2.5,
        attack=attack,
        tuning="none",
        software=("a 1",),
    )
    plain = privacy_statement(composition=RUN, delta=1e-5)
    assert plain.tuning not in ("", "none")
    assert plain.epsilon_if_secure == plain.epsilon == found.epsilon and plain.epsilon_lower == found.epsilon_lower
    assert dataclasses.replace(plain, epsilon_if_secure=2.5) == dataclasses.replace(
        found,
        mechanism="DP-SGD",
        unit="one record",
        adjacency="add-remove",
        public=(),
        sampler="Poisson",
        randomness="not stated",
        secure=True,
        tuning=plain.tuning,
        software=(),
    )


def test_all_of_it_is_in_the_text_and_in_the_json() -> None:
    found = stated()
    text, data = found.markdown(), json.loads(found.json())
    assert list(data) == [field.name for field in dataclasses.fields(found)]
    assert data["epsilon"] == found.epsilon and data["attack"]["advantage_upper"] == found.attack.advantage_upper  # type: ignore[union-attr]
    assert data == json.loads(json.dumps(dataclasses.asdict(found)))
    plain = " ".join(text.split())
    for told in (found.mechanism, found.unit, found.adjacency, found.output, found.covered, ", ".join(found.public), found.sampler,
                 *found.composition, found.accountant, found.randomness, found.tuning, *found.software):  # fmt: skip
        assert told in plain
    assert says(text, "3.35", "1e-05", "2.5") and says(text, 10, 10, 4, 1) and says(text, "3.34", "3.35")
    assert text.splitlines()[-len(str(found.attack).splitlines()) :] == str(found.attack).splitlines()
    assert "null record" in plain and "simulation" in plain
    assert "simulation" not in stated(secure=True).markdown()
    assert "one \\| two lines" in stated(unit="one | two\nlines").markdown()


def test_what_nothing_protects_says_so_and_is_null() -> None:
    found = dataclasses.replace(stated(), epsilon=math.inf, attack=None)
    assert "no privacy guarantee" in found.markdown() and "an attacker" not in found.markdown()
    assert json.loads(found.json())["epsilon"] is None and json.loads(found.json())["attack"] is None


def test_before_the_first_step() -> None:
    found = privacy_statement(composition=None, delta=1e-5)
    assert (found.epsilon, found.epsilon_lower, found.steps, found.composition, found.attack) == (0.0, 0.0, 0, (), None)
    assert "(0, 1e-05)" in found.markdown()


def test_steps_in_words() -> None:
    values = {"noise_multiplier": 2.0, "sampling_rate": 0.25, "count": 3}
    assert says(described(Step(**values)), 3, 2, 0.25)
    assert says(described(JointStep(**values, mechanism=LAW, groups=5)), 3, 2, 0.25, 5, 4, 12, 0.05)
    assert says(described(MaskedStep(**values, mask=FreshMask(dim=9, keep=2))), 3, 2, 0.25, 2, 9)
    assert says(described(IndexSteps(steps=7, mechanism=LAW, groups=5)), 7, 5, 4, 12, 0.05)


@pytest.mark.parametrize(
    ("value", "above", "below"),
    [
        (3.3414, "3.35", "3.34"),
        (0.0123449, "0.0124", "0.0123"),
        (123.4, "124", "123"),
        (2.5, "2.5", "2.5"),
        (0.0, "0", "0"),
    ],
)
def test_printed_numbers_hold(value: float, above: str, below: str) -> None:
    assert (_number(value), _number(value, up=False)) == (above, below)


def test_bad_input() -> None:
    with refused("adjacency", "'add-remove'", "'replace-one'"):
        stated(adjacency="replace-one")
    with refused("adjacency"):
        stated(adjacency="users")
    with refused("composition"):
        privacy_statement(composition=3, delta=1e-5)  # type: ignore[arg-type]
    with refused("delta"):
        privacy_statement(composition=RUN, delta=0.0)
    with refused("secure"):
        stated(secure="yes")


def test_it_is_read_as_it_was_written() -> None:
    nothing = privacy_statement(composition=None, delta=1e-5)
    for found in (stated(), dataclasses.replace(nothing, epsilon=math.inf, epsilon_if_secure=math.inf)):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "statement.json").write_text(found.json())
            assert read_statement(folder) == read_statement(Path(folder) / "statement.json") == found


def test_what_is_no_statement_is_refused(tmp_path: Path) -> None:
    good, file = json.loads(stated().json()), tmp_path / "statement.json"
    with refused("path"):
        read_statement(tmp_path)
    changes = [
        ({"delta": -1.0}, 'path'), ({"attack": {}}, 'path'),
        ({"attack": good["attack"] | {"advantage_upper": 2.0}}, 'path'), ({"public": "N"}, 'path'),
        ({"adjacency": "near"}, 'path'), ({"steps": 1.5}, 'path'), ({"unit": 1}, 'path'),
        ({"secure": "yes"}, 'path'), ({"more": 1}, 'path'),
    ]  # fmt: skip
    for text, said in [("{", "path"), ("3", "path"), ("[" * 10**5, "path")] + [
        (json.dumps(good | change), said) for change, said in changes
    ]:
        file.write_text(text)
        with refused(said):
            read_statement(file)
