#!/usr/bin/env python3
"""What the documents name exists: relative links, their anchors, and paths of the repository in backticks or in plain text.
   tests/site/check_links.py [ROOT]

Links to other sites are not asked: this is fast, needs no network, and fails for nobody else's reason."""
import os, re, sys, urllib.parse

ROOT = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '../..'))
DOCUMENTS = ('README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'recipes/README.md')
FOLDERS = ('docs', 'benchmarks/results')
# Only what is under one of these is taken for a path. `models/` is missing: there the documents mean transformers' folders.
TOPS = ('apps', 'benchmarks', 'cmake', 'data', 'deploy', 'docs', 'recipes', 'scripts', 'src', 'tests', 'tools', 'web')
# Places to fill in, and patterns: <family>, NAME, *.cu, {a,b}, $X, ...
PLACEHOLDER = re.compile(r'[<>*{}$]|\.\.\.|(?:^|/)[A-Z]{3,}(?:/|\.|$)(?<!README\.)')
LINK = re.compile(r'!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s>]+(?:\([^()\s]*\)[^()\s>]*)?)>?(?:\s+"[^"]*")?\s*\)')
DEFINITION = re.compile(r'^ {0,3}\[[^\]]+\]:\s+(\S+)')
PATH = re.compile(rf'(?<![\w/.:~-])(?:{"|".join(TOPS)})/[\w.*<>{{}}$/-]*')
HEADING = re.compile(r'^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$')


def documents():
    found = [name for name in DOCUMENTS if os.path.exists(os.path.join(ROOT, name))]
    for folder in FOLDERS:
        for where, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            found += [os.path.relpath(os.path.join(where, name), ROOT) for name in sorted(names) if name.endswith('.md')]
    return found


def prose(text):
    """The lines that are not in a fenced block, with their numbers."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r'\s*(`{3,}|~{3,})', line)
        if mark and fence is None:
            fence = mark[1]
        elif mark and fence and mark[1].startswith(fence):
            fence = None
        elif fence is None:
            yield number, line


def anchors(text):
    """The names that a forge gives to headings, and those that HTML in the text sets."""
    names, seen = set(re.findall(r'\b(?:id|name)="([^"]+)"', text)), {}
    for _, line in prose(text):
        heading = HEADING.match(line)
        if not heading:
            continue
        words = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading[2]).replace('`', '')
        slug = re.sub(r'[^\w\- ]', '', words.lower()).replace(' ', '-')
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        names.add(f'{slug}-{count}' if count else slug)
    return names


class Checker:
    def __init__(self):
        self.problems = []
        self.links = self.paths = 0
        self._anchors = {}

    def anchors_of(self, path):
        if path not in self._anchors:
            with open(os.path.join(ROOT, path), encoding='utf-8') as file:
                self._anchors[path] = anchors(file.read())
        return self._anchors[path]

    def link(self, document, number, target):
        parts = urllib.parse.urlsplit(target)
        if parts.scheme or parts.netloc:
            return
        self.links += 1
        path = document
        if parts.path:
            path = os.path.normpath(os.path.join(os.path.dirname(document), urllib.parse.unquote(parts.path)))
            if path.startswith(('..', '/')) or not os.path.exists(os.path.join(ROOT, path)):
                self.problems.append(f'{document}:{number}: link to {target}: there is no {path}')
                return
        if parts.fragment and path.endswith('.md') and urllib.parse.unquote(parts.fragment) not in self.anchors_of(path):
            self.problems.append(f'{document}:{number}: link to {target}: {path} has no heading #{parts.fragment}')

    def path(self, document, number, path):
        path = path.rstrip('.-')  # the end of a sentence
        if PLACEHOLDER.search(path):
            return
        self.paths += 1
        # A program is named by its target, which is its source without the ending.
        if not any(os.path.exists(os.path.join(ROOT, path + ending)) for ending in ('', '.cc', '.py')):
            self.problems.append(f'{document}:{number}: there is no {path}')

    def document(self, name):
        with open(os.path.join(ROOT, name), encoding='utf-8') as file:
            text = file.read()
        for number, line in prose(text):
            code = re.sub(r'`[^`]*`', lambda span: ' ' * len(span[0]), line)  # what looks like a link in code is none
            for target in LINK.findall(code) + DEFINITION.findall(code):
                self.link(name, number, target)
            without_links = re.sub(r'\]\([^)]*\)', ']', line)
            for path in PATH.findall(without_links):
                self.path(name, number, path)


def main():
    checker = Checker()
    names = documents()
    for name in names:
        checker.document(name)
    if not checker.links or not checker.paths:
        sys.exit(f'nothing was checked under {ROOT}')
    if checker.problems:
        sys.exit('\n'.join(checker.problems))
    print(f'{len(names)} documents: {checker.links} links and {checker.paths} paths lead somewhere')


if __name__ == '__main__':
    main()
