"""Parts on a clock: what ran, how long, what came of it, and the programs that they start."""
import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

from . import libraries

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_HERE = (77, 78)  # exit codes of a program that lacks what it needs: a GPU, a library, a kind of GPU


class Skipped(Exception):
    """The part has nothing to run with here, and why."""


class Unsupported(Skipped):
    """A program of the bundle said that it cannot do this here (kUnsupported). Of this part alone: others go on."""


class Failed(Exception):
    """What went wrong, in a line."""


class Cut(Exception):
    """The clock ended it."""


class Machine:
    def __init__(self, out, rehearsal, end, jobs=1):
        self.out = out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.rehearsal = rehearsal
        self.end = end  # of everything
        self.limit = end  # of the part that runs
        self.jobs = jobs  # of tests, at a time
        self.parts = []
        self.figures = []
        self.facts = {}
        self.log = open(self.out / "log.txt", "w", buffering=1)
        self.tests_file = open(self.out / "tests.jsonl", "w", buffering=1)
        # Beside the results, which stay a few files.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="saccade-gpu-"))
        atexit.register(shutil.rmtree, self.work, ignore_errors=True)
        self.figures_file = self.work / "figures.jsonl"
        self.environment = dict(os.environ)
        self.launcher = []
        self._choose_libraries()

    def _choose_libraries(self):
        """The bundle's libraries before the machine's; with the bundle's loader and C library where the machine's are
        older than the programs."""
        # The driver's own library may lie where only the machine's path leads.
        others = [each for each in os.environ.get("LD_LIBRARY_PATH", "").split(":") if each]
        path = ":".join([str(ROOT / "lib"), *others])
        self.environment["LD_LIBRARY_PATH"] = path
        self.python = libraries.python_with("torch")
        self.cublaslt = libraries.cublaslt(self.environment, self.python)
        if self.cublaslt.folder:
            self.environment["SACCADE_CUDA_LIBS"] = self.cublaslt.folder
        probe = [str(ROOT / "bin" / "saccade"), "--version"]
        tried = subprocess.run(probe, env=self.environment, capture_output=True, text=True, timeout=60)
        if tried.returncode != 0:
            self.launcher = [str(ROOT / "lib" / "c" / "ld-linux-x86-64.so.2"), "--library-path",
                             f"{ROOT / 'lib' / 'c'}:{path}"]
            tried = subprocess.run(self.launcher + probe, env=self.environment, capture_output=True, text=True, timeout=60)
        if tried.returncode != 0:
            raise SystemExit(f"run: the programs do not start here: {tried.stderr.strip()}")
        self.facts["program"] = " ".join(tried.stdout.split())

    def program(self, name, *options):
        return self.launcher + [str(ROOT / "bin" / name), *map(str, options)]

    def has(self, name):
        return (ROOT / "bin" / name).exists()

    def left(self):
        return self.limit - time.monotonic()

    def run_part(self, part, seconds):
        """In at most `seconds`, and what the clock of everything has left."""
        begun = time.monotonic()
        row = {"name": part.name, "what": part.what, "state": "ok", "why": "", "seconds": 0.0}
        self.parts.append(row)
        self.limit = min(self.end, begun + seconds)
        self.log.write(f"\n===== {part.name}\n")
        print(f"{part.name}: {part.what}", flush=True)
        if self.end - begun < part.least:
            row.update(state="cut", why=f"{max(0, self.end - begun):.0f} s were left, it wants {part.least}")
        else:
            try:
                row["why"] = part.run(self) or ""
            except Skipped as reason:
                row.update(state="skipped", why=str(reason), unsupported=isinstance(reason, Unsupported))
            except Cut as reason:
                row.update(state="cut", why=str(reason))
            except Failed as reason:
                row.update(state="failed", why=str(reason))
            except Exception as error:  # a fault of this script ends its part alone
                self.log.write(traceback.format_exc())
                row.update(state="failed", why=f"{type(error).__name__}: {error}")
        row["seconds"] = round(time.monotonic() - begun, 1)
        self.read_figures()
        print(f"  {row['state']} after {row['seconds']} s{': ' if row['why'] else ''}{row['why']}", flush=True)

    def start(self, command, **more):
        self.log.write("$ " + " ".join(command) + "\n")
        environment = {**self.environment, **more.pop("environment", {})}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                start_new_session=True, **more)

    def stop(self, process, patience=10):
        """It and what it started."""
        if process.poll() is None:
            for kind in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, kind)
                    process.wait(patience)
                    return
                except subprocess.TimeoutExpired:
                    continue
                except ProcessLookupError:
                    return

    def call(self, command, most=None, **more):
        """Runs it to its end. Its exit code and its output, which goes to the log too. Cut when the part's time is up,
        or `most` seconds; Unsupported when it says so."""
        limit = self.left() if most is None else min(most, self.left())
        if limit <= 0:
            raise Cut("no time was left")
        output = self.work / "output.txt"
        with open(output, "w+") as file:
            process = self.start(command, stdout=file, **more)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                self.stop(process)
            file.seek(0)
            text = file.read()
        self.log.write(text[-200_000:] + "\n")
        if code is None:
            raise Cut(f"not done after {limit:.0f} s")
        if code in NOT_HERE:
            raise Unsupported(last_line(text))
        return code, text

    def expect(self, command, most=None, **more):
        """As call(); Failed unless it succeeds."""
        code, text = self.call(command, most, **more)
        if code != 0:
            raise Failed(f"{ended(code)}: {last_line(text)}")
        return text

    def read_figures(self):
        """What the programs added to their file since."""
        known = len([each for each in self.figures if each.get("from_file")])
        if not self.figures_file.exists():
            return
        lines = self.figures_file.read_text().splitlines()[known:]
        for line in lines:
            try:
                self.figures.append({**json.loads(line), "from_file": True})
            except json.JSONDecodeError:  # it was stopped in the middle of a line
                self.figures.append({"part": "broken", "name": line, "from_file": True})

    def add_figure(self, part, name, **numbers):
        self.figures.append({"part": part, "name": name, **numbers})

    def add_test(self, **result):
        """On the disk at once."""
        self.tests_file.write(json.dumps(result) + "\n")

    def of_part(self, part):
        return [each for each in self.figures if each["part"] == part]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def ended(code):
    """How a process came to its end, in words."""
    if code is not None and code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    return f"exit code {code}"
