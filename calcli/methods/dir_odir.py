"""Dirichlet calibration with off-diagonal and intercept regularisation."""

from dataclasses import dataclass

from calcli.calibrator import Laws
from calcli.methods._affine.maps import OdirMap, log_probabilities


@dataclass(frozen=True)
class RegularisedDirichlet(OdirMap):
    """Dirichlet calibration that shrinks the off-diagonal weights and the biases.

    p = softmax(W x + b), x = log(max(softmax(z), 2.2e-16)); mean NLL plus lambda / (k
    (k - 1)) sum of W_ij^2 over i != j plus mu / k sum of b_j^2 (``penalty=sum`` drops
    the two divisors, as the authors' programs do). The diagonal is free but for a ridge
    of 1e-6 that keeps it finite.

    lambda = mu is the best of 1e6, 1e5, ..., 1e-4 by cross-validated NLL (lambda and mu
    can be given). The path runs from strong to weak and is left two points after the
    best: the weakest penalties only overfit worse. Each fold's model is solved to its
    optimum; the result is the mean of their probabilities, as in the paper
    (``fold_weight`` (folds, k, k) and ``fold_bias`` (folds, k); ``weight`` and ``bias``
    are then their means), or with ``final=refit`` one model fitted to all rows. The
    authors' program turns mu = 0 into lambda; here 0 is 0. Folds are random, whatever
    the order of rows and classes.

    A class without calibration rows (in a fold) keeps the row of temperature scaling
    and a bias of 0.

    Reference: Kull, Perello-Nieto, Kaengsepp, Silva Filho, Song, Flach (2019), section
    3.
    """

    list_order = 42
    aliases = ("dirichlet-odir",)
    use = "as ms-odir, on probabilities"
    title = "Dirichlet calibration, off-diagonal and intercept regularisation"
    laws = Laws(shift_invariant=True, equivariant=True, weights=True, class_shares=True)
    features = staticmethod(log_probabilities)
