"""LF: Table 1 and the settings of Appendix D by the name of the setting, such as "MNIST, CNN, epsilon 1"."""

from dptheory import papers
from dptheory.papers import Cell, Setting

_CELLS = papers.table("lf.table1").cells

TABLE_1: dict[str, tuple[Cell, Cell]] = {
    # without freezing, with freezing
    without.name.removesuffix(f", {without.key('column')}"): (without, frozen)
    for without, frozen in zip(_CELLS[::2], _CELLS[1::2], strict=True)
}

SETTINGS: dict[str, Setting] = {
    f"{one.dataset}, CNN, epsilon {one.epsilon}": one
    for one in papers.settings("lf")
    if one.frozen_after_epoch is not None
}
"""Those whose noise multiplier is printed: not the Wide-ResNet."""
