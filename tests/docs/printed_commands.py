#!/usr/bin/env python3
"""Runs the commands that README.md and docs/ print, from the root of the tree, with `saccade` on the PATH.

    printed_commands.py ROOT SACCADE

commands.toml says of every block of commands what becomes of it: run as printed but for words and ports that it
replaces, beside servers that it names, or why no test can run it. A block that it does not name fails, and so does an
entry whose block is gone.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

STARTS = re.compile(r"^(?:[A-Z_]+=\S+ )*(saccade|scripts/|tools/|benchmarks/|build/|gpu/|curl|cmake|cpack|cd|apt|mkdir|systemctl|redis-server|python3?|pip|docker|podman|sbatch|recipes/)( |\w|$)")
READY = re.compile(r"Application startup complete|Ready to accept connections|listening")
SERVES = re.compile(r"^(saccade|build/release/saccade) (serve|proxy)\b|^redis-server\b")
LONGEST = 300  # seconds, for a command and for a server's start


def blocks(text):
    """Commands of each fenced block: what follows "$ ", and what begins as a command does. One ends with its line, unless a quote or a here-document is open, or a backslash joins the next."""
    for body in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        commands, waiting = [], ""
        for line in body.splitlines():
            if not waiting and not line.startswith("$ ") and not STARTS.match(line):
                continue
            waiting += ("\n" if waiting else "") + line.removeprefix("$ ")
            if waiting.endswith("\\"):
                continue
            if here := re.search(r"<<(\w+)", waiting):
                if line != here[1]:
                    continue
            else:
                try:
                    shlex.split(waiting, comments=True)
                except ValueError:
                    continue
            commands.append(waiting)
            waiting = ""
        if waiting:
            raise SystemExit(f"a command whose quotes do not end: {waiting}")
        if commands:
            yield commands


def without_comment(command):
    for found in re.finditer(r"\s{2,}# ", command):
        try:
            shlex.split(command[: found.start()])
        except ValueError:
            continue  # inside quotes
        return command[: found.start()].strip()
    return command.strip()


class Ports:
    """A free port for each that is printed: 8000 may be taken."""

    def __init__(self):
        self.of = {}

    def replace(self, command):
        def free(match):
            if match[0] not in self.of:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", 0))
                    self.of[match[0]] = str(probe.getsockname()[1])
            return self.of[match[0]]

        return re.sub(r"(?<=[ :=])(?:80[0-9][0-9]|7100|6379|555[0-9])(?=\D|$)", free, command)


class Server:
    def __init__(self, command, environment, where):
        self.command = command
        self.log = pathlib.Path(tempfile.mkstemp(suffix=".log")[1])
        with self.log.open("w") as out:
            self.process = subprocess.Popen(["bash", "-c", "exec " + command], stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=where)
        until = time.monotonic() + LONGEST
        while not READY.search(self.log.read_text(errors="replace")):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"did not start: {command}\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"did not end: {self.command}")
        said = self.log.read_text(errors="replace")
        self.log.unlink()
        if status != 0:
            raise AssertionError(f"ended with {status}: {self.command}\n{said[-2000:]}")


def run(commands, entry, environment, root, scratch):
    ports = Ports()

    def as_here(command):
        return ports.replace(command.replace("$SCRATCH", str(scratch)))

    def printed(command):
        command = without_comment(command)
        for word, real in entry.get("replace", {}).items():
            command = command.replace(word, real)
        return as_here(command)

    servers = []
    try:
        kept = [command for command in commands if not any(command.startswith(left) for left in entry.get("without", []))]
        for command in [*map(as_here, entry.get("beside", [])), *map(printed, kept)]:
            if SERVES.match(command):
                servers.append(Server(command, environment, root))
                continue
            done = subprocess.run(["bash", "-c", command], env=environment, cwd=root, timeout=LONGEST, capture_output=True, text=True)
            said = done.stdout + done.stderr
            if done.returncode != 0:
                raise AssertionError(f"ended with {done.returncode}: {command}\n{said[-2000:]}")
            if (expected := entry.get("prints")) and not re.search(expected, said):
                raise AssertionError(f"does not print {expected!r}: {command}\n{said[-2000:]}")
    finally:
        failures = []
        for server in reversed(servers):
            try:
                server.stop()
            except AssertionError as failure:
                failures.append(str(failure))
        if failures and not sys.exc_info()[0]:
            raise AssertionError("\n".join(failures))


def main():
    root, saccade = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    here = pathlib.Path(__file__).parent
    entries = tomllib.loads((here / "commands.toml").read_text())["block"]
    left = {(entry["in"], entry["first"]): entry for entry in entries}
    pages = [root / "README.md", *sorted((root / "docs").glob("**/*.md")), *sorted((root / "recipes").glob("**/*.md"))]
    scratch = pathlib.Path(tempfile.mkdtemp())
    (scratch / "bin").mkdir()
    (scratch / "bin" / "saccade").symlink_to(saccade)
    environment = {**os.environ, "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}"}
    for name in [name for name in environment if name.startswith("SACCADE_") or name.endswith("_proxy")]:
        del environment[name]
    wrong, ran, not_run = [], 0, 0
    for page in pages:
        name = str(page.relative_to(root))
        for commands in blocks(page.read_text()):
            entry = left.pop((name, without_comment(commands[0])), None)
            if entry is None:
                wrong.append(f"{name} prints what commands.toml does not name: {without_comment(commands[0])}")
            elif why := entry.get("not_run"):
                not_run += 1
                print(f"{name}: {without_comment(commands[0])}: not run: {why}")
            elif missing := [tool for tool in entry.get("wants", []) if not shutil.which(tool)]:
                not_run += 1
                print(f"{name}: {without_comment(commands[0])}: not run: no {missing[0]} here")
            else:
                ran += 1
                begun = time.monotonic()
                try:
                    run(commands, entry, environment, root, scratch)
                    print(f"{name}: {without_comment(commands[0])}: {time.monotonic() - begun:.1f} s", flush=True)
                except (AssertionError, subprocess.TimeoutExpired) as failure:
                    wrong.append(f"{name}: {failure}")
    wrong += [f"commands.toml names what {page} does not print: {first}" for page, first in left]
    shutil.rmtree(scratch)
    print(f"{ran} blocks ran, {not_run} did not")
    if wrong:
        raise SystemExit("\n\n".join(wrong))


main()
