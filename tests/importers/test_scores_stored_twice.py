"""A file that holds logits and their probabilities is read by its logits."""

import h5py
import numpy as np
import pytest

RNG = np.random.default_rng(17)
N = 120
Z = RNG.normal(size=(N, 3)) * 2
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
C = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)

STORED_TWICE = {
    "both": {"logits": Z, "probs": P},
    "probabilities first": {"probs": P, "logits": Z},
    "half precision": {"logits": Z, "probs": P.astype(np.float16)},
    "three": {"log_probs": np.log(P), "probs": P, "logits": Z + 5},
    "no column has the largest": {"logits": Z, "probs": P, "conf": P.max(axis=1)},
}


@pytest.mark.parametrize("name", STORED_TWICE)
def test_logits_are_read_beside_their_probabilities(name, run, tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, **STORED_TWICE[name], labels=C)
    done = run("extract", str(path), "-o", str(tmp_path / "a.h5"))
    assert done.code == 0, done.err
    assert "'probs' holds the same scores as 'logits', which is read" in done.err
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["logits"], STORED_TWICE[name]["logits"])


def test_log_odds_are_read_beside_the_probabilities_of_class_1(run, tmp_path):
    path = tmp_path / "scores.csv"
    labels = (C > 0).astype(int)
    lines = ["logit,prob,label"]
    for logit, label in zip(Z[:, 0].round(6), labels, strict=True):
        lines.append(f"{logit},{1 / (1 + np.exp(-logit)):.5f},{label}")
    path.write_text("\n".join(lines) + "\n")
    done = run("extract", str(path), "-o", str(tmp_path / "a.h5"))
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "a.h5") as file:
        margins = np.diff(file["logits"][:].reshape(N, -1), prepend=0)[:, -1]
        assert np.allclose(margins, Z[:, 0].round(6))


@pytest.mark.parametrize("temperature", [1.01, 0.5])
def test_calibrated_probabilities_beside_logits_are_a_choice(
    temperature, run, tmp_path
):
    scaled = np.exp(Z / temperature)
    probs = scaled / scaled.sum(axis=1, keepdims=True)
    path = tmp_path / "scores.npz"
    np.savez(path, logits=Z, probs=probs, labels=C)
    done = run("extract", str(path), "-o", str(tmp_path / "a.h5"))
    assert done.code == 2
    assert "logits, probs; choose one with --scores NAME" in done.line


def test_one_row_of_others_is_enough_for_a_choice(run, tmp_path):
    probs = P.copy()
    probs[N // 2] = probs[N // 2, ::-1]
    path = tmp_path / "scores.npz"
    np.savez(path, logits=Z, probs=probs, labels=C)
    done = run("extract", str(path), "-o", str(tmp_path / "a.h5"))
    assert done.code == 2
