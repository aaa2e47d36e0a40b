"""Matrix scaling with off-diagonal and intercept regularisation."""

from dataclasses import dataclass

from calcli.calibrator import Laws
from calcli.methods._affine.maps import OdirMap


@dataclass(frozen=True)
class RegularisedMatrixScaling(OdirMap):
    """Matrix scaling that shrinks the off-diagonal weights and the biases.

    p = softmax(W z + b); mean NLL plus lambda / (k (k - 1)) sum of W_ij^2 over i != j
    plus mu / k sum of b_j^2 (``penalty=sum`` drops the two divisors). Everything else,
    cross-validation, ensemble and options, is as in ``dir-odir``; only the features
    differ: the logits themselves, so that a constant added to a row of them matters.

    Reference: Kull, Perello-Nieto, Kaengsepp, Silva Filho, Song, Flach (2019), section
    3.
    """

    list_order = 41
    aliases = ("matrix-odir", "ms-with-odir")
    use = "when classes are confused with each other and rows are plenty"
    title = "matrix scaling, off-diagonal and intercept regularisation"
    laws = Laws(equivariant=True, weights=True, class_shares=True)
