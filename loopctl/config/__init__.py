"""Where the world is: one file, found, checked and turned into typed values, each with a working default."""

from loopctl.config.load import load_config
from loopctl.config.places import config_places
from loopctl.config.shape import Config, EventLog, HarnessConfig, Polling, Source, Webhook, WorkspaceConfig

__all__ = [
    "Config",
    "EventLog",
    "HarnessConfig",
    "Polling",
    "Source",
    "Webhook",
    "WorkspaceConfig",
    "config_places",
    "load_config",
]
