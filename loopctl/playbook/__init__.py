"""Text -> Playbook: documents with positions, schemas, templates, compilation, overlap."""
