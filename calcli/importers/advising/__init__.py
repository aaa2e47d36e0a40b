"""The command that settles a refusal: an error in, the same with a command out.

``suggestions`` guesses at what is likely, by what columns look like (``column_looks``,
``suggested_scores``, ``suggested_labels``); ``advice`` spells it as a command, which
``advised_commands`` reads back so that it can be tried. Nothing of it is read unasked.
"""
