"""The wheel carries the proof pages and their pictures, for ``dptheory claim ID --open``; all else stands in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_PROOFS = Path(__file__).parent / "proofs"


class WithPages(build_py):
    """Copies ``proofs/*.md``, ``proofs/<room>/*.md`` and ``proofs/figures/*.png`` to ``dptheory/pages``."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # the pages lie beside the package
            return
        pages = Path(self.build_lib) / "dptheory" / "pages"
        for source in sorted([*_PROOFS.glob("*.md"), *_PROOFS.glob("*/*.md"), *_PROOFS.glob("figures/*.png")]):
            target = pages / source.relative_to(_PROOFS)
            if source.parent.name != "website":
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": WithPages})
