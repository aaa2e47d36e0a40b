"""One page that people read: what was evaluated, in sentences, figures and tables."""
