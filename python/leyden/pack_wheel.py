"""Packs the wheel of leyden out of a built module and program: `cargo xtask wheel` calls it.

    python3 pack_wheel.py MODULE PROGRAM OUT_FOLDER [--machine x86_64] [--musl]

maturin, the build backend in pyproject.toml, compiles the module alone, whose dependencies then have other features than
the program's and are compiled again. This script compiles nothing. The format is that of PEP 427, the metadata that of
pyproject.toml; the platform tag (PEP 600) names the newest version of glibc that a symbol of either file needs.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
#: Date of all entries, so that the same files give the same wheel: the first that a zip archive can have.
EPOCH = (1980, 1, 1, 0, 0, 0)


def metadata(project: dict) -> str:
    """Returns the file METADATA of a project table."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    lines += [f"Classifier: {name}" for name in project["classifiers"]]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    for extra, names in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {name} ; extra == '{extra}'" for name in names]
    readme = (HERE / project["readme"]).read_text()
    return "\n".join(lines) + f"\n\n{readme}"


def platform_tag(files: list[bytes], machine: str, musl: bool) -> str:
    """Returns the platform tag of compiled files."""
    if musl:
        return f"musllinux_1_2_{machine}"
    versions = [(2, 17)]
    for data in files:
        versions += [(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)]
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{machine}"


def stripped(path: pathlib.Path, folder: pathlib.Path, machine: str) -> bytes:
    """Returns a compiled file without its table of symbols, if a `strip` for its machine is there."""
    tool = "strip" if machine == platform.machine() else f"{machine}-linux-gnu-strip"
    copy = folder / path.name
    shutil.copyfile(path, copy)
    if shutil.which(tool):
        subprocess.run([tool, "--strip-unneeded", str(copy)], check=True)
    else:
        print(f"note: {tool} is absent: {path.name} keeps its symbols", file=sys.stderr)
    return copy.read_bytes()


def main() -> None:
    """Packs the wheel and prints its path."""
    parser = argparse.ArgumentParser()
    for name in ("module", "program", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--musl", action="store_true")
    args = parser.parse_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as folder:
        module = stripped(args.module, pathlib.Path(folder), args.machine)
        program = stripped(args.program, pathlib.Path(folder), args.machine)
    tag = f"cp310-abi3-{platform_tag([module, program], args.machine, args.musl)}"
    stem = f"{project['name']}-{project['version']}"
    root = HERE.parents[1]
    wheel = f"Wheel-Version: 1.0\nGenerator: leyden\nRoot-Is-Purelib: false\nTag: {tag}\n"
    sources = sorted(p for p in (HERE / "leyden").rglob("*") if p.suffix in (".py", ".pyi") or p.name == "py.typed")
    entries: list[tuple[str, bytes, int]] = [
        *((str(p.relative_to(HERE)), p.read_bytes(), 0o644) for p in sources),
        ("leyden/_native.abi3.so", module, 0o755),
        (f"{stem}.data/scripts/leyden", program, 0o755),
        (f"{stem}.dist-info/METADATA", metadata(project).encode(), 0o644),
        (f"{stem}.dist-info/WHEEL", wheel.encode(), 0o644),
        *((f"{stem}.dist-info/licenses/{n}", (root / n).read_bytes(), 0o644) for n in ("LICENSE", "NOTICE")),
    ]
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{stem}-{tag}.whl"
    part = path.with_suffix(".part")
    record = []
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data, mode in entries:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(archive, name, data, mode)
        listing = f"{stem}.dist-info/RECORD"
        add(archive, listing, "\n".join([*record, f"{listing},,", ""]).encode(), 0o644)
    part.replace(path)
    print(path)


def add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    """Adds a file with a fixed date."""
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


if __name__ == "__main__":
    main()
