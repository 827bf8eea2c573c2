"""Wrong calculators of gep privacy."""

from mutants.mutators import Mutant

MUTANTS: list[Mutant] = []
