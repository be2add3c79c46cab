"""loopctl events: what happened."""

from __future__ import annotations

import click

from loopctl.cli.options import config_option, parse_ref, table_format_option
from loopctl.cli.output import out, say, wants_color


@click.command(short_help="Show what happened.")
@config_option
@click.option(
    "--type", "types", multiple=True, metavar="GLOB", help="Only these types, e.g. 'session.*'. May be repeated."
)
@click.option("--item", metavar="REF", help="Only events of one work item.")
@click.option("--since", metavar="TIME", help="15m, 2h, 3d or an ISO time.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most this many, the newest.")
@click.option("--follow", is_flag=True, help="Wait for more.")
@click.option("--types", "list_types", is_flag=True, help="List the event types and what each says.")
@table_format_option
def events(
    config: str | None,
    types: tuple[str, ...],
    item: str | None,
    since: str | None,
    limit: int,
    follow: bool,
    list_types: bool,
    form: str,
) -> None:
    """Show what happened: one line an event, the newest last."""
    import sys
    from datetime import UTC, datetime
    from fnmatch import fnmatchcase

    from loopctl.cli.wiring import Setup, read_events
    from loopctl.model.events import EVENT_TYPES
    from loopctl.render.events import event_text
    from loopctl.render.json import json_line, json_text
    from loopctl.render.view import View

    if list_types:
        width = max(map(len, EVENT_TYPES))
        lines = (f"{name:<{width}}  {text}\n" for name, text in EVENT_TYPES.items())
        out(json_text(dict(EVENT_TYPES)) if form == "json" else "".join(lines))
        return
    for glob in types:
        if not any(fnmatchcase(name, glob) for name in EVENT_TYPES):
            say(f"warning: no event type is called {glob!r}; `loopctl events --types` lists them")
    setup = Setup.load(config, "events")
    view = View(now=datetime.now(UTC), color=wants_color(sys.stdout))
    ref = str(parse_ref(item)) if item else ""
    for event in read_events(setup.config, types, ref, since, limit, follow=follow):
        out(json_line(event) + "\n" if form == "json" else event_text(event, view))
