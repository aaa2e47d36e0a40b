"""What the methods that calibrate one probability at a time share."""
