"""Parts of ``auto``: candidates, their trial on held-out rows, weights, and what
follows the average.
"""
