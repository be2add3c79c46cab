"""Where a command runs, and the config that holds there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from loopctl.errors import StateError
from loopctl.model.secrets import learn

if TYPE_CHECKING:
    from loopctl.config import Config


def here() -> Path:
    """The current folder. Raises StateError where it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise StateError(f"the current folder: {error.strerror}", hint="change to a folder that exists") from None


def read_config(explicit: str | None, folder: Path) -> Config:
    """The config for a command that runs in a folder. What it and the environment hold as secrets is masked from now on.

    Raises DocumentError.
    """
    from loopctl.config import load_config

    # Before the reading too: an error repeats what stands in the file.
    learn(os.environ)
    config = load_config(explicit, os.environ, folder)
    learn(os.environ, config.webhook.secret_env)
    for harness in config.harnesses.values():
        learn(harness.env)
    return config
