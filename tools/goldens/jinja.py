#!/usr/bin/env python3
"""Writes tests/golden/jinja: templates of our own, and what real Jinja2 makes of them.

    pip install -r tools/goldens/requirements.txt
    python tools/goldens/jinja.py

The environment is that of transformers' apply_chat_template: immutable sandbox, trim_blocks, lstrip_blocks, loop
controls, {% generation %}, tojson as json.dumps that keeps non-ASCII, raise_exception, strftime_now. A row has the
text, or the error where the reference refuses.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox
import jinja2.nodes

from jinja_rows import FILES

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "jinja"
NOW = datetime.datetime(2026, 11, 20, 9, 30)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("show"), [], [], body).set_lineno(line)

    def show(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda layout: NOW.strftime(layout)
    return made


def render(template, variables):
    try:
        return {"text": environment().from_string(template).render(**variables)}
    except Exception as error:  # whatever Python raises is a refusal
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    OUT.mkdir(parents=True, exist_ok=True)
    for name, (own_variables, rows) in FILES.items():
        variables = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": True} | own_variables
        out = []
        for row in rows:
            template, own = (row, {}) if isinstance(row, str) else row
            given = variables | own
            done = {"template": template} | ({"variables": own} if own else {}) | render(template, given)
            if " at 0x" in done.get("text", ""):
                continue  # an address: no two runs agree
            if any("\ud800" <= c <= "\udfff" for c in done.get("text", "")):
                done = {"template": template, "error": "half a surrogate pair, which is no text"}
            out.append(json.dumps(done, ensure_ascii=False))
        text = ('{"generator": "tools/goldens/jinja.py", "jinja2": "%s", "variables": %s, "rows": [\n%s\n]}\n' %
                (jinja2.__version__, json.dumps(variables, ensure_ascii=False), ",\n".join(out)))
        (OUT / f"{name}.json").write_text(text, encoding="utf-8")
        refused = sum('"error": ' in line for line in out)
        print(f"{name}: {len(out)} rows, {refused} refused")


if __name__ == "__main__":
    main()
