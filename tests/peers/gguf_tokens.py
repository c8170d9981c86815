"""Greedy tokens of Saccade and of llama.cpp's llama-server from the same GGUF files, by id.

    gguf_tokens.py glimpse --peer LLAMA_SERVER [--saccade BINARY] [--work DIR] [--types F32,Q8_0,...] [--every N]
    gguf_tokens.py families --made DIR --peer LLAMA_SERVER [--saccade BINARY] [--work DIR] [--types F32,Q8_0,...]

glimpse: models/glimpse as tools/goldens/gguf_files.py writes it, in every type; those that the `gguf` package cannot
write are made by the llama-quantize that lies beside LLAMA_SERVER, which takes others for rows that hold no whole blocks
of 256. The tower is F32, F16 or BF16. Asked are every N-th picture of data/glimpse (none is resized), every question
without a picture, and conversations of three pictures.
families: the random files that benchmarks/gguf/logits.py left in --made DIR, of every family and the types named; a text
and where there is a tower an image that neither program resizes, 24 tokens.

Both take the file's own template, temperature 0. Every file is compared twice. Read: Saccade in float32 (--dequantize
--dtype float32) beside llama-server of a copy whose tensors are the `gguf` package's numbers in F32, so that neither rounds
what is multiplied; a token that differs, but for ties, ends the program with 1. As served: both of the file as it is, where
each rounds what it multiplies. Where tokens differ, the gap is how far, in nats, each server had its own token before the
other's. Needs tools/goldens/gguf_files.requirements.txt.
"""
import argparse
import base64
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "goldens"))

import gguf_files  # noqa: E402
import tokens  # noqa: E402

TYPES = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
QUANTIZER_NAMES = {"Q2_K": "Q2_K", "Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "Q6_K": "Q6_K",
                   "IQ4_NL": "IQ4_NL", "IQ4_XS": "IQ4_XS"}
# Of each family a size that neither program resizes. Not of Gemma 3, around whose images llama-server leaves out the blank
# lines, nor of LLaVA-OneVision, whose tiles it joins otherwise (docs/gguf.md), nor of SmolVLM and MiniCPM-V: with these
# tiny ones llama-server refuses the image, or ends.
SIZES = {"Qwen2-VL": (112, 84), "Qwen2.5-VL": (112, 84), "Qwen3-VL": (96, 96), "Qwen3-VL-MoE": (96, 96), "Qwen3.5": (96, 96),
         "Pixtral": (64, 48), "Mistral-3": (126, 126), "InternVL-3": (56, 56)}
# llama-server writes no more than its marker for an image; of this family the template writes a line's end behind it.
BEHIND_IMAGE = {"InternVL-3": "\n"}
MOST_TOKENS = 24
TIE = 0.01  # nats: what ggml's tables in F16, of GELU for one, leave of two logits


def glimpse_files(work, kinds, quantizer):
    """{type: [model, mmproj]}."""
    glimpse, types = ROOT / "models" / "glimpse", gguf_files.Type

    def text(kind):
        path = work / f"glimpse-{kind}.gguf"
        gguf_files.write_text(path, glimpse, gguf_files.ARCH.QWEN2VL, 4, types[kind])
        return path

    files = {}
    for kind in kinds:
        tower, mmproj = kind if kind in ("F32", "F16") else "BF16", work / f"mmproj-{kind}.gguf"
        gguf_files.write_tower(mmproj, glimpse, "qwen2vl_merger", 5, types[tower], types["F16" if tower == "F16" else "F32"])
        if kind not in QUANTIZER_NAMES:
            files[kind] = [text(kind), mmproj]
            continue
        path = work / f"glimpse-{kind}.gguf"
        subprocess.run([quantizer, text("F32"), path, QUANTIZER_NAMES[kind]], check=True, capture_output=True)
        files[kind] = [path, mmproj]
    return files


def family_files(made, kinds):
    """{"Qwen3-VL Q4_K": [model, mmproj]}, or [model] where there is no tower."""
    folders = [made / name / "gguf" / kind for name in sorted(path.name for path in made.iterdir()) for kind in kinds]
    return {f"{folder.parts[-3]} {folder.name}": sorted(folder.glob("*.gguf"), reverse=True) for folder in folders}


def in_float32(path, to):
    """A copy with every tensor in F32."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(to, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        writer.add_tensor(tensor.name, np.ascontiguousarray(numbers, np.float32))
    gguf_files.finish(writer)
    return to


def types_in(path):
    """How many matrices a file has of which type: "4 Q4_K, 24 Q5_0"."""
    counts = {}
    for tensor in gguf.GGUFReader(path).tensors:
        if len(tensor.shape) > 1:
            counts[tensor.tensor_type.name] = counts.get(tensor.tensor_type.name, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def no_text(path):
    """Control tokens, whose ends llama-server never takes where it is to go on, and tokens whose bytes are no text, which it
    holds back and then fails."""
    reader = gguf.GGUFReader(path)
    pieces, kinds = (reader.fields["tokenizer.ggml." + name].contents() for name in ("tokens", "token_type"))
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(byte): byte for byte in plain}
    byte_of |= {chr(256 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in plain)}

    def is_text(piece):
        try:
            return bool(bytes(byte_of.get(each, 63) for each in piece).decode())
        except UnicodeDecodeError:
            return False

    return [index for index, (piece, kind) in enumerate(zip(pieces, kinds))
            if kind == gguf.TokenType.CONTROL or not is_text(piece)]


class Server:
    """A server's process for the time of a `with`."""

    def __init__(self, command, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        self.command = [*map(str, command), "--port", str(port)]

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).read()
                return self
            except OSError:
                time.sleep(0.1)
            if self.process.poll() is not None:
                break
        self.__exit__()
        raise ChildProcessError(f"{self.command[0]} does not start: {self.log}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise ChildProcessError(f"{path} of {self.command[0]}: {error.read().decode()[:200]}") from error


class Saccade(Server):
    def answer(self, messages, never):
        """Tokens of the prompt; then of each place the token taken and {token: logprob} of the first ones. `never`: tokens
        that are not taken; with any, no token ends the answer."""
        tree = self.ask("/v1/chat/completions", {
            "model": "m", "messages": messages, "temperature": 0, "max_tokens": MOST_TOKENS, "ignore_eos": bool(never),
            "logit_bias": {str(token): -100 for token in never}, "logprobs": True, "top_logprobs": 10, "return_tokens_as_token_ids": True})
        number = lambda entry: int(entry["token"].removeprefix("token_id:"))
        told = tree["choices"][0]["logprobs"]["content"]
        places = [{number(top): top["logprob"] for top in place["top_logprobs"]} for place in told]
        return tree["usage"]["prompt_tokens"], [number(place) for place in told], places


class LlamaServer(Server):
    def answer(self, messages, never):
        """The same."""
        images = [part["image_url"]["url"].split(",", 1)[1] for message in messages if isinstance(message["content"], list)
                  for part in message["content"] if part["type"] == "image_url"]
        prompt = self.ask("/apply-template", {"messages": messages})["prompt"]
        tree = self.ask("/completion", {
            "prompt": {"prompt_string": prompt, "multimodal_data": images} if images else prompt, "temperature": 0,
            "n_predict": MOST_TOKENS, "ignore_eos": bool(never), "logit_bias": [[token, False] for token in never], "n_probs": 10,
            "cache_prompt": False})
        told = tree["completion_probabilities"]
        places = [{top["id"]: top["logprob"] for top in place["top_logprobs"]} for place in told]
        return tree["tokens_evaluated"], [place["id"] for place in told], places


def image_part(kind, data):
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64," + base64.b64encode(data).decode()}}


def glimpse_questions(every):
    """[(kind, messages)]."""
    folder = ROOT / "data" / "glimpse"
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]

    def turn(line):
        file = folder / line["image_files"][0]
        image = image_part("jpeg" if file.suffix == ".jpg" else "png", file.read_bytes())
        return {"role": "user", "content": [image, {"type": "text", "text": line["prompt"]}]}

    asked = [("text", [{"role": "user", "content": prompt}]) for prompt in sorted({line["prompt"] for line in lines})]
    for i in range(0, len(lines) - 2, every):
        asked.append(("image", [turn(lines[i])]))
        three = [each for line in lines[i:i + 3] for each in (turn(line), {"role": "assistant", "content": line["reference"]})]
        asked.append(("three images", three[:-1]))
    return asked


def family_questions(name):
    """The same, as Saccade and as llama-server is asked."""
    said = "What is shown in this picture? 12 + 345"
    text = [("text", [{"role": "user", "content": said}])]
    family, kind = name.split()
    # Their towers' files repeat an embedding of the text, which of random blocks is not the one that the text has.
    repeats = family in ("Pixtral", "Mistral-3") and kind in QUANTIZER_NAMES
    if family not in SIZES or repeats:
        return text, text
    image = image_part("png", tokens.png(*SIZES[family], 1))
    ours, theirs = ([("image", [{"role": "user", "content": [image, {"type": "text", "text": behind + said}]}])]
                    for behind in ("", BEHIND_IMAGE.get(family, "")))
    return text + ours, text + theirs


def compare(ours, theirs):
    """None where the tokens are equal, else the first place and both gaps; and the largest difference of a logprob that
    both told at the places before."""
    worst, same = 0.0, min(len(ours[1]), len(theirs[1]))
    for place in range(same):
        a, b = ours[1][place], theirs[1][place]
        if a != b:
            gap = lambda places, mine, other: places[place].get(mine, float("-inf")) - places[place].get(other, float("-inf"))
            return (place, gap(ours[2], a, b), gap(theirs[2], b, a)), worst
        worst = max(worst, max(abs(ours[2][place][token] - theirs[2][place][token])
                               for token in ours[2][place].keys() & theirs[2][place].keys()))
    return (None if len(ours[1]) == len(theirs[1]) else (same, float("inf"), float("inf"))), worst


def beside(asked, ours, theirs):
    """Of each kind of question how many are equal and how far logprobs are apart; what differs; and how much of that is no
    tie."""
    told, differences, wrong = {}, [], 0
    for (kind, _), mine, other in zip(asked, ours, theirs):
        equal, count, worst = told.get(kind, (0, 0, 0.0))
        if mine[0] != other[0]:
            differences.append(f"{kind}: a prompt of {mine[0]} tokens here, {other[0]} there")
            told[kind], wrong = (equal, count + 1, worst), wrong + 1
            continue
        difference, most = compare(mine, other)
        told[kind] = equal + (difference is None), count + 1, max(worst, most)
        if difference:
            differences.append(f"{kind}, token {difference[0]}: {difference[1]:.1e} here, {difference[2]:.1e} there")
            wrong += max(difference[1:]) > TIE
    return told, differences, wrong


def peer_of(options, paths, log):
    projector = ["--mmproj", paths[1]] if len(paths) > 1 else []
    return LlamaServer([options.peer, "-m", paths[0], *projector, "-c", 2048, "-np", 1, "-t", 1, "--no-webui", "-fa", "off", "-ctk", "f32",
                   "-ctv", "f32"], options.work / log)


def saccade_of(options, paths, log, flags):
    projector = ["--mmproj", paths[1]] if len(paths) > 1 else []
    return Saccade([options.saccade, "serve", paths[0], *projector, "--served-model-name", "m", "--max-model-len", 1024, *flags],
                  options.work / log)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", choices=["glimpse", "families"])
    parser.add_argument("--peer", required=True, type=pathlib.Path)
    parser.add_argument("--saccade", default=ROOT / "build/release/saccade", type=pathlib.Path)
    parser.add_argument("--work", default=pathlib.Path("gguf-tokens"), type=pathlib.Path)
    parser.add_argument("--made", type=pathlib.Path)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--every", default=10, type=int)
    options = parser.parse_args()

    options.work.mkdir(parents=True, exist_ok=True)
    glimpse = options.files == "glimpse"
    types = options.types.split(",")
    files = glimpse_files(options.work, types, options.peer.parent / "llama-quantize") if glimpse else family_files(options.made, types)
    kinds = ["text", "image", "three images"] if glimpse else ["text", "image"]
    print("| file | matrices of the text | compared | " + " | ".join(kinds) + " | first differences |")
    print("|---|---|---|" + "---|" * (len(kinds) + 1))
    wrong = 0
    for name, paths in files.items():
        asked, asked_there = [glimpse_questions(options.every)] * 2 if glimpse else family_questions(name)
        never = [] if glimpse else no_text(paths[0])
        numbers = [in_float32(path, options.work / f"numbers-{i}.gguf") for i, path in enumerate(paths)]
        for form, theirs, flags in (("read", numbers, ["--dequantize", "--dtype", "float32"]), ("as served", paths, [])):
            try:
                with peer_of(options, theirs, "peer.log") as peer:
                    there = [peer.answer(messages, never) for _, messages in asked_there]
            except ChildProcessError as error:
                print(f"| {name} | {types_in(paths[0])} | {form} |" + " |" * len(kinds) + f" {error} |", flush=True)
                continue
            with saccade_of(options, paths, "saccade.log", flags) as server:
                here = [server.answer(messages, never) for _, messages in asked]
            told, differences, apart = beside(asked, here, there)
            wrong += apart if form == "read" else 0
            cells = [f"{told[kind][0]} of {told[kind][1]}, {told[kind][2]:.1e}" if kind in told else "" for kind in kinds]
            print(f"| {name} | {types_in(paths[0])} | {form} | " + " | ".join(cells) + f" | {'; '.join(differences[:2])} |", flush=True)
    sys.exit(f"{wrong} answers differ" if wrong else 0)


if __name__ == "__main__":
    main()
