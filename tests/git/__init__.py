"""Worktrees with the real git."""
