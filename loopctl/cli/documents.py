"""loopctl validate, schema and version: what needs no world."""

from __future__ import annotations

import click

from loopctl.cli.options import no_empty_words, table_format_option
from loopctl.cli.output import out
from loopctl.errors import DocumentError, UsageError


@click.command(short_help="Check playbooks, configs, items files and saved plans.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", callback=no_empty_words)
@table_format_option
def validate(files: tuple[str, ...], form: str) -> None:
    """Check playbooks, configs, items files and saved plans: every problem of every file, with its place."""
    from loopctl.playbook.validate import validate_file

    checked = [(file, *validate_file(file)) for file in files]
    problems = [problem for _, _, found in checked for problem in found]
    if form == "json":
        from loopctl.render.json import json_text

        rows = [
            {"file": p.source, "line": p.line, "column": p.column, "message": p.message, "hint": p.hint}
            for p in problems
        ]
        out(json_text({"files": [{"file": f, "kind": k} for f, k, _ in checked], "problems": rows}))
    else:
        for file, kind, found in checked:
            if not found:
                out(f"{file}: valid {'items file' if kind == 'items' else kind}\n")
    if problems:
        raise DocumentError(problems)


@click.command(short_help="Print the JSON schema of a kind of file.")
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print the JSON schema (draft 2020-12) of a kind of file, for an editor's YAML support; no NAME lists them."""
    from loopctl.data import schema_names, schema_text

    if name is None:
        out("\n".join(schema_names()) + "\n")
    elif name in schema_names():
        out(schema_text(name))
    else:
        msg = f"no schema is called {name!r}"
        raise UsageError(msg, hint=f"there are {', '.join(schema_names())}")


@click.command(short_help="Print the version.")
def version() -> None:
    """Print the version."""
    from loopctl import __version__

    out(f"loopctl {__version__}\n")
