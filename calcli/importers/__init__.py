"""Import of saved scores: files of other programs in, bundles out.

Each stage is a package, whose docstring says what comes in and what goes out:

1. ``names`` says what names mean, ``evidence`` what values prove.
2. ``readers`` list the arrays of a file: a ``Table`` of ``Column`` (``table``). A new
   format is one module there, a log of a harness one in ``readers/harnesses``, on
   ``harness_logs``; ``formats`` recognises it. What several formats share stands beside
   the packages (``text_table``, ``json_columns``, ``pickled``, …).
3. ``arranging`` turns each table into arrays, as ``formats`` opens it; ``joining`` puts
   several files or rows together.
4. ``proposing`` says how the arrays are read, each with its reason, or refuses; then
   ``advising`` ends the message with the command that settles it.
5. ``building`` builds, checks and writes what was proposed.

``import_scores`` is the whole of it, of decision models ``decision_logs``;
``open_any_file`` is how commands use both. Imports point one way: the order of the
packages stands in ``IMPORTER_LAYERS`` of ``tests/core/test_layout.py``.
"""
