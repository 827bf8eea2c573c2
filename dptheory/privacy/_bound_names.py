"""Bounds from several methods, with the names of those that gave them."""

from dataclasses import dataclass

LINE, CLOSED, ONE, GRID, RENYI, ADDED, CHANCE, NONE = (
    "saddle line",
    "Gaussian",
    "one step",
    "grid",
    "RDP",
    "values and index sets added up",
    "participations",
    "nothing",
)


@dataclass(frozen=True)
class Found:
    """Bounds, and what gave the lower and the upper one."""

    lower: float
    upper: float
    below: str
    above: str

    def with_lower(self, lower: float, name: str) -> "Found":
        return Found(lower, self.upper, name, self.above) if lower > self.lower else self

    def with_upper(self, upper: float, name: str) -> "Found":
        return Found(self.lower, upper, self.below, name) if upper < self.upper else self

    def with_more(self, other: "Found") -> "Found":
        """Bounds of the larger of two numbers."""
        lower, upper = max(self, other, key=lambda one: one.lower), max(self, other, key=lambda one: one.upper)
        return Found(lower.lower, upper.upper, lower.below, upper.above)

    @property
    def method(self) -> str:
        return self.below if self.below == self.above else f"{self.below}, {self.above}"
