"""What each command does with a log of decisions: one bundle for each question."""
