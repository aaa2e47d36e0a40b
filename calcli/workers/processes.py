"""Worker processes on this machine."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from calcli.workers.executor import ATTEMPTS, Executor, Named, given_up

AHEAD = 2
"""Results per worker that may wait for one before them."""


class _Worker:
    """A process, the pipe to it, and the number of the task that it is at."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.task: int | None = None

    def end(self) -> None:
        with suppress(OSError):
            self.pipe.close()
        self.process.terminate()
        self.process.join()


def serve(pipe: "Connection[Any, Any]") -> None:
    """What a worker process does until the other end of its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells all; the first process ends the others
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, task()
        except Exception as problem:
            answer = False, problem
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionError):
            return
        except Exception as problem:  # an error that cannot be pickled
            pipe.send((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]} ({problem})")))


class Processes(Executor):
    """So many processes, each at one task at a time; one that dies is replaced. say : told of such."""

    def __init__(self, count: int, say: Callable[[str], None] = lambda text: None) -> None:
        self.count, self._say = count, say
        self._workers: list[_Worker] = []

    def run(self, tasks: Sequence[Named]) -> Iterator[Any]:
        while len(self._workers) < min(self.count, len(tasks)):
            self._workers.append(_Worker())
        todo, deaths, results = deque(range(len(tasks))), [0] * len(tasks), dict[int, Any]()
        try:
            for head in range(len(tasks)):
                while head not in results:
                    self._give(tasks, todo, head)
                    self._take(tasks, todo, deaths, results)
                self._give(tasks, todo, head)
                yield results.pop(head)
        finally:
            for worker in [w for w in self._workers if w.task is not None]:  # given up: its answer is for nobody
                self._workers.remove(worker)
                worker.end()

    def _give(self, tasks: Sequence[Named], todo: deque[int], head: int) -> None:
        """Hand tasks to idle workers, not too far ahead of the one that is waited for."""
        for worker in self._workers:
            if worker.task is None and todo and todo[0] < head + AHEAD * self.count:
                worker.task = todo.popleft()
                with suppress(OSError):  # dead already: found when its answer is waited for
                    worker.pipe.send(tasks[worker.task])

    def _take(self, tasks: Sequence[Named], todo: deque[int], deaths: list[int], results: dict[int, Any]) -> None:
        """Wait for answers; put back what dead workers were at."""
        busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            task, worker.task = worker.task, None
            assert task is not None
            try:
                fine, answer = worker.pipe.recv()
            except (EOFError, OSError):
                self._replace(worker, tasks[task])
                deaths[task] += 1
                if deaths[task] >= ATTEMPTS:
                    raise given_up(tasks[task]) from None
                todo.appendleft(task)
                continue
            if not fine:
                raise answer
            results[task] = answer

    def _replace(self, worker: _Worker, task: Named) -> None:
        worker.end()
        code = worker.process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._say(f"a worker died ({how}) over {task.name}; another does it again")
        self._workers[self._workers.index(worker)] = _Worker()

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
