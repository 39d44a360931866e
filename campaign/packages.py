"""What is installed: licences that go with this project, and no known vulnerability.

``python campaign/packages.py``. Licences are read off the packages themselves. Vulnerabilities are
asked from the advisory service by pip-audit; where it cannot be reached, that is said and nothing
fails.
"""

import json
import re
import subprocess
import sys
import time
from importlib import metadata

from common import environment, store

# Permissive, or weak copyleft used unchanged: none of them asks anything of who uses the library.
FINE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla|HPND|CMU|Zlib|Unlicense|"
    r"0BSD|CC0|Public Domain|LGPL|Lesser General Public|3-Clause|2-Clause|BlueOak|Intel)",
    re.IGNORECASE,
)
NOT_FINE = re.compile(r"\b(AGPL|Affero|(?<!L)GPL-?[23v]|GNU General Public)", re.IGNORECASE)
# Packages that do not say it in their metadata; their LICENSE files do.
READ_BY_HAND = {"symmetries": "MIT"}


def licence(package: metadata.Distribution) -> str:
    """What a package says about its licence, in a line."""
    about = package.metadata
    name = about["Name"]
    if name.lower() in READ_BY_HAND:
        return READ_BY_HAND[name.lower()]
    said = [about.get("License-Expression") or "", (about.get("License") or "")[:200]]
    said += [c for c in about.get_all("Classifier") or [] if c.startswith("License")]
    found = " | ".join(part for part in said if part).replace("\n", " ")
    if not FINE.search(found):
        for file in package.files or []:
            if re.search(r"licen[sc]e|copying", file.name, re.IGNORECASE):
                found += " | " + file.read_text()[:400].replace("\n", " ")
    return found


def licences() -> tuple[int, dict[str, str]]:
    """How many packages there are, and those whose licence is not fine."""
    packages = {p.metadata["Name"].lower(): p for p in metadata.distributions()}
    wrong = {}
    for name, package in sorted(packages.items()):
        text = licence(package)
        if not FINE.search(text) or (NOT_FINE.search(text) and not FINE.search(text)):
            wrong[name] = text[:100] or "says nothing"
    return len(packages), wrong


def vulnerabilities() -> tuple[str, int, str]:
    """What pip-audit finds ("none", "found", "not reached"), in how many packages, its words."""
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--timeout", "15"]
    command += ["--format", "json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(), timeout=180
        )
        rows = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return "not reached", 0, "no answer within three minutes"
    except (ValueError, KeyError):
        return "not reached", 0, done.stderr.strip()[-300:]
    known = [row for row in rows if "skip_reason" not in row]
    if not known:
        return "not reached", 0, rows[0]["skip_reason"] if rows else done.stderr[-300:]
    bad = [f"{row['name']}: {v['id']}" for row in known for v in row["vulns"]]
    return ("found" if bad else "none"), len(known), "\n".join(bad)


def main() -> None:
    """Check, say, and fail where something is wrong."""
    started = time.time()
    count, wrong = licences()
    state, asked, words = vulnerabilities()
    print(f"{count} packages; licences not accepted: {wrong or 'none'}")
    print(f"vulnerabilities: {state} ({asked} packages known to the advisory service)")
    if state == "found":
        print(words)
    if state == "not reached":
        print("the advisory service could not be reached, so nothing was checked there")
    if "--store" in sys.argv:
        numbers = {"packages": count, "licences_not_accepted": wrong, "vulnerabilities": state}
        numbers["packages_audited"] = asked
        store("packages", numbers, started)
    raise SystemExit(bool(wrong) or state == "found")


if __name__ == "__main__":
    main()
