"""Small video files of every kind that is decoded, and what PyAV makes of them: tests/golden/videos.

    python -m venv V && V/bin/pip install av==18.1.0 numpy==2.4.6 pillow==13.0.0
    V/bin/python tools/goldens/video_files.py tests/golden/videos

Needs Debian's ffmpeg for the encoders and for what PyAV does not write (rotation, fragments). A picture is a ramp with a
block that moves and a bar code of the frame's number, so that every frame differs from every other. Of each file that has
to be decoded: NAME.json (frames, rate, when each frame is, those that were kept) and NAME.png (those, below each other, as
they are coded: PyAV does not turn frames that are to be shown turned).
"""
import json
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
from PIL import Image

OUT = Path(sys.argv[1])


def picture(index, width, height):
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // width, y * 255 // height, (x + y + 8 * index) % 256], -1).astype(np.uint8)
    at = (3 * index) % max(1, width - 12)
    rgb[height // 3:height // 3 + 10, at:at + 12] = (250, 20, 20)
    for bit in range(6):
        rgb[height - 6:, bit * 6:bit * 6 + 6] = 255 if index >> bit & 1 else 0
    return rgb


def encode(name, *options, frames=20, size=(64, 48), rate="30", extra_input=(), filters=""):
    raw = b"".join(picture(i, *size).tobytes() for i in range(frames))
    chain = ["-vf", filters] if filters else []
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", rate,
               "-i", "-", *extra_input, *chain, "-threads", "1", "-bitexact", *options, str(OUT / name)]
    subprocess.run(command, input=raw, check=True)


def copy(source, name, *options):
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", str(OUT / source), "-c", "copy", "-bitexact", *options,
                    str(OUT / name)], check=True)


H264 = ("-c:v", "libx264", "-crf", "20", "-bf", "2", "-g", "8")
YUV = ("-pix_fmt", "yuv420p")
encode("h264.mp4", *H264, *YUV, "-movflags", "+faststart")
encode("h264_rate.mov", *H264, *YUV, rate="30000/1001")
encode("h264.mkv", *H264, *YUV, rate="15")
encode("h264_444.mp4", *H264, "-pix_fmt", "yuv444p")
encode("h264_full_range.mp4", *H264, "-pix_fmt", "yuvj420p", "-color_range", "pc")
encode("h264_bt709.mp4", *H264, *YUV, "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
       filters="scale=out_color_matrix=bt709")
encode("h264_fragments.mp4", *H264, *YUV, "-movflags", "frag_keyframe+empty_moov")
encode("h264_sound.mp4", *H264, *YUV, "-c:a", "aac", "-b:a", "8k", "-map", "1:a", "-map", "0:v",
       extra_input=("-f", "lavfi", "-t", "0.6", "-i", "sine=r=8000"))
encode("h264_uneven.mkv", *H264, *YUV, "-vsync", "passthrough", filters="select='not(mod(n,3))+lt(n,8)'")
encode("h264_uneven.mp4", *H264, *YUV, "-vsync", "passthrough", filters="select='not(mod(n,3))+lt(n,8)'")
encode("hevc.mp4", "-c:v", "libx265", "-x265-params", "log-level=none:crf=20:pools=none:frame-threads=1:info=0", *YUV, rate="24")
encode("hevc_10bit.mp4", "-c:v", "libx265", "-x265-params", "log-level=none:crf=20:pools=none:frame-threads=1:info=0", "-pix_fmt", "yuv420p10le")
encode("vp8.webm", "-c:v", "libvpx", "-b:v", "300k", "-auto-alt-ref", "1", "-lag-in-frames", "10", frames=30, rate="25")
encode("vp9_odd.webm", "-c:v", "libvpx-vp9", "-b:v", "300k", *YUV, size=(47, 35))
encode("av1.mp4", "-c:v", "libaom-av1", "-cpu-used", "8", "-crf", "30", *YUV, frames=10, rate="10")
encode("mpeg4.mp4", "-c:v", "mpeg4", "-q:v", "3", "-bf", "1", *YUV, rate="12")
encode("one_frame.mp4", *H264, *YUV, frames=1)
encode("long.mp4", "-c:v", "libx264", "-crf", "38", "-bf", "2", "-g", "40", *YUV, frames=600, size=(32, 32))
subprocess.run(["ffmpeg", "-v", "error", "-y", "-r", "1", "-i", str(OUT.parent / "frames/wide_%d.png"), "-threads", "1", "-bitexact",
                "-c:v", "libx264rgb", "-qp", "0", "-g", "2", "-bf", "0", str(OUT / "exact.mp4")], check=True)  # lossless RGB
for degrees in (90, 180, 270):
    copy("h264.mp4", f"h264_turned_{degrees}.mp4", "-metadata:s:v", f"rotate={degrees}")
# What is refused.
encode("refused_container.avi", "-c:v", "mpeg4", *YUV, frames=2)
encode("refused_codec.mkv", "-c:v", "ffv1", *YUV, frames=2)
subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-t", "0.2", "-i", "sine=r=8000", "-c:a", "aac", "-bitexact",
                str(OUT / "refused_sound.mp4")], check=True)

for path in sorted(OUT.iterdir()):
    if path.suffix in (".json", ".png") or path.name.startswith("refused"):
        continue
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        times, pictures = [], []
        for frame in container.decode(video=0):
            times.append(float(frame.pts * frame.time_base))
            pictures.append(frame.to_ndarray(format="rgb24"))
        rate = stream.average_rate
    kept = sorted({0, 1, len(pictures) // 2, len(pictures) - 1} if len(pictures) > 1 else {0})
    facts = {"frames": len(pictures), "frames_of_header": stream.frames, "fps": float(rate),
             "seconds": [time - times[0] for time in times] if len(times) < 100 else [], "kept": kept,
             "width": pictures[0].shape[1], "height": pictures[0].shape[0]}
    (OUT / (path.name + ".json")).write_text(json.dumps(facts) + "\n")
    Image.fromarray(np.concatenate([pictures[i] for i in kept])).save(OUT / (path.name + ".png"), optimize=True)
