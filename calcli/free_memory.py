"""What fits into the memory that is free."""

from calcli.errors import FitError


def check_memory(needed: int, what: str) -> None:
    """Refuse in advance what would not fit into the memory that is free.

    needed : bytes. Raises FitError that names the needed and the available amount.
    """
    available = available_memory()
    if available is not None and needed > 0.9 * available:
        raise FitError(
            f"{what} need {needed / 2**20:.0f} MiB of memory, {available / 2**20:.0f} MiB are free;"
            " use a method that streams (calcli methods lists them) or fewer rows"
        )


def available_memory() -> int | None:
    """Bytes of memory that a new allocation can have, or None where nobody says."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
