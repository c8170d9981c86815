"""Builds the site: stages pages, generates what the program and the results say, and runs mkdocs over it. See docs/site.md."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import api_reference
import charts_page
import pages
import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / 'tools/site'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--saccade', required=True, type=pathlib.Path)
    parser.add_argument('--out', required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    saccade, out = arguments.saccade.resolve(), arguments.out.resolve()
    if out == ROOT or out in ROOT.parents:
        sys.exit(f'site: --out {out} would replace the repository')
    if out.exists() and any(out.iterdir()) and not (out / 'search/search_index.js').exists():
        sys.exit(f'site: --out {out} is not empty and no site; it is left alone')  # mkdocs empties the folder

    with tempfile.TemporaryDirectory(prefix='saccade-site-') as work:
        staged = pathlib.Path(work) / 'pages'
        pages.stage(ROOT, staged)
        shutil.copytree(HERE / 'assets', staged / 'assets')
        print('site: asking the program for its API')
        api_reference.write(program.openapi(saccade, ROOT / 'models/glimpse'), staged / 'reference')
        print('site: charts of the committed results')
        charts_page.write(ROOT, staged / 'benchmarks/over-time.md')
        print('site: a run and its report')
        program.write_report(saccade, staged / 'report')
        shutil.copy(HERE / 'report.md', staged / 'report/index.md')

        built = pathlib.Path(work) / 'site'
        # The variable silences mkdocs-material's notice about its own future, which is no fault of a page.
        environment = dict(os.environ, SITE_PAGES=str(staged), NO_MKDOCS_2_WARNING='1')
        done = subprocess.run([sys.executable, '-m', 'mkdocs', 'build', '--strict', '--config-file', str(HERE / 'mkdocs.yml'),
                               '--site-dir', str(built)], env=environment, capture_output=True, text=True)  # --quiet would undo --strict
        if done.returncode:
            sys.exit(f'{done.stdout}{done.stderr}site: mkdocs refused the pages; what it names above is to be mended '
                     '(a new page goes into tools/site/mkdocs.yml)')
        if out.exists():
            shutil.rmtree(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(built, out)
    print(f'site: open {out}/index.html')


main()
