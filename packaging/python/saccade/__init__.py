"""Saccade from Python: `with saccade.Server("MODEL") as server: server.client().chat...`

The program does all the work; this package starts it, waits for it, and ends it."""
from saccade.server import GLIMPSE, PROGRAM, Server, ServerError

__all__ = ["GLIMPSE", "PROGRAM", "Server", "ServerError"]
