"""The page of measurements over time, out of benchmarks/results/*.json and their history."""
import dataclasses

import history
import svg_chart


@dataclasses.dataclass(frozen=True)
class Source:
    """What a file of results does not say of itself; its page (in benchmarks/results) does."""
    title: str
    page: str
    machine: str
    names: tuple  # what the two series are
    per: str = ''  # what a second is, where it is not one of the clock
    clocked_by: str = ''  # the ending of names to which `per` belongs
    note: str = ''


XEON = '2 cores of a Xeon with AMX, virtual, 24 GiB'
SOURCES = {
    'model-text.json': Source('Qwen2-VL-2B in bf16, text', 'model.md', XEON, ('Saccade', 'llama.cpp')),
    'model-image.json': Source('Qwen2-VL-2B in bf16, images', 'model.md', XEON, ('Saccade', 'llama.cpp')),
    'quantised.json': Source(
        'Text layers in bytes', 'quantised.md', '2 cores of an EPYC (Zen 4), virtual, 24 GiB', ('int8', 'bf16'), 'of processor time', ', cpu',
        'Other programs had the cores most of the time, so figures by the clock say little here; those by processor time are to be read.'),
    'quantised-amx.json': Source('Text layers in bytes, on AMX', 'quantised.md', XEON, ('int8', 'bf16'), 'of processor time', ', cpu'),
}
HEAD = '''# Measurements over time

What `model_bench --json` wrote into `benchmarks/results`, a row for every commit that changed the figures: a dot for each round, a bar and
a number for the median. Weights are random, of Qwen2-VL-2B's shape. Rounds of one row ran one after the other; rows of different
machines are not to be compared. Each section's page has the commands, and says what disturbed a run.
'''


def write(root, page):
    page.parent.mkdir(parents=True, exist_ok=True)
    text = [HEAD]
    names = sorted(path.name for path in (root / 'benchmarks/results').glob('*.json'))
    # Known files in the table's order; a file that nobody described yet stands at the end under its own name.
    for name in [name for name in SOURCES if name in names] + [name for name in names if name not in SOURCES]:
        source = SOURCES.get(name) or Source(name, '', '', ('Saccade', 'beside it'))
        versions = history.versions(root, f'benchmarks/results/{name}')
        if 'backend' in versions[-1].data:  # else benchmarks/peers/compare.py's, which have pages of their own
            text += _section(name, source, versions)
    page.write_text('\n'.join(text) + '\n', encoding='utf-8')


def _section(file, source, versions):
    newest = versions[-1].data
    text = ['', f'## {source.title}', '']
    page = f' Described in [{source.page}](results/{source.page}).' if source.page else ''
    peer = f' Beside it: {newest["peer"]}.' if newest.get('peer') else ''
    text += [f'`{file}`.{page}{peer} {source.note}'.rstrip(), '']
    order = [result['name'] for result in newest['results']]
    for name in order:
        rows, unit = _rows(versions, name, source.names)
        machine = source.machine or 'machine not named in the file'
        note = f'{machine}; {newest["backend"]}'
        if source.clocked_by and name.endswith(source.clocked_by):
            name, unit = name.removesuffix(source.clocked_by), f'{unit} {source.per}'
        better = 'less is better' if unit.startswith(('ms', 's ')) else 'more is better'
        text += [svg_chart.draw(name, f'{unit}, {better}', note, rows), '']
    return text


def _rows(versions, name, names):
    rows, unit = [], ''
    for version in versions:
        for result in version.data['results']:
            if result['name'] != name:
                continue
            unit = result['unit']
            for at, (key, who) in enumerate(zip(('saccade', 'peer'), names)):
                if result.get(key):
                    rows.append(svg_chart.Row(f'{who}, {version.when}' if version.when else who, at, result[key]))
    return rows, unit
