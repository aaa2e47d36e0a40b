"""Matrix scaling."""

from dataclasses import dataclass

from calcli.calibrator import Laws
from calcli.methods._affine.maps import FullMap


@dataclass(frozen=True)
class MatrixScaling(FullMap):
    """Apply a full linear map to the logits, fitted by maximum likelihood.

    p = softmax(W z + b) with W (k, k), b (k,) that minimise the mean NLL plus ridge (|W
    - I|^2 + |b|^2). Convex; solved to its optimum by Newton steps with conjugate
    gradients, started from temperature scaling. An optimum is not a good calibrator: k
    (k + 1) parameters overfit unless there are many rows per class (the paper reports
    failure from 100 classes on), and the fit says so. ``sms`` and ``dir-odir`` are the
    same map under penalties that work.

    A class without calibration rows keeps the row of temperature scaling and a bias of
    0; the other rows may then not move together. Takes the whole array in memory and 4
    n k^2 operations per gradient.

    Reference: Guo, Pleiss, Sun, Weinberger (2017), section 4.2.
    """

    list_order = 63
    aliases = ("matrix",)
    use = "to compare with: overfits unless rows are many"
    title = "matrix scaling"
    laws = Laws(equivariant=True, improves_nll=True, weights=True, class_shares=True)
