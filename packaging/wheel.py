"""Packs an installed tree (cmake --install with SACCADE_BUNDLE_LIBRARIES) and packaging/python as a wheel. Equal trees give equal bytes.
   python3 packaging/wheel.py --stage DIR --version VERSION --out DIR"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
METADATA = """Metadata-Version: 2.1
Name: saccade
Version: {version}
Summary: Server for vision-language models over the OpenAI API, on CPUs and NVIDIA GPUs
Author: The Saccade authors
License: Apache-2.0; the libraries inside have licences of their own, see licenses/copyright
Requires-Python: >=3.9
Provides-Extra: openai
Requires-Dist: openai>=1; extra == 'openai'
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown
License-File: LICENSE
License-File: copyright

{description}"""
ENTRY_POINTS = "[console_scripts]\nsaccade = saccade.__main__:main\n"


def files_of(stage, info):
    """(name in the wheel, file here), of the package and of the program."""
    python = HERE / "python"
    for file in sorted((python / "saccade").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(python)), file
    # As the program is installed: it looks for its libraries in ../lib/saccade.
    yield "saccade/program/bin/saccade", stage / "bin/saccade"
    libraries = sorted((stage / "lib/saccade").iterdir())
    if not libraries:
        sys.exit(f"wheel: {stage} has no libraries: it was built without SACCADE_BUNDLE_LIBRARIES")
    for file in libraries:
        yield f"saccade/program/lib/saccade/{file.name}", file
    for file in sorted((stage / "share/saccade/models/glimpse").iterdir()):
        yield f"saccade/models/glimpse/{file.name}", file
    yield f"{info}/licenses/LICENSE", stage / "share/saccade/LICENSE"
    yield f"{info}/licenses/copyright", stage / "share/doc/saccade/copyright"


def newest_glibc(files):
    """The newest version of the C library that any of these names, as numbers."""
    needed = (0, 0)
    for _, file in files:
        with open(file, "rb") as head:
            if head.read(4) != b"\x7fELF":
                continue
        text = subprocess.run(["readelf", "-V", "-W", str(file)], capture_output=True, text=True, check=True).stdout
        for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text):
            needed = max(needed, (int(major), int(minor)))
    return needed


def main():
    parser = argparse.ArgumentParser()
    for name in ("stage", "version", "out"):
        parser.add_argument("--" + name, required=True)
    given = parser.parse_args()
    built_on = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))  # this machine's
    tag = f"py3-none-manylinux_{built_on[0]}_{built_on[1]}_{platform.machine()}"
    info = f"saccade-{given.version}.dist-info"
    files = list(files_of(pathlib.Path(given.stage), info))
    needed = newest_glibc(files)
    if needed > built_on:
        sys.exit(f"wheel: something in it needs glibc {needed}, newer than this machine's {built_on}")

    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
    wheel = pathlib.Path(given.out) / f"saccade-{given.version}-{tag}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, data, mode=0o644):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")

        for name, file in files:
            add(name, file.read_bytes(), 0o755 if "/bin/" in name else 0o644)
        add(f"{info}/METADATA",
            METADATA.format(version=given.version, description=(HERE / "python/README.md").read_text()).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: saccade scripts/wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
        record.append(f"{info}/RECORD,,")
        entry = zipfile.ZipInfo(f"{info}/RECORD", moment)
        entry.external_attr = 0o100644 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, "\n".join(record) + "\n")
    size = wheel.stat().st_size
    print(f"wheel: {size / 1e6:.1f} MB, needs glibc {needed[0]}.{needed[1]}, tagged {built_on[0]}.{built_on[1]}", file=sys.stderr)
    print(wheel)


main()
