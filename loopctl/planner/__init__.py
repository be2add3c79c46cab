"""Pure: observation -> desired state -> plan. No clock, file, process or network."""
