"""Monitor all questions of a log of decisions: one state file, one level for them all.

Every question has evidence E of its own (``watch.py``) and a share of the weight. The
evidence of the log is the sum of shares times E, plus a reserve for questions that come
later: they get half of it, and begin at E = 1. The sum is an e-process whatever the
dependence between questions, so that a false alarm has at most probability ``level``,
for the log as for the first question that is named: a question's own alarm needs
E = 1 / (its share x level), which the log's evidence then exceeds, too.

Reference: Vovk, Wang (2021), Annals of Statistics 49(3) (means of e-values).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from calcli import __version__
from calcli.decisions.answers import YES_NO
from calcli.errors import DataError, UsageError
from calcli.evaluation.watch import (
    CountedBefore,
    LabelledBatch,
    check_no_difference,
    next_state,
)
from calcli.evaluation.watch_state import (
    FORMAT,
    Episode,
    Settings,
    State,
    WatchFacts,
    check_whole,
    evidence_of,
    locked_state,
    read_state,
    save_state,
)
from calcli.number_words import noun
from calcli.output import Count, Output

MOST_NAMED = 3
"""Questions that a sentence names."""


class LogBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch of a log. log_e : evidence of all questions after it."""

    name: str
    episode: int
    n: int
    log_e: float


class LogSettingsOutput(Output, kw_only=True):
    """The settings of a log in the JSON."""

    tolerance: float
    level: float


class LogWatchOutput(Output, kw_only=True):
    """The JSON of ``calcli watch`` of a log of decisions."""

    calcli_watch: Literal[1]
    alarm: bool
    e: Annotated[
        float,
        msgspec.Meta(
            description="Evidence of all questions: the sum of their shares times"
            " their evidence, and a reserve for later ones."
        ),
    ]
    log_e: float
    alarm_at_e: float
    batches: Count
    rows: Count
    overconfidence: Annotated[
        float | None,
        msgspec.Meta(
            description="Of the newest batch of the leading question, as since."
        ),
    ]
    since: int | None
    leading: Annotated[
        str, msgspec.Meta(description="The question with the most evidence.")
    ]
    alarm_batch: int | None
    episode: Annotated[int, msgspec.Meta(ge=1)]
    settings: LogSettingsOutput
    questions: Annotated[
        dict[str, WatchFacts],
        msgspec.Meta(
            description="By name; the level of each is its share of the whole."
        ),
    ]


class LogState(msgspec.Struct, forbid_unknown_fields=True):
    """Content of the state file.

    level : probability of a false alarm, ever, of any question within an episode.
    tolerance : as in ``Settings``. reserve : share for questions that are to come.
    questions : by name; the level of each is its share of the whole.
    """

    calcli_watch: int
    calcli_version: str
    level: float
    tolerance: float
    episode: int
    reserve: float
    batches: list[LogBatch]
    questions: dict[str, State]
    sha256: str = ""

    @property
    def current(self) -> Episode:
        """The current episode."""
        return Episode(
            self.episode,
            [batch for batch in self.batches if batch.episode == self.episode],
            self.level,
            self.tolerance,
        )

    def share(self, question: str) -> float:
        """Share of the weight that a question has."""
        return self.questions[question].settings.level / self.level

    def weighted(self, question: str) -> float:
        """Logarithm of share times evidence of a question."""
        log_e = self.questions[question].evidence.log_e
        return math.log(self.share(question)) + log_e

    @property
    def log_e(self) -> float:
        """Log of the evidence of all questions; 0 before any batch."""
        parts = [self.weighted(name) for name in self.questions]
        if self.reserve > 0.0:
            parts.append(math.log(self.reserve))
        largest = max(parts)
        return largest + math.log(sum(math.exp(part - largest) for part in parts))

    @property
    def by_evidence(self) -> list[str]:
        """Questions, those with the most weighted evidence first."""
        return sorted(self.questions, key=self.weighted, reverse=True)

    def output(self) -> LogWatchOutput:
        """The JSON of ``calcli watch``."""
        episode = self.current
        leading = self.by_evidence[0]
        questions = {name: state.facts for name, state in self.questions.items()}
        return LogWatchOutput(
            calcli_watch=1,
            alarm=episode.alarm_at is not None,
            e=evidence_of(self.log_e),
            log_e=self.log_e,
            alarm_at_e=episode.alarm_at_e,
            batches=len(episode.batches),
            rows=episode.rows,
            overconfidence=questions[leading].overconfidence,
            since=questions[leading].since,
            leading=leading,
            alarm_batch=episode.alarm_at,
            episode=self.episode,
            settings=LogSettingsOutput(tolerance=self.tolerance, level=self.level),
            questions=questions,
        )

    def sentence(self) -> str:
        """One line for people."""
        episode = self.current
        if not episode.batches:
            return f"episode {self.episode}: no batch yet"
        n = len(self.questions)
        numbers = f"{n} {noun(n, 'question')}, {episode.numbers(self.log_e)}"
        leading = f"most in {self.by_evidence[0]}"
        if episode.alarm_at is None:
            return f"no alarm: {numbers}; {leading}"
        listing = self._alarmed_words() or leading
        return episode.alarm_sentence(f": {listing} ({numbers})")

    def _alarmed_words(self) -> str:
        """The questions that have an alarm of their own, the first by name."""
        alarmed = []
        for name in self.by_evidence:
            if self.questions[name].current.alarm_at is not None:
                alarmed.append(name)
        words = ", ".join(alarmed[:MOST_NAMED])
        if len(alarmed) > MOST_NAMED:
            words += f" and {len(alarmed) - MOST_NAMED} more"
        return words


def loads(data: bytes, where: str) -> LogState:
    """Parse a state file. Raises DataError if it is not exactly as written."""
    try:
        state = msgspec.json.decode(data, type=LogState)
    except msgspec.DecodeError as problem:
        raise DataError(
            f"{where}: is no state of calcli watch of a log of decisions ({problem});"
            " name another --state"
        ) from None
    check_whole(state, state.questions.values(), where)
    return state


@dataclass(frozen=True)
class QuestionBatch:
    """The rows of one question in a batch.

    type : of the question, None if not known.
    """

    question: str
    type: str | None
    labelled: LabelledBatch


def watch_log(
    path: Path,
    name: str,
    batches: Iterable[QuestionBatch] | None,
    chosen: Mapping[str, Any],
    *,
    new_episode: bool,
    tell: Callable[[str], None],
) -> LogState:
    """Take a batch of a log into a state file, or only read it where there is none.

    name : of the log. batches : of its questions, opened one after the other. chosen :
    ``tolerance``, ``level`` and ``label`` as far as given. Raises as ``watch``.
    """
    if batches is None and not new_episode:
        state = read_state(str(path), loads)
        _check_same(path, state, chosen)
        return state
    with locked_state(path, loads) as former:
        state = _begun(path, former, chosen, new_episode)
        if batches is not None:
            state = _with_batch(path, state, name, batches, chosen, tell)
        save_state(path, state, is_new=former is None)
        return state


def _begun(
    path: Path, former: LogState | None, chosen: Mapping[str, Any], new_episode: bool
) -> LogState:
    """State before the batch: a first one, that of a new episode, or the former."""
    usual = Settings()
    if former is None:
        return LogState(
            calcli_watch=FORMAT,
            calcli_version=__version__,
            level=chosen.get("level", usual.level),
            tolerance=chosen.get("tolerance", usual.tolerance),
            episode=1,
            reserve=1.0,
            batches=[],
            questions={},
        )
    if not new_episode:
        _check_same(path, former, chosen)
        return former
    level = chosen.get("level", former.level)
    tolerance = chosen.get("tolerance", former.tolerance)
    share = 1.0 / (len(former.questions) + 1.0)
    settings = {"level": share * level, "tolerance": tolerance}
    questions = {}
    for name, state in former.questions.items():
        questions[name] = next_state(path, state, None, settings, new_episode=True)
    return replace(
        former,
        calcli_version=__version__,
        level=level,
        tolerance=tolerance,
        episode=former.episode + 1 if former.current.batches else former.episode,
        reserve=share,
        questions=questions,
    )


def _check_same(path: Path, former: LogState, chosen: Mapping[str, Any]) -> None:
    """Refuse other settings than those before. Raises DataError."""
    before = {"level": former.level, "tolerance": former.tolerance}
    names = [name for name in before if chosen.get(name, before[name]) != before[name]]
    check_no_difference(path, names)


def _with_batch(
    path: Path,
    state: LogState,
    name: str,
    batches: Iterable[QuestionBatch],
    chosen: Mapping[str, Any],
    tell: Callable[[str], None],
) -> LogState:
    """State after a batch. Raises CountedBefore where no question has new rows."""
    questions = dict(state.questions)
    fresh: dict[str, State] = {}
    counted: list[CountedBefore] = []
    n = 0
    for batch in batches:
        former = questions.get(batch.question)
        settings = _settings_of(state, former, batch, chosen)
        begins = former is not None and not former.current.batches
        try:
            after = next_state(
                path, former, batch.labelled, settings, new_episode=begins
            )
        except CountedBefore as reason:
            counted.append(reason)
            continue
        n += after.batches[-1].n
        if former is None:
            fresh[batch.question] = after
        else:
            questions[batch.question] = after
    if n == 0:
        if counted:
            raise counted[0]
        raise UsageError(f"{name}: holds no question")
    for problem in counted:
        tell(f"{problem}: left out")
    shares = _shares_of_new(state, len(fresh))
    for question, after in fresh.items():
        level = shares.of_each * state.level
        settings_after = replace(after.settings, level=level)
        questions[question] = replace(after, settings=settings_after)
    state = replace(
        state,
        calcli_version=__version__,
        reserve=shares.reserve,
        questions=questions,
    )
    record = LogBatch(name, state.episode, n, state.log_e)
    return replace(state, batches=[*state.batches, record])


def _settings_of(
    state: LogState,
    former: State | None,
    batch: QuestionBatch,
    chosen: Mapping[str, Any],
) -> dict[str, Any]:
    """Settings of a question: those of the log, its own level, and what is watched.

    Of yes/no that is P(yes), as long as nothing else was asked for. Rows of a state
    that repeats are one unit; where none repeats in a batch, every row is one.
    """
    settings: dict[str, Any] = {"tolerance": state.tolerance, "units": True}
    if former is not None:
        settings["level"] = former.settings.level
    if "label" in chosen:
        settings["label"] = chosen["label"]
    elif former is None and batch.type == YES_NO:
        settings["label"] = "positive"
    return settings


@dataclass(frozen=True)
class _Shares:
    """Share of each new question, and what is left of the reserve."""

    of_each: float
    reserve: float


def _shares_of_new(state: LogState, number: int) -> _Shares:
    """Shares of new questions: equal at first, later half of the reserve."""
    if not number:
        return _Shares(0.0, state.reserve)
    if not state.questions:
        share = 1.0 / (number + 1.0)
        return _Shares(share, share)
    half = state.reserve / 2.0
    return _Shares(half / number, half)
