"""Config and playbooks that are edited while the controller runs: a valid edit takes effect, an invalid one is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from loopctl.config import Config
from loopctl.errors import DocumentError, LoopctlError, Problem
from loopctl.model.rules import Playbook, Policy
from loopctl.playbook.document import read_bytes
from loopctl.ports import World

#: What a running controller stands on: another value needs another controller.
FIXED = ("state_root", "machine", "socket", "event_log")
FIXED_OF_WEBHOOK = ("host", "port", "path", "secret_env")


@dataclass(frozen=True, slots=True)
class Loaded:
    """One reading of all documents. `given` is the config as it was written, `config` with what could not change.

    `files` are those that it depends on, each with what `digests` said of it before it was read.
    """

    given: Config
    config: Config
    playbook: Playbook
    world: World
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """An edit. `loaded` is None when it was refused for `problems`; `changed` and `fixed` are names of keys and files."""

    loaded: Loaded | None = None
    changed: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Reloader:
    """Compares the content of the files, so that a touch, a checkout or an editor's dance changes nothing."""

    def __init__(self, load: Callable[[Config | None], Loaded]) -> None:
        """`load` reads everything, and keeps what is fixed of the config that it is given. Raises what it raises."""
        self._load = load
        self.loaded = load(None)
        self._seen = self.loaded.files

    def check(self) -> Change | None:
        """What changed since the last look, or None."""
        now = digests(self.loaded.files)
        if now == self._seen:
            return None
        self._seen = now
        old = self.loaded
        try:
            new = self._load(old.config)
        except DocumentError as error:
            return Change(problems=error.problems)
        except LoopctlError as error:
            return Change(problems=(Problem(next(iter(now)), 0, 0, error.message, error.hint),))
        self.loaded, self._seen = new, new.files
        return Change(new, _changed(old, new), _fixed(new))


def keep_fixed(given: Config, running: Config | None) -> Config:
    """A config with the values that a running controller cannot change."""
    if running is None:
        return given
    hook = replace(given.webhook, **{name: getattr(running.webhook, name) for name in FIXED_OF_WEBHOOK})
    kept = {name: getattr(running, name) for name in FIXED}
    return replace(given, webhook=hook, **kept)


def _changed(old: Loaded, new: Loaded) -> tuple[str, ...]:
    names = [
        f.name for f in fields(Config) if _plain(getattr(old.config, f.name)) != _plain(getattr(new.config, f.name))
    ]
    before = dict(old.playbook.sources)
    return (*names, *(path for path, digest in new.playbook.sources if before.get(path) != digest))


def _plain(value: object) -> object:
    """A value that can be compared: of a template its text."""
    if not isinstance(value, Policy):
        return value
    return replace(value, templates={}), {name: text.source for name, text in value.templates.items()}


def _fixed(new: Loaded) -> tuple[str, ...]:
    names = [name for name in FIXED if getattr(new.given, name) != getattr(new.config, name)]
    hook = [n for n in FIXED_OF_WEBHOOK if getattr(new.given.webhook, n) != getattr(new.config.webhook, n)]
    return (*names, *(f"webhook.{name}" for name in hook))


def digests(files: Iterable[str]) -> dict[str, str]:
    """What stands in each file. To be taken before they are read: an edit in between is then seen by the next look."""
    return {path: _digest(Path(path)) for path in files}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_bytes(path, str(path))).hexdigest()
    except DocumentError as error:
        return error.problems[0].message
