"""image_check.py archive FILE CONFIG | tag FILE | unpack FILE DIR | ask PORT [REPOSITORY]"""
import base64
import gzip
import hashlib
import json
import pathlib
import sys
import tarfile
import tempfile
import urllib.request


class Archive:
    def __init__(self, path):
        self.tar = tarfile.open(path)
        index = self.json("index.json")
        self.named = index["manifests"][0]
        self.manifest = json.loads(self.blob(self.named))
        self.config = json.loads(self.blob(self.manifest["config"]))

    def bytes(self, name):
        return self.tar.extractfile(name).read()

    def json(self, name):
        return json.loads(self.bytes(name))

    def blob(self, entry):
        """What a descriptor names, held against its digest and size."""
        kind, digest = entry["digest"].split(":")
        data = self.bytes(f"blobs/{kind}/{digest}")
        assert len(data) == entry["size"] and hashlib.sha256(data).hexdigest() == digest, entry
        return data

    def layer(self):
        return gzip.decompress(self.blob(self.manifest["layers"][0]))


def check(path, config_file):
    archive = Archive(path)
    assert archive.json("oci-layout") == {"imageLayoutVersion": "1.0.0"}
    layer = archive.layer()
    assert archive.config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    wanted = json.loads(pathlib.Path(config_file).read_text())
    said = archive.config["config"]
    assert {name: said[name] for name in wanted} == wanted, said
    older = archive.json("manifest.json")[0]
    assert older["Config"].endswith(archive.manifest["config"]["digest"].split(":")[1])
    with tempfile.TemporaryFile() as file:
        file.write(layer)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            files = {each.name: each for each in tar}
            user = int(wanted["User"].split(":")[0])
            assert f":{user}:" in tar.extractfile("etc/passwd").read().decode()
    for name in ("usr/bin/saccade", "usr/libexec/saccade/health", "usr/share/doc/saccade/copyright", "usr/share/saccade/models/glimpse/config.json",
                 "etc/ssl/certs/ca-certificates.crt"):
        assert name in files, name
    assert files["models"].isdir() and files["models"].uid == user
    assert not [name for name in files if name.startswith(("var/lib/apt/lists/", "var/cache/apt/")) and files[name].isfile()]
    print(f"image_check: {len(files)} files, {sum(each.size for each in files.values()) / 1e6:.0f} MB unpacked")


class Question:
    """The first of data/glimpse, with its picture."""

    def __init__(self, repository, headers=None):
        self.headers = {"Content-Type": "application/json", **(headers or {})}
        folder = pathlib.Path(repository) / "data/glimpse"
        row = json.loads((folder / "answers.jsonl").read_text().splitlines()[0])
        image = "data:image/png;base64," + base64.b64encode((folder / row["image_files"][0]).read_bytes()).decode()
        self.text = row["prompt"]
        self.body = json.dumps({"temperature": 0, "max_tokens": 16, "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": row["prompt"]}]}]}).encode()

    def put(self, url):
        request = urllib.request.Request(url + "/v1/chat/completions", self.body, self.headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = json.load(answer)["choices"][0]["message"]["content"]
        assert text, "an empty answer"
        return text


def ask(port, repository=None):
    url = f"http://127.0.0.1:{port}"
    if repository is None:
        urllib.request.urlopen(url + "/health", timeout=5)
        return
    question = Question(repository)
    print(f"image_check: {question.text!r}: {question.put(url)!r}")


def main():
    what, *given = sys.argv[1:]
    if what == "archive":
        check(*given)
    elif what == "tag":
        print(Archive(given[0]).named["annotations"]["org.opencontainers.image.ref.name"])
    elif what == "unpack":
        with tempfile.TemporaryFile() as file:
            file.write(Archive(given[0]).layer())
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extractall(given[1], numeric_owner=True)
    else:
        ask(*given)


if __name__ == "__main__":
    main()
