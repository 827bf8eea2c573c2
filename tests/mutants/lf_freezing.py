"""Wrong calculators of lf freezing."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
