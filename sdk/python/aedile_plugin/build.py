"""Makes a module of a plugin in Python.

    python vendor/aedile_plugin/build.py SOURCE.py MODULE.wasm

Run it in the project's folder, where manifest.json lies, with the interpreter
that componentize-py is installed for.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Nothing is written beside the sources.
sys.dont_write_bytecode = True

# Beside this program; not by way of the package, which needs the host.
from contract import cut  # noqa: E402

HERE = Path(__file__).resolve().parent
COMPILER = "componentize-py"


def build(source: Path, module: Path) -> None:
    manifest = Path("manifest.json").read_bytes()
    grants = json.loads(manifest)["grants"]
    with tempfile.TemporaryDirectory(prefix="aedile-") as folder:
        wit, layer = Path(folder, "wit"), Path(folder, "layer")
        wit.mkdir()
        cut(HERE / "wit", wit, grants)
        # The compiler writes beside the sources, so it gets a copy of these.
        shutil.copytree(HERE, layer / HERE.name, ignore=shutil.ignore_patterns("wit"))
        command = [
            _compiler(),
            *("--quiet", "--wit-path", str(wit), "--world", "plugin"),
            # Without WASI: a host gives nothing of it.
            *("componentize", "--stub-wasi"),
            *("--python-path", str(source.resolve().parent)),
            *("--python-path", str(layer)),
            *(source.stem, "--output", str(module)),
        ]
        if subprocess.run(command, check=False).returncode != 0:
            raise ValueError(f"{COMPILER} failed")
    with module.open("ab") as out:
        out.write(_section(b"aedile:manifest", manifest))
    print(f"{module}: {module.stat().st_size} bytes")


def _compiler() -> str:
    beside = Path(sys.executable).parent / COMPILER
    found = str(beside) if beside.exists() else shutil.which(COMPILER)
    if found is None:
        raise ValueError(f"{COMPILER} is not installed: pip install -r requirements.txt")
    return found


def _section(name: bytes, data: bytes) -> bytes:
    """A custom section: its length, its name with the name's length, its bytes."""
    body = _leb(len(name)) + name + data
    return b"\0" + _leb(len(body)) + body


def _leb(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: build.py SOURCE.py MODULE.wasm", file=sys.stderr)
        return 2
    try:
        build(Path(sys.argv[1]), Path(sys.argv[2]))
    except (OSError, ValueError, KeyError) as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
