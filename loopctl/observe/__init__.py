"""What is: the registry, tmux, the process table and the providers, each asked as few times as possible."""

from loopctl.observe.look import observe
from loopctl.observe.sight import may_live, others_of, root_of, sight, view_of
from loopctl.observe.sources import answered, ask, ask_about, discover, hear, muted

__all__ = [
    "answered",
    "ask",
    "ask_about",
    "discover",
    "hear",
    "may_live",
    "muted",
    "observe",
    "others_of",
    "root_of",
    "sight",
    "view_of",
]
