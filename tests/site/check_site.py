#!/usr/bin/env python3
"""A built site is whole and keeps to itself: links and anchors lead somewhere, no page loads anything from another host, and
what readers look for is found.
   tests/site/check_site.py FOLDER"""
import html.parser, json, os, re, sys, urllib.parse

FOLDER = os.path.realpath(sys.argv[1])
# What a browser fetches by itself, as opposed to where a reader may go.
LOADED = {'script': ('src',), 'img': ('src', 'srcset'), 'iframe': ('src',), 'source': ('src', 'srcset'), 'video': ('src', 'poster'),
          'audio': ('src',), 'embed': ('src',), 'object': ('data',), 'image': ('href', 'xlink:href'), 'use': ('href', 'xlink:href')}
LOADED_LINKS = {'stylesheet', 'icon', 'shortcut', 'preconnect', 'dns-prefetch', 'preload', 'modulepreload', 'prefetch', 'manifest'}
ELSEWHERE = re.compile(r'\s*(?:https?:)?//', re.I)
CSS_LOADS = re.compile(r'(?:url\(\s*["\']?|@import\s+["\'])([^"\')\s]+)', re.I)
# What is typed into the search, and the page that is meant: it has to be one of the first three.
SOUGHT = {'docker': 'docs/docker.html', 'GGUF': 'docs/gguf.html', 'CUDA': 'docs/cuda.html', 'temperature': 'docs/api.html',
          'int4': 'docs/quantised.html', 'vllm': 'docs/migrate-from-vllm.html', 'llama-server': 'docs/migrate-from-llama-server.html',
          'slurm': 'docs/slurm.html', 'python': 'docs/quickstart-python.html', 'redis': 'docs/cluster.html', 'metrics': 'docs/metrics.html', 'alert': 'docs/metrics.html'}


def not_found_by_search():
    """Words of SOUGHT whose page is not among the first. A word in a title counts as it does in the theme: far more than in a text."""
    with open(os.path.join(FOLDER, 'search/search_index.js'), encoding='utf-8') as file:
        index = json.loads(file.read().split('=', 1)[1].rstrip().rstrip(';'))
    for word, page in SOUGHT.items():
        scores = {}
        for entry in index['docs']:
            where = entry['location'].split('#')[0]
            hits = 1000 * len(re.findall(re.escape(word), entry['title'], re.I)) + len(re.findall(re.escape(word), entry['text'], re.I))
            scores[where] = scores.get(where, 0) + hits
        first = [where for where in sorted(scores, key=scores.get, reverse=True) if scores[where]][:3]
        if page not in first:
            yield f'search for {word}: {page} is not among the first, {", ".join(first) or "nothing"}'


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids, self.style = [], [], set(), False
        with open(path, encoding='utf-8') as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.update(value for key, value in attributes if key in ('id', 'name') and value)
        self.style = tag == 'style'
        self.loads += [given[key] for key in LOADED.get(tag, ()) if given.get(key)]
        self.loads += CSS_LOADS.findall(given.get('style') or '')
        if tag == 'link' and LOADED_LINKS & set((given.get('rel') or '').split()):
            self.loads.append(given.get('href') or '')
        if tag == 'a' and given.get('href'):
            self.links.append(given['href'])
        if 'mermaid' in (given.get('class') or '').split():
            self.loads.append('https://unpkg.com (the theme fetches mermaid for such a block)')

    def handle_data(self, data):
        if self.style:
            self.loads += CSS_LOADS.findall(data)

    def handle_endtag(self, tag):
        self.style = False


def main():
    pages, sheets = {}, []
    for where, _, names in os.walk(FOLDER):
        for name in names:
            path = os.path.join(where, name)
            if name.endswith('.html') and name != '404.html':  # a web server's page, with that server's absolute paths
                pages[path] = Page(path)
            elif name.endswith('.css'):
                sheets.append(path)
    problems, links, loads = [], 0, 0

    def local(page, target, what):
        parts = urllib.parse.urlsplit(target)
        if parts.scheme or parts.netloc:
            return
        path = os.path.normpath(os.path.join(os.path.dirname(page), urllib.parse.unquote(parts.path))) if parts.path else page
        if not os.path.isfile(path):  # a folder is no page when it is opened as a file
            problems.append(f'{os.path.relpath(page, FOLDER)}: {what} {target}: there is no such file')
        elif parts.fragment and path in pages and urllib.parse.unquote(parts.fragment) not in pages[path].ids:
            problems.append(f'{os.path.relpath(page, FOLDER)}: {what} {target}: there is no such anchor')

    for path, page in pages.items():
        for target in page.loads:
            loads += 1
            if ELSEWHERE.match(target):
                problems.append(f'{os.path.relpath(path, FOLDER)}: loads {target}')
            else:
                local(path, target, 'loads')
        for target in page.links:
            links += 1
            local(path, target, 'link to')
    for path in sheets:
        with open(path, encoding='utf-8') as file:
            for target in CSS_LOADS.findall(file.read()):
                if ELSEWHERE.match(target):
                    problems.append(f'{os.path.relpath(path, FOLDER)}: loads {target}')
    if len(pages) < 2 or not links or not loads:
        sys.exit(f'there is no site in {FOLDER}')
    problems += not_found_by_search()
    if problems:
        sys.exit('\n'.join(sorted(set(problems))))
    print(f'{len(pages)} pages: {links} links lead somewhere, {loads} loaded files are all here')


main()
