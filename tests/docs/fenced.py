"""Fenced blocks of the documents: the commands in them, and what they print."""
import re
import shlex

STARTS = re.compile(r"^(?:[A-Z_]+=\S+ )*(saccade|scripts/|tools/|benchmarks/|build/|gpu/|curl|cmake|cpack|cd|sudo|apt|mkdir|systemctl|redis-server|python3?|pip|docker|podman|sbatch|recipes/)( |\w|$)")


def commands_of(body):
    """Commands of a block's body and the other lines: what follows "$ ", and what begins as a command does. One ends with its line, unless a quote or a here-document is open, or a backslash joins the next."""
    commands, waiting, said = [], "", []
    for line in body.splitlines():
        if not waiting and not line.startswith("$ ") and not STARTS.match(line):
            said.append(line)
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
    return commands, said


def blocks(text):
    """(language, body, line) of each fenced block."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
        yield found[1], found[2], text.count("\n", 0, found.start()) + 1


def without_comment(command):
    for found in re.finditer(r"\s{2,}# ", command):
        try:
            shlex.split(command[: found.start()])
        except ValueError:
            continue  # inside quotes
        return command[: found.start()].strip()
    return command.strip()
