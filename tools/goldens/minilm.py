"""Golden files of sentence encoders (BERT): tests/golden/minilm.

  mean_short  the files as published: sentence_bert_config.json, flags for pooling modes; mean, normalised, 24 tokens
  cls_long    the files as current sentence-transformers writes them; the first token's vector, not normalised
  reference.safetensors  what sentence-transformers makes of sentences.json with the real all-MiniLM-L6-v2, where the
              first argument is its folder (scripts/fetch-minilm)

Needs sentence-transformers besides requirements.txt.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel

import golden
import tiny_tokenizer

OUT = Path(__file__).resolve().parents[2] / "tests/golden/minilm"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHECKPOINTS = {
    "mean_short": dict(seed=41, dtype=torch.float32, published=True, pooling="mean", normalise=True, max_tokens=24,
                       config=dict(hidden_size=48, intermediate_size=88, num_hidden_layers=3, num_attention_heads=3,
                                   max_position_embeddings=40, type_vocab_size=2, hidden_act="gelu")),
    "cls_long": dict(seed=42, dtype=torch.bfloat16, published=False, pooling="cls", normalise=False, max_tokens=60,
                     config=dict(hidden_size=72, intermediate_size=100, num_hidden_layers=2, num_attention_heads=6,
                                 max_position_embeddings=60, type_vocab_size=1, hidden_act="gelu_new")),
}
TEXTS = [
    "A saccade is the jump of the eye.", "", "?!... --", "How many squares are there? 12 + 345 = 357",
    "Der Himmel über dem Haus ist grau; die Straße ist naß.", "这张图片里有什么？", "[SEP] is written out [MASK]",
    "the picture " * 40, "The QUICK red square stands left of a blue circle, above the green line. " * 3, "unknown ☃ ∮ words",
]


def word_piece(vocab: int) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=vocab, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(sorted(tiny_tokenizer.TEXT), trainer)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])])
    return tokenizer


def write_checkpoint(name: str, spec: dict) -> Path:
    directory = golden.fresh(OUT / name)
    tokenizer = word_piece(260)
    config = BertConfig(vocab_size=tokenizer.get_vocab_size() + 3, layer_norm_eps=1e-12, **spec["config"])
    model = BertModel(config)
    golden.condition(model, spec["seed"])
    model = model.to(spec["dtype"])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        model.save_pretrained(scratch / "bert")
        tokenizer.save(str(scratch / "bert/tokenizer.json"))
        golden.write_json(scratch / "bert/tokenizer_config.json", {
            "tokenizer_class": "BertTokenizer", "model_max_length": spec["max_tokens"], "cls_token": "[CLS]",
            "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"})
        transformer = Transformer(str(scratch / "bert"))
        modules = [transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode=spec["pooling"])]
        modules += [Normalize()] if spec["normalise"] else []
        SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(scratch / "saved"))
        for file in ["config.json", "model.safetensors", "modules.json", "tokenizer.json", "tokenizer_config.json",
                     "sentence_bert_config.json", "1_Pooling/config.json"]:
            (directory / file).parent.mkdir(exist_ok=True)
            (directory / file).write_bytes((scratch / "saved" / file).read_bytes())
    if spec["published"]:
        golden.write_json(directory / "sentence_bert_config.json", {
            "max_seq_length": spec["max_tokens"], "do_lower_case": False})
        golden.write_json(directory / "1_Pooling/config.json", {
            "word_embedding_dimension": spec["config"]["hidden_size"], "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False})
        types = ["Transformer", "Pooling", "Normalize"]
        paths = ["", "1_Pooling", "2_Normalize"]
        golden.write_json(directory / "modules.json", [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(zip(types, paths))])
        tokenizer_config = json.loads((directory / "tokenizer_config.json").read_text())
        golden.write_json(directory / "tokenizer_config.json", {**tokenizer_config, "model_max_length": 512})
    return directory


@torch.no_grad()
def record(directory: Path, spec: dict) -> None:
    whole = SentenceTransformer(str(directory), device="cpu", model_kwargs={"dtype": torch.float32})
    assert whole.max_seq_length == spec["max_tokens"], whole.max_seq_length
    bert = whole[0].auto_model
    tensors, taps = {}, []
    for index, text in enumerate(TEXTS):
        recorder = golden.Taps()
        recorder.output("text.embed", bert.embeddings)
        for layer, module in enumerate(bert.encoder.layer):
            recorder.output(f"text.layer.{layer}", module)
        embedding = whole.encode([text], convert_to_tensor=True)
        recorder.close()
        ids = whole.tokenize([text])["input_ids"][0]
        tensors[f"{index}.ids"] = ids.int()
        tensors[f"{index}.rows"] = golden.sample_rows(len(ids))
        taps = list(recorder.values)
        for name, value in recorder.values.items():
            tensors[f"{index}.{name}"] = value[tensors[f"{index}.rows"].long()]
        tensors[f"{index}.text.embedding"] = embedding.float()
    golden.save_golden(directory / "golden.safetensors", tensors, taps + ["text.embedding"],
                       {"family": "minilm", "texts": TEXTS})


def record_real(model: str) -> None:
    sentences = json.loads((OUT / "sentences.json").read_text())
    whole = SentenceTransformer(model, device="cpu")
    embeddings = whole.encode(sentences, convert_to_tensor=True, batch_size=1)
    lengths = [len(whole.tokenize([text])["input_ids"][0]) for text in sentences]
    golden.save_golden(OUT / "reference.safetensors", {
        "embeddings": embeddings.float(), "lengths": torch.tensor(lengths, dtype=torch.int32)}, [],
        {"family": "minilm", "model": "sentence-transformers/all-MiniLM-L6-v2"})
    print(f"{len(sentences)} sentences of {min(lengths)} to {max(lengths)} tokens")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, spec in CHECKPOINTS.items():
        record(write_checkpoint(name, spec), spec)
        print(name)
    if len(sys.argv) > 1:
        record_real(sys.argv[1])
