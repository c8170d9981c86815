"""A committed file of results as it was after each commit that changed its figures."""
import dataclasses
import json
import subprocess


@dataclasses.dataclass(frozen=True)
class Version:
    when: str  # "2026-11-21 44d3244"; empty where there is no history
    data: dict


def versions(root, path):
    """Oldest first. Without git, or in a copy that has no history, the one version that is there."""
    # In a shallow clone its oldest commit seems to have brought every file, which would date figures wrongly.
    whole = (_git(root, 'rev-parse', '--is-shallow-repository') or '').strip() == 'false'
    log = whole and _git(root, 'log', '--reverse', '--format=%H %cs %h', '--', path)
    found = []
    for line in (log or '').splitlines():
        commit, day, short = line.split()
        text = _git(root, 'show', f'{commit}:{path}')
        if text:  # None where the commit took the file away
            data = json.loads(text)
            if found and found[-1].data['results'] == data['results']:
                # Other words for the same figures: nothing was measured, but the words are the better ones.
                found[-1] = Version(found[-1].when, data)
            else:
                found.append(Version(f'{day} {short}', data))
    return found or [Version('', json.loads((root / path).read_text(encoding='utf-8')))]


def _git(root, *arguments):
    try:
        done = subprocess.run(['git', '-C', str(root), *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
