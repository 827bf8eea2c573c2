"""Random allocation: a record takes part in exactly k of the t steps of an epoch, drawn at random."""
