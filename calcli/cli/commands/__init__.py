"""The commands: each module here is the command of the same name.

Its docstring is the help; the first line is the summary in ``calcli --help``, in the
order of ``COMMANDS`` of ``calcli.cli.app``. A frozen dataclass declares the options, and
``run(args)`` does the work and returns the exit code; an ``EPILOG``, where there is one,
ends the help. A module is imported only when its command runs, so it imports what it
needs at the top.
"""
