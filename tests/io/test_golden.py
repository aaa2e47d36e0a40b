"""Artifacts of released versions: they load, and apply to the same rows with the same result."""

import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import predict

from calcli.io.artifact import load
from calcli.io.bundle import open_bundle

# One artifact per method written by calcli 0.1.0, beside the log-probabilities and predictions
# that calcli 0.1.0 gave for the first 40 rows of the bundle named before the first dot.
GOLDEN = REPOSITORY / "tests" / "golden" / "v01"
ARTIFACTS = sorted(GOLDEN.glob("*.json"))


def test_the_golden_artifacts_are_here():
    assert len(ARTIFACTS) == 43


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.stem)
def test_an_artifact_of_0_1_applies_as_it_did(path):
    expected = np.load(path.with_suffix(".npz"))
    artifact = load(str(path))
    with open_bundle(str(GOLDEN / f"{path.name.split('.')[0]}.h5")) as rows:
        log_probs, label = predict(artifact.calibrator, rows.take(np.arange(40)))
    # Another machine's exp and log may differ in the last bit.
    np.testing.assert_allclose(log_probs, expected["log_probs"], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(label, expected["label"])
