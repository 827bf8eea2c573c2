"""The settings and tables that the papers print, digit for digit. They stand once, in the TOML files of this package."""

from dptheory.papers._data import setting, settings, table, tables
from dptheory.papers._privacy_settings import (
    RESNET20_DIM,
    RESNET20_GROUPS,
    EmbeddingNoise,
    EmbeddingPreset,
    PaperSetting,
    Preset,
    all_presets,
    embedding_noise,
    embedding_presets,
    paper_settings,
    preset,
)
from dptheory.papers._records import Cell, Setting, Table

__all__ = [
    "RESNET20_DIM",
    "RESNET20_GROUPS",
    "Cell",
    "EmbeddingNoise",
    "EmbeddingPreset",
    "PaperSetting",
    "Preset",
    "Setting",
    "Table",
    "all_presets",
    "embedding_noise",
    "embedding_presets",
    "paper_settings",
    "preset",
    "setting",
    "settings",
    "table",
    "tables",
]
