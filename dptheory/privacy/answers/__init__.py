"""The three questions of somebody who trains: what is spent, how much noise, how many steps."""

from dptheory.privacy.answers._answers import (
    EpsilonReport,
    NoiseAnswer,
    StepsAnswer,
    epsilon_report,
    noise_for_budget,
    steps_for_budget,
)

__all__ = ["EpsilonReport", "NoiseAnswer", "StepsAnswer", "epsilon_report", "noise_for_budget", "steps_for_budget"]
