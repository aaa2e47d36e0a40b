"""What apply does with each bundle, in this process or in a worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from calcli.cli.render import Talk
from calcli.cli.shards import ShardOutcome, attempted
from calcli.cli.worker_options import spread
from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import calibrated_blocks, check_fits, checked_transforms
from calcli.importers.open_any_file import open_rows
from calcli.io.artifact import Artifact, dumps
from calcli.io.atomic import check_output
from calcli.io.bundle import OWN_NAMES, BundleRows
from calcli.io.provenance import chain_text, link_to
from calcli.io.score_files import Place, Sheet, Slab, format_of
from calcli.io.validate import doubts, score_kind
from calcli.rows import ScoreKind

if TYPE_CHECKING:
    from calcli.cli.commands.apply import ApplyArgs
    from calcli.workers.executor import Executor

WORDS = {"argmax_conflicts": "the prediction is kept, but another class now has a larger probability"}
"""Counts that their own names do not explain."""


def apply_one(
    args: "ApplyArgs",
    artifact: Artifact,
    bundle: str,
    target: Path,
    talk: Talk,
    least: float | None,
    executor: "Executor | None" = None,
) -> dict[str, object]:
    """Write the calibrated rows of one bundle; what is said of them goes to ``talk``. Returns facts for JSON."""
    name = "<stdin>" if args.artifact == "-" else args.artifact
    inputs = args.read_with(bundle)
    place = Place(None if args.output == "-" else target, args.force, inputs)
    form = format_of(place.path, args.form)
    if place.path is not None:
        check_output(target, force=args.force, inputs=inputs)
    with open_rows(
        bundle, prefer=("test",), layout=args.where, ignore_labels=args.ignored, need_labels=False, tell=talk.say
    ) as rows:
        rows.hashed = False  # nobody asks
        spread(
            rows, [bundle], executor, prefer=("test",), layout=args.where, ignore_labels=args.ignored, need_labels=False
        )
        for note in check_fits(artifact, name, rows, again=args.again):
            talk.warn(note)
        alone = rows.kind == "confidence"
        if alone and args.as_ != "probs":
            raise UsageError(f"--as {args.as_}: {rows.name} holds confidences, which are calibrated as such")
        kind: ScoreKind = "confidence" if alone else score_kind(args.as_)
        transforms = checked_transforms(artifact.calibrator, rows, rows.name)
        counts: dict[str, int] = {}

        def slabs() -> Iterator[Slab]:
            for start, scores, per_row, noted in calibrated_blocks(
                artifact.calibrator, rows, kind, transforms, rows.dtype
            ):
                if least is not None:
                    per_row["accepted"] = (scores if kind == "confidence" else per_row["confidence"]) >= least
                    counts["accepted"] = counts.get("accepted", 0) + int(per_row["accepted"].sum())
                yield start, scores, per_row
                for what, number in noted.items():
                    counts[what] = counts.get(what, 0) + number
                talk.progress("applying", start + len(scores), rows.n)

        form.write(_sheet(rows, artifact, name, kind), slabs(), place)
        talk.clear()
        for doubt in doubts(rows):
            talk.warn(f"{rows.name}: {doubt}")
        if rows.ignored:
            talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
        for what, number in sorted(counts.items()):
            if number:
                talk.say(f"{rows.name}: {number} of {rows.n} rows: {WORDS.get(what, what.replace('_', ' '))}")
        return {"bundle": rows.name, "output": str(target), "n": rows.n, "ignored": rows.ignored, "counts": counts}


def _sheet(rows: BundleRows, artifact: Artifact, name: str, kind: ScoreKind) -> Sheet:
    """What the output holds beside scores; name : of the artifact, as typed."""
    alone = kind == "confidence"
    columns = {c: v for c in ("ids", "weights", "group", "unit") if (v := rows.column(c)) is not None}
    own = {role: rows.own_columns(role) for role in columns}
    for several in [each for each in own.values() if len(each) > 1]:
        columns |= several
    renamed = {role: list(each) for role, each in own.items() if list(each) != [role]}
    return Sheet(
        n=rows.n,
        k=0 if alone else rows.k,
        kind=kind,
        dtype=rows.dtype,
        labels=rows.has_labels and not alone,
        class_names=None if alone else rows.class_names or artifact.class_names,
        columns=columns,
        own=own,
        source={"bundle": rows.name, "calibrator": name, "method": artifact.method, "from": rows.source},
        attributes={
            "calibrator": dumps(artifact),
            "calibrated_by": chain_text([*rows.upstream, link_to(artifact)]),
            **({OWN_NAMES: json.dumps(renamed, sort_keys=True)} if renamed else {}),
            **({} if rows.corrupted_labels is None else {"corrupted_labels": rows.corrupted_labels}),
        },
    )


# ---- shard by shard


@dataclass(frozen=True)
class ApplyShard:
    """One bundle of several, as a task for a worker."""

    args: "ApplyArgs"
    artifact: Artifact
    bundle: str
    target: Path
    least: float | None

    @property
    def name(self) -> str:
        """What people call the work."""
        return self.bundle

    def __call__(self) -> ShardOutcome:
        a, least = self.args, self.least
        return attempted(lambda talk: apply_one(a, self.artifact, self.bundle, self.target, talk, least))

    @property
    def key(self) -> bytes:
        """What determines the output. Raises DataError for a bundle that is gone."""
        from calcli.workers.journal import key_of
        from calcli.workers.task import mark

        a = self.args
        asked = (self.bundle, mark(self.bundle), str(self.target), a.artifact, a.as_, a.form, self.least)
        read = (a.where, a.ignored, a.again)
        return key_of(dumps(self.artifact).encode(), repr((asked, read)).encode())
