"""Parts of ``auto``: candidates, trials, weights, and what follows the average."""
