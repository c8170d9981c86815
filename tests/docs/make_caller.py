#!/usr/bin/env python3
"""make_caller.py FOLDER: a checkpoint that answers everything with a call of get_weather, as Qwen2.5 writes it."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e/clients"))
import scripted_checkpoint  # noqa: E402

scripted_checkpoint.write(sys.argv[1], {
    "weather": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'})
