"""What of a small BERT may be trained, and what that costs: two layers of width 256, on batches of 64 rows of 64 random tokens.

The model is that of "google/bert_uncased_L-2_H-256_A-4", with random weights; it needs transformers and peft.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dptheory.training._randomness import seeded
from dptheory.training.benchmarks._networks import CLASSES, Timed

WORDS, TOKENS, BATCH = 30_522, 64, 64
LORA, EVERYTHING = "LoRA on queries and values, and the head", "everything"

SMALL: Mapping[str, int] = {"vocab_size": 50, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
"""A model of the same kind for tests."""


def installed() -> bool:
    """Whether the packages are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("transformers", "peft"))


class Classifier(nn.Module):
    """A model of transformers as a function of its tokens.

    Args:
        model: gives logits.
        by_hand: hands the model places and kinds of the tokens, a row for each example, which Opacus's ghost clipping needs.
    """

    def __init__(self, model: nn.Module, *, by_hand: bool = False) -> None:
        super().__init__()
        self.model = model
        self._by_hand = by_hand

    def forward(self, tokens: Tensor) -> Tensor:
        given = {}
        if self._by_hand:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            given = {"position_ids": places.repeat(len(tokens), 1), "token_type_ids": torch.zeros_like(tokens)}
        found: Tensor = self.model(input_ids=tokens, **given).logits
        return found


def bert(**options: int) -> Any:
    """The model, without dropout."""
    hf = importlib.import_module("transformers")
    sizes = {"vocab_size": WORDS, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024} | options
    config = hf.BertConfig(
        num_hidden_layers=2, num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes
    )
    return hf.BertForSequenceClassification(config)


def _only(model: Any, wanted: Callable[[str], bool]) -> Any:
    for name, p in model.named_parameters():
        p.requires_grad_(wanted(name) or name.startswith("classifier"))
    return model


def _adapted(model: Any, kind: str, **options: Any) -> Any:
    peft = importlib.import_module("peft")
    return peft.get_peft_model(model, getattr(peft, kind)(task_type="SEQ_CLS", **options))


WAYS: dict[str, Callable[[Any], Any]] = {
    "the head alone": lambda model: _only(model, lambda _: False),
    "biases, and the head": lambda model: _only(model, lambda name: name.endswith(".bias")),
    LORA: lambda model: _adapted(model, "LoraConfig", r=8, lora_alpha=16, target_modules=["query", "value"]),
    "IA3, and the head": lambda model: _adapted(
        model, "IA3Config", target_modules=["key", "value"], feedforward_modules=[]
    ),
    "the last layer, and the head": lambda model: _only(
        model, lambda name: name.startswith(("bert.encoder.layer.1.", "bert.pooler."))
    ),
    "all but the embeddings": lambda model: _only(model, lambda name: not name.startswith("bert.embeddings.")),
    EVERYTHING: lambda model: model,
}
"""By name: what freezes a model but for what is trained, or puts adapters in."""


def _built(way: str, by_hand: bool, sizes: Mapping[str, int], seed: int) -> nn.Module:
    return seeded(seed, lambda: Classifier(WAYS[way](bert(**sizes)), by_hand=by_hand))


def timed(way: str, *, by_hand: bool = False, batch: int = BATCH, sizes: Mapping[str, int] | None = None) -> Timed:
    """The model with what is trained of it.

    Args:
        way: one of ``WAYS``.
        by_hand: as for :class:`Classifier`.
        batch: rows.
        sizes: of the model, other than BERT's.
    """
    sizes = sizes or {}
    return Timed(
        name=way, build=partial(_built, way, by_hand, sizes), shape=(TOKENS,), batch=batch, words=sizes.get("vocab_size", WORDS)
    )  # fmt: skip


TEXT: dict[str, Timed] = {way: timed(way) for way in WAYS}
BY_HAND: dict[str, Timed] = {f"{way}, places by hand": timed(way, by_hand=True) for way in WAYS}
