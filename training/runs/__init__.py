"""Studies: grids of runs with paired seeds, run in processes of their own, and what they say."""
