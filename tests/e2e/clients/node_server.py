"""Runs the tests of the npm client, each against a server of its own: python node_server.py FOLDER."""

import subprocess
import sys
from pathlib import Path

from server_under_test import ROOT, Server

TESTS = {
    "openai_node_test.mjs": dict(flags=["--served-model-name", "tiny", "--max-model-len", "512"]),
    "openai_embeddings_node_test.mjs": dict(flags=["--served-model-name", "encoder"],
                                            model=ROOT / "tests/golden/minilm/mean_short"),
}


def ended(test, flags, **options):
    server = Server("--dtype", "float32", *flags, **options)
    try:
        result = subprocess.run(["node", test, server.url], timeout=240)
    finally:
        code = server.stop()
    return result.returncode or code


sys.exit(max(abs(ended(Path(sys.argv[1]) / name, **options)) for name, options in TESTS.items()))
