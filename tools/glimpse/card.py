"""The model card, its figures filled in by evaluate.py."""

CARD = """\
# Glimpse

A very small vision-language model that reads: Qwen2-VL's architecture (transformers' own class), {megabytes:.1f} MB in bf16,
made for trying Saccade where no other checkpoint is at hand. It answers a few kinds of questions about drawn pictures;
on photographs and scans it has learnt nothing and says something all the same.

- **Data**: pictures drawn by tools/glimpse/data.py, none from elsewhere: lines of one to six digits, three-line
  receipts (number, date, total), one to five simple shapes (how many, which colour). Difficulty is one number from 0 (one
  face on the patch grid, black on white) to 1. Training went to 0.6, and so do the tables: four faces of the DejaVu and
  Liberation families, lines of 22 to 31 points and receipts of 20 to 24, any colours in three lines of five, rotation to
  1.2 degrees, blur, noise, JPEG. Sides of 112 to 448 pixels.
- **Training**: tools/glimpse/train.py. Besides the answers, two heads that only training sees learn from every vision token
  which characters or shapes lie in its 28-pixel cell, and in which order. Difficulty rises as the losses fall. 343,000
  pictures (16,300 steps), on one to two processor cores; Muon for the matrices, AdamW for the rest. Pictures and settings
  were changed on the way, so that train.py run afresh makes another model.
- **Licence**: Apache-2.0.

## Measured

{pictures} held-out pictures (data/glimpse; tools/glimpse/held_out.py draws them), greedy answers of `saccade serve` over HTTP in the default
dtype, right only when every character is. Made on {date} by `tools/glimpse/evaluate.py --json FILE --card --against-transformers`.

| task | n | native size | 1/2 of the area | 1/4 of the area |
|---|---:|---:|---:|---:|
{scales}

| task, difficulty | n | exact |
|---|---:|---:|
{levels}

| task, size | n | exact |
|---|---:|---:|
{sizes}

{transformers}
## Limits

It claims no more than the tables say. It knows the questions of data.py, in their words; it cannot chat, follow
instructions, read letters or handwriting, or say that it does not know.
"""


def percent(cell):
    return f"{100 * cell['exact']:.0f} %"


def rows_of(groups):
    return "\n".join(f"| {name} | {cell['n']} | {percent(cell)} |" for name, cell in groups.items())


def written(figures):
    scales = figures["by_scale"]
    lines = [f"| {task} | {cell['n']} | {percent(cell)} | {percent(scales['1/2'][task])} | {percent(scales['1/4'][task])} |"
             for task, cell in scales["1"].items()]
    compared = figures.get("against_transformers")
    words = ""
    if compared:
        n, float32, default = compared["pictures"], compared["float32_differs"], compared["default_dtype_differs"]
        words = (f"Against transformers in float32, greedy, on the same {n} pictures: {n - len(float32)} answers of Saccade with\n"
                 f"`--dtype float32` are equal" + (f" (not: {', '.join(float32)})" if float32 else "")
                 + f"; in the default dtype {n - len(default)} are.\n\n")
    return CARD.format(megabytes=figures["bytes"] / 1e6, pictures=figures["pictures"], date=figures["date"], scales="\n".join(lines),
                       levels=rows_of(figures["by_task_and_level"]), sizes=rows_of(figures["by_task_and_size"]), transformers=words)
