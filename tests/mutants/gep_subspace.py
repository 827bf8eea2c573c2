"""Wrong calculators of gep subspace."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
