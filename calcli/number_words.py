"""Numbers in sentences: shares, differences of shares, counts."""


def percent(share: float, decimals: int = 1) -> str:
    """A share as a percentage, ``71.5%``."""
    return f"{100.0 * share:z.{decimals}f}%"


def points(gap: float, decimals: int = 1) -> str:
    """A difference of shares in percentage points with its sign, ``+14.1``."""
    return f"{100.0 * gap:+z.{decimals}f}".replace("+0." + "0" * decimals, "0.0")


def count(n: int) -> str:
    """A number of things with thousands separated, ``5,000``."""
    return f"{n:,}"


def noun(n: int, singular: str) -> str:
    """The noun after a number: ``row`` after 1, else ``rows``; ``classes``."""
    if n == 1:
        return singular
    ending = "es" if singular.endswith(("s", "ch", "x")) else "s"
    return f"{singular}{ending}"


def samples(n: int) -> str:
    """A number of samples, ``1 sample``, ``5,000 samples``."""
    return f"{count(n)} {noun(n, 'sample')}"
