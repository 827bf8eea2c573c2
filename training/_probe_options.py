"""Which options of ``python -m training probe`` go together."""

from pathlib import Path

import typer

_OF_TRAINING = (
    "steps", "record", "batch_size", "noise_multiplier", "max_grad_norm", "learning_rate", "keep_shares", "draws", "out",
    "examples",
)  # fmt: skip
_OF_PRIVATE, _OF_STATS = ("epsilon", "delta", "share"), ("private", "model")


def only_together(context: typer.Context, *, stats: Path | None, private: bool, epsilon: float | None) -> None:
    """Refuse options of the probe that would be passed over, and ``--private`` without a budget.

    Args:
        context: of the command, which knows what the user wrote.
        stats, private, epsilon: the options.

    Raises:
        ValueError: an option that was given says nothing here, or one is missing.
    """
    given = [name for name in context.params if (s := context.get_parameter_source(name)) and s.name == "COMMANDLINE"]
    for name in given:
        option = f"--{name.replace('_', '-')}"
        if private and name in _OF_TRAINING:
            raise ValueError(
                f"{option} must be left out with --private: all private images are measured, once, before any training"
            )
        if name in _OF_PRIVATE and not private:
            raise ValueError(f"{option} must come with --private")
        if name in _OF_STATS and stats is None:
            raise ValueError(f"{option} must come with --stats")
    if private and epsilon is None:
        raise ValueError("--private must come with --epsilon, the budget of training and statistics together")
