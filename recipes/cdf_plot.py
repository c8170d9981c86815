#!/usr/bin/env python3
"""TTFT distributions of all runs of an experiment, as cdf.svg in its folder.

    python cdf_plot.py "experiments/sharegpt4o_image_caption/demo"
"""
import os
import pathlib
import shutil
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__)
saccade = os.environ.get("SACCADE") or shutil.which("saccade") or str(pathlib.Path(__file__).resolve().parents[1] / "build/release/saccade")
os.execvp(saccade, [saccade, "bench", "report", "--format", "svg", "--output", os.path.join(sys.argv[1], "cdf.svg"), sys.argv[1]])
