"""Declarative runbooks for coding-agent sessions in tmux: look, show, then act."""

__version__ = "0.1.0"
