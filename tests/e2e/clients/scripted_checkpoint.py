"""A checkpoint that says what a test wants: every token's successor is fixed, and the last token of the prompt chooses
where to begin. The weights of attention and MLP are zero, so that the head sees the last token alone."""

import array
import json
import struct
from pathlib import Path

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# Messages and calls as Qwen2.5 writes them; the prompt ends with the script's own token.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call them as <tool_call>{"name": ..., "arguments": ...}</tool_call>.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content or [] %}
{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{{ script }}{% endif %}"""


def byte_letters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for i, byte in enumerate(b for b in range(256) if b not in plain):
        letters[byte] = chr(256 + i)
    return letters


def pieces_of(text, used):
    """Cuts the text's bytes into pieces that no script has used: a piece has one successor."""
    raw, pieces = text.encode(), []
    begin = 0
    while begin < len(raw):
        end = min(begin + 3, len(raw))
        while raw[begin:end] in used and end < len(raw):
            end += 1
        if raw[begin:end] in used:  # the rest is said elsewhere: it joins the piece before
            used.discard(pieces[-1])
            pieces[-1] += raw[begin:]
        else:
            pieces.append(raw[begin:end])
        used.add(pieces[-1])
        begin = end
    return pieces


def write(folder, scripts, special=()):
    """`scripts`: name to text; {"script": "[name]"} in chat_template_kwargs has it said. Texts in `special` are special
    tokens, each in one script, once. Returns name to the number of tokens, the end included."""
    letters = byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    used = {bytes([byte]) for byte in range(256)}
    chains = {}
    for name, text in scripts.items():
        chain = []
        while text:
            at, marker = min(((text.find(s), s) for s in special if s in text), default=(len(text), None))
            chain += pieces_of(text[:at], used) if at else []
            chain += [marker] if marker else []
            text = text[at + len(marker or ""):]
        chains[name] = chain
    for chain in chains.values():
        for piece in chain:
            if isinstance(piece, bytes):
                vocabulary["".join(letters[byte] for byte in piece)] = len(vocabulary)
    added = {content: len(vocabulary) + i
             for i, content in enumerate([*CONTROL, *special, *(f"[{name}]" for name in scripts)])}
    ids = {**{bytes(b for b in range(256) if letters[b] == c): i for c, i in vocabulary.items() if len(c) == 1}, **added}
    inverse = {letter: byte for byte, letter in letters.items()}
    for token, number in vocabulary.items():
        ids[bytes(inverse[c] for c in token)] = number
    successor = {}
    for name, chain in chains.items():
        order = [ids[f"[{name}]"], *(ids[piece] for piece in chain), ids["<|im_end|>"]]
        successor.update(zip(order, order[1:]))

    size = len(vocabulary) + len(added)
    hidden = -(-size // 64) * 64
    write_files(Path(folder), vocabulary, added, size, hidden)
    write_weights(Path(folder) / "model.safetensors", successor, size, hidden)
    return {name: len(chain) + 1 for name, chain in chains.items()}


def write_files(folder, vocabulary, added, size, hidden):
    folder.mkdir(parents=True, exist_ok=True)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokens = [{"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
               "normalized": False, "special": True} for content, number in added.items()]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None,
                 "pre_tokenizer": level, "post_processor": None, "decoder": level,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "vocab": vocabulary, "merges": []}}
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": hidden,
              "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": hidden // 64,
              "num_key_value_heads": 1, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "max_position_embeddings": 4096, "tie_word_embeddings": False, "vocab_size": size,
              "bos_token_id": None, "eos_token_id": added["<|im_end|>"], "use_sliding_window": False,
              "torch_dtype": "float32"}
    for name, content in {"tokenizer.json": tokenizer, "config.json": config,
                          "tokenizer_config.json": {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}}.items():
        (folder / name).write_text(json.dumps(content))


def write_weights(path, successor, size, hidden):
    def zeros(*shape):
        count = 1
        for extent in shape:
            count *= extent
        return shape, array.array("f", bytes(4 * count))

    ones = lambda: ((hidden,), array.array("f", [1.0] * hidden))
    embedding, head = zeros(size, hidden), zeros(size, hidden)
    for token in range(size):
        embedding[1][token * hidden + token] = 1.0
    for token, following in successor.items():
        head[1][following * hidden + token] = 4.0
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": ones(),
               layer + "input_layernorm.weight": ones(), layer + "post_attention_layernorm.weight": ones(),
               layer + "self_attn.q_proj.weight": zeros(hidden, hidden), layer + "self_attn.q_proj.bias": zeros(hidden),
               layer + "self_attn.k_proj.weight": zeros(64, hidden), layer + "self_attn.k_proj.bias": zeros(64),
               layer + "self_attn.v_proj.weight": zeros(64, hidden), layer + "self_attn.v_proj.bias": zeros(64),
               layer + "self_attn.o_proj.weight": zeros(hidden, hidden),
               layer + "mlp.gate_proj.weight": zeros(64, hidden), layer + "mlp.up_proj.weight": zeros(64, hidden),
               layer + "mlp.down_proj.weight": zeros(hidden, 64)}
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + 4 * len(values)]}
        offset += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())
