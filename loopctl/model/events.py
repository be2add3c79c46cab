"""The registered event types: the one list that the log, its filters and the docs are made from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

INFO = "info"
WARNING = "warning"
ERROR = "error"

EVENT_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "session.registered": "An existing session was put into the registry (registered or imported).",
        "session.moved": "A session's record was moved to its item's new address (from, to).",
        "session.started": "A new pane was made and its harness started; resumes names the session whose place it took.",
        "session.resume_failed": "An agent that was to go on with its conversation ended soon; one fresh start follows.",
        "session.start_failed": "A start did not leave a live, recorded session.",
        "session.closed": "A session's record was closed; reason says why (issue-closed, pr-merged, pr-closed, ...).",
        "session.retained": "A closed session's pane was kept, dead and read-only.",
        "session.harness_terminated": "A harness and its processes were ended; killed says whether SIGKILL was needed, survivors who is left.",
        "session.reaped": "A closed session's pane was removed.",
        "session.paused": "A session was paused: no deliveries, no restart.",
        "session.resumed": "A paused session was made active again.",
        "comment.posted": "A comment of ours stands on the item, new or brought up to date; key is the state that it tells of.",
        "comment.failed": "A comment could not be posted; reason says why.",
        "delivery.sent": "A message (message, author) was pasted into an agent's pane and submitted.",
        "delivery.failed": "A message could not be pasted, reason says why; uncertain says that it may have arrived all the same.",
        "workspace.prepared": "A session's worktree was made or found (path, branch); note says what is worth knowing of it.",
        "workspace.cleaned": "An ended session's worktree was removed (path); saved names the folder that its work was saved in.",
        "plan.created": "A plan was made; counts by verb, held and unchanged.",
        "apply.started": "An apply began to act.",
        "apply.finished": "An apply ended; counts by status.",
        "action.changed": "An action was carried out and verified.",
        "action.stale": "An action was dropped because the world moved since the plan.",
        "action.failed": "An action failed or could not be verified.",
        "controller.started": "A controller (`loopctl run`) began to keep its playbooks true.",
        "controller.stopped": "A controller ended; exit_code says how.",
        "poll.cycle": "A controller looked once: trigger (poll, webhook, retry, reload), seen, changed, held, failed, closures, cost, told (items that a webhook was believed about); refused or error say why nothing was done.",
        "poll.closure_detected": "A look at everything found an ended item whose session is to end now.",
        "webhook.received": "A signed delivery came; refs are the items it names, dropped says why nobody looks at them.",
        "webhook.rejected": "A request to the webhook was refused; status and reason say why. At most one a minute; `unlogged` were refused in between.",
        "config.reloaded": "An edit of the config or a playbook took effect; changed names what, not_reloaded what needs a restart.",
        "config.rejected": "An edit of the config or a playbook is wrong; what was there before stays in force.",
        "item.held": "An item was left alone because something about it was unknown.",
    }
)
