"""Programs of tests (googletest): a process a few tests of one suite, several at a time, none lost to another's crash.

What a test came to is read off the standard output as it is said, so that a process that dies or is stopped keeps
what it had; the test in which it died is named, and the rest of its suite goes on in a process of its own."""
import dataclasses
import json
import re
import subprocess
import time

from .machine import Cut, Failed, Skipped, Unsupported, ended, last_line

# What a test printed may stand before it, without an end of its line.
RESULT = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^ ,(]+).*\((\d+) ms\)\s*$")
RUN = re.compile(r"^\[ RUN +\] (\S+)")
MOST_A_PROCESS = 24  # tests; a CUDA context costs a process half a second


@dataclasses.dataclass
class Unit:
    program: str
    suite: str
    tests: list  # full names


def list_tests(text):
    """Full names by suite, of --gtest_list_tests."""
    suites, suite = {}, None
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if not name:
            continue
        if not name.startswith(" "):
            suite = name if name.endswith(".") else None
        elif suite:
            suites.setdefault(suite, []).append(suite + name.strip())
    return suites


class Process:
    def __init__(self, machine, unit, number):
        self.machine = machine
        self.unit = unit
        self.begun = time.monotonic()
        self.output = machine.work / f"tests-{number}.txt"
        self.json = machine.work / f"tests-{number}.json"
        self.file = open(self.output, "w")
        self.process = machine.start(
            machine.program(unit.program, f"--gtest_filter={':'.join(unit.tests)}", f"--gtest_output=json:{self.json}",
                            "--gtest_color=no"), stdout=self.file)
        self.read = 0
        self.half = ""  # of a line
        self.running = None
        self.said = []  # since the running test began
        self.done = {}  # name: (state, milliseconds, why)

    def parse(self):
        with open(self.output, errors="replace") as file:
            file.seek(self.read)
            new = file.read()
            self.read = file.tell()
        lines = (self.half + new).split("\n")
        self.half = lines.pop()
        for line in lines:
            if begun := RUN.match(line):
                self.running, self.said = begun.group(1), []
            elif (found := RESULT.search(line)) and found.group(2) == self.running:
                self.end_test(found.group(1), int(found.group(3)))
            elif self.running:
                self.said.append(line)

    def end_test(self, state, milliseconds):
        why = "" if state == "OK" else " / ".join(line.strip() for line in self.said if line.strip())[:600]
        name, self.running = self.running, None
        self.done[name] = (state, milliseconds, why)
        self.machine.add_test(test=name, program=self.unit.program, state=state, ms=milliseconds, why=why)

    def finish(self):
        """The exit code; nothing of what it said is left unread."""
        self.machine.stop(self.process)
        self.file.close()
        self.parse()
        self.machine.log.write(f"--- {self.unit.program} {self.unit.suite}\n{self.output.read_text(errors='replace')[-20_000:]}\n")
        return self.process.returncode

    def properties(self):
        """What tests recorded; only a process that came to its end wrote it."""
        if not self.json.exists():
            return
        try:
            suites = json.loads(self.json.read_text())["testsuites"]
        except (json.JSONDecodeError, KeyError):
            return
        for suite in suites:
            for test in suite["testsuite"]:
                if "greedy_bf16_of" in test:
                    self.machine.add_figure("goldens", f"{suite['name']}.{test['name']}",
                                            same=int(test["greedy_bf16_same"]), of=int(test["greedy_bf16_of"]))


class Pool:
    """Runs units, `jobs` at a time."""

    def __init__(self, machine, name, most_a_unit):
        self.machine = machine
        self.name = name
        self.most_a_unit = most_a_unit  # seconds
        self.waiting = []
        self.running = []
        self.started = 0
        self.results = {}  # test: (state, ms, why)
        self.planned = 0
        self.not_here = []
        self.trouble = []  # of processes that no test stands for

    def add(self, program, only):
        """Lists the tests of a program and plans them. A program that cannot list them is trouble of its own."""
        options = [f"--gtest_filter={only}"] if only else []
        listing = self.machine.work / "list.txt"
        with open(listing, "w+") as file:
            process = self.machine.start(self.machine.program(program, "--gtest_list_tests", *options), stdout=file)
            try:
                code = process.wait(max(1, min(60, self.machine.left())))
            except subprocess.TimeoutExpired:
                code = None
            self.machine.stop(process)
            file.seek(0)
            text = file.read()
        suites = list_tests(text)
        if code != 0 or not suites:
            self.machine.log.write(text[-20_000:])
            if code in (77, 78):
                self.not_here.append(last_line(text))
            else:
                self.trouble.append(f"{program} lists no tests: {ended(code)}: {last_line(text)}")
            return
        for suite, tests in suites.items():
            tests = [each for each in tests if ".DISABLED_" not in each and not each.startswith("DISABLED_")]
            self.planned += len(tests)
            for at in range(0, len(tests), MOST_A_PROCESS):
                self.waiting.append(Unit(program, suite.rstrip("."), tests[at:at + MOST_A_PROCESS]))

    def run(self):
        try:
            while (self.waiting or self.running) and self.machine.left() > 0:
                while self.waiting and len(self.running) < self.machine.jobs:
                    self.started += 1
                    self.running.append(Process(self.machine, self.waiting.pop(0), f"{self.name}-{self.started}"))
                time.sleep(0.02)
                for each in list(self.running):
                    each.parse()
                    over = time.monotonic() - each.begun > self.most_a_unit
                    if each.process.poll() is not None or over:
                        self.running.remove(each)
                        self.settle(each, over and each.process.poll() is None)
        finally:
            for each in self.running:
                each.finish()
                self.results.update(each.done)

    def settle(self, each, hung):
        code = each.finish()
        self.results.update(each.done)
        each.properties()
        rest = [test for test in each.unit.tests if test not in each.done]
        if not rest:
            return
        if code in (77, 78) and not each.done and not each.running:
            self.not_here.append(last_line(each.output.read_text(errors="replace")))
            for test in rest:
                self.results[test] = ("SKIPPED", 0, self.not_here[-1])
            return
        how = f"did not end in {self.most_a_unit:.0f} s" if hung else ended(code)
        if each.running:
            why = f"{how}: {' / '.join(line.strip() for line in each.said[-6:] if line.strip()) or 'it said nothing'}"[:600]
            self.results[each.running] = ("CRASHED", 0, why)
            self.machine.add_test(test=each.running, program=each.unit.program, state="CRASHED", ms=0, why=why)
            rest.remove(each.running)
        elif not each.done:  # it does not even begin: no use in trying again
            self.trouble.append(f"{each.unit.suite}: {how}: {last_line(each.output.read_text(errors='replace'))}")
            for test in rest:
                self.results[test] = ("CRASHED", 0, self.trouble[-1])
            return
        if rest:
            self.waiting.insert(0, Unit(each.unit.program, each.unit.suite, rest))

    def report(self):
        """A line; Failed, Cut or Skipped where that is what came of it."""
        by_state = {}
        for test, (state, _, _) in self.results.items():
            by_state.setdefault(state, []).append(test)
        passed, skipped = len(by_state.get("OK", [])), len(by_state.get("SKIPPED", []))
        bad = by_state.get("FAILED", []) + by_state.get("CRASHED", [])
        missing = self.planned - len(self.results)
        self.machine.add_figure("tests", self.name, passed=passed, skipped=skipped, missing=missing,
                                failed=[{"test": test, "state": self.results[test][0], "why": self.results[test][2]} for test in bad])
        said = f"{passed} passed, {skipped} skipped"
        if bad or self.trouble:
            crashed = by_state.get("CRASHED", [])
            names = [f"{test}{' (crashed)' if test in crashed else ''}" for test in bad]
            raise Failed("; ".join([f"{said}, {len(bad)} failed{f', {missing} not run' if missing else ''}: {', '.join(names[:12])}"
                                    + (f" and {len(names) - 12} more" if len(names) > 12 else ""), *self.trouble[:3]]))
        if missing:
            raise Cut(f"{said}, {missing} of {self.planned} not run")
        if passed == 0 and self.not_here:
            raise Unsupported(self.not_here[0])
        if passed == 0:
            whys = [why for _, _, why in self.results.values() if why]
            raise Skipped(f"all {skipped} were skipped: {whys[0] if whys else 'no reason was said'}")
        return said


def run(machine, name, programs, most_a_unit=120):
    """`programs`: pairs of a program and a filter of its tests. Those that the bundle has not are named."""
    pool = Pool(machine, name, most_a_unit)
    lacking = []
    for program, only in programs:
        if machine.has(program):
            pool.add(program, only)
        else:
            lacking.append(program)
    if lacking and len(lacking) == len(programs):
        raise Skipped(f"the bundle has no {', no '.join(lacking)}")
    pool.run()
    said = pool.report()
    return said + (f"; the bundle has no {', no '.join(lacking)}" if lacking else "")
