"""Free memory, and the refusal of what does not fit into it."""

from contextlib import suppress

from calcli.errors import FitError

STREAM = "use a method that streams (calcli methods lists them) or fewer rows"


def check_memory(needed: int, what: str, instead: str = STREAM) -> None:
    """Refuse an allocation that exceeds the free memory.

    needed : bytes. instead : advice. Raises FitError that names the needed and the
    available amount.
    """
    available = available_memory()
    if available is not None and needed > 0.9 * available:
        free = f"{available / 2**20:.0f} MiB are free"
        raise FitError(
            f"{what} need {needed / 2**20:.0f} MiB of memory, {free}; {instead}"
        )


def available_memory() -> int | None:
    """Bytes of memory available to new allocations, or None where unknown."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None
