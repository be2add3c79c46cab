"""A GitHub for tests: real gh talks to it over a Unix socket, real GraphQL is executed on a world held in Python."""

from tests.fake_github.faults import Fault
from tests.fake_github.plugin import fake_github
from tests.fake_github.server import FakeGitHub
from tests.fake_github.world import World

__all__ = ["FakeGitHub", "Fault", "World", "fake_github"]
