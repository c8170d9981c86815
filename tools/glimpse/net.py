"""The model: transformers' own Qwen2-VL class at glimpse's size, and the dense heads that only training sees."""

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

from data import ALPHABET, MAX_ORDER, SLOTS

HIDDEN = 192


def config(tokenizer) -> Qwen2VLConfig:
    ident = tokenizer.token_to_id
    return Qwen2VLConfig(
        text_config=dict(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=HIDDEN, intermediate_size=512, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "type": "mrope", "mrope_section": [8, 8, 8], "rope_theta": 10000.0},
            bos_token_id=None, eos_token_id=ident("<|im_end|>"), pad_token_id=None, tie_word_embeddings=True,
            use_sliding_window=False),
        vision_config=dict(depth=5, embed_dim=HIDDEN, hidden_size=HIDDEN, num_heads=4, mlp_ratio=4, in_channels=3,
                           patch_size=14, spatial_merge_size=2, temporal_patch_size=2),
        image_token_id=ident("<|image_pad|>"), video_token_id=ident("<|video_pad|>"),
        vision_start_token_id=ident("<|vision_start|>"), vision_end_token_id=ident("<|vision_end|>"),
        vision_token_id=ident("<|vision_pad|>"), tie_word_embeddings=True)


def equal_length_attention(self, hidden_states, cu_seqlens, position_embeddings=None, **_):
    """transformers' VisionAttention, with one call for all pictures: a training batch has one picture size."""
    images, length = len(cu_seqlens) - 1, hidden_states.shape[0]
    q, k, v = self.qkv(hidden_states).reshape(length, 3, self.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
    cos, sin = position_embeddings
    q, k = qwen.apply_rotary_pos_emb_vision(q, k, cos, sin)
    q, k, v = (t.reshape(images, -1, self.num_heads, self.head_dim).transpose(1, 2).to(v.dtype) for t in (q, k, v))
    if q.device.type == "cpu":  # two matrix products run in bf16 tiles; the fused kernel's backward does not
        out = torch.softmax(q * self.scaling @ k.transpose(2, 3), dim=-1).to(v.dtype) @ v
    else:
        out = F.scaled_dot_product_attention(q, k, v)
    return self.proj(out.transpose(1, 2).reshape(length, -1))


def patches_as_rows(self, hidden_states):
    """transformers' PatchEmbed: its convolution has one output position, so it is a matrix product; and both frames
    are the same picture, so that the weights of the two add up."""
    return F.linear(hidden_states, self.proj.weight.sum(2).flatten(1))


class DenseHeads(nn.Module):
    """From a vision token: the characters in its cell, and the place of the first of them in reading order."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.characters = nn.Linear(HIDDEN, SLOTS * (len(ALPHABET) + 1))
        self.order = nn.Linear(HIDDEN, MAX_ORDER + 1)

    def forward(self, vision, cells, order):
        vision = self.norm(vision)
        logits = self.characters(vision).view(-1, SLOTS, len(ALPHABET) + 1)
        filled = (cells > 0).any(-1)
        weight = torch.where(filled, 1.0, 0.1)
        characters = F.cross_entropy(logits.flatten(0, 1).float(), cells.flatten(), reduction="none")
        characters = (characters.view(-1, SLOTS).mean(-1) * weight).sum() / weight.sum()
        places = F.cross_entropy(self.order(vision).float(), order, reduction="none")
        places = (places * weight).sum() / weight.sum()
        hit = (logits.argmax(-1) == cells).all(-1)[filled].float().mean()
        return characters, places, hit


def make(tokenizer, training=True):
    if training:
        qwen.VisionAttention.forward = equal_length_attention
        qwen.PatchEmbed.forward = patches_as_rows
    torch.manual_seed(1)
    model = Qwen2VLForConditionalGeneration(config(tokenizer))
    return model
