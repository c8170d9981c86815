#!/usr/bin/env python3
"""Runs the commands and the Python that README.md, docs/ and recipes/ print, from the root of what a fresh clone has after the build.

    printed_commands.py ROOT SACCADE [PAGE...]

That clone is a folder of links to ROOT's files, with SACCADE as its build/release/saccade. README's blocks find no
`saccade` on the PATH, as a reader does not; those of other pages have the PATH that README says to set. Ports are those
that are printed where they are free, others where they are not.

commands.toml says of every block what becomes of it: run as printed but for words that it replaces, beside servers that
it names, or why no test can run it. A block that it does not name fails, and so does an entry whose block is gone.
Python runs in a virtual environment with openai's client, made once in WORK (SACCADE_DOCS_PYTHON, or beside SACCADE);
where that cannot be had, its blocks are skipped by name.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

from fenced import blocks, commands_of, without_comment

READY = re.compile(r"Application startup complete|Ready to accept connections|listening")
SERVES = re.compile(r"^(saccade|build/release/saccade) (serve|proxy)\b|^redis-server\b")
PORT = re.compile(r"(?<=[ :=])(?:80[0-9][0-9]|7100|6379|555[0-9])(?=\D|$)")
TAKEN = "Address already in use"
EXPORT = "export PATH=$PWD/build/release:$PATH"  # as README prints it
OPENAI = "openai==3.52.0"
LONGEST = 300  # seconds, for a command and for a server's start


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(port)))
            return True
        except OSError:
            return False


class Ports:
    """Those that are printed, or with `others` a free port for each."""

    def __init__(self, others):
        self.others = others
        self.of = {}

    def replace(self, command):
        def free(match):
            if match[0] not in self.of:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", 0))
                    self.of[match[0]] = str(probe.getsockname()[1])
            return self.of[match[0]]

        if not self.others:
            return command
        if SERVES.match(command) and "saccade serve" in command and "--port" not in command:
            command += " --port 8000"
        return PORT.sub(free, command)


class Server:
    def __init__(self, command, environment, where):
        self.command = command
        self.log = pathlib.Path(tempfile.mkstemp(suffix=".log")[1])
        with self.log.open("w") as out:
            self.process = subprocess.Popen(["bash", "-c", "exec " + command], stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=where)
        until = time.monotonic() + LONGEST
        while not READY.search(self.said()):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"did not start: {command}\n{self.said()[-2000:]}")
            time.sleep(0.05)

    def said(self):
        return self.log.read_text(errors="replace")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"did not end: {self.command}")
        said = self.said()
        self.log.unlink()
        if status != 0:
            raise AssertionError(f"ended with {status}: {self.command}\n{said[-2000:]}")
        return said


class Clone:
    """What a reader has: the files of ROOT, and a build of the program."""

    def __init__(self, root, saccade, scratch):
        self.folder, self.scratch = scratch / "saccade", scratch
        self.folder.mkdir()
        for path in root.iterdir():
            if path.name != "build":
                (self.folder / path.name).symlink_to(path)
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "build/release/saccade").symlink_to(saccade)
        self.plain = {name: value for name, value in os.environ.items()
                      if not name.startswith("SACCADE_") and not name.lower().endswith("_proxy")}
        self.plain["PATH"] = ":".join(folder for folder in self.plain["PATH"].split(":") if not os.access(f"{folder}/saccade", os.X_OK))
        if f"`{EXPORT}`" not in (root / "README.md").read_text():
            raise SystemExit(f"README.md does not say `{EXPORT}`, with which the commands of docs/ find the program")
        path = subprocess.run(["bash", "-c", EXPORT + '; echo "$PATH"'], cwd=self.folder, env=self.plain, capture_output=True, text=True, check=True).stdout
        self.exported = {**self.plain, "PATH": path.strip()}
        self.python, self.no_python = python_with_openai(saccade)

    def environment(self, page):
        return self.plain if page == "README.md" else self.exported


def python_with_openai(saccade):
    """A Python that has openai's client, or None and why."""
    work = pathlib.Path(os.environ.get("SACCADE_DOCS_PYTHON") or saccade.parent / "tests/docs/python")
    for python in (pathlib.Path(sys.executable), work / "bin/python"):
        if python.exists() and subprocess.run([python, "-c", "import openai"], capture_output=True).returncode == 0:
            return python, ""
    work.parent.mkdir(parents=True, exist_ok=True)
    for command in ([sys.executable, "-m", "venv", work], [work / "bin/pip", "install", "-q", OPENAI]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, f"no {OPENAI}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}"
    return work / "bin/python", ""


class Block:
    """One of a page: its commands, or its Python as one command; and what is printed below them."""

    def __init__(self, page, language, body):
        self.page, self.body, self.python = page, body, language == "python"
        if self.python:
            self.commands, self.said = [body], []
            self.first = body.splitlines()[0]
        else:
            self.commands, self.said = commands_of(body)
            self.first = without_comment(self.commands[0]) if self.commands else ""
        self.name = f"{page}: {self.first}"

    def run(self, entry, clone, others):
        ports, environment, printed = Ports(others), dict(clone.environment(self.page)), ""
        environment.update({name: value.replace("$ROOT", str(clone.folder)) for name, value in entry.get("environment", {}).items()})

        def as_here(command):
            return ports.replace(command.replace("$SCRATCH", str(clone.scratch)))

        def as_printed(command):
            command = command if self.python else without_comment(command)
            for word, real in entry.get("replace", {}).items():
                command = command.replace(word, real)
            return as_here(command)

        servers, failures = [], []
        beside = [as_here(command) for command in entry.get("beside", [])]
        kept = [command for command in self.commands if not any(command.startswith(left) for left in entry.get("without", []))]
        try:
            for command in [*beside, *map(as_printed, kept)]:
                python = self.python and command not in beside
                if SERVES.match(command) and not python:
                    servers.append(Server(command, environment, clone.folder))
                    continue
                words = [clone.python, "-c", command] if python else ["bash", "-c", command]
                done = subprocess.run(words, env=environment, cwd=clone.folder, timeout=LONGEST, capture_output=True, text=True)
                said = done.stdout + done.stderr
                printed += said
                if done.returncode != 0:
                    raise AssertionError(f"ended with {done.returncode}: {command}\n{said[-2000:]}")
                if (expected := entry.get("prints")) and not re.search(expected, said):
                    raise AssertionError(f"does not print {expected!r}: {command}\n{said[-2000:]}")
        finally:
            for server in reversed(servers):
                try:
                    printed += server.stop()
                except AssertionError as failure:
                    failures.append(str(failure))
            if failures and not sys.exc_info()[0]:
                raise AssertionError("\n".join(failures))
        if entry.get("exact"):
            there = set(printed.splitlines())
            if lost := [line for line in self.said if line not in there and line not in ("", "...")]:
                raise AssertionError("the page prints what the commands do not:\n" + "\n".join(lost) + f"\nThey print\n{printed[-2000:]}")

    def ports(self, entry):
        """Those that are printed; a server without --port takes 8000."""
        return {"8000", *PORT.findall("\n".join([*entry.get("beside", []), *self.commands]))}


def check(block, entry, clone):
    """What is said of a block that ran or did not; AssertionError where it is wrong."""
    if why := entry.get("not_run"):
        return f"not run: {why}"
    if missing := [tool for tool in entry.get("wants", []) if not shutil.which(tool)]:
        return f"not run: no {missing[0]} here"
    if block.python and not clone.python:
        return f"not run: {clone.no_python}"
    begun = time.monotonic()
    others = not all(map(is_free, block.ports(entry)))
    try:
        block.run(entry, clone, others)
    except AssertionError as failure:
        if others or TAKEN not in str(failure):
            raise
        others = True  # somebody took it meanwhile
        block.run(entry, clone, others)
    return f"{time.monotonic() - begun:.1f} s{', on other ports' if others else ''}"


def main():
    root, saccade = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    entries = tomllib.loads((pathlib.Path(__file__).parent / "commands.toml").read_text())["block"]
    left = {(entry["in"], entry["first"]): entry for entry in entries}
    pages = [root / "README.md", *sorted((root / "docs").glob("**/*.md")), *sorted((root / "recipes").glob("**/*.md"))]
    if only := sys.argv[3:]:
        pages = [page for page in pages if str(page.relative_to(root)) in only]
        left = {key: entry for key, entry in left.items() if key[0] in only}
    wrong, ran, not_run = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        clone = Clone(root, saccade, pathlib.Path(scratch))
        for page in pages:
            name = str(page.relative_to(root))
            for block in (Block(name, language, body) for language, body, _ in blocks(page.read_text())):
                if not block.commands:
                    continue
                entry = left.pop((name, block.first), None)
                if entry is None:
                    wrong.append(f"{name} prints what commands.toml does not name: {block.first}")
                    continue
                try:
                    said = check(block, entry, clone)
                    ran, not_run = ran + (not said.startswith("not run")), not_run + said.startswith("not run")
                    print(f"{block.name}: {said}", flush=True)
                except (AssertionError, subprocess.TimeoutExpired) as failure:
                    wrong.append(f"{name}: {failure}")
    wrong += [f"commands.toml names what {page} does not print: {first}" for page, first in left]
    print(f"{ran} blocks ran, {not_run} did not")
    if wrong:
        raise SystemExit("\n\n".join(wrong))


main()
