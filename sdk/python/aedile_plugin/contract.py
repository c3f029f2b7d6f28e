"""The contract, cut down to what a manifest asks for.

A component made of Python imports all of its world, whatever it calls. What it
imports is what an operator has to grant, so the world that it is built for holds
the functions of its manifest's grants and no others.
"""

import re
from pathlib import Path
from typing import Callable, List

# Interfaces in which each function is a grant of its own.
BY_FUNCTION = ("commands", "storage")
# Interfaces that are one grant.
WHOLE = ("state", "metrics")


def cut(source: Path, target: Path, grants: List[str]) -> None:
    """Write the WIT files of ``source`` to ``target``, with what is granted."""
    known = set(WHOLE)
    for path in sorted(source.glob("*.wit")):
        text = path.read_text(encoding="utf-8")
        part = path.stem
        if part == "world":
            text = _lines(text, lambda line: _in_world(line, grants))
        elif part in BY_FUNCTION:
            names = re.findall(r"^\s*%?([a-z0-9-]+): func\(", text, re.MULTILINE)
            known.update(f"{part}.{name}" for name in names)
            text = _lines(text, lambda line: _granted(line, part, grants))
        (target / path.name).write_text(text, encoding="utf-8")
    for grant in grants:
        if grant not in known:
            raise ValueError(f"manifest.json: there is no grant {grant}")


def _in_world(line: str, grants: List[str]) -> bool:
    found = re.match(r"\s*import ([a-z-]+);", line)
    name = found and found[1]
    if name in WHOLE:
        return name in grants
    if name in BY_FUNCTION:
        return any(grant.startswith(f"{name}.") for grant in grants)
    return True


def _granted(line: str, part: str, grants: List[str]) -> bool:
    found = re.match(r"\s*%?([a-z0-9-]+): func\(", line)
    return found is None or f"{part}.{found[1]}" in grants


def _lines(text: str, keep: Callable[[str], bool]) -> str:
    """The lines that are kept. What describes an item goes with it."""
    kept: List[str] = []
    before: List[str] = []
    for line in text.split("\n"):
        if re.match(r"\s*(///|@)", line):
            before.append(line)
            continue
        if keep(line):
            kept += [*before, line]
        before = []
    return "\n".join(kept + before)
