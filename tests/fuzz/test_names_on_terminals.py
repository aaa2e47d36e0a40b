"""Names of files, groups and classes that would steer a terminal or break XML and JSON."""

import json
import os
import xml.dom.minidom

import h5py
import numpy as np
import pytest
from cli import runner
from synthetic import truth

Z, Y = truth(300, 4)
NASTY = "e\x1b[31m\x9b1m\nx"
NAMES = ["\x1b[31ma", "b\nc", "\x9b2J", "d\x7f"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    with h5py.File(f"{NASTY}.h5", "w") as file:
        group = file.create_group("g\x1b[2J\x9b\n")
        group["logits"], group["labels"], group["class_names"] = Z, Y, np.array(NAMES, dtype=object)
        group["group"] = np.array([NASTY, "b"] * 150, dtype=object)
        group.attrs["source"] = json.dumps({NASTY: {NASTY: [NASTY]}})
    run = runner(monkeypatch, capsys)
    assert run("fit", "-m", "ts", f"{NASTY}.h5", "-o", f"{NASTY}.json", "-q").code == 0
    return run


def harmless(text):
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text.replace("\n", ""))


@pytest.mark.parametrize("words", [
    ["inspect", "BUNDLE"], ["inspect", "BUNDLE", "--json"], ["inspect", "ART"],
    ["evaluate", "BUNDLE", "-c", "ART"], ["evaluate", "BUNDLE", "-c", "ART", "--json"],
    ["evaluate", "BUNDLE", "-c", "ART", "--per-class", "--per-group", "--max", "ece=0"],
    ["evaluate", "BUNDLE", "-c", "ART", "--format", "markdown"], ["evaluate", "BUNDLE", "-c", "ART", "--format", "csv"],
    ["diagram", "BUNDLE", "-c", "ART"], ["diagram", "BUNDLE", "--per-class"], ["diagram", "BUNDLE", "--per-group"],
    ["fit", "-m", "ts", "BUNDLE", "-o", "ART"], ["apply", "ART", "BUNDLE", "-o", "BUNDLE"],
    ["fit", "-m", "ts", "BUNDLE:gone"], ["inspect", "GONE"],
])  # fmt: skip
def test_foreign_names_are_spelt_out(run, words):
    put = {"BUNDLE": f"{NASTY}.h5", "BUNDLE:gone": f"{NASTY}.h5:{NASTY}", "ART": f"{NASTY}.json", "GONE": NASTY}
    done = run(*(put.get(word, word) for word in words))
    assert done.code in (0, 2, 3, 5)
    assert harmless(done.out), ascii(done.out)
    assert harmless(done.err), ascii(done.err)
    if "--json" in words:
        assert NASTY in done.out.encode().decode("unicode_escape")
        json.loads(done.out)


@pytest.mark.parametrize("name", [NASTY, "<&\"'>", "é日本🙂", "\ufffe", "\udcff"])
def test_junit_is_xml_whatever_the_names(run, name):
    os.rename(f"{NASTY}.json", f"{name}.json")
    done = run("evaluate", f"{NASTY}.h5", "-c", f"{name}.json", "-m", "ece", "--max", "ece=0", "--junit", "j.xml")
    assert done.code == 5
    with open("j.xml", "rb") as file:
        (case,) = xml.dom.minidom.parse(file).getElementsByTagName("testcase")
    if name in ("<&\"'>", "é日本🙂"):
        assert case.getAttribute("classname").endswith(f"{name}.json")
