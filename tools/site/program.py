"""Runs the program: what it says of its API, and the report of a short run against its own mock server."""
import contextlib
import json
import pathlib
import re
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT_S = 120  # a build with sanitizers on a busy machine is slow to start


@contextlib.contextmanager
def running(command):
    """A server of ours on a free port; gives its address, and ends it."""
    with tempfile.TemporaryFile('w+') as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield _address(server, log, command)
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _address(server, log, command):
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        log.seek(0)
        text = log.read()
        found = re.search(r'http://[0-9.]+:[1-9][0-9]*', text)
        if found and _answers(found[0]):
            return found[0]
        if server.poll() is not None:
            raise SystemExit(f'site: {" ".join(map(str, command))} ended:\n{text}')
        time.sleep(0.1)
    raise SystemExit(f'site: {" ".join(map(str, command))} did not answer within {START_LIMIT_S} s')


def _answers(address):
    try:
        with urllib.request.urlopen(address + '/health', timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def openapi(saccade, model):
    """What /openapi.json says, parsed."""
    with running([saccade, 'serve', model, '--port', '0', '--kv-cache-bytes', '64MiB']) as address:
        with urllib.request.urlopen(address + '/openapi.json', timeout=30) as answer:
            return json.load(answer)


def write_report(saccade, folder):
    """Two short runs against the mock server, and folder/example.html of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, \
            running([saccade, 'bench', 'mock', '--port', '0', '--ttft', '30', '--itl', '8']) as address:
        logs = []
        for label, prompts, rate in (('20 requests/s', 60, '20'), ('all at once', 60, 'inf')):
            logs.append(pathlib.Path(work) / f'{rate}.jsonl')
            _run([saccade, 'bench', 'serve', '--backend', 'openai-chat', '--base-url', address, '--model', 'mock',
                  '--dataset-name', 'random', '--random-input-len', '64', '--random-output-len', '24', '--num-prompts', str(prompts),
                  '--request-rate', rate, '--disable-tqdm', '--brief', '--label', label, '--log', logs[-1]])
        _run([saccade, 'bench', 'report', *logs, '--html', folder / 'example.html'])


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f'site: {" ".join(map(str, command))} failed:\n{done.stdout}{done.stderr}')
