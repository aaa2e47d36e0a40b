"""Dirichlet calibration."""

from dataclasses import dataclass

from calcli.calibrator import Laws
from calcli.methods._affine.maps import FullMap, log_probabilities


@dataclass(frozen=True)
class DirichletCalibration(FullMap):
    """Apply a full linear map to the log-probabilities, fitted by maximum likelihood.

    p = softmax(W x + b), x = log(max(softmax(z), 2.2e-16)), with W (k, k), b (k,) that
    minimise the mean NLL plus ridge (|W - I|^2 + |b|^2): what follows when the
    probabilities of each class are Dirichlet distributed. For two classes the same
    family as beta calibration. Convex, solved to its optimum; overfits like ``ms`` when
    rows are few, which ``dir-odir`` is for.

    A class without calibration rows keeps the row of temperature scaling and a bias of
    0; the other rows may then not move together.

    Reference: Kull, Perello-Nieto, Kaengsepp, Silva Filho, Song, Flach (2019), section
    3.
    """

    list_order = 64
    aliases = ("dirichlet",)
    use = "to compare with: overfits unless rows are many"
    title = "Dirichlet calibration"
    laws = Laws(
        shift_invariant=True,
        equivariant=True,
        improves_nll=True,
        weights=True,
        class_shares=True,
    )
    features = staticmethod(log_probabilities)
