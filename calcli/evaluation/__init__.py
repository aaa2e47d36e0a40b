"""What evaluate computes: metrics of every calibrator on every bundle, compared and judged."""
