"""Shared by the methods that calibrate one probability at a time."""
