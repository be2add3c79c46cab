"""What is: the registry, tmux, the process table and the providers, each asked as few times as possible."""

from loopctl.observe.look import ask, discover, observe
from loopctl.observe.sight import root_of, sight, view_of

__all__ = ["ask", "discover", "observe", "root_of", "sight", "view_of"]
