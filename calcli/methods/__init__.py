"""One file per calibration method, named as on the command line."""
