"""Worker processes on this machine."""

import os
import select
import signal
import subprocess
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from calcli.errors import WorkersLost
from calcli.io.interpreter import start
from calcli.workers.task import ATTEMPTS, Executor, Named, given_up

AHEAD = 2  # results per worker that may wait for one before them


class _Worker:
    """A process, the pipe to it, and the number of the task that it is at."""

    def __init__(self) -> None:
        self.pipe, other = Pipe()
        code = f"from calcli.workers.processes import serve; serve({other.fileno()})"
        # The terminal tells all of an interruption; the first process ends the others.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with other:
                self.process = start(code, [other.fileno()], stdin=subprocess.DEVNULL)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.task: int | None = None

    def end(self) -> None:
        with suppress(OSError):
            self.pipe.close()
        self.process.terminate()
        self.process.wait()


def serve(descriptor: int) -> None:
    """What a worker process does until the other end of its pipe, of this descriptor, is closed."""
    pipe: Connection[Any, Any] = Connection(descriptor)
    start_new_thread(_end_with_parent, (descriptor,))  # none of ``threading``'s, which may hold locks at a fork
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


def _end_with_parent(descriptor: int) -> None:
    """A process that is killed takes its workers along, in the middle of a task too."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(1)


class Processes(Executor):
    """So many processes, each at one task at a time; one that dies is replaced. say : told of such."""

    def __init__(self, count: int, say: Callable[[str], None] = lambda text: None) -> None:
        self.count, self._say = count, say
        self._workers: list[_Worker] = []

    def run(self, tasks: Sequence[Named], lost: Callable[[WorkersLost], Any] | None = None) -> Iterator[Any]:
        while len(self._workers) < min(self.count, len(tasks)):
            self._workers.append(_Worker())
        todo, deaths, results = deque(range(len(tasks))), [0] * len(tasks), dict[int, Any]()
        try:
            for head in range(len(tasks)):
                while head not in results:
                    self._give(tasks, todo, head)
                    for died in self._take(tasks, results):
                        deaths[died] += 1
                        if deaths[died] < ATTEMPTS:
                            todo.appendleft(died)
                        else:
                            results[died] = given_up(tasks[died], lost)
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

    def _take(self, tasks: Sequence[Named], results: dict[int, Any]) -> Iterator[int]:
        """Wait for answers; the tasks that dead workers were at."""
        busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            task, worker.task = worker.task, None
            assert task is not None
            try:
                fine, answer = worker.pipe.recv()
            except (EOFError, OSError):
                worker.end()
                code = worker.process.returncode
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                self._say(f"a worker died ({how}) over {tasks[task].name}; another does it again")
                self._workers[self._workers.index(worker)] = _Worker()
                yield task
                continue
            if not fine:
                raise answer
            results[task] = answer

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
