"""Runs openai_node_test.mjs against a server of its own."""

import subprocess
import sys

from server_under_test import Server

server = Server("--dtype", "float32", "--served-model-name", "tiny", "--max-model-len", "512")
try:
    result = subprocess.run(["node", sys.argv[1], server.url], timeout=240)
finally:
    code = server.stop()
sys.exit(result.returncode or code)
