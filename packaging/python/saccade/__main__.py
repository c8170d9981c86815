"""`saccade ...` and `python -m saccade ...`: this process becomes the program."""
import os
import sys
from typing import NoReturn

from saccade.server import PROGRAM


def main() -> NoReturn:
    os.execv(PROGRAM, ["saccade", *sys.argv[1:]])


if __name__ == "__main__":
    main()
