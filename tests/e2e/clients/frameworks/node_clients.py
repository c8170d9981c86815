"""Runs node_clients.mjs, in the folder that has its node_modules, against the servers of world."""

import json
import subprocess
import sys

from world import IMAGE, World

world = World()
try:
    code = subprocess.run(["node", "node_clients.mjs", world.text, world.vision, str(IMAGE),
                           json.dumps(world.seen())],
                          cwd=sys.argv[1], timeout=300).returncode
finally:
    world.close()
sys.exit(code)
