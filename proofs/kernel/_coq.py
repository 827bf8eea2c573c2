"""Compiling the files of this folder, and reading what their theorems rest on."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dptheory.claims._markdown import module_text

FOLDER = Path(__file__).parent
STATEMENTS = {
    "printed_is_false": "~ printed",
    "printed_holds": "printed",
    "part_holds": "part",
    "reading_is_false": "~ reading",
    "correction_holds": "correction",
}
"""The theorems of a module, and what each of them says."""
SHARED = ("noise",)
"""Files that no claim needs, and that are checked with them all the same."""
AXIOMS = frozenset(
    {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
        "Classical_Prop.classic",
    }
)
"""The three of Coq's real numbers, and excluded middle."""
INSTALL = "apt-get install --no-install-recommends coq (Debian 12: Coq 8.16; the files use its standard library alone)"


class CoqError(RuntimeError):
    """Coq is missing, or refuses a file."""


def version() -> str:
    """The version of Coq that is installed."""
    for program in ("coqc", "coqchk"):
        if shutil.which(program) is None:
            raise CoqError(f"{program} is missing: {INSTALL}")
    return _run(["coqc", "--print-version"], FOLDER).split()[0]


def theorems_of(text: str) -> tuple[str, ...]:
    """Which of :data:`STATEMENTS` a text proves."""
    return tuple(name for name in STATEMENTS if re.search(rf"^Theorem {name}\b", text, re.MULTILINE))


def all_theorems(text: str) -> tuple[str, ...]:
    """Every theorem of a text, by name."""
    return tuple(re.findall(r"^Theorem (\w+)", text, re.MULTILINE))


def text_of(module: str, place: Path = FOLDER) -> str:
    """What stands in a module such as "rs.thm3_2", or in a whole file such as "noise"."""
    file, _, inner = module.partition(".")
    text = (place / f"{file}.v").read_text("utf-8")
    return module_text(text, inner) if inner else text


def needs(text: str) -> tuple[str, ...]:
    """The files of this folder that a file imports, without their ending."""
    lines = re.findall(r"^From kernel Require (?:Import )?([^\n]*)\.$", text, re.MULTILINE)
    return tuple(name for names in lines for name in names.split())


def ordered(files: Sequence[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """The files and all that they need, each after what it needs."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        for one in needs(texts[name]):
            visit(one)
        done[name] = None

    for file in files:
        visit(file)
    return tuple(done)


@contextmanager
def workshop(folder: Path = FOLDER) -> Iterator[Path]:
    """A copy of the sources, so that nothing compiled stays among them."""
    with tempfile.TemporaryDirectory() as place:
        for source in folder.rglob("*.v"):
            copy = Path(place) / source.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        yield Path(place)


def compile_all(files: Sequence[str], place: Path) -> tuple[str, ...]:
    """Compile the files, what they need, and :data:`SHARED` in the copy of the sources; what was compiled, in order."""
    texts = {path.relative_to(place).with_suffix("").as_posix(): path.read_text("utf-8") for path in place.rglob("*.v")}
    order = ordered([*files, *(name for name in SHARED if name in texts)], texts)
    for name in order:
        _run(["coqc", "-q", "-Q", ".", "kernel", f"{name}.v"], place)
    return order


def check(modules: Sequence[str], place: Path) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """See that the theorems of compiled modules say what their names promise; those of each module, and the axioms of all.

    Coq walks through its whole library for every question, so that there is one for all theorems together, and one for each module only
    where that finds an axiom too many.
    """
    theorems = {module: theorems_of(text_of(module, place)) for module in modules}
    if without := [module for module in modules if not theorems[module]]:
        raise CoqError(f"{without[0]} proves none of {', '.join(STATEMENTS)}")
    asked = (*modules, *(name for name in SHARED if (place / f"{name}.vo").is_file()))
    axioms = _axioms(asked, place)
    for module in asked if set(axioms) - AXIOMS else ():
        if extra := set(_axioms([module], place)) - AXIOMS:
            raise CoqError(f"{module} rests on {', '.join(sorted(extra))}; allowed are {', '.join(sorted(AXIOMS))}")
    return theorems, axioms


def _axioms(modules: Sequence[str], place: Path) -> tuple[str, ...]:
    lines = [f"Require kernel.{file}." for file in dict.fromkeys(module.partition(".")[0] for module in modules)]
    names: list[str] = []
    for inner in modules:
        module = f"kernel.{inner}"
        for name in all_theorems(text_of(inner, place)):
            if name not in STATEMENTS:
                names.append(f"{module}.{name}")
                continue
            said = re.sub(r"\b(printed|part|reading|correction)\b", rf"{module}.\1", STATEMENTS[name])
            names.append(f"promise_{len(names)}")
            lines.append(f"Definition {names[-1]} : {said} := {module}.{name}.")
    lines += [f"Definition all_promises := ({', '.join([*names, 'I'])}).", "Print Assumptions all_promises."]
    (place / "ask.v").write_text("\n".join(lines) + "\n", "utf-8")
    return axioms_in(_run(["coqc", "-q", "-Q", ".", "kernel", "ask.v"], place))


def axioms_in(answer: str) -> tuple[str, ...]:
    """The names in an answer to ``Print Assumptions``."""
    return tuple(sorted(set(re.findall(r"^([A-Za-z_][\w.']*)(?= ?:|$)", answer, re.MULTILINE)) - {"Axioms", "Closed"}))


def recheck(files: Sequence[str], place: Path) -> None:
    """Check the compiled files, and the libraries that they use, once more from scratch."""
    _run(
        ["coqchk", "-silent", "-Q", ".", "kernel", *(f"kernel.{file}" for file in (*files, *SHARED))],
        place,
    )


def _run(command: list[str], place: Path) -> str:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CoqError(f"{' '.join(command[:1] + command[-1:])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
