"""Bundles made of other files."""

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from calcli.api.argument_words import says_arguments
from calcli.api.arguments import checked, path_of


@says_arguments
def extract(
    sources: str | PathLike[str] | Sequence[str | PathLike[str]],
    path: str | PathLike[str],
    *,
    split: str | Sequence[str] = (),
    stratify: bool = True,
    ordered: bool = False,
    seed: int = 0,
    ignore_labels: Sequence[int] = (),
    force: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Import files of saved scores into a bundle.

    sources : one file or several, of any format of ``calcli extract``. path : the HDF5
    file to write. split : ``cal=0.5``, ``test=rest``, …: named parts of the rows,
    stratified by label unless ``stratify`` is False, drawn by ``seed``, or in order if
    ``ordered``. ignore_labels : rows with these are left out. options : fields of
    ``ImportRequest``, those of the command with underscores
    (``scores=("val_logits",)``, ``kind``, ``confidence``, ``unit``, …). Returns what
    ``calcli extract --json`` prints: ``bundles`` with their sizes, and ``notes``.

    Raises UsageError for options that do not exist and where a file exists, unless
    ``force``; DataError for sources that cannot be read; then nothing is written.

    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "a.npz", logits=3 * np.eye(3)[[0, 1, 2, 0]], labels=[0, 1, 2, 1])
    >>> made = extract(folder / "a.npz", folder / "a.h5", split=["cal=0.5", "test=rest"], stratify=False)
    >>> [(bundle["name"], bundle["n"]) for bundle in made["bundles"]]
    [('cal', 2), ('test', 2)]
    """
    from calcli.importers.building.dealing import Splitting
    from calcli.importers.import_request import ImportRequest
    from calcli.importers.import_scores import import_scores
    from calcli.io.split import parse_split

    output = path_of(path, "path")
    if isinstance(sources, str | PathLike) or not isinstance(sources, Iterable):
        sources = [sources]
    files = [path_of(file, "sources") for file in sources]
    texts = (split,) if isinstance(split, str) else tuple(split)
    splits = tuple(map(parse_split, texts))
    splitting = Splitting(splits, seed, stratify, ordered, texts)
    for name in ("scores", "labels", "groups"):
        if isinstance(options.get(name), str):
            options[name] = (options[name],)
    request = checked(ImportRequest, {**options, "seed": seed})
    imported = import_scores(
        files,
        output,
        request,
        splitting,
        ignore_labels=tuple(ignore_labels),
        force=force,
    )
    return imported.to_dict(str(path))
