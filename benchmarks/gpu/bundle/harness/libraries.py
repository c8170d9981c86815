"""Where this machine's Python with torch is, and the cuBLASLt that came with it."""
import dataclasses
import functools
import glob
import os
import pathlib
import shutil
import subprocess
import sys

LIBRARY = "libcublasLt.so.13"


def pythons():
    named = [os.environ.get("SACCADE_PYTHON"), shutil.which("python3"), sys.executable]
    named += sorted(glob.glob("/opt/*/.venv/bin/python3") + glob.glob("/opt/*/bin/python3"))
    return list(dict.fromkeys(each for each in named if each and os.access(each, os.X_OK)))


def clean_environment():
    """Without the bundle's libraries: Python brings its own."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH_SACCADE")}


def says(python, code):
    try:
        said = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30, env=clean_environment())
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 else None


@functools.lru_cache
def python_with(package):
    """The first Python that has it (not imported: that takes seconds); otherwise the first of all."""
    known = pythons()
    for python in known:
        if says(python, f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)") is not None:
            return python
    return known[0] if known else sys.executable


def purelib(python):
    return says(python, "import sysconfig; print(sysconfig.get_paths()['purelib'])")


@dataclasses.dataclass
class Found:
    folder: str = ""  # for SACCADE_CUDA_LIBS; "": the program looks for itself
    said: str = ""  # for people


def cublaslt(environment, python):
    given = environment.get("SACCADE_CUDA_LIBS")
    if given:
        return Found(given, f"SACCADE_CUDA_LIBS={given}, as given")
    for each in [python, *pythons()]:
        packages = purelib(each)
        for folder in ("nvidia/cu13/lib", "nvidia/cublas/lib"):
            place = pathlib.Path(packages or "/nowhere") / folder
            if (place / LIBRARY).exists():
                return Found(str(place), f"{place / LIBRARY}")
    return Found("", f"no {LIBRARY} beside any Python: the program looks for itself")
