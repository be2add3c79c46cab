"""Where a config may be, and what the paths in it mean."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: A config in it is a project's: its paths count from the folder that this one is in.
PROJECT_FOLDER = ".loopctl"
_APP = "loopctl"
_FILE = "config.yaml"


def config_places(explicit: str | None, env: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """Where the config may be: one place where it is named, else those that are looked at, the first of them first."""
    paths = Paths(cwd, env)
    named = explicit if explicit is not None else env.get("LOOPCTL_CONFIG", "")
    if named or explicit is not None:
        return (paths.absolute(named),)
    home = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else paths.absolute("~/.config")
    return (cwd.absolute() / PROJECT_FOLDER / _FILE, home / _APP / _FILE)


@dataclass(frozen=True, slots=True)
class Paths:
    """Makes paths absolute: relative ones count from `base`."""

    base: Path
    env: Mapping[str, str]

    def absolute(self, text: str) -> Path:
        """The path that somebody wrote, `~` filled in."""
        home = self.env.get("HOME", "")
        if home and (text == "~" or text.startswith("~/")):
            text = home + text[1:]
        path = Path(text)
        if text.startswith("~"):
            try:
                path = path.expanduser()
            except RuntimeError:
                path = Path(text)
        return Path(_normal(self.base.absolute() / path))

    def state(self) -> Path:
        """`loopctl` in the XDG state folder, or what stands for it on this system."""
        chosen = self.env.get("XDG_STATE_HOME", "")
        if Path(chosen).is_absolute():
            return Path(chosen) / _APP
        from platformdirs import user_state_path

        return user_state_path(_APP)


def _normal(path: Path) -> str:
    # Removes "." and "..", and leaves symbolic links as the user wrote them.
    return os.path.normpath(path)
