"""The loop that keeps a playbook true."""
