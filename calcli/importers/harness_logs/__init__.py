"""Logs of evaluation harnesses: entries of a log in, tables out, for their readers.

Questions of multiple choice (``questions``) whose right choice one rule tells
(``gold_choices``) become a table (``question_tables``). Answers of servers have the
log-probabilities of their tokens (``token_answers``), classes that they name themselves
(``answer_classes``) or marks (``marked_answers``); answers with nothing but a mark are
``outcomes``. ``helm_runs`` is what the files of a run of HELM have in common.
"""
