"""The part of `wiring` that is about the controller: its lock, and the process that webhooks come to."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from loopctl.adapters.registry_lock import CONTROLLER, hold_lock, holder
from loopctl.adapters.shell_child import Child
from loopctl.config import Config
from loopctl.model.secrets import is_secret_name

# Who asks who the controller is holds its lock for a moment.
_TURN = 1.0


def controller_lock(config: Config) -> AbstractContextManager[None]:
    """What one controller of a state root holds. Raises RefusedError naming who has it already."""
    return hold_lock(Path(config.state_root), _TURN, lambda: datetime.now(UTC), CONTROLLER)


def controller_holder(config: Config) -> str:
    """Who is the controller of the state root now, or ""."""
    return holder(Path(config.state_root), CONTROLLER)


def start_receiver(secret_env: str) -> Child:
    """Start the process that webhooks come to. Never with the current folder on its path, nor with any secret but its own."""
    environ = {name: value for name, value in os.environ.items() if name == secret_env or not is_secret_name(name)}
    return Child([sys.executable, "-P", "-m", "loopctl.cli.receive"], environ)
