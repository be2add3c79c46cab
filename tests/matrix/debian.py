"""Packages of every release of Debian, through apt with settings and lists of its own: the machine's stay as they are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "forky", "sid", "experimental")
#: Where the libraries of a package that was built for another release are, below its root.
_LIBRARIES = "usr/lib/*-linux-gnu*"


class Missing(Exception):
    """Something cannot be had here; the text says what and why."""


def run(*argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a program and return its output. Raises Missing with the last line of what it said when it fails."""
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, check=False, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{argv[0]}: {error}") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no reason given"]
        raise Missing(f"{Path(argv[0]).name}: {lines[-1]}")
    return done.stdout


class Debian:
    """The package tmux in all releases."""

    def __init__(self, folder: Path) -> None:
        """Fetch the lists into `folder`. Raises Missing where there is no apt, or no mirror of Debian."""
        self._folder = folder
        if not shutil.which("apt-get") or not _KEYS.exists():
            raise Missing("this is no Debian")
        form = "$(ORIGIN) $(COMPONENT) $(REPO_URI)"
        targets = run("apt-get", "indextargets", "--format", form, "Created-By: Packages").splitlines()
        mirrors = [words[2] for words in map(str.split, targets) if words[:2] == ["Debian", "main"]]
        if not mirrors:
            raise Missing("apt has no mirror of Debian; `apt-get update` first")
        self._configure(mirrors[0])

    def _configure(self, mirror: str) -> None:
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        kinds = [(kind, suite) for kind in ("deb", "deb-src") for suite in _SUITES]
        lines = [f"{kind} [signed-by={_KEYS}] {mirror} {suite} main\n" for kind, suite in kinds]
        (self._folder / "sources.list").write_text("".join(lines))
        # With nothing installed, apt fetches all that a package needs.
        (self._folder / "status").write_text("")
        settings = {
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::status": self._folder / "status",
            "Dir::State::extended_states": self._folder / "extended",
            "Dir::Cache": self._folder / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "0",
            "Debug::NoLocking": "1",
        }
        (self._folder / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
        try:
            self._apt("apt-get", "-qq", "update")
        except Missing:
            # A release without one of its parts still leaves the others.
            if not list((self._folder / "lists").glob("*Packages*")):
                raise

    def _apt(self, *argv: str, cwd: Path | None = None) -> str:
        return run("env", f"APT_CONFIG={self._folder / 'apt.conf'}", *argv, cwd=cwd)

    def sources(self) -> list[str]:
        """The versions of the source package."""
        text = self._apt("apt-cache", "showsrc", "--only-source", "tmux")
        return sorted(set(re.findall(r"^Version: (\S+)$", text, re.MULTILINE)))

    def binaries(self) -> list[str]:
        """The versions of the binary package; those of backports, which need less than others, come first."""
        lines = self._apt("apt-cache", "madison", "tmux").splitlines()
        found = {line.split("|")[1].strip() for line in lines if "Packages" in line}
        return sorted(found, key=lambda version: ("~" not in version, version))

    def source(self, package: str, into: Path) -> Path:
        """Fetch the upstream archive of a source package."""
        self._apt("apt-get", "-qq", "source", "--download-only", f"tmux={package}", cwd=into)
        (archive,) = into.glob("tmux_*.orig.tar.*[!c]")
        return archive

    def binary(self, package: str, scratch: Path, prefix: Path) -> None:
        """Unpack a binary package with the libraries of its own release, and tie it to them where it lies."""
        (scratch / "archives" / "partial").mkdir(parents=True)
        self._apt("apt-get", "-qqy", "-o", f"Dir::Cache={scratch}", "--download-only", "install", f"tmux={package}")
        root = prefix / "root"
        (prefix / "bin").mkdir(parents=True)
        for deb in sorted((scratch / "archives").glob("*.deb")):
            run("dpkg-deb", "-x", str(deb), str(root))
        program = prefix / "bin" / "tmux"
        shutil.copy2(root / "usr/bin/tmux", program)
        libraries = next(path.parent for path in root.glob(f"{_LIBRARIES}/libc.so.6"))
        loader = next(libraries.glob("ld-linux*.so.*"))
        run("patchelf", "--set-interpreter", str(loader), "--set-rpath", str(libraries), "--force-rpath", str(program))
