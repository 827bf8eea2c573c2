"""Small models of transformers and peft, built from their own classes, each with a batch and its loss.

Their weights are random, and dropout rests. A loss is a mean over the examples, each of which the model could also see alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import peft
import torch
import transformers as hf
from opacus.validators import ModuleValidator
from torch import nn
from torch.nn import functional as F

N, LENGTH, WORDS = 5, 7, 23
_ROWS = torch.Generator().manual_seed(1)
TOKENS = torch.randint(3, WORDS, (N, LENGTH), generator=_ROWS)
SEEN = (torch.arange(LENGTH) < torch.arange(N)[:, None] % 3 + LENGTH - 2).long()
LABELS = torch.arange(N) % 3
PICTURES = torch.randn(N, 3, 32, 32, generator=_ROWS)
SOUNDS = torch.randn(N, 400, generator=_ROWS)

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A model and how it is called.

    Attributes:
        build: makes it.
        batch: what the loss takes, examples first.
        loss: of each example, shape (n,): of the model and a batch.
    """

    build: Callable[[], nn.Module]
    batch: Batch
    loss: Callable[[nn.Module, Batch], torch.Tensor]


# --- losses, each with the call that the documentation of the model shows ---------------------------------------------


def of_class(model: nn.Module, batch: Batch) -> torch.Tensor:
    """A classifier's."""
    given = {name: value for name, value in batch.items() if name != "labels"}
    return F.cross_entropy(model(**given).logits, batch["labels"], reduction="none")


def of_tokens(model: nn.Module, batch: Batch) -> torch.Tensor:
    """A language model's: of each example the mean over its own tokens."""
    scores = model(**batch).logits[:, -LENGTH:-1]  # prompts stand before
    kept = batch["attention_mask"][:, 1:].to(scores.dtype)
    each = F.cross_entropy(scores.transpose(1, 2), batch["input_ids"][:, 1:], reduction="none")
    return (each * kept).sum(1) / kept.sum(1)


def of_hidden(model: nn.Module, batch: Batch) -> torch.Tensor:
    """A body without a head: the mean of some function of its last layer."""
    return model(**batch).last_hidden_state.sin().mean((1, 2))


def of_translation(model: nn.Module, batch: Batch) -> torch.Tensor:
    """An encoder and a decoder."""
    scores = model(**batch, decoder_input_ids=batch["input_ids"][:, :4]).logits
    return F.cross_entropy(scores.transpose(1, 2), batch["input_ids"][:, 1:5], reduction="none").mean(1)


TEXT: Batch = {"input_ids": TOKENS, "attention_mask": SEEN}
LABELLED: Batch = TEXT | {"labels": LABELS}
IMAGES: Batch = {"pixel_values": PICTURES, "labels": LABELS}

# --- models -----------------------------------------------------------------------------------------------------------

_BERT: dict[str, Any] = dict(
    vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
    max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
)  # fmt: skip
_LLAMA: dict[str, Any] = dict(
    vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=12,
    max_position_embeddings=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
_IMAGE: dict[str, Any] = dict(
    hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, image_size=32, patch_size=8, num_labels=3,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
_GPT2: dict[str, Any] = dict(
    vocab_size=WORDS, n_embd=8, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip


def bert() -> nn.Module:
    return hf.BertForSequenceClassification(hf.BertConfig(**_BERT))


def roberta() -> nn.Module:
    return hf.RobertaForSequenceClassification(hf.RobertaConfig(**_BERT))


def qwen2() -> nn.Module:
    return hf.Qwen2ForCausalLM(hf.Qwen2Config(**_LLAMA))


def biases() -> nn.Module:
    """BERT of which the biases alone are trained."""
    model = bert()
    for name, p in model.named_parameters():
        p.requires_grad_(name.endswith(".bias"))
    return model


def gpt2() -> nn.Module:
    return hf.GPT2LMHeadModel(hf.GPT2Config(**_GPT2))


def llama() -> nn.Module:
    return hf.LlamaForCausalLM(hf.LlamaConfig(**_LLAMA))


def t5() -> nn.Module:
    return hf.T5ForConditionalGeneration(hf.T5Config(
        vocab_size=WORDS, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, dropout_rate=0.0, pad_token_id=0,
        decoder_start_token_id=0, relative_attention_num_buckets=8,
    ))  # fmt: skip


def without_mask(model: nn.Module) -> nn.Module:
    """wav2vec 2 with the embedding frozen that only its masks in the spectrum use."""
    model.wav2vec2.masked_spec_embed.requires_grad_(False)  # type: ignore[union-attr]
    return model


TRANSFORMERS: dict[str, Case] = {
    "BERT": Case(bert, LABELLED, of_class),
    "DistilBERT": Case(lambda: hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
        vocab_size=WORDS, dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=16, dropout=0.0,
        attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=3)), LABELLED, of_class),
    "ELECTRA": Case(lambda: hf.ElectraForSequenceClassification(hf.ElectraConfig(**_BERT, embedding_size=8)), LABELLED, of_class),
    "ALBERT": Case(lambda: hf.AlbertForSequenceClassification(hf.AlbertConfig(
        **_BERT, embedding_size=6, classifier_dropout_prob=0.0)), LABELLED, of_class),
    "RoBERTa": Case(roberta, LABELLED, of_class),
    "DeBERTa v2": Case(lambda: hf.DebertaV2ForSequenceClassification(hf.DebertaV2Config(
        **_BERT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=4, pooler_hidden_size=8)), LABELLED, of_class),
    "XLNet": Case(lambda: hf.XLNetForSequenceClassification(hf.XLNetConfig(
        vocab_size=WORDS, d_model=8, n_layer=2, n_head=2, d_inner=12, dropout=0.0, summary_last_dropout=0.0, num_labels=3)),
        LABELLED, of_class),
    "GPT-2": Case(gpt2, TEXT, of_tokens),
    "OPT": Case(lambda: hf.OPTForCausalLM(hf.OPTConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, ffn_dim=12, max_position_embeddings=16,
        word_embed_proj_dim=8, dropout=0.0, pad_token_id=0)), TEXT, of_tokens),
    "BLOOM": Case(lambda: hf.BloomForCausalLM(hf.BloomConfig(vocab_size=WORDS, hidden_size=8, n_layer=2, n_head=2)), TEXT, of_tokens),
    "GPT-NeoX": Case(lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=16)), TEXT, of_tokens),
    "Phi": Case(lambda: hf.PhiForCausalLM(hf.PhiConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=16)), TEXT, of_tokens),
    "Gemma 2": Case(lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**_LLAMA, head_dim=4)), TEXT, of_tokens),
    "Llama": Case(llama, TEXT, of_tokens),
    "Qwen 2": Case(qwen2, TEXT, of_tokens),
    "Mixtral": Case(lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**_LLAMA, num_local_experts=3)), TEXT, of_tokens),
    "DBRX": Case(lambda: hf.DbrxForCausalLM(hf.DbrxConfig(
        d_model=8, n_heads=2, n_layers=2, max_seq_len=64, vocab_size=WORDS, ffn_config={"ffn_hidden_size": 16, "moe_num_experts": 3,
        "moe_top_k": 2}, attn_config={"kv_n_heads": 2, "clip_qkv": 8.0})), TEXT, of_tokens),
    "Mamba": Case(lambda: hf.MambaForCausalLM(hf.MambaConfig(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, state_size=4, pad_token_id=0)), TEXT, of_tokens),
    "T5": Case(t5, TEXT, of_translation),
    "ViT": Case(lambda: hf.ViTForImageClassification(hf.ViTConfig(**_IMAGE)), IMAGES, of_class),
    "DeiT": Case(lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**_IMAGE)), IMAGES, of_class),
    "Swin": Case(lambda: hf.SwinForImageClassification(hf.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4, drop_path_rate=0.0, num_labels=3)),
        IMAGES, of_class),
    "Swin 2": Case(lambda: hf.Swinv2ForImageClassification(hf.Swinv2Config(
        image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4, drop_path_rate=0.0, num_labels=3)),
        IMAGES, of_class),
    "ConvNeXt": Case(lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig(
        hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, num_labels=3, drop_path_rate=0.0)), IMAGES, of_class),
    "ResNet after `ModuleValidator.fix`": Case(lambda: ModuleValidator.fix(hf.ResNetForImageClassification(hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=3))), IMAGES, of_class),
    "MobileNetV2 after `ModuleValidator.fix`": Case(lambda: ModuleValidator.fix(hf.MobileNetV2ForImageClassification(
        hf.MobileNetV2Config(depth_multiplier=0.25, expand_ratio=2.0, output_stride=8, finegrained_output=False, tf_padding=False,
        classifier_dropout_prob=0.0, num_labels=3))), IMAGES, of_class),
    "wav2vec 2": Case(lambda: without_mask(hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(
        vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, conv_dim=(8, 8),
        conv_kernel=(10, 3), conv_stride=(5, 2), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, hidden_dropout=0.0,
        attention_dropout=0.0, feat_proj_dropout=0.0, layerdrop=0.0, apply_spec_augment=False, classifier_proj_size=8,
        activation_dropout=0.0, final_dropout=0.0, num_labels=3))), {"input_values": SOUNDS, "labels": LABELS}, of_class),
}  # fmt: skip


def adapted(build: Callable[[], nn.Module], config: Any) -> Callable[[], nn.Module]:
    """With an adapter whose weights are not what they begin with: many begin with zeros, and so do their gradients."""

    def made() -> nn.Module:
        model: nn.Module = peft.get_peft_model(build(), config)  # type: ignore[arg-type]
        with torch.no_grad():
            for p in model.parameters():
                if p.requires_grad:
                    p += 0.3 * torch.randn_like(p)
        return model

    return made


_TASK = {"task_type": "CAUSAL_LM"}
_ATTENTION = {"target_modules": ["q_proj", "v_proj"]}


def layer_norms() -> Any:
    return peft.LNTuningConfig(**_TASK)


PEFT: dict[str, Case] = {
    "LoRA on BERT": Case(adapted(bert, peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_dropout=0.0)), LABELLED, of_class),
    "LoRA on RoBERTa": Case(adapted(roberta, peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_dropout=0.0)), LABELLED, of_class),
    "biases alone, on BERT": Case(biases, LABELLED, of_class),
    "LoRA on GPT-2": Case(adapted(gpt2, peft.LoraConfig(**_TASK, r=2, fan_in_fan_out=True)), TEXT, of_tokens),
    "LoRA": Case(adapted(llama, peft.LoraConfig(**_TASK, **_ATTENTION, r=2)), TEXT, of_tokens),
    "LoRA on Qwen 2": Case(adapted(qwen2, peft.LoraConfig(**_TASK, **_ATTENTION, r=2)), TEXT, of_tokens),
    "rank-stabilised LoRA, an embedding too": Case(
        adapted(llama, peft.LoraConfig(**_TASK, target_modules=["q_proj", "embed_tokens"], r=2, use_rslora=True)), TEXT, of_tokens),
    "DoRA": Case(adapted(llama, peft.LoraConfig(**_TASK, **_ATTENTION, r=2, use_dora=True)), TEXT, of_tokens),
    "prefix tuning": Case(adapted(llama, peft.PrefixTuningConfig(**_TASK, num_virtual_tokens=3)), TEXT, of_tokens),
    "prompt tuning": Case(adapted(llama, peft.PromptTuningConfig(**_TASK, num_virtual_tokens=3)), TEXT, of_tokens),
    "prompt tuning, as many as examples": Case(
        adapted(llama, peft.PromptTuningConfig(**_TASK, num_virtual_tokens=N)), TEXT, of_tokens),
    "p-tuning": Case(
        adapted(llama, peft.PromptEncoderConfig(**_TASK, num_virtual_tokens=3, encoder_hidden_size=6)), TEXT, of_tokens),
    "IA3": Case(adapted(llama, peft.IA3Config(
        **_TASK, target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"])), TEXT, of_tokens),
    "LoHa": Case(adapted(llama, peft.LoHaConfig(**_TASK, **_ATTENTION, r=2)), TEXT, of_tokens),
    "LoKr": Case(adapted(llama, peft.LoKrConfig(**_TASK, **_ATTENTION, r=2)), TEXT, of_tokens),
    "AdaLoRA": Case(
        adapted(llama, peft.AdaLoraConfig(**_TASK, **_ATTENTION, init_r=2, target_r=1, total_step=10)), TEXT, of_tokens),
    "OFT": Case(adapted(llama, peft.OFTConfig(**_TASK, **_ATTENTION, r=0, oft_block_size=4)), TEXT, of_tokens),
    "VeRA": Case(adapted(llama, peft.VeraConfig(**_TASK, target_modules=["q_proj"], r=2)), TEXT, of_tokens),
    "layer norms": Case(adapted(llama, layer_norms()), TEXT, of_tokens),
}  # fmt: skip

ALL = TRANSFORMERS | PEFT
IN_SINGLE = frozenset({"BLOOM", "DBRX", "Gemma 2", "Llama", "Qwen 2", "Mixtral", "Mamba", "T5"}) | (
    PEFT.keys() - {"LoRA on BERT", "LoRA on RoBERTa", "biases alone, on BERT", "LoRA on GPT-2"}
)
"""Models that compute norms or attention in single precision, whatever their weights are in."""
