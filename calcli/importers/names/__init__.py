"""What names of arrays and columns mean, and what several names have in common.

Texts in, meanings out; nothing here looks at values. ``roles`` is the table of words;
``array_names`` parses paths into folder, split, model and role; ``column_options``
expands ``A,B,C`` and ``A:C``; ``common_text``, ``spellings`` and ``opposites`` compare
names of columns with the words of labels.
"""
