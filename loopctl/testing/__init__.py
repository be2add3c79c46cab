"""Fakes of each port, for tests of playbooks and of loopctl itself."""
