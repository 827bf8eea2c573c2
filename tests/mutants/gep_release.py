"""Wrong calculators of gep release."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
