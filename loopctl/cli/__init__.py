"""The command line: parsing, exit codes, wiring."""
