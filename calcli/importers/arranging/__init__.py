"""From what a reader found in one file to arrays: tables in, tables out.

``arrange`` has the steps in their order, a file each.

- Rows that are objects become columns: ``records`` (with ``distributions`` in one form,
  ``class_order``, and of tokens ``token_distributions``, ``token_classes``,
  ``token_confidences``), ``printed_objects``.
- Rows change: ``choices`` (rows with different numbers of options), ``long_tables`` (a
  row for every class), ``ranks`` (the k best classes).
- Columns, looked at by ``column_values``, become arrays: ``one_hot`` a column of labels,
  ``families`` (of ``plain_columns``; their search in ``find_families``,
  ``label_families`` and ``summing_columns``, names of classes in ``class_headers``,
  ``class_words`` and ``predicted_names``, refusals in ``odd_columns``) arrays of scores,
  also of ``headerless`` tables. ``padded_options`` says which columns are options.
"""
