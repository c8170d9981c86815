"""Stages the documents for mkdocs: the same folders as in the repository, so that every relative link stays as it is."""
import os
import re
import shutil
import urllib.parse

SINGLE = ('README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'recipes/README.md')
FOLDERS = ('docs', 'benchmarks/results')
LINK = re.compile(r'\]\(([^()\s]+)\)')
# A document named in prose, in backticks or without, and not already the text or the target of a link.
MENTION = re.compile(r'(?<![\w/.`\[-])(`?)((?:[\w.-]+/)*[\w.-]+\.md)\1(?![\w`\]/])')
ITEM = re.compile(r'( {0,3})(?:[-*+]|\d+\.)\s+\S')


def stage(root, target):
    names = [name for name in SINGLE if (root / name).exists()]
    for folder in FOLDERS:
        names += [str(path.relative_to(root)) for path in sorted((root / folder).rglob('*.md'))]
    known = set(names)
    for name in names:
        text = (root / name).read_text(encoding='utf-8')
        page = target / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(prepare(text, name, known), encoding='utf-8')
        _copy_linked(root, target, name, text, known)


def prepare(text, name, known):
    """The page `name` in mkdocs' Markdown: mentions of documents become links, lists get the empty line that they need there."""
    lines, fence, before = [], None, ''
    for line in text.splitlines():
        mark = re.match(r'\s*(`{3,}|~{3,})', line)
        if mark:
            fence = None if fence and mark[1].startswith(fence) else fence or mark[1]
        elif fence is None and not line.startswith(('    ', '#')):
            if ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith((' ', '#')):
                lines.append('')
            # Not within a link: its text may well be a document's name.
            pieces = re.split(r'(!?\[[^\]]*\]\([^)]*\))', line)
            line = ''.join(piece if at % 2 else _linked(piece, name, known) for at, piece in enumerate(pieces))
        lines.append(line)
        before = line
    return '\n'.join(lines) + '\n'


def _linked(prose, name, known):
    def link(found):
        for path in (found[2], os.path.normpath(os.path.join(os.path.dirname(name), found[2]))):
            if path in known and path != name:
                return f'[{found[0]}]({os.path.relpath(path, os.path.dirname(name) or ".")})'
        return found[0]

    return MENTION.sub(link, prose)


def _copy_linked(root, target, name, text, known):
    """Pictures and files that a page links travel with it."""
    for link in LINK.findall(text):
        parts = urllib.parse.urlsplit(link)
        path = os.path.normpath(os.path.join(os.path.dirname(name), parts.path))
        if parts.scheme or not parts.path or path in known or path.startswith('..') or not (root / path).is_file():
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target / path)
