"""Wrong calculators of privacy accounting."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
