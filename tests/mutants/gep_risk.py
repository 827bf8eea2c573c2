"""Wrong calculators of gep risk."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
