"""Every tmux that can be had here, each in a folder of its own below a cache.

Looked for in this order: what is in the cache, a source package of Debian, the release archive of upstream, and a binary
package of Debian with its libraries.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loopctl.model.tmux import unsupported
from tests.matrix.debian import Debian, Missing, run

#: Release archives of upstream with their SHA-256.
ARCHIVES = {
    "3.2a": "551553a4f82beaa8dadc9256800bcc284d7c000081e47aa6ecbb6ff36eacd05f",
    "3.3a": "e4fd347843bd0772c4f48d6dde625b0b109b7a380ff15db21e97c11a4dcdf93f",
    "3.4": "551ab8dea0bf505c0ad6b7bb35ef567cdde0ccb84357df142c254f35a23e19aa",
    "3.5a": "16216bd0877170dfcc64157085ba9013610b12b082548c7c9542cc0103198951",
}
SYSTEM = "system"
_URL = "https://github.com/tmux/tmux/releases/download/{0}/tmux-{0}.tar.gz"
_TOOLS = ("cc", "make", "pkg-config", "bison", "patchelf")
_PACKAGES = ("gcc", "make", "pkg-config", "bison", "libevent-dev", "libncurses-dev", "patchelf")


@dataclass(frozen=True)
class Build:
    """One tmux: its version, where it came from and its program; without a program, `origin` says why there is none."""

    version: str
    origin: str
    program: Path | None = None


@dataclass(frozen=True)
class Way:
    """One way to a tmux: `make` is given a scratch folder and the folder that shall hold bin/tmux."""

    origin: str
    make: Callable[[Path, Path], None]


def builds(cache: Path, wanted: frozenset[str]) -> Iterator[Build]:
    """The machine's own tmux and all others, the oldest first; only `wanted` versions where any are named."""
    if not wanted or SYSTEM in wanted:
        own = shutil.which("tmux")
        yield Build(version_of(Path(own)), "this machine's own", Path(own)) if own else Build(SYSTEM, "not installed")
    if wanted == {SYSTEM}:
        return
    cache.mkdir(parents=True, exist_ok=True)
    ways, doubt = _ways(cache)
    for version in sorted(ways, key=_order):
        if not unsupported(version) and (not wanted or version in wanted):
            yield _get(version, cache / version, ways[version], doubt)


def version_of(program: Path) -> str:
    """The version that a tmux says it is."""
    return run(str(program), "-V").strip().removeprefix("tmux ")


def _order(version: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", version)], version


def _ways(cache: Path) -> tuple[dict[str, list[Way]], str]:
    """Version -> how it may be had, and why Debian has none."""
    debian, doubt = None, ""
    try:
        _need_tools()
        debian = Debian(cache / "apt")
    except Missing as error:
        doubt = str(error)
    found: dict[str, list[Way]] = {}
    for package in debian.sources() if debian else ():
        found.setdefault(_upstream(package), []).append(_source_way(debian, package))
    for version in ARCHIVES:
        found.setdefault(version, []).append(_archive_way(version))
    for package in debian.binaries() if debian else ():
        found.setdefault(_upstream(package), []).append(_binary_way(debian, package))
    return found, doubt


def _upstream(package: str) -> str:
    return package.partition("-")[0]


def _source_way(debian: Debian | None, package: str) -> Way:
    assert debian

    def make(scratch: Path, prefix: Path) -> None:
        _compile(debian.source(package, scratch), scratch, prefix)

    return Way(f"built from Debian's {package}", make)


def _archive_way(version: str) -> Way:
    return Way(
        "built from upstream's archive",
        lambda scratch, prefix: _compile(_download(version, scratch), scratch, prefix),
    )


def _binary_way(debian: Debian | None, package: str) -> Way:
    assert debian
    return Way(f"Debian's binary {package}", lambda scratch, prefix: debian.binary(package, scratch, prefix))


def _download(version: str, into: Path) -> Path:
    archive = into / f"tmux-{version}.tar.gz"
    with urllib.request.urlopen(_URL.format(version), timeout=30) as answer:
        archive.write_bytes(answer.read())
    if hashlib.sha256(archive.read_bytes()).hexdigest() != ARCHIVES[version]:
        raise Missing("the archive has another checksum than it should")
    return archive


def _compile(archive: Path, scratch: Path, prefix: Path) -> None:
    tree = scratch / "tree"
    tree.mkdir()
    run("tar", "-xf", str(archive), "--strip-components=1", "-C", str(tree))
    run("./configure", f"--prefix={prefix}", cwd=tree)
    run("make", f"-j{os.cpu_count() or 1}", cwd=tree)
    run("make", "install", cwd=tree)


def _get(version: str, prefix: Path, ways: list[Way], doubt: str) -> Build:
    program, note = prefix / "bin" / "tmux", prefix / "origin"
    if program.exists() and note.exists():
        return Build(version, note.read_text(), program)
    doubts = [doubt] if doubt else []
    for way in ways:
        shutil.rmtree(prefix, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=prefix.parent) as scratch:
            try:
                way.make(Path(scratch), prefix)
                if version_of(program) != version:
                    raise Missing(f"it says that it is {version_of(program)}")
            except (Missing, OSError) as error:
                doubts.append(f"{way.origin}: {error}")
                continue
        note.write_text(way.origin)
        return Build(version, way.origin, program)
    return Build(version, "; ".join(doubts))


def _need_tools() -> None:
    try:
        run("pkg-config", "--exists", "libevent", "ncurses")
        if all(map(shutil.which, _TOOLS)):
            return
    except Missing:
        pass
    if os.geteuid() or not shutil.which("apt-get"):
        raise Missing(f"needed to build tmux: {' '.join(_PACKAGES)}")
    run("apt-get", "-qqy", "update")
    run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qqy", "install", "--no-install-recommends", *_PACKAGES)
