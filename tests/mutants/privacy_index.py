"""Wrong calculators of privacy index."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
