"""Pictures of calibration: the numbers of every style, and what draws or writes them."""
