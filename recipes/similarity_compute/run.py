#!/usr/bin/env python3
"""How alike answers and references are: the mean cosine of all-MiniLM-L6-v2, ROUGE-L, token F1.

    python run.py --file_path "../experiments/sharegpt4o_image_caption/demo/Trace with Peak QPS_7.json"

The encoder is ENCODER's folder, what scripts/fetch-minilm has fetched, or the hub's cache's; without any it is said what to fetch.
"""
import os
import pathlib
import shutil
import sys

saccade = os.environ.get("SACCADE") or shutil.which("saccade") or str(pathlib.Path(__file__).resolve().parents[2] / "build/release/saccade")
encoder = pathlib.Path(os.environ.get("ENCODER", pathlib.Path(__file__).resolve().parents[2] / ".cache/minilm"))
chosen = any(word.startswith(("--encoder", "--embedding")) for word in sys.argv) or not (encoder / "config.json").exists()
os.execvp(saccade, [saccade, "bench", "similarity", *sys.argv[1:], *([] if chosen else ["--encoder", str(encoder)])])
