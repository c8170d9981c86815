"""What the tests of frameworks share: a checkpoint that calls the weather's tool when it may and says what it was told
when it was, a vision model, and what plain HTTP gets from both."""

import base64
import json
import shutil
import tempfile
import urllib.request
from pathlib import Path

import scripted_checkpoint
from server_under_test import CHECKPOINT, Server, data_url

ARGUMENTS = {"city": "Zürich", "days": 2}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": ' + json.dumps(ARGUMENTS, ensure_ascii=False) + "}\n</tool_call>"
PLAIN = "It is cold, and -3 degrees.\n"
TOLD = "Snow: the tool says so.\n"
SCRIPTS = {"call": CALL, "plain": PLAIN, "told": TOLD}

# The script follows from the conversation, so that clients need no member of their own.
CHOICE = ("{%- set last = messages[-1].role %}"
          "{{- '[told]' if last == 'tool' else '[call]' if tools else '[plain]' }}")
TEMPLATE = scripted_checkpoint.TEMPLATE.replace("{{ script }}", CHOICE)

IMAGE = CHECKPOINT.parent / "images/wide.png"
ASK = "Weather in Zürich?"
LOOK = "What is shown?"
TOOL_RESULT = '{"temperature": -3}'


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


class World:
    """.text and .vision: URLs of two servers whose model is named tiny."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        text, vision = Path(self.folder.name, "text"), Path(self.folder.name, "vision")
        scripted_checkpoint.write(text, SCRIPTS)
        (text / "chat.jinja").write_text(TEMPLATE)
        vision.mkdir()
        for file in CHECKPOINT.iterdir():
            if file.is_file():
                shutil.copy(file, vision)
        (vision / "chat.jinja").write_text(scripted_checkpoint.TEMPLATE.replace("{{ script }}", ""))
        # The scripts are all but certain at any temperature; what a schema leaves open is then drawn, and has an end.
        common = ("--served-model-name", "tiny", "--dtype", "float32", "--override-generation-config",
                  '{"max_new_tokens": 400}')
        self.servers = [Server(*common, "--chat-template", folder / "chat.jinja", model=folder)
                        for folder in (text, vision)]
        self.text, self.vision = (server.url for server in self.servers)

    def seen(self, with_image=True):
        """What the vision model says at 12 tokens."""
        content = [{"type": "text", "text": LOOK}]
        if with_image:
            content.append({"type": "image_url", "image_url": {"url": data_url(IMAGE)}})
        answer = post(self.vision, "/v1/chat/completions",
                      {"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 12,
                       "temperature": 0})
        return answer["choices"][0]["message"]["content"]

    def close(self):
        codes = [server.stop() for server in self.servers]
        self.folder.cleanup()
        assert codes == [0, 0], "".join(line for server in self.servers for line in server.log)


def image_base64():
    return base64.b64encode(IMAGE.read_bytes()).decode()
