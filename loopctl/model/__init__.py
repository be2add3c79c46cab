"""Values that flow through the pipeline. Frozen dataclasses, standard library only."""
