"""The commands, a module each: a file here is a command of its name.

Its docstring is the help, the first line the one in ``calcli --help``, where ORDER is its place. A frozen dataclass
declares what may be typed, and ``run(args)`` does the work with it and returns the exit code; ``EPILOG``, when there is
one, ends the help. A module is imported only when its command runs (see ``calcli.cli.app``), so it imports what it
needs at the top.
"""
