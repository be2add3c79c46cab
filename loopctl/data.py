"""The playbooks, templates and schemas that come with loopctl: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_PLAYBOOK = ".yml"
_SCHEMA = ".schema.json"


def _folder(kind: str) -> Path:
    in_wheel = _PACKAGE / "_data" / kind
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / kind


def playbook_names() -> tuple[str, ...]:
    """The packaged playbooks, without their ending."""
    return tuple(sorted(path.stem for path in _folder("playbooks").glob(f"*{_PLAYBOOK}")))


def playbook_path(name: str) -> Path | None:
    """The file of a packaged playbook, named with or without `.yml`; None when there is none of that name."""
    stem = name.removesuffix(_PLAYBOOK)
    return _folder("playbooks") / f"{stem}{_PLAYBOOK}" if stem in playbook_names() else None


def template_path(name: str) -> Path:
    """The file of a packaged template: start, delivery, comment_running or comment_ended."""
    return _folder("playbooks") / "templates" / f"{name.replace('_', '-')}.md.j2"


def schema_names() -> tuple[str, ...]:
    """The packaged schemas: config, items, plan, playbook."""
    return tuple(sorted(path.name.removesuffix(_SCHEMA) for path in _folder("schemas").glob(f"*{_SCHEMA}")))


@cache
def schema_text(name: str) -> str:
    """The JSON text of a packaged schema. Raises KeyError for a name that is not in `schema_names()`."""
    if name not in schema_names():
        raise KeyError(name)
    return (_folder("schemas") / f"{name}{_SCHEMA}").read_text(encoding="utf-8")
