"""From rows to a calibrator with the record of its fit, and back to calibrated rows."""
