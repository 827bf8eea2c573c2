"""Wrong calculators of privacy masks."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
