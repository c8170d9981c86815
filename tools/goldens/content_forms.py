#!/usr/bin/env python3
"""Writes tests/golden/content_forms.json: what real Jinja2 makes of published chat templates when each message's
content is a string, and when it is a list of parts.

    python tools/goldens/content_forms.py DIRECTORY-OF-TEMPLATES

For each template and conversation, for each choice of forms ("sp": the first message a string, the second parts):
"refused", "lost" where a text is missing (or stands there as a printed list), else FNV-1a of the rendering. The
templates belong to their makers and are not in this repository; "here" has the same of the published ones that are, in tools/goldens.
"""

import itertools
import json
import pathlib
import sys

from jinja import environment

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "content_forms.json"
CALL = {"id": "call00001", "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Bern"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
CONVERSATIONS = {
    "user": [{"role": "user", "content": "alpha beta"}],
    "system": [{"role": "system", "content": "gamma delta"}, {"role": "user", "content": "alpha beta"}],
    "assistant": [{"role": "user", "content": "alpha beta"}, {"role": "assistant", "content": "epsilon zeta"},
                  {"role": "user", "content": "eta theta"}],
    "tool": [{"role": "user", "content": "alpha beta"}, {"role": "assistant", "content": "", "tool_calls": [CALL]},
             {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "iota kappa"}],
}
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
PRINTED = ("'text': '", '"text": "', '"text":"')


def fnv(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def with_forms(messages, forms):
    return [{**message, "content": [{"type": "text", "text": message["content"]}] if form == "p" else message["content"]}
            for message, form in zip(messages, forms)]


def shows(rendered, text):
    at = rendered.find(text)
    return at >= 0 and not rendered[:at].endswith(PRINTED)


def outcome(template, messages, forms, tools):
    try:
        rendered = template.render(messages=with_forms(messages, forms), tools=tools, documents=None,
                                   add_generation_prompt=True, **VARIABLES)
    except Exception:  # whatever Python raises is a refusal
        return "refused"
    return fnv(rendered) if all(shows(rendered, message["content"]) for message in messages) else "lost"


def rows_of(directory):
    templates = {}
    for path in sorted(directory.glob("*.jinja")):
        template = environment().from_string(path.read_text(encoding="utf-8"))
        templates[path.name] = {
            name: {forms: outcome(template, messages, forms, TOOLS if name == "tool" else None)
                   for forms in map("".join, itertools.product("sp", repeat=len(messages)))}
            for name, messages in CONVERSATIONS.items()}
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in templates.items())


def main():
    rows, here = rows_of(pathlib.Path(sys.argv[1])), rows_of(pathlib.Path(__file__).parent)
    OUT.write_text('{"generator": "tools/goldens/content_forms.py",\n"variables": %s,\n"tools": %s,\n"conversations": %s,\n'
                   '"templates": {\n%s\n},\n"here": {\n%s\n}}\n'
                   % (json.dumps(VARIABLES), json.dumps(TOOLS), json.dumps(CONVERSATIONS), rows, here))


if __name__ == "__main__":
    main()
