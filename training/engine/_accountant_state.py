"""The state of an accountant: the steps that each process has made of a run, as plain values."""

import dataclasses
import secrets
from collections import Counter
from typing import Any

from dptheory.errors import ArgumentError
from dptheory.privacy import FreshMask
from dptheory.pruning import SubsetMallows
from dptheory.training.mechanisms import StepCost

Spent = Counter[StepCost]
"""Number of steps of each cost."""
Makers = dict[str, Spent]
"""The steps of a run by the accountant that recorded them, one in each process in which the run went on."""

Basis = dict[str, str | bool]
"""What the report of a run says that its steps rest on besides, by name."""


def new_name() -> str:
    """A name that no other accountant has."""
    return secrets.token_hex(16)


def written(makers: Makers) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """Plain values for :func:`read`."""
    return {
        name: [(dataclasses.asdict(cost), times) for cost, times in spent.items()]
        for name, spent in makers.items()
        if spent
    }


def read(state: dict[str, Any], sampling_rate: float, basis: Basis) -> Makers:
    """The steps of a state, where they cost here what they cost where they were made, and rest on the same.

    Raises:
        ValueError: steps of another sampling rate or of an unknown one, or that rest on something else than ``basis`` says.
    """
    if not state["spent"]:
        return {}
    if "sampling_rate" not in state:
        raise ArgumentError(
            "state",
            "say the sampling rate of its steps",
            state,
            got="one of an earlier version, which does not: start the run anew, or add the epsilon that "
            "it had to that of this run",
        )
    if state["sampling_rate"] != sampling_rate:
        raise ArgumentError(
            "state",
            f"hold steps of the sampling rate of this run, {sampling_rate!r}",
            state,
            got=f"steps of {state['sampling_rate']!r}: resume with the batch size and the number of "
            "examples that the run had",
        )
    there = state.get("basis", {})
    for name, here in basis.items():
        if there.get(name) != here:
            raise ArgumentError(
                "state",
                f"hold steps of a run with {name} {here!r}",
                state,
                got=f"{name} {there.get(name)!r}: the report says one for all steps; resume with the settings "
                "that the run had, or start anew and add the epsilon that it had",
            )
    return {name: Counter({_cost(plain): times for plain, times in spent}) for name, spent in state["spent"].items()}


def merged(here: Makers, there: Makers) -> Makers:
    """All steps of both. Of an accountant that both know the larger counts hold: its own never fall."""
    return {name: here.get(name, Counter()) | there.get(name, Counter()) for name in {**here, **there}}


def _cost(plain: dict[str, Any]) -> StepCost:
    """A cost from what ``dataclasses.asdict`` made of it."""
    chosen = plain["selection"]
    masks = {name: FreshMask(**plain[name]) for name in ("mask", "seeded_mask") if plain.get(name) is not None}
    selection = None if chosen is None else (chosen[0], SubsetMallows(**chosen[1]))
    return StepCost(plain["noise_multiplier"], selection=selection, **masks)
