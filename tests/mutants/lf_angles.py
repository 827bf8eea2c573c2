"""Wrong calculators of lf angles."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
