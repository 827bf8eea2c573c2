"""Wrong calculators of lf descent."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
