"""The parts of the reference that the code itself knows: keys, commands, exit codes, events, defaults."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from loopctl import errors
from loopctl.adapters.harnesses import BUILT_IN
from loopctl.cli.main import cli
from loopctl.model.events import EVENT_TYPES
from loopctl.playbook.schema import schema
from tests.gh import answers
from tests.support import ROOT

Node = Mapping[str, Any]

_CODES = {
    "EXIT_OK": "Done. `plan` with changes too, unless `--detailed-exitcode` is given.",
    "EXIT_FAILED": "Something failed, or an action could not be verified. Also: answered no, or interrupted.",
    "EXIT_CHANGES": "`plan --detailed-exitcode`: there are changes.",
    "EXIT_REFUSED": "Refused, and nothing was done: the plan is over its limits, another loopctl holds the lock, or `--out` names a "
    "file that is no saved plan.",
    "EXIT_STALE": "The world moved since the plan: all or some of it was left alone.",
    "EXIT_INCOMPLETE": "Something could not be observed, so something was held.",
    "EXIT_USAGE": "The command line is wrong.",
    "EXIT_DOCUMENT": "A playbook, config, items file or plan file is wrong.",
}
#: routing may stand in two places and is shown in one.
_SECOND = "webhooks.ghWebhook.routing"
_IGNORED = " Has no meaning in loopctl: it only warns."
_SAID_ONCE = (
    " One or a list.",
    " Seconds, or a text such as 5s, 10m, 2h or 14d.",
    " A relative path counts from the folder of the config file, or from the project where that folder is named .loopctl; "
    "~ is the home folder.",
)
_TOLD_DEFAULT = re.compile(r"(?:^| )Default: (?P<default>.+?)\.(?= |$)")
_WORDS = {"array": "list", "object": "mapping", "string": "text"}


def content() -> dict[str, str]:
    """Every generated part by name."""
    playbook, items, config = schema("playbook"), schema("items"), schema("config")
    defs = playbook["$defs"]
    parts = {f"playbook-{name}": table(defs[name], playbook) for name in ("play", "rule", "item", "session", "ensure")}
    parts["playbook-limits"] = table(defs["play"]["properties"]["limits"], playbook)
    parts["items-keys"] = table(items["$defs"]["item"], items)
    parts["config-keys"] = "\n\n".join(config_sections(config))
    parts["config-ignored"] = "\n".join(
        f"- `{path}`: {node['description'].replace(_IGNORED, '')}"
        for path, node in leaves(config, config)
        if node.get("x-ignored") and not path.startswith(_SECOND)
    )
    parts["config-spare"] = _spared(config)
    parts["commands"] = "\n\n".join(command_sections())
    parts["exit-codes"] = exit_codes()
    parts["github-answers"] = answers.table()
    parts["events"] = _rows(("Type", "Meaning"), [(f"`{name}`", text) for name, text in EVENT_TYPES.items()])
    parts["layers"] = "```text\n" + "\n".join(_layers()) + "\n```"
    parts["harnesses"] = _rows(
        ("Name", "Starts with", "Goes on with"),
        [(f"`{name}`", f"`{' '.join(one.argv)}`", f"`{' '.join(one.resume_argv)}`") for name, one in BUILT_IN.items()],
    )
    return parts


def table(node: Node, root: Node) -> str:
    """The keys of one mapping."""
    required = set(node.get("required", ()))
    rows = []
    for name, given in node["properties"].items():
        key = _resolved(given, root)
        rows.append((f"`{name}`", kind(key, root), *_meaning(key, name in required)))
    return _rows(("Key", "Type", "Default", "Meaning"), rows)


def config_sections(root: Node) -> Iterator[str]:
    """One heading and one table for each top-level key of a config that has a meaning."""
    for name, given in root["properties"].items():
        node = _resolved(given, root)
        if node.get("x-ignored"):
            continue
        rows = [
            (f"`{path}`", kind(key, root), *_meaning(key, required=False))
            for path, key in leaves({"properties": {name: node}}, root)
            if not key.get("x-ignored") and not path.startswith(_SECOND)
        ]
        yield f"### {name}\n\n{node['description']}\n\n{_rows(('Key', 'Type', 'Default', 'Meaning'), rows)}"


def leaves(node: Node, root: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every key with its dotted path; `[]` stands for the entries of a list and NAME for names that are the user's."""
    for name, given in node.get("properties", {}).items():
        key, here = _resolved(given, root), f"{path}{name}"
        entries = _resolved(key.get("items", {}), root)
        named = key.get("additionalProperties")
        if "properties" in key:
            yield from leaves(key, root, f"{here}.")
        elif "properties" in entries:
            yield from leaves(entries, root, f"{here}[].")
        elif isinstance(named, Mapping) and "properties" in named:
            yield from leaves(named, root, f"{here}.NAME.")
        else:
            yield here, key


def kind(node: Node, root: Node) -> str:
    """The type in words, with the values that it may have."""
    given = node.get("type", "any")
    names = [given] if isinstance(given, str) else list(given)
    values = node.get("enum") or _resolved(node.get("items", {}), root).get("enum")
    words = [_WORDS.get(name, name) for name in names]
    if "x-expected" in node and node["x-expected"].startswith("a duration"):
        words = ["duration"]
    text = " or ".join(words)
    return f"{text}: {', '.join(f'`{value}`' for value in values)}" if values else text


def exit_codes() -> str:
    """The table of exit codes; KeyError for a code that nobody describes."""
    codes = sorted((value, name) for name, value in vars(errors).items() if name.startswith("EXIT_"))
    return _rows(("Code", "Meaning"), [(str(value), _CODES[name]) for value, name in codes])


def command_sections() -> Iterator[str]:
    """Usage, help and options of every command."""
    for path, command, context in commands():
        usage = " ".join(["loopctl", *path, *command.collect_usage_pieces(context)])
        parts = [f"## {' '.join(path)}", f"```text\n{usage}\n```", _help(command)]
        options = [p for p in command.params if isinstance(p, click.Option)]
        if options:
            parts.append(_rows(("Option", "Meaning"), [_option(option) for option in options]))
        yield "\n\n".join(part for part in parts if part)


def commands() -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Every command that does something, in the order of `--help`."""
    yield from _commands((), cli, click.Context(cli, info_name="loopctl"))


def _commands(
    path: tuple[str, ...], group: click.Group, context: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands((*path, name), command, inner)
        else:
            yield (*path, name), command, inner


def _help(command: click.Command) -> str:
    paragraphs = (command.help or "").replace("\b\n", "").split("\n\n")
    return "\n\n".join(_escaped(" ".join(paragraph.split())) for paragraph in paragraphs)


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else _value(option)
    default = option.default if option.show_default and not option.is_flag else None
    said = _escaped(option.help or "") + (f" Default: `{default}`." if default is not None else "")
    said += " Required." if option.required else ""
    return f"{names}{f' `{value}`' if value else ''}", said


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices)).replace("|", "\\|")
    return (option.metavar or option.type.name.removesuffix(" range").upper()).replace("|", "\\|")


def _resolved(node: Node, root: Node) -> Node:
    return root["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def _meaning(node: Node, required: bool) -> tuple[str, str]:
    """The cells for the default and the description; what the page says once is left out of each."""
    text = node["description"]
    for sentence in _SAID_ONCE:
        text = text.replace(sentence, "")
    told = _TOLD_DEFAULT.search(text)
    text = _TOLD_DEFAULT.sub("", text).strip()
    default = "required" if required else _default(node) or (told["default"] if told else "")
    return default, _escaped(text)


def _default(node: Node) -> str:
    if "default" not in node:
        return ""
    value = node["default"]
    if isinstance(value, list):
        return "see below" if value else "none"
    if value == "":
        return "empty"
    return f"`{json.dumps(value)}`".replace('"', "")


def _spared(config: Node) -> str:
    patterns = config["properties"]["processes"]["properties"]["spare"]["default"]
    return ", ".join(f"`{pattern}`" for pattern in patterns) + "."


def _layers() -> Iterator[str]:
    """The layers that import-linter holds, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    for layer in contract["layers"]:
        yield layer.replace("(", "").replace(")", "")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _rows(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
