"""Numbers of every row that one walk collects for Hoki, and the summary of a fit."""

import numpy as np

from calcli.block import Block
from calcli.fit_summary import Summary
from calcli.kernels.numpy.hoki_retention import gaps_to_top
from calcli.methods._binary.log_odds import top_log_odds
from calcli.numerics import LOG_ZERO, FloatArray, floored_log, log_normalizer
from calcli.rows import ArrayRows, Rows


def terms_of_rows(temperature: float, block: Block) -> FloatArray:
    """Compute numbers of every row, (6, b).

    They serve the fit (beside retention) and the summary of its result. Log-odds of the
    prediction; 1.0 if it is right, else 0.0; log-odds after temperature scaling; gap
    between the two largest logits; and of the softmax over the classes other than the
    prediction: logarithm at the label (-inf if that is the prediction), and sum of
    squares.
    """
    here = np.arange(len(block))
    z = block.z
    label = block.prediction
    rest = np.array(z)
    rest[here, label] = -np.inf
    predicted = z[here, label]
    next_one = rest.max(axis=1)
    gap = predicted - next_one
    if (gap < 0).any():  # a prediction from upstream that is not the largest
        gap = gaps_to_top(z)[0].min(axis=1)
    s_tempered = predicted / temperature - log_normalizer(rest / temperature)
    rest -= next_one[:, None]
    to_label = rest[here, block.labels]
    np.exp(rest, out=rest)
    norm = rest.sum(axis=1)
    s = predicted - (np.log(norm) + next_one)
    log_share = to_label - np.log(norm)
    if block.kind == "probs":
        s = top_log_odds(z, label, block.stored_zeros)
    collision = np.einsum("ij,ij->i", rest, rest) / norm**2
    return np.stack([s, label == block.labels, s_tempered, gap, log_share, collision])


def summary_of(rows: Rows, q: FloatArray, *terms: FloatArray) -> Summary:
    """Summarise the rows if the prediction has probability q (n,).

    The others share the rest. terms : second entry and last two entries of
    ``terms_of_rows``. The ``entropy_gap`` is NaN. Sums in the order of a walk over the
    rows, without one.
    """
    nothing = np.broadcast_to(np.float64(0.0), (rows.n, rows.k))
    return ArrayRows(nothing, rows.labels(), weight=rows.weights()).sum(
        _summary, q, *terms
    )


def _summary(
    block: Block,
    q: FloatArray,
    hit: FloatArray,
    log_share: FloatArray,
    collision: FloatArray,
) -> Summary:
    log_p = np.where(hit > 0, floored_log(q), floored_log(1.0 - q) + log_share)
    brier = q**2 + (1.0 - q) ** 2 * collision - 2.0 * np.exp(log_p) + 1.0
    nll = np.maximum(-log_p, 0.0)
    losses = nll, np.maximum(brier, 0.0), np.full(len(q), np.nan)
    return Summary.of(
        q,
        hit,
        losses,
        block.labels,
        block.scores.shape[1],
        block.weight,
        zeros=int(np.count_nonzero(log_p <= LOG_ZERO)),
    )
