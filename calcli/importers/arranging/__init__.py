"""From what a reader found in one file to arrays: tables in, tables out.

``arrange`` has the steps in their order, a file each.

- Rows that are objects become columns: ``records``, ``printed_objects``,
  ``token_classes``, ``token_confidences``.
- Rows change: ``choices`` (rows with different numbers of options), ``long_tables`` (a
  row for every class), ``ranks`` (the k best classes).
- Columns become arrays: ``one_hot``, ``families`` (its search in ``find_families`` and
  ``summing_columns``, names of classes in ``class_headers`` and ``predicted_names``,
  refusals in ``odd_columns``), ``headerless``, ``padded_options``.
"""
