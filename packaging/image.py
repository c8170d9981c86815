"""Writes a folder as a container image of one layer: an OCI layout in a tar, which podman, buildah, skopeo, containerd and docker load.
Equal folders give equal bytes.
   python3 packaging/image.py --root DIR --config FILE --version VERSION --tag TAG --out FILE"""
import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Digest(io.RawIOBase):
    """Counts and hashes what is written on."""

    def __init__(self, target):
        self.target, self.sha, self.size = target, hashlib.sha256(), 0

    def writable(self):
        return True

    def write(self, data):
        self.sha.update(data)
        self.size += len(data)
        return self.target.write(data)


def layer_of(root, path, moment):
    """Writes the layer; returns its own hash and size and, for the config, that of the tar in it."""
    with open(path, "wb") as file:
        packed = Digest(file)
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0, filename="") as squeezed:
            plain = Digest(squeezed)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.GNU_FORMAT) as tar:
                for folder, folders, files in os.walk(root):
                    folders.sort()
                    for name in sorted(folders + files):
                        full = os.path.join(folder, name)
                        entry = tar.gettarinfo(full, os.path.relpath(full, root))
                        if entry is None:  # a socket
                            continue
                        entry.mtime = min(int(entry.mtime), moment)
                        entry.uname = entry.gname = ""
                        if entry.isreg():
                            with open(full, "rb") as data:
                                tar.addfile(entry, data)
                        else:
                            tar.addfile(entry)
        return packed.sha.hexdigest(), packed.size, plain.sha.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    for name in ("root", "config", "version", "tag", "out"):
        parser.add_argument("--" + name, required=True)
    given = parser.parse_args()
    moment = int(os.environ["SOURCE_DATE_EPOCH"])
    created = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    scratch = given.out + ".layer"
    layer, size, plain = layer_of(given.root, scratch, moment)
    labels = {"org.opencontainers.image.title": "saccade", "org.opencontainers.image.version": given.version,
              "org.opencontainers.image.licenses": "Apache-2.0"}
    with open(given.config) as file:
        config = {**json.load(file), "Labels": labels}
    platform_of = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    image = json.dumps({**platform_of, "created": created, "config": config,
                        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + plain]},
                        "history": [{"created": created, "created_by": "saccade scripts/image"}]}).encode()
    image_digest = hashlib.sha256(image).hexdigest()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:" + image_digest, "size": len(image)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:" + layer, "size": size}],
    }).encode()
    manifest_digest = hashlib.sha256(manifest).hexdigest()
    name = "docker.io/library/saccade:" + given.tag
    index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + manifest_digest, "size": len(manifest),
         "platform": platform_of,
         "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": given.tag}}]}).encode()
    # What `docker load` read before it read OCI layouts.
    older = json.dumps([{"Config": f"blobs/sha256/{image_digest}", "RepoTags": [f"saccade:{given.tag}", "saccade:latest"],
                         "Layers": [f"blobs/sha256/{layer}"]}]).encode()

    with tarfile.open(given.out, "w", format=tarfile.GNU_FORMAT) as archive:
        def add(path, data=None, file=None):
            entry = tarfile.TarInfo(path)
            entry.mtime, entry.mode = moment, 0o644
            entry.size = len(data) if data is not None else os.path.getsize(file)
            if data is not None:
                archive.addfile(entry, io.BytesIO(data))
            else:
                with open(file, "rb") as source:
                    archive.addfile(entry, source)

        add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        add("index.json", index)
        add("manifest.json", older)
        add(f"blobs/sha256/{manifest_digest}", manifest)
        add(f"blobs/sha256/{image_digest}", image)
        add(f"blobs/sha256/{layer}", file=scratch)
    os.remove(scratch)
    print(f"image: {os.path.getsize(given.out) / 1e6:.1f} MB, saccade:{given.tag}, sha256:{manifest_digest}")


main()
