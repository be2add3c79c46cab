"""Harnesses: how an agent program is started. Claude Code, Codex and Gemini are built in; config adds and overrides.

A command line is a template of whole arguments. `{prompt}` and `{session_id}` stand for one argument, or for what
follows the `=` of one (`--prompt={prompt}`). No shell and no format string is involved, and what was put in is not
looked at again. An empty value drops its argument and the option directly before it (`-i {prompt}`, `-- {prompt}`).
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from loopctl.errors import StateError
from loopctl.model.plain import plain

PROMPT = "{prompt}"
SESSION_ID = "{session_id}"

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

#: `--` ends the options of claude and codex, so that a prompt such as `- [ ] fix it` is none; gemini takes the prompt as
#: the value of an option.
BUILT_IN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "claude": ("claude", "--session-id", SESSION_ID, "--", PROMPT),
        "codex": ("codex", "--", PROMPT),
        "gemini": ("gemini", f"--prompt-interactive={PROMPT}"),
    }
)


class HarnessSettings(Protocol):
    """What config says of one harness: its command line, and variables to set and to pass on."""

    @property
    def argv(self) -> Sequence[str]:
        """The template; empty means the built-in one."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Variables to set."""
        ...

    @property
    def pass_env(self) -> Sequence[str]:
        """Names of variables to pass on from loopctl's own environment."""
        ...


class CommandHarness:
    """A program that is started by a command line."""

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        env: Mapping[str, str] = MappingProxyType({}),
        pass_env: tuple[str, ...] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`environ` is loopctl's own environment: its PATH finds the program, and `pass_env` is taken from it."""
        self.name = name
        self._argv = argv
        self._env = dict(env)
        self._pass_env = pass_env
        self._environ = environ

    def argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line of a fresh start, the program as an absolute path.

        A prompt comes without control and invisible characters, so that the agent reads what a plan shows. One that begins
        with `-` gets a space before it where it could be taken for an option. Raises StateError when
        the program does not exist or the session id is none.
        """
        if session_id and not _SESSION_ID.fullmatch(session_id):
            raise StateError(f"{session_id!r} is no session id of harness {self.name}")
        values = {PROMPT: plain(prompt), SESSION_ID: session_id}
        return (self._program(), *_filled(self._argv[1:], values))

    def check(self) -> str:
        """Why it cannot be started, or ""."""
        try:
            self._program()
        except StateError as error:
            return error.message
        return ""

    def resume_argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line that goes on with a conversation, () where the program cannot."""
        return ()

    def env(self) -> Mapping[str, str]:
        """The variables that config sets, and those that it passes on and that exist."""
        passed = {name: self._environ[name] for name in self._pass_env if name in self._environ}
        return passed | self._env

    def new_session_id(self) -> str:
        """A new UUID where the command line has a place for it, else ""."""
        return str(uuid.uuid4()) if any(argument.endswith(SESSION_ID) for argument in self._argv) else ""

    def _program(self) -> str:
        hint = f"install it, or set harnesses.{self.name}.argv in the config"
        if not any(self._argv[:1]):
            raise StateError(f"harness {self.name} has no command line", hint=hint)
        found = shutil.which(self._argv[0], path=self._environ.get("PATH", os.defpath))
        if not found:
            raise StateError(f"harness {self.name}: there is no program {self._argv[0]!r} on the PATH", hint=hint)
        return str(Path(found).absolute())


def build_harnesses(
    settings: Mapping[str, HarnessSettings],
    environ: Mapping[str, str],
    extra_args: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, CommandHarness]:
    """Every harness by name: the built-in ones, and those of the config, which may override them.

    `extra_args` (routing.harnessArgs) come right after the program.
    """
    harnesses = {}
    for name in {**BUILT_IN, **settings}:
        given = settings.get(name)
        program, *rest = (given and tuple(given.argv)) or BUILT_IN.get(name, ()) or ("",)
        argv = (program, *extra_args.get(name, ()), *rest)
        env, pass_env = (given.env, tuple(given.pass_env)) if given else ({}, ())
        harnesses[name] = CommandHarness(name, argv, env, pass_env, environ)
    return harnesses


def _filled(template: Sequence[str], values: Mapping[str, str]) -> list[str]:
    argv: list[str] = []
    for argument, before in zip(template, ("", *template), strict=False):
        holder = next((name for name in values if argument == name or argument.endswith(f"={name}")), "")
        if not holder:
            argv.append(argument)
        elif values[holder]:
            argv.append(argument.removesuffix(holder) + _guarded(values[holder], argument == holder and before != "--"))
        elif argument == holder and before.startswith("-") and not before.endswith(tuple(values)):
            argv.pop()
    return argv


def _guarded(value: str, could_be_option: bool) -> str:
    return f" {value}" if could_be_option and value.startswith("-") else value
