"""Calibration by group: columns that rows bring along, partial pooling, its guard, its files and its exports."""

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.errors import DataError
from calcli.io.bundle import open_bundle
from calcli.rows import Codes


def write(path, z, y, **columns):
    """A bundle with further columns."""
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = z, y
        for name, values in columns.items():
            file[name] = values
    return path


def sites_of(block):
    """The sites of a block's rows, and their first scores."""
    names, code = block.columns["site"]
    return [(names[c], float(s)) for c, s in zip(code, block.scores[:, 0], strict=True)]


def test_columns_come_with_every_block_and_every_part_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 8 * 4 * 100)
    z, y = truth(3000, 4, seed=1)
    site = np.array(["east", "north", "west"])[np.random.default_rng(0).integers(0, 3, 3000)].astype("S")
    path = write(tmp_path / "a.h5", z, y, site=site, year=np.arange(3000) % 4 + 2020)
    expected = [(name.decode(), float(s)) for name, s in zip(site, z[:, 0], strict=True)]
    with open_bundle(str(path)) as rows:
        assert next(iter(rows.blocks())).columns == {}  # nobody asked
        assert rows.carry("year").names == ("2020", "2021", "2022", "2023")
        rows.carry("site")
        assert [pair for found in rows.each(sites_of) for pair in found] == expected
        index = np.flatnonzero(np.random.default_rng(1).random(3000) < 0.3)
        some = [pair for found in rows.take(index).each(sites_of) for pair in found]
        assert some == [expected[i] for i in index]
        with pytest.raises(DataError, match="has no dataset 'town' with one value per row"):
            rows.carry("town")


def test_numbers_are_named_by_their_digits():
    assert Codes.of(np.array([10, 9, 10])).names == ("9", "10")
