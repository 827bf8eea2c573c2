"""The networks whose steps are timed, with batches of random numbers."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from dptheory.training import networks
from dptheory.training._randomness import seeded

CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A network, and the batch that it is timed on: of ``words`` of a vocabulary, 0 for numbers, with ``views`` rows an example."""

    name: str
    build: Callable[[int], nn.Module]
    shape: tuple[int, ...]
    batch: int
    rounds: int = 1000
    words: int = 0
    views: int = 1

    def model(self) -> nn.Module:
        """At its starting weights."""
        return self.build(0)

    def examples(self, count: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Normal inputs or uniform tokens, and labels that have nothing to do with them."""
        generator = torch.Generator().manual_seed(seed)
        size = (count, *self.shape)
        drawn = torch.randint(0, self.words, size, generator=generator) if self.words else None
        inputs = torch.randn(size, generator=generator) if drawn is None else drawn
        return inputs, torch.randint(0, CLASSES, (count,), generator=generator)


class _Encoder(nn.Module):
    """A layer of a transformer's encoder: normalised in front, without dropout, of plain linear layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.before(x)
        parts = (
            layer(seen).unflatten(2, (self._heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        x = x + self.out(scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        inner: Tensor = self.down(self.up(self.between(x)).relu())
        return x + inner


class _MeanOverTime(nn.Module):
    """From (batch, time, width) to (batch, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def transformer(seed: int) -> nn.Module:
    """Two encoder layers of width 64 with four heads, for sequences of vectors of 16 entries."""
    return seeded(
        seed,
        lambda: nn.Sequential(
            nn.Linear(16, 64),
            _Encoder(64, 4),
            _Encoder(64, 4),
            nn.LayerNorm(64),
            _MeanOverTime(),
            nn.Linear(64, CLASSES),
        ),
    )


def linear(seed: int) -> nn.Module:
    """3,969 features, the scattering coefficients of a small image, and ten classes."""
    return networks.linear_probe(seed, features=3969)


NETWORKS: dict[str, Timed] = {
    one.name: one
    for one in (
        Timed(name="linear", build=linear, shape=(3969,), batch=1024),
        Timed(name="MLP", build=networks.mlp, shape=networks.IMAGE_SHAPE, batch=512),
        Timed(name="small CNN", build=networks.small_tanh_cnn, shape=networks.IMAGE_SHAPE, batch=512),
        Timed(name="WRN-16-4", build=networks.wrn_16_4, shape=(3, 32, 32), batch=4, rounds=3),
        Timed(name="transformer", build=transformer, shape=(32, 16), batch=128, rounds=12),
    )
}

FEW, SEVERAL, MANY = "32 images", "32 images in 16 views", "512 images"
_CNN = NETWORKS["small CNN"]
VIEWS: dict[str, Timed] = {
    FEW: replace(_CNN, name=FEW, batch=32),
    SEVERAL: replace(_CNN, name=SEVERAL, batch=512, views=16),
    MANY: replace(_CNN, name=MANY, batch=512),
}
"""The small CNN: both of the last have 480 rows more than the first, views of its images or further ones."""


# --- What of a small BERT may be trained, and what that costs: two layers of width 256, on batches of 64 rows of 64 random tokens


WORDS, TOKENS, BATCH = 30_522, 64, 64
LORA, EVERYTHING = "LoRA on queries and values, and the head", "everything"

SMALL: Mapping[str, int] = {"vocab_size": 50, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
"""A model of the same kind for tests."""


def installed() -> bool:
    """Whether the packages are there."""
    return all(importlib.util.find_spec(name) is not None for name in ("transformers", "peft"))


class Classifier(nn.Module):
    """A model of transformers as a function of its tokens; ``by_hand`` with the places and kinds that Opacus's ghost clipping needs."""

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
    """The model with what is trained of it."""
    sizes = sizes or {}
    return Timed(
        name=way, build=partial(_built, way, by_hand, sizes), shape=(TOKENS,), batch=batch, words=sizes.get("vocab_size", WORDS)
    )  # fmt: skip


TEXT: dict[str, Timed] = {way: timed(way) for way in WAYS}
BY_HAND: dict[str, Timed] = {f"{way}, places by hand": timed(way, by_hand=True) for way in WAYS}
