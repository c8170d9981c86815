"""deploy/ against schemas and the real program: manifests are valid, the processes that they describe start with their
flags and answer, and every metric that a dashboard or an alert names is on a page of theirs."""
import base64
import glob
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BINARY = os.path.abspath(sys.argv[1])
WORK = pathlib.Path(sys.argv[2]).resolve()
IMAGE = ROOT / "tests/golden/qwen2_vl/images/wide.png"


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def manifests():
    return {f"{path.name}/{each['kind']}/{each['metadata']['name']}": each
            for path in sorted(DEPLOY.glob("kubernetes/*.yaml")) if path.name != "kustomization.yaml"
            for each in documents(path)}


def args_of(kind_and_name):
    found = [each for name, each in manifests().items() if name.endswith(kind_and_name)]
    assert len(found) == 1, kind_and_name
    return found[0]["spec"]["template"]["spec"]["containers"][0]["args"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def flags_of_program(command):
    text = subprocess.run([BINARY, command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z0-9][a-z0-9-]*", text))


def metric_names(text):
    return set(re.findall(r'__name__="([a-z_]+:[a-z0-9_]+)"', text))


class Schemas(unittest.TestCase):
    def test_kubernetes(self):
        for name, each in manifests().items():
            with self.subTest(name):
                kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)

    def test_names_that_belong_together(self):
        everything = manifests()
        for path in documents(DEPLOY / "kubernetes/kustomization.yaml")[0]["resources"]:
            self.assertTrue((DEPLOY / "kubernetes" / path).exists(), path)
        services = {each["metadata"]["name"]: each for each in everything.values() if each["kind"] == "Service"}
        sets = {each["metadata"]["name"]: each for each in everything.values() if each["kind"] == "StatefulSet"}
        # Each pod.service:port in a flag is a pod of a StatefulSet and a port of its Service.
        for name, each in everything.items():
            if each["kind"] not in ("StatefulSet", "Deployment"):
                continue
            for arg in each["spec"]["template"]["spec"]["containers"][0]["args"]:
                for pod, service, port in re.findall(r"([a-z-]+-\d+)\.([a-z-]+):(\d+)", arg):
                    owner = sets[pod.rsplit("-", 1)[0]]
                    self.assertEqual(owner["spec"]["serviceName"], service, arg)
                    self.assertIn(int(port), [one["port"] for one in services[service]["spec"]["ports"]], arg)
        scaler = next(each for each in everything.values() if each["kind"] == "HorizontalPodAutoscaler")
        named = len(re.findall(r"saccade-pd-\d+\.", " ".join(args_of("Deployment/saccade-proxy"))))
        self.assertEqual(scaler["spec"]["maxReplicas"], named)
        adapter = documents(DEPLOY / "prometheus/adapter.yaml")[0]["rules"][0]
        self.assertEqual(adapter["name"]["as"], scaler["spec"]["metrics"][0]["pods"]["metric"]["name"])

    def test_dashboard_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, DEPLOY / "grafana/make"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(made, (DEPLOY / "grafana/saccade.json").read_text())
        panels = json.loads(made)["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))

    def test_rules(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("no promtool (Debian's package prometheus)")
        for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"], ["check", "config", "prometheus.yaml"]):
            subprocess.run([promtool, *command], cwd=DEPLOY / "prometheus", check=True, stdout=subprocess.DEVNULL)

    def test_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("no systemd-analyze")
        for unit in sorted(glob.glob(str(DEPLOY / "systemd/*.service"))):
            # Told of a program that is there, since Saccade may not be installed here.
            text = pathlib.Path(unit).read_text().replace("/usr/bin/saccade", "/bin/true")
            copy = WORK / os.path.basename(unit)
            copy.write_text(text)
            instance = WORK / copy.name.replace("@.", "@1.")
            if instance != copy:
                copy.rename(instance)
            ran = subprocess.run(["systemd-analyze", "verify", "--man=no", str(instance)], capture_output=True, text=True)
            said = [line for line in ran.stderr.splitlines() if "saccade" in line]
            self.assertEqual(said, [], unit)


class Image(unittest.TestCase):
    """What deploy/ takes for granted of the image is what the image is (packaging/image/config.json, which scripts/image writes into it)."""

    @classmethod
    def setUpClass(cls):
        cls.config = json.loads((ROOT / "packaging/image/config.json").read_text())
        cls.user = int(cls.config["User"].split(":")[0])

    def containers(self):
        for name, each in manifests().items():
            if each["kind"] in ("StatefulSet", "Deployment"):
                pod = each["spec"]["template"]["spec"]
                yield name, pod, pod["containers"][0]

    def test_manifests(self):
        seen = 0
        for name, pod, container in self.containers():
            with self.subTest(name):
                seen += 1
                self.assertEqual(pod["securityContext"]["runAsUser"], self.user)
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                self.assertNotIn("command", container)  # the image's entry point is the program
                self.assertIn(container["args"][0], ("serve", "proxy"))
                self.assertTrue(container["image"].startswith("saccade:"))
                flags = dict(arg[2:].split("=", 1) for arg in container["args"] if arg.startswith("--") and "=" in arg)
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                self.assertEqual(ports["http"], int(flags["port"]))
                if "cluster" in ports:
                    self.assertEqual(flags["cluster-listen"], f"0.0.0.0:{ports['cluster']}")
                for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
                    how = container.get(probe, {})
                    self.assertIn(how.get("httpGet", {}).get("path", "/health"), "/health")
                    self.assertIn(how.get("httpGet", how.get("tcpSocket", {"port": "http"}))["port"], ports)
                paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
                for flag in (container["args"][1], *flags.values()):
                    if flag.startswith(("/models", "/keys")):
                        self.assertTrue(any(flag.startswith(path) for path in paths), flag)
                if container["args"][0] == "serve":
                    self.assertIn("/models", paths)
        self.assertEqual(seen, 3)
        self.assertIn("/models", self.config["Volumes"])

    def test_compose(self):
        for name, service in documents(DEPLOY / "compose.yaml")[0]["services"].items():
            if service["image"].startswith("saccade"):
                with self.subTest(name):
                    self.assertEqual(int(service["user"]), self.user)
                    self.assertTrue(service["read_only"])
                    self.assertIn(service["command"][0], ("serve", "proxy"))
                    self.assertNotIn("entrypoint", service)

    def test_dockerfile_is_the_same_image(self):
        text = (DEPLOY / "Dockerfile").read_text()
        last = text[text.rindex("\nFROM "):]
        said = {word: json.loads(rest) for word, rest in re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", last, re.M)}
        self.assertEqual(said["ENTRYPOINT"], self.config["Entrypoint"])
        self.assertEqual(said["CMD"], self.config["Cmd"])
        self.assertIn(f"USER {self.config['User']}\n", last)
        self.assertIn("VOLUME /models\n", last)
        for each in self.config["ExposedPorts"]:
            self.assertIn(f"EXPOSE {each.split('/')[0]}\n", last)
        for each in self.config["Env"][1:]:
            self.assertIn(each, last)
        self.assertIn("CMD [\"" + self.config["Healthcheck"]["Test"][1] + "\"]", last)

    def test_dockerfile_takes_the_sources_alone(self):
        """What git ignores, a build folder of other paths among it, is none of the Dockerfile's `COPY . .`; what it names is there."""
        rules = [line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line and not line.startswith("#")]
        for ignored in (ROOT / ".gitignore").read_text().split():
            name = ignored.strip("/")
            self.assertTrue({name, "**/" + name, "**/" + os.path.basename(name)} & set(rules) or name == "*.swp", f"{ignored} would be copied")
        kept = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True).stdout.split("\n")
        for rule in rules:
            if "*" not in rule:
                self.assertFalse([each for each in kept if each.startswith(rule + "/")], f"{rule} has sources")
        for source in re.findall(r"^COPY ([^-.\s]\S*) ", (DEPLOY / "Dockerfile").read_text(), re.M):
            self.assertTrue((ROOT / source).exists(), source)


class Workflows(unittest.TestCase):
    def test_they_call_what_is_there(self):
        seen = set()
        for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
            flow = yaml.safe_load(path.read_text())
            self.assertIn("permissions", flow)
            for job in flow["jobs"].values():
                for step in job["steps"]:
                    for script in re.findall(r"(?:^|\s)((?:scripts|tests|packaging)/\S+)", step.get("run", "")):
                        self.assertTrue(os.access(ROOT / script, os.X_OK), script)
                        seen.add(script)
        self.assertLessEqual({"scripts/test", "scripts/release"}, seen)


class Flags(unittest.TestCase):
    def commands(self):
        for name, each in manifests().items():
            if each["kind"] in ("StatefulSet", "Deployment"):
                yield name, each["spec"]["template"]["spec"]["containers"][0]["args"]
        compose = documents(DEPLOY / "compose.yaml")[0]["services"]
        for name, service in compose.items():
            if service["image"].startswith("saccade"):
                yield "compose/" + name, service["command"]
        for unit in sorted(DEPLOY.glob("systemd/*.service")):
            line = re.search(r"^ExecStart=/usr/bin/saccade (.*)$", unit.read_text(), re.M).group(1)
            yield "systemd/" + unit.name, line.split()

    def test_each_is_one_of_the_program(self):
        known = {command: flags_of_program(command) for command in ("serve", "proxy")}
        seen = 0
        for name, command in self.commands():
            for word in command[1:]:
                if word.startswith("--"):
                    seen += 1
                    self.assertIn(word.split("=")[0], known[command[0]], name)
        self.assertGreater(seen, 40)


class Cluster(unittest.TestCase):
    """The processes of deploy/kubernetes on this machine, with addresses of its own."""

    @classmethod
    def setUpClass(cls):
        cls.processes = []
        key = WORK / "cluster"
        key.write_text("0123456789abcdef" * 2)
        cls.ports = {name: free_port() for name in ("cluster", "encoder", "pd", "proxy")}

        def start(name, args, peers):
            made = []
            for arg in args:
                arg = arg.replace("/models/model", str(ROOT / "models/glimpse")).replace("/keys/cluster", str(key))
                arg = re.sub(r"^--cluster-listen=.*", f"--cluster-listen=127.0.0.1:{cls.ports['cluster']}", arg)
                arg = arg.replace("--host=0.0.0.0", "--host=127.0.0.1")
                arg = re.sub(r"^--port=.*", f"--port={cls.ports[name]}", arg)
                # Of the pods that may be there only the first is; the others' names are unknown, as theirs are until they come.
                arg = re.sub(r"^(--encoders|--pd)=((?:http://)?)[^,]*", lambda m: f"{m[1]}={m[2]}127.0.0.1:{cls.ports[peers]}", arg)
                made.append(arg)
            with open(WORK / f"{name}.log", "w") as log:
                cls.processes.append(subprocess.Popen([BINARY, *made], stdout=log, stderr=log))
            cls.wait(name)

        start("encoder", args_of("StatefulSet/saccade-encoder"), None)
        start("pd", args_of("StatefulSet/saccade-pd"), "cluster")
        start("proxy", args_of("Deployment/saccade-proxy"), "pd")

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.processes):
            process.terminate()
        for process in cls.processes:
            assert process.wait(timeout=180) == 0, process.args

    @classmethod
    def get(cls, name, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{cls.ports[name]}{path}", timeout=300) as answer:
            return answer.read().decode()

    @classmethod
    def wait(cls, name):
        for _ in range(1800):
            try:
                cls.get(name, "/health")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{name} is not ready: " + (WORK / f"{name}.log").read_text())

    def test_answers_and_metrics(self):
        image = "data:image/png;base64," + base64.b64encode(IMAGE.read_bytes()).decode()
        body = {"max_tokens": 4, "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": "what is it?"}]}]}
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['proxy']}/v1/chat/completions",
                                         json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            self.assertEqual(answer.status, 200)
        pages = {name: self.get(name, "/metrics") for name in ("encoder", "pd", "proxy")}
        known = set(re.findall(r"^([a-z_]+:[a-z0-9_]+)[ {]", "\n".join(pages.values()), re.M))
        used = set()
        for path in ("grafana/make", "prometheus/alerts.yaml", "prometheus/adapter.yaml"):
            used |= metric_names((DEPLOY / path).read_text())
        used |= metric_names((DEPLOY / "grafana/saccade.json").read_text().replace('\\"', '"'))
        self.assertGreater(len(used), 20)
        self.assertEqual(used - known, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
