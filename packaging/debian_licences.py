"""Licences of Debian packages as SPDX expressions, from their copyright files."""
import functools
import os
import re

# Debian's short names that SPDX writes otherwise; names that are in neither list become LicenseRef-Debian-NAME.
SPDX = {"expat": "MIT", "mit": "MIT", "x11": "X11", "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "asl-2.0": "Apache-2.0",
        "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "isc": "ISC", "zlib": "Zlib",
        "curl": "curl", "bsl-1.0": "BSL-1.0", "boost-1.0": "BSL-1.0", "psf-2": "Python-2.0", "openssl": "OpenSSL", "mpl-2.0": "MPL-2.0",
        "mpl-1.1": "MPL-1.1", "cc0-1.0": "CC0-1.0", "unicode": "Unicode-DFS-2016", "libpng": "Libpng", "libtiff": "libtiff",
        "artistic": "Artistic-1.0", "openldap-2.8": "OLDAP-2.8", "0bsd": "0BSD"}
for name in ("gpl", "lgpl", "agpl", "gfdl"):
    for number in ("1", "2", "2.1", "3", "1.1", "1.2", "1.3", "2.0", "3.0", "1.0"):
        full = f"{name.upper()}-{number if '.' in number else number + '.0'}"
        SPDX[f"{name}-{number}"] = full + "-only"
        SPDX[f"{name}-{number}+"] = full + "-or-later"


def copyright_of(package):
    path = f"/usr/share/doc/{package}/copyright"
    return open(path, errors="replace").read() if os.path.exists(path) else ""


@functools.cache  # some files name one licence a thousand times
def wording(name, text):
    """What a machine-readable copyright file says of a short name; the longest, since others only name it."""
    found = re.findall(rf"^License:[ \t]*{re.escape(name)}[ \t]*\n((?:[ \t].*\n?)+)", text, re.M)
    return max(found, key=len) if found else f"{name}: see the package's copyright file"


def one(name, extracted, text):
    """An SPDX id of one of Debian's short names; EXTRACTED gets what SPDX has no name for, with its text."""
    known = SPDX.get(name.lower())
    if known:
        return known
    made = "LicenseRef-Debian-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-")
    extracted.setdefault(made, {"licenseId": made, "name": name, "extractedText": text})
    return made


def expression(package, extracted):
    """All licences in a package's copyright file, joined; of a file that is not machine-readable, the whole of it."""
    text = copyright_of(package)
    if not text:
        return "NOASSERTION"
    if not re.match(r"\s*Format(-Specification)?:", text):
        return one(package + "-copyright", extracted, text)
    parts = set()
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.search(r"^Files:", paragraph, re.M):
            continue
        found = re.search(r"^License:[ \t]*(\S.*)$", paragraph, re.M)
        if not found:
            continue
        for group in re.split(r",\s*(?:and\s+)?", found[1].strip()):
            alternatives = re.split(r"\s+or\s+|\s*/\s*", group)
            made = [[one(each.strip(), extracted, wording(each.strip(), text)) for each in re.split(r"\s+and\s+", one_of) if each.strip()]
                    for one_of in alternatives]
            if len(made) == 1:
                parts.update(made[0])
            else:
                parts.add("(" + " OR ".join(each[0] if len(each) == 1 else f"({' AND '.join(each)})" for each in made if each) + ")")
    return " AND ".join(sorted(parts)) or one(package + "-copyright", extracted, text)
