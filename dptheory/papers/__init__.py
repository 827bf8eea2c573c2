"""The settings that the papers print, digit for digit."""

from dptheory.papers._embedding_settings import RESNET20_DIM, RESNET20_GROUPS, EmbeddingPreset, embedding_presets
from dptheory.papers._hyperparameters import Preset, all_presets, preset
from dptheory.papers._privacy_settings import PaperSetting, paper_settings

__all__ = [
    "RESNET20_DIM",
    "RESNET20_GROUPS",
    "EmbeddingPreset",
    "PaperSetting",
    "Preset",
    "all_presets",
    "embedding_presets",
    "paper_settings",
    "preset",
]
