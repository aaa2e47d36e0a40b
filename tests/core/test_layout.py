"""The shape of the project: which way imports point, and what starting up may load."""

import ast
import importlib
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import calcli

PACKAGE = Path(calcli.__file__).parent

# From the outside in: the rooms and the modules of the core. A module may import, early or
# late, from its own room and from those that stand below it.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["sklearn", "testing"],
    ["api"],
    ["reporting"],
    ["diagrams", "evaluation", "exporting", "extracting"],
    ["fitting", "fit_questions", "adapt", "fit_words"],
    ["workers"],
    ["importers"],
    ["metrics"],
    ["io"],
    ["methods"],
    ["decisions"],
    ["registry"],
    ["kernels"],
    ["mixture"],
    ["composition"],
    ["mapped_rows"],
    ["calibrator"],
    ["fit_summary"],
    ["rows", "binning", "folds", "isotonic", "solvers", "statistics"],
    ["block"],
    ["logits"],
    ["zeros", "names"],
    ["rounding"],
    ["free_memory", "numerics", "parallel"],
    ["optional_packages"],
    ["output"],
    [
        "errors",
        "items",
        "number_words",
        "packed_files",
        "records",
        "role_words",
        "settings",
    ],
]
# Within metrics/, from the walk over the rows down to what a table of them holds; the plain
# functions of arrays that all of these use stand below, in statistics/.
METRIC_LAYERS = [
    ["long_context", "warnings"],
    ["running_sums"],
    ["collect", "sorted_rows"],
    ["class_columns", "class_sums", "expected_differences"],
    ["catalog"],
    [
        "class_intervals",
        "confidence_bins",
        "coverage",
        "generalisation_bound",
        "joint_test",
    ],
    ["binned_errors", "debiased", "levels", "ranking", "risk"],
    ["losses"],
    ["row_means", "significance", "smooth"],
    ["registry"],
    ["context"],
    ["rowtable"],
    ["label_agreement", "other_programs", "settings", "values"],
]
# Within importers/: its packages, and the modules beside them, from the whole import down to
# the words of names. Readers register themselves at formats, which finds them in their package.
IMPORTER_LAYERS = [
    ["open_any_file"],
    ["import_scores"],
    ["decision_logs", "read_source"],
    ["building"],
    ["advising"],
    ["proposing"],
    ["sources", "unit_files"],
    ["formats", "readers"],
    [
        "harness_logs",
        "label_scores",
        "labelled_arrays",
        "large_text_table",
        "npy_members",
        "zip_members",
    ],
    [
        "arrow_columns",
        "classifications",
        "json_arrays",
        "json_layouts",
        "torch_tensors",
    ],
    ["pickled"],
    ["nested"],
    ["joining"],
    ["arranging"],
    ["evidence"],
    ["source_file"],
    ["import_request", "reading"],
    ["json_columns"],
    ["text_cells", "text_table"],
    ["table"],
    ["names", "ragged", "remarks"],
]
# Rooms in which no two modules import each other, by whatever detour.
ROOMS_WITHOUT_CIRCLES = ["evaluation", "metrics", "statistics"]
NUMERICAL = {
    "block",
    "methods",
    "metrics",
    "kernels",
    "numerics",
    "rounding",
    "zeros",
    "logits",
    "binning",
    "folds",
    "solvers",
    "rows",
    "calibrator",
    "statistics",
}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def imports_of(path):
    """(module, is it at the top level) of every import statement of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set()
    for node in tree.body:
        nodes = [node]
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        top.update(id(n) for n in nodes)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) in top
            if node.module.startswith("calcli"):  # names may be modules
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", id(node) in top


def part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_module_has_its_layer():
    known = {name for layer in LAYERS for name in layer} | {"__init__"}
    assert {part(p) for p in modules()} <= known


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_never_point_outwards(path):
    depth = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    folder = part(path)
    if folder == "__init__":
        return
    for module, _ in imports_of(path):
        if not module.startswith("calcli."):
            continue
        other = module.split(".")[1]
        if other in depth:
            assert depth[other] >= depth[folder], (
                f"{path.name} ({folder}) imports {module}"
            )


def imported_in_room(path, room):
    """Names of the modules of a room, ``room`` itself left out, that a file imports."""
    for module, _ in imports_of(path):
        parts = module.split(".")
        if parts[:2] == ["calcli", room] and len(parts) > 2:
            yield parts[2]


def test_every_metric_module_has_its_layer():
    known = {name for layer in METRIC_LAYERS for name in layer} | {"__init__"}
    assert known == {p.stem for p in modules() if part(p) == "metrics"} | {"__init__"}


@pytest.mark.parametrize(
    "path", [p for p in modules() if part(p) == "metrics"], ids=lambda p: p.stem
)
def test_metrics_import_in_one_direction(path):
    depth = {name: i for i, layer in enumerate(METRIC_LAYERS) for name in layer}
    for other in imported_in_room(path, "metrics"):
        assert depth[other] >= depth[path.stem], f"{path.name} imports {other}"


def part_of_importers(path):
    """Name of a package or module of importers/ in which a file lies."""
    return path.relative_to(PACKAGE / "importers").parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path",
    [p for p in modules() if part(p) == "importers"],
    ids=lambda p: str(p.relative_to(PACKAGE / "importers")),
)
def test_importers_import_in_one_direction(path):
    depth = {name: i for i, layer in enumerate(IMPORTER_LAYERS) for name in layer}
    own = part_of_importers(path)
    if own == "__init__":
        return
    for other in imported_in_room(path, "importers"):
        assert depth[other] >= depth[own], f"{path.name} ({own}) imports {other}"


@pytest.mark.parametrize("package", ["arranging", "building", "evidence", "proposing"])
def test_packages_of_importers_have_no_circle_of_imports(package):
    folder = PACKAGE / "importers" / package
    imported = {}
    for path in folder.glob("[a-z]*.py"):
        inner = set()
        for module, _ in imports_of(path):
            parts = module.split(".")
            if parts[:3] == ["calcli", "importers", package] and len(parts) > 3:
                inner.add(parts[3])
        imported[path.stem] = inner & {p.stem for p in folder.glob("[a-z]*.py")}
    refuse_circle(imported)


@pytest.mark.parametrize("room", ROOMS_WITHOUT_CIRCLES)
def test_rooms_have_no_circle_of_imports(room):
    files = [p for p in modules() if part(p) == room and p.stem != "__init__"]
    refuse_circle({p.stem: set(imported_in_room(p, room)) - {p.stem} for p in files})


def refuse_circle(imported):
    """Fail if modules, by what each imports, import each other by whatever detour."""
    left = dict(imported)
    while left:
        lowest = {name for name, others in left.items() if not others & {*left}}
        assert lowest, f"circle of imports among {sorted(left)}"
        for name in lowest:
            del left[name]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_packages_load_only_where_used(path):
    for module, at_top in imports_of(path):
        heavy = module.split(".")[0] in {
            "torch",
            "scipy",
            "matplotlib",
            "rich",
            "pyarrow",
            "PIL",
            "onnx",
            "onnxruntime",
            "dask",
            "distributed",
        }
        assert not (heavy and at_top), f"{path.name} imports {module} at the top"


@pytest.mark.parametrize(
    "path", [p for p in modules() if part(p) in NUMERICAL], ids=lambda p: p.name
)
def test_numerical_code_sees_no_files_and_no_console(path):
    text = path.read_text(encoding="utf-8")
    for module, _ in imports_of(path):
        assert module.split(".")[0] not in {"h5py", "typer", "rich", "pathlib"}, (
            f"{path.name} imports {module}"
        )
    assert "print(" not in text


REPOSITORY = PACKAGE.parent
SCRIPTS = [
    path
    for folder in ("benchmarks", "docs", "reproductions", "sample_data")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_scripts_import_what_the_package_has(path):
    """Those that make sample data run once in a long while."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.split(".")[0] != "calcli":
            continue
        module = importlib.import_module(node.module)
        for alias in node.names:
            if not hasattr(module, alias.name):
                importlib.import_module(f"{node.module}.{alias.name}")


MOST_PARAMETERS = 8


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_functions_take_few_parameters(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([a for a in arguments if a.arg not in ("self", "cls")])
        # the public functions take everything by its name
        assert count <= MOST_PARAMETERS or part(path) == "api", (
            f"{path.name}: {node.name} has {count} parameters"
        )


MOST_LINES_OF_A_READER = 80
READERS = PACKAGE / "importers" / "readers"


def n_code_lines(text):
    """Number of lines with code: without empty ones, comments and docstrings."""
    strings = {tokenize.STRING, tokenize.NEWLINE}
    numbers = set()
    statement = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.INDENT):
            continue
        if token.type in (tokenize.DEDENT, tokenize.ENDMARKER):
            continue
        statement.append(token)
        if token.type == tokenize.NEWLINE:
            is_docstring = {part.type for part in statement} == strings
            for part in statement if not is_docstring else ():
                numbers.update(range(part.start[0], part.end[0] + 1))
            statement = []
    return len(numbers)


def test_lines_of_code_are_counted_without_comments_and_docstrings():
    text = '"""Title.\n\nMore."""\n\n# why\ndef f(a):\n    """What."""\n    return [\n        a,\n    ]\n'
    assert n_code_lines(text) == 4


@pytest.mark.parametrize("path", sorted(READERS.rglob("*.py")), ids=lambda p: p.name)
def test_a_format_is_a_short_file(path):
    """What several formats share, and what turns tables, stands beneath the readers."""
    count = n_code_lines(path.read_text(encoding="utf-8"))
    assert count <= MOST_LINES_OF_A_READER, f"{path.name} has {count} lines of code"


def loaded_by(*arguments, cwd):
    code = (
        "import sys, json\n"
        "from calcli.cli.main import run\n"
        f"code = run({list(arguments)!r})\n"
        "seen = {m if m.startswith('calcli.') else m.split('.')[0] for m in sys.modules}\n"
        "print(json.dumps([code, sorted(seen)]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stderr.strip().splitlines()[-1])


@pytest.mark.parametrize("method", ["ts", "ec"])
def test_simple_fits_load_no_heavy_package(method, tmp_path):
    import h5py
    import numpy as np
    from synthetic import truth

    z, y = truth(500, 10)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["labels"] = z.astype(np.float32), y
    code, loaded = loaded_by("fit", "--method", method, "a.h5", "-q", cwd=tmp_path)
    assert code == 0
    assert not {
        "torch",
        "scipy",
        "pandas",
        "matplotlib",
        "rich",
        "dask",
        "multiprocessing",
    } & set(loaded)
    assert "calcli.metrics.rowtable" in loaded  # the summary's
    assert not {
        "calcli.metrics.catalog",
        "calcli.metrics.long_context",
        "calcli.evaluation",
    } & set(loaded)


def test_help_loads_neither_numpy_nor_h5py(tmp_path):
    _, loaded = loaded_by("--help", cwd=tmp_path)
    assert not {"numpy", "h5py", "scipy", "torch", "rich", "hashlib"} & set(loaded)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_properties_are_kept_without_a_lock(path):
    """Those of functools hold one for all instances until Python 3.12, which a fork meanwhile leaves locked."""
    text = path.read_text(encoding="utf-8")
    assert path.name == "records.py" or "functools.cached_property" not in text
    assert path.name == "records.py" or not [
        line
        for line in text.splitlines()
        if line.startswith("from functools") and "cached_property" in line
    ]
