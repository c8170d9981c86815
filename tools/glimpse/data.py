"""Pictures with questions whose answers are known: the data glimpse is trained and tested on.

make_sample(rng, stage) draws one picture. `stage` is the curriculum: 0 is one font on the patch grid, 1 everything.
Because the pictures are drawn here, the place of every character is known; `cells` says which characters lie in each
28-pixel cell (one vision token), and which of them in reading order, for dense supervision.
"""

import dataclasses
import io
import math
import random
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

CELL = 28
SLOTS = 4  # characters of one cell that the dense head names
MAX_ORDER = 64
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.-/:$ "

FONT_FOLDERS = ["/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/truetype/liberation"]
FONT_NAMES = ["DejaVuSansMono.ttf", "DejaVuSans.ttf", "LiberationSans-Regular.ttf", "LiberationMono-Bold.ttf",
              "DejaVuSans-Bold.ttf", "LiberationSerif-Regular.ttf"]

COLOURS = {"red": (205, 30, 35), "green": (25, 140, 50), "blue": (30, 65, 200), "yellow": (235, 205, 30),
           "orange": (240, 130, 20), "purple": (125, 40, 150), "black": (15, 15, 15), "white": (248, 248, 248)}

SHAPE = "o"  # stands for a shape in `cells`
READ, COUNT, COLOUR, TOTAL, DATE, NUMBER = "read", "count", "colour", "total", "date", "number"
PAGE = "page"  # a picture full of characters, for the dense heads alone: it has no question
QUESTIONS = {
    READ: ["What does it say?", "Read the text.", "What is written here?"],
    COUNT: ["How many shapes are there?", "Count the shapes."],
    COLOUR: ["Which colour is the shape?", "What colour is it?"],
    TOTAL: ["What is the total?", "How much is the total?"],
    DATE: ["What is the date?", "Which date is on it?"],
    NUMBER: ["What is the number?", "Which number is on it?"],
}
# Sides are multiples of a cell, at most 64 cells a picture, so that the processor keeps the size.
LINE_SIZES = [(112, 112), (112, 112), (168, 112), (168, 112), (224, 112), (224, 112), (224, 112), (224, 168),
              (280, 140), (336, 112), (448, 112), (224, 224)]


@dataclasses.dataclass
class Sample:
    image: Image.Image
    task: str
    question: str
    answer: str
    cells: np.ndarray  # [rows, cols, SLOTS] index into ALPHABET + 1; 0: nothing
    order: np.ndarray  # [rows, cols] reading index + 1 of the first character there; 0: none


@lru_cache(maxsize=512)
def font(name, size):
    for folder in FONT_FOLDERS:
        path = Path(folder) / name
        if path.exists():
            return ImageFont.truetype(str(path), size)
    raise FileNotFoundError(f"{name}: install fonts-dejavu-core and fonts-liberation")


@lru_cache(maxsize=65536)
def advance(name, size, character):
    return font(name, size).getlength(character)


def contrasting(rng, stage):
    """Background and ink that a person can tell apart."""
    if rng.random() > stage:
        return (255, 255, 255), (0, 0, 0)
    while True:
        back = tuple(rng.randrange(256) for _ in range(3))
        ink = tuple(rng.randrange(256) for _ in range(3))
        luma = [0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2] for c in (back, ink)]
        if abs(luma[0] - luma[1]) > 100:
            return back, ink


def random_line(rng, stage):
    length = rng.randint(1, 4 + round(2 * min(1.0, stage * 4)))
    return "".join(rng.choice("0123456789") for _ in range(length))


class Page:
    """A picture under construction, with the centre of every character drawn so far."""

    def __init__(self, rng, stage, size):
        self.rng, self.stage, self.size = rng, stage, size
        self.back, self.ink = contrasting(rng, stage)
        self.image = Image.new("RGB", size, self.back)
        self.draw = ImageDraw.Draw(self.image)
        self.centres = []  # (x, y, character)

    def text(self, x, y, line, name, size, ink=None):
        for character in line:
            width = advance(name, size, character)
            self.draw.text((x, y), character, font=font(name, size), fill=ink or self.ink, anchor="lm")
            if character != " ":
                self.centres.append((x + width / 2, y, character))
            x += width
        return x

    def finish(self):
        rng, stage = self.rng, self.stage
        image, (width, height) = self.image, self.size
        if stage > 0.4 and rng.random() < 0.4:
            angle = rng.uniform(-2, 2) * stage
            image = image.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor=self.back)
            c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            cx, cy = width / 2, height / 2
            self.centres = [(cx + (x - cx) * c + (y - cy) * s, cy - (x - cx) * s + (y - cy) * c, ch)
                            for x, y, ch in self.centres]
        if stage > 0.5 and rng.random() < 0.25:
            image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.6)))
        if stage > 0.3 and rng.random() < 0.4:
            noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(2, 10), (height, width, 3))
            image = Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))
        if stage > 0.4 and rng.random() < 0.3:
            file = io.BytesIO()
            image.save(file, "JPEG", quality=rng.randint(60, 95))
            image = Image.open(file).convert("RGB")
        rows, cols = height // CELL, width // CELL
        cells = np.zeros((rows, cols, SLOTS), np.int64)
        order = np.zeros((rows, cols), np.int64)
        filled = np.zeros((rows, cols), np.int64)
        for index, (x, y, character) in enumerate(self.centres):
            row, col = int(y // CELL), int(x // CELL)
            if not (0 <= row < rows and 0 <= col < cols) or filled[row, col] == SLOTS:
                continue
            if filled[row, col] == 0:
                order[row, col] = min(index + 1, MAX_ORDER)
            cells[row, col, filled[row, col]] = ALPHABET.index(character) + 1
            filled[row, col] += 1
        return image, cells, order


def pick_font(rng, stage):
    count = 1 if stage < 0.15 else max(1, round(len(FONT_NAMES) * min(1.0, stage)))
    return FONT_NAMES[rng.randrange(count)]


def read_line(rng, stage, size):
    page = Page(rng, stage, size)
    name = pick_font(rng, stage)
    smallest, largest = (23, 24) if stage < 0.1 else (round(24 - 4 * stage), round(24 + 12 * stage))
    while True:
        points = rng.randint(smallest, largest)
        line = random_line(rng, stage)
        width = sum(advance(name, points, c) for c in line)
        if width <= size[0] - 8:
            break
    # On the grid at first: a character's left edge on a half cell, its middle in the middle of a row of cells.
    x = rng.randrange(0, max(1, int((size[0] - width) // CELL) + 1)) * CELL
    y = rng.randrange(size[1] // CELL) * CELL + CELL / 2
    loose = min(1.0, stage * 2)
    x = (1 - loose) * x + loose * rng.uniform(3, max(3.1, size[0] - width - 3))
    y = (1 - loose) * y + loose * rng.uniform(points * 0.6, size[1] - points * 0.6)
    page.text(min(x, size[0] - width), y, line, name, points)
    return page, line


def full_page(rng, stage, size):
    page = Page(rng, stage, size)
    name = pick_font(rng, stage)
    points = rng.choice([23, 24]) if stage < 0.05 else rng.randint(round(22 - 4 * stage), round(25 + 10 * stage))
    pitch = max(CELL, points * 1.15)
    loose = min(1.0, stage * 4)
    top = loose * rng.uniform(-6, 8)
    alphabet = "0123456789" if stage < 0.15 or rng.random() < 0.75 else "0123456789.-/:$ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    y = top + pitch / 2
    while y + points * 0.5 < size[1] + 2:
        x = loose * rng.uniform(0, 30)
        line = ""
        while x + sum(advance(name, points, c) for c in line) < size[0] - points:
            line += " " if rng.random() < 0.12 else rng.choice(alphabet)
        page.text(x, y, line, name, points)
        y += pitch
    return page, ""


def receipt(rng, stage, size, task):
    page = Page(rng, stage * 0.5, size)
    name = pick_font(rng, stage)
    points = rng.choice([20, 21, 22, 23, 24])
    total = f"{rng.randint(1, 99)}.{rng.randint(0, 99):02d}"
    date = f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
    number = str(rng.randint(100, 9999))
    lines = [("No. ", number), ("", date), ("TOTAL ", total)]
    rng.shuffle(lines)
    pitch = size[1] / (len(lines) + 0.5)
    x = rng.uniform(4, 14)
    for i, (label, value) in enumerate(lines):
        page.text(x, pitch * (i + 0.75), label + value, name, points)
    return page, {TOTAL: total, DATE: date, NUMBER: number}[task]


def shapes(rng, stage, size, task):
    page = Page(rng, 0, size)
    page.image.paste((rng.randint(225, 255),) * 3, (0, 0, *size))
    count = 1 if task == COLOUR else rng.randint(1, 5)
    placed, colour = [], "black"
    for _ in range(count):
        for _ in range(200):
            r = rng.randint(10, min(24, min(size) // 5))
            x, y = rng.uniform(r + 2, size[0] - r - 2), rng.uniform(r + 2, size[1] - r - 2)
            if all(math.hypot(x - a, y - b) > r + c + 6 for a, b, c in placed):
                break
        else:
            break
        placed.append((x, y, r))
        colour = rng.choice([c for c in COLOURS if c != "white"])
        box = (x - r, y - r, x + r, y + r)
        kind = rng.randrange(3)
        if kind == 0:
            page.draw.ellipse(box, fill=COLOURS[colour])
        elif kind == 1:
            page.draw.rectangle(box, fill=COLOURS[colour])
        else:
            page.draw.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=COLOURS[colour])
    # What the dense heads learn of a shape: where its centre is, and how many lie left of it.
    page.centres = [(x, y, SHAPE) for x, y, _ in sorted(placed)]
    return page, colour if task == COLOUR else str(len(placed))


def make_sample(rng: random.Random, stage: float, task=None, size=None) -> Sample:
    if task is None:
        share = 0.0 if stage < 0.1 else 0.7
        task = READ if rng.random() >= share else rng.choice([COUNT, COUNT, COLOUR, TOTAL, DATE, NUMBER])
    if size is None:
        size = size_for(rng, stage, task)
    if task == PAGE:
        page, answer = full_page(rng, stage, size)
    elif task == READ:
        page, answer = read_line(rng, stage, size)
    elif task in (COUNT, COLOUR):
        page, answer = shapes(rng, stage, size, task)
    else:
        page, answer = receipt(rng, stage, size, task)
    image, cells, order = page.finish()
    question = "" if task == PAGE else rng.choice(QUESTIONS[task])
    return Sample(image, task, question, answer, cells, order)


def size_for(rng, stage, task):
    if task == PAGE:
        return (224, 112)
    if task == READ:
        return (224, 112) if stage < 0.05 else rng.choice(LINE_SIZES)
    if task in (COUNT, COLOUR):
        return rng.choice([(112, 112), (112, 112), (168, 112), (168, 168), (224, 224)])
    return rng.choice([(224, 112), (224, 112), (224, 168), (280, 140)])
