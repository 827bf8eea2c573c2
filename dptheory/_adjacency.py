"""Which data sets are neighbours: one record is added or removed, or one is replaced by another."""

from typing import Literal, get_args

Adjacency = Literal["add-remove", "replace-one"]
ADJACENCIES: tuple[str, ...] = get_args(Adjacency)
