"""The installed wheel as a user has it: wheel_use.py first PICTURE | all PICTURE COMMAND | openai"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from typing import Callable

import saccade


def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(what)


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"  # ended; an orphan's parent need not wait for it
    except FileNotFoundError:
        return True


def refused(what: type[BaseException], call: Callable[[], object], *words: str) -> None:
    try:
        call()
    except what as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {what.__name__}")


def first(picture: str) -> None:
    with saccade.Server(saccade.GLIMPSE, quantization="int4") as server:
        print("answer:", server.ask("What is it?", picture, temperature=0, max_tokens=16))


def command(program: str) -> None:
    asked = [subprocess.run([*words, "--version"], capture_output=True, text=True, check=True).stdout
             for words in ([program], [sys.executable, "-m", "saccade"])]
    assert asked[0] == asked[1] and asked[0].startswith("saccade "), asked
    told = subprocess.run([program, "serve", "/nowhere"], capture_output=True, text=True)
    assert told.returncode != 0 and "/nowhere" in told.stderr, told


def server_and_end(picture: str) -> None:
    with saccade.Server(saccade.GLIMPSE, api_key="secret", ui=False, served_model_name=["a", "b"]) as server:
        pid = server.pid
        assert server.model == "a" and server.base_url == server.url + "/v1"
        with open(picture, "rb") as file:
            data = file.read()
        one, other = (server.ask("What is it?", each, temperature=0, max_tokens=16) for each in (picture, data))
        assert one == other and one, (one, other)
        refused(OSError, lambda: urllib.request.urlopen(server.url + "/v1/models"), "401")
        with open(f"/proc/{pid}/cmdline") as words:
            assert "secret" not in words.read()
    assert gone(pid)
    refused(saccade.ServerError, lambda: server.url, "does not run")
    refused(saccade.ServerError, lambda: saccade.Server("/nowhere").start(), "/nowhere", "no such directory")
    refused(saccade.ServerError, lambda: saccade.Server(saccade.GLIMPSE, no_such_flag=1).start(), "no-such-flag")
    refused(ValueError, lambda: saccade.Server(saccade.GLIMPSE, log_level="error"), "port")


def end_with_its_parent(how: int) -> None:
    """A parent that is ended, in order or not, leaves no server."""
    code = ("import saccade, time; server = saccade.Server(saccade.GLIMPSE).start(); print(server.pid, flush=True); "
            "time.sleep(600) if %d else None" % how)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if how:
        assert not gone(pid)
        parent.send_signal(how)
    parent.wait(60)
    until(lambda: gone(pid), f"the server outlives a parent ended by {how}")


def openai() -> None:
    with saccade.Server(saccade.GLIMPSE, api_key="secret") as server:
        said = server.client().chat.completions.create(
            model=server.model, messages=[{"role": "user", "content": "What is it?"}], max_tokens=4)
        assert said.usage is not None and said.usage.completion_tokens >= 1, said


def main() -> None:
    if sys.argv[1] == "first":
        return first(sys.argv[2])
    if sys.argv[1] == "openai":
        return openai()
    command(sys.argv[3])
    server_and_end(sys.argv[2])
    for how in (0, signal.SIGINT, signal.SIGKILL):
        end_with_its_parent(how)
    server = saccade.Server(saccade.GLIMPSE)
    refused(ImportError, lambda: server.client(), "pip install openai")
    print("wheel_use: command, module, keys, refusals, ends:", os.uname().release)


main()
