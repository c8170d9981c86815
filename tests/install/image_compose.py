"""The services of deploy/compose.yaml, by podman on this machine's network, each with an address of its own in 127/8 where a network would
give it one: image_compose.py REPOSITORY WORK IMAGE COUNT FLAGS... PODMAN...   (COUNT flags of `podman run`, then podman and its flags)"""
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import yaml

import image_check

repository, work, image, count, *rest = sys.argv[1:]
flags, podman = rest[:int(count)], rest[int(count):]
services = {name: each for name, each in yaml.safe_load((pathlib.Path(repository) / "deploy/compose.yaml").read_text())["services"].items()
            if each["image"].startswith("saccade")}
addresses = {name: f"127.0.77.{number + 1}" for number, name in enumerate(services)}
key = pathlib.Path(work) / "cluster.key"
key.write_text("0123456789abcdef" * 2)
key.chmod(0o444)


def run(name, service):
    command = [re.sub(r"=0\.0\.0\.0", "=" + addresses[name], word) for word in service["command"]]
    given = [*flags, "--network", "host", "--user", service["user"], "--name", name]
    given += ["--read-only"] if service["read_only"] else []
    given += [word for each in service["cap_drop"] for word in ("--cap-drop", each)]
    given += [word for each in service["security_opt"] for word in ("--security-opt", each)]
    for volume in service["volumes"]:
        source, rest = re.fullmatch(r"(\$\{MODELS[^}]*\}|[^:]+):(.*)", volume).groups()
        given += ["-v", f"{pathlib.Path(work) / 'models' if source.startswith('$') else key}:{rest}"]
    given += [word for other, address in addresses.items() for word in ("--add-host", f"{other}:{address}")]
    subprocess.run([*podman, "run", "-d", *given, image, *command], check=True, stdout=subprocess.DEVNULL)


def until_healthy(name):
    for _ in range(1500):
        if subprocess.run([*podman, "exec", name, "/bin/true"], capture_output=True).returncode == 0:
            port = re.search(r"--port=(\d+)", " ".join(services[name]["command"]))[1]
            try:
                urllib.request.urlopen(f"http://{addresses[name]}:{port}/health", timeout=5)
                return
            except OSError:
                pass
        time.sleep(0.2)
    logs = subprocess.run([*podman, "logs", name], capture_output=True, text=True)
    raise AssertionError(f"{name}: {logs.stdout}{logs.stderr}")


try:
    for name, service in services.items():
        run(name, service)
    for name in services:
        until_healthy(name)
    asked = image_check.Question(repository)
    for _ in range(4):
        asked.put(f"http://{addresses['proxy']}:8080")
    pages = "".join(urllib.request.urlopen(f"http://{addresses[name]}:8000/metrics").read().decode() for name in services if name.startswith("pd"))
    rows = sum(float(each) for each in re.findall(r'^saccade:exchange_images_total\{[^}]*source="(?:remote|local|cache|hedge)"[^}]*\} (\S+)', pages, re.M))
    assert rows >= 1, "no image came to the servers"
    for name in reversed(services):
        subprocess.run([*podman, "stop", "-t", "45", name], check=True, stdout=subprocess.DEVNULL)
        code = subprocess.run([*podman, "inspect", "--format", "{{.State.ExitCode}}", name], capture_output=True, text=True, check=True).stdout.strip()
        assert code == "0", f"{name} ended with {code}"
    print(f"image_compose: {len(services)} services of deploy/compose.yaml answered and ended in order")
finally:
    subprocess.run([*podman, "rm", "-f", "-a"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
