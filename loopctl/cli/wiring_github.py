"""The part of `wiring` that is about GitHub: config -> providers that ask it through gh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.github_health import health
from loopctl.config import Config, Source
from loopctl.model.health import Finding
from loopctl.model.refs import repository

#: GitHub hosts that are asked, by their name and the gh that asks them.
Hosts = dict[tuple[str, str], GitHubApi]


def providers(config: Config, environ: Mapping[str, str], known: Hosts) -> dict[Source, tuple[GitHub, ...]]:
    """For each source with repositories a provider for each of their hosts. `known` are hosts that were asked before."""
    apis = github_hosts(config, environ, known)
    everything: dict[tuple[str, str], list[str]] = {}
    for source in config.sources:
        for host, repos in _by_host(source).items():
            everything.setdefault((host, source.gh_binary), []).extend(repos)

    def provider(source: Source, host: str, repos: list[str]) -> GitHub:
        key = (host, source.gh_binary)
        return GitHub(
            apis[key],
            repos,
            source.label,
            beside=everything[key],
            monitor_issues=source.issues,
            monitor_pulls=source.pull_requests,
        )

    return {
        source: tuple(provider(source, host, repos) for host, repos in _by_host(source).items())
        for source in config.sources
        if source.repos
    }


def github_hosts(config: Config, environ: Mapping[str, str], known: Hosts) -> Hosts:
    """Each GitHub host of the sources with the gh that asks it: sources of one host share its limits.

    What a known one was told of its limits holds on, whatever the config says, and each is known from now on.
    """
    environ = {name: value for name, value in environ.items() if name != config.webhook.secret_env}
    keys = {(host, source.gh_binary) for source in config.sources for host in _by_host(source)}
    hosts = {
        key: replace(
            known.get(key) or GitHubApi(key[0], environ, key[1]),
            env=environ,
            timeout=config.github_timeout_seconds,
            patience=config.github_patience_seconds,
            share=config.github_budget_share,
        )
        for key in sorted(keys)
    }
    known.update(hosts)
    return hosts


def github_health(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether each GitHub host of the sources can be asked."""
    for (host, gh), api in github_hosts(config, environ, {}).items():
        sources = [source for source in config.sources if source.gh_binary == gh]
        names = [repository(text)[1] for source in sources for text in _by_host(source).get(host, ())]
        yield from health(api, list(dict.fromkeys(names)))


def _by_host(source: Source) -> dict[str, list[str]]:
    """The repositories of a source by their host."""
    found: dict[str, list[str]] = {}
    for text in source.repos:
        found.setdefault(repository(text)[0].lower(), []).append(text)
    return found
