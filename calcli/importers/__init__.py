"""Import of saved scores: files of other programs in, bundles out.

A file goes through five stages, each of which knows nothing of the next:

1. ``readers`` list the arrays of a file: a ``Table`` of ``Column`` (``table``). A new
   format is one module there; ``formats`` recognises it.
2. ``arrange`` turns tables into arrays: rows that are objects become columns
   (``records``), columns that belong together one array (``families``), ranks and
   questions with different numbers of choices arrays of their own (``ranks``,
   ``choices``). ``join``, ``gold`` and ``votes`` put several files or rows together. A
   log of decisions is such rows: ``records`` makes its columns, ``choices`` parts rows
   with different numbers of options, ``names`` knows the roles of its columns.
3. ``names`` says what names mean, ``evidence`` what all values prove.
4. ``proposal`` says how the arrays are read, each with its reason, or refuses; then
   ``advice`` ends the message with the command that settles it.
5. ``bundles`` and ``confidences`` build and check what was proposed; ``writing``
   writes it.

``import_scores`` is the whole of it; ``open_any_file`` is how commands use it.
"""
