"""Model inference on inputs, and storage of the scores."""
