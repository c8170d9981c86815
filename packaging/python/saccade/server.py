"""Starts `saccade serve` as a child, waits until it takes requests, and ends it. Standard library alone."""
from __future__ import annotations

import base64
import json
import mimetypes
import os
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Type, Union

if TYPE_CHECKING:
    import openai

_HERE = pathlib.Path(__file__).resolve().parent
#: The program; SACCADE_BINARY names another one.
PROGRAM: str = os.environ.get("SACCADE_BINARY") or str(_HERE / "program/bin/saccade")
#: A model of 10 MB that reads; it comes with the package.
GLIMPSE: str = str(_HERE / "models/glimpse")

Flag = Union[None, bool, str, int, float, "os.PathLike[str]", Sequence[Union[str, int, float]]]
Image = Union[str, bytes, "os.PathLike[str]"]

_LISTENING = re.compile(rb"listening on (https?)://(\S+):(\d+)\s")
_READY = b"Application startup complete."
# Ends the server when this process is gone without having said so: its end of the pipe is closed then, and nothing was read.
_GUARD = 'read -r said || kill -TERM "$1"'


class ServerError(RuntimeError):
    """The server did not start, or ended; the text has the last lines of its log."""


class Server:
    """`saccade serve MODEL` with FLAGS: quantization="int4" is --quantization int4, quantize_head=True is --quantize-head,
    ui=False is --no-ui, a list is the flag once for each. What the program does not know it refuses, and start() says so.

    One object is one server: start() once, stop() any number of times. Not for use by several threads at the same time, but
    for ask() and what client() gives. The server ends with this process, however that ends."""

    def __init__(self, model: Union[str, "os.PathLike[str]"], *, host: str = "127.0.0.1", port: int = 0,
                 api_key: Optional[str] = None, startup_timeout: float = 600.0, log: Union[None, str, "os.PathLike[str]"] = None,
                 env: Optional[Mapping[str, str]] = None, **flags: Flag) -> None:
        self._quiet = str(flags.get("log_level", "info")) not in ("trace", "debug", "info")
        if self._quiet and port == 0:
            raise ValueError("log_level above info hides the port that the server took: name a port")
        self._command = [PROGRAM, "serve", os.fspath(model), "--host", host, "--port", str(port), *_words(flags)]
        self._environment: Dict[str, str] = {**os.environ, **(env or {})}
        if api_key is not None:  # not among the arguments, which every user of the machine can read
            self._environment["SACCADE_API_KEY"] = api_key
        self._api_key = self._environment.get("SACCADE_API_KEY") or self._environment.get("VLLM_API_KEY") or "none"
        self._host, self._port = host, port
        self._startup_timeout = startup_timeout
        self._log_path = None if log is None else os.fspath(log)
        self._log: Optional[IO[bytes]] = None
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._guard: Optional["subprocess.Popen[bytes]"] = None
        self._end: Optional["weakref.finalize[Any, Any]"] = None
        self._model: Optional[str] = None
        self._url: Optional[str] = _shown("https" if "ssl_certfile" in flags else "http", host, port) if port else None

    def start(self) -> "Server":
        """Returns when requests are taken. ServerError when the server ends before, or needs longer than startup_timeout."""
        if self._process is not None:
            raise ServerError("this server was started before")
        self._log = open(self._log_path, "w+b") if self._log_path else tempfile.TemporaryFile()
        begun = self._log.tell()
        # A session of its own: Ctrl-C is for this process, which ends the server in order.
        self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
                                         env=self._environment, start_new_session=True)
        self._guard = subprocess.Popen(["/bin/sh", "-c", _GUARD, "sh", str(self._process.pid)], stdin=subprocess.PIPE,
                                       start_new_session=True)
        self._end = weakref.finalize(self, _end, os.getpid(), self._process, self._guard, 40.0)
        try:
            self._wait(begun)
        except BaseException:
            self.stop(timeout=5)
            raise
        return self

    def stop(self, timeout: float = 40.0) -> None:
        """Running answers may end (drain_seconds, default 30); what is left after TIMEOUT seconds is killed."""
        if self._end is not None and self._end.detach() is not None:
            assert self._process is not None and self._guard is not None
            _end(os.getpid(), self._process, self._guard, timeout)

    @property
    def url(self) -> str:
        """http://HOST:PORT of a server that runs."""
        if self._url is None or self._process is None or self._process.returncode is not None:
            raise ServerError("the server does not run")
        return self._url

    @property
    def base_url(self) -> str:
        """What OpenAI's clients call base_url."""
        return self.url + "/v1"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("the server does not run")
        return self._process.pid

    @property
    def model(self) -> str:
        """The name that requests use."""
        if self._model is None:
            self._model = str(self._request("/v1/models")["data"][0]["id"])
        return self._model

    def log(self) -> str:
        """What the server has said."""
        if self._log is None:
            return ""
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")

    def client(self, **options: Any) -> "openai.OpenAI":
        """OpenAI's own client, of the package openai, for this server; OPTIONS are the client's."""
        try:
            import openai
        except ImportError as error:
            raise ImportError("Server.client() gives OpenAI's client, which is not installed: pip install openai. "
                              "Server.ask() and Server.url need nothing.") from error
        return openai.OpenAI(**{"base_url": self.base_url, "api_key": self._api_key, **options})

    def ask(self, text: str, *images: Image, **parameters: Any) -> str:
        """The answer to TEXT about IMAGES (paths, URLs or bytes); PARAMETERS are the request's (max_tokens=, temperature=)."""
        content: List[Dict[str, Any]] = [{"type": "image_url", "image_url": {"url": _image_url(each)}} for each in images]
        content.append({"type": "text", "text": text})
        body = {"model": self.model, "messages": [{"role": "user", "content": content}], **parameters}
        return str(self._request("/v1/chat/completions", body)["choices"][0]["message"]["content"])

    def __enter__(self) -> "Server":
        return self if self._process is not None else self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()

    def _wait(self, begun: int) -> None:
        assert self._process is not None and self._log is not None
        until = time.monotonic() + self._startup_timeout
        while True:
            said = os.pread(self._log.fileno(), 1 << 20, begun)
            if _READY in said:
                found = _LISTENING.search(said)
                assert found is not None
                self._url = _shown(found[1].decode(), found[2].decode(), int(found[3]))
                return
            if self._process.poll() is not None:
                raise ServerError(f"saccade serve ended with {self._process.returncode}:\n{self._last_lines()}")
            if self._quiet and self._answers():
                return
            if time.monotonic() > until:
                raise ServerError(f"saccade serve was not ready after {self._startup_timeout:g} s:\n{self._last_lines()}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            self._request("/health")
        except (OSError, ServerError):
            return False
        return True

    def _request(self, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {self._api_key}"})
        try:
            with urllib.request.urlopen(request) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise ServerError(f"{path}: {error.code}: {error.read().decode(errors='replace')}") from None
        return json.loads(text) if text else None

    def _last_lines(self, count: int = 15) -> str:
        return "\n".join(self.log().splitlines()[-count:])


def _end(owner: int, process: "subprocess.Popen[bytes]", guard: "subprocess.Popen[bytes]", timeout: float) -> None:
    if os.getpid() != owner:  # a fork's copy of the object: the server is not its own
        return
    # The guard first: as long as nobody has waited for the server, its number is no other process's.
    try:
        guard.communicate(b"ended in order\n", timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        guard.kill()
        guard.wait()
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _words(flags: Mapping[str, Flag]) -> List[str]:
    """Command line of keyword arguments."""
    words = []
    for name, value in flags.items():
        flag = name.strip("_").replace("_", "-")
        if value is None:
            continue
        if value is True or value is False:
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, (list, tuple)):
            words += [f"--{flag}={each}" for each in value]
        else:
            words.append(f"--{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return words


def _shown(scheme: str, host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]"}.get(host, host)
    return f"{scheme}://{host}:{port}"


def _image_url(image: Image) -> str:
    if isinstance(image, str) and re.match(r"(https?|data|file)://|data:", image):
        return image
    kind = "image/png"
    if not isinstance(image, bytes):
        kind = mimetypes.guess_type(os.fspath(image))[0] or kind
        image = pathlib.Path(image).read_bytes()
    return f"data:{kind};base64," + base64.b64encode(image).decode()
