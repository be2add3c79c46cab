"""The controller: look, plan and apply again and again. A timer, webhooks and retries only say where to look."""
