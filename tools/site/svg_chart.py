"""One chart as inline SVG: a row for every series of measurements, a dot for every round, a bar at the median."""
import dataclasses
import html
import math
import statistics

WIDTH, MARGIN, TOP, ROW, BOTTOM = 520, 16, 48, 44, 42  # narrow enough to be read on a telephone: labels stand above their dots


@dataclasses.dataclass(frozen=True)
class Row:
    label: str
    series: int  # 0 or 1: its colour
    values: list


def steps(highest):
    """Round numbers from 0 to `highest` or just above it, four to eight of them."""
    rough = highest / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    return [step * at for at in range(math.ceil(highest / step - 1e-9) + 1)]


def number(value):
    if value >= 1000:
        return f'{value:,.0f}'
    return f'{value:.3g}'


def draw(title, unit, note, rows):
    """title: what was measured; unit: of the axis, which begins at 0; note: the machine. Rows have at least one value each."""
    ticks = steps(max(max(row.values) for row in rows))
    height = TOP + ROW * len(rows) + BOTTOM
    bottom = TOP + ROW * len(rows)

    def x(value):
        return round(MARGIN + (WIDTH - 2 * MARGIN) * value / ticks[-1], 1)

    told = '; '.join(f'{row.label}: median {number(statistics.median(row.values))} {unit}' for row in rows)
    parts = [f'<figure class="chart"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(f"{title}. {told}")}">',
             f'<text class="title" x="0" y="16">{html.escape(title)}</text>',
             f'<text class="note" x="0" y="35">{html.escape(note)}</text>']
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP}" y2="{bottom}"/>'
                     f'<text class="note" x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{number(tick)}</text>')
    parts.append(f'<text class="note" x="0" y="{bottom + 34}">{html.escape(unit)}</text>')
    for at, row in enumerate(rows):
        y, middle = TOP + ROW * at + 31, statistics.median(row.values)
        dots = ''.join(f'<circle cx="{x(value)}" cy="{y}" r="4.5"><title>{number(value)} {html.escape(unit)}</title></circle>'
                       for value in row.values)
        parts.append(f'<g class="{("first", "second")[row.series]}"><text x="0" y="{y - 15}">{html.escape(row.label)}: {number(middle)}</text>{dots}'
                     f'<line class="median" x1="{x(middle)}" x2="{x(middle)}" y1="{y - 9}" y2="{y + 9}"/></g>')
    parts.append('</svg></figure>')
    return ''.join(parts)
