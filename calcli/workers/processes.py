"""Executor on worker processes of this machine."""

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
from calcli.workers.executor import ATTEMPTS, Executor, Task, given_up

AHEAD = 2  # results per worker that may wait for an earlier one


class _Worker:
    """Worker process, the pipe to it, and the index of its current task."""

    def __init__(self) -> None:
        self.pipe, other = Pipe()
        code = f"from calcli.workers.processes import serve; serve({other.fileno()})"
        # The terminal sends SIGINT to all processes; the main one ends the others.
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
    """Main loop of a worker process, until the other end of its pipe (``descriptor``)
    is closed.
    """
    pipe: Connection[Any, Any] = Connection(descriptor)
    # not ``threading``, which may hold locks at a fork
    start_new_thread(_end_with_parent, (descriptor,))
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
            pipe.send(
                (
                    False,
                    RuntimeError(
                        f"{type(answer[1]).__name__}: {answer[1]} ({problem})"
                    ),
                )
            )


def _end_with_parent(descriptor: int) -> None:
    """Exit when the parent dies, even in the middle of a task."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)
    hung_up.poll()
    os._exit(1)


class Processes(Executor):
    """Executor on ``count`` processes with one task each; one that dies is replaced.

    say : called then.
    """

    def __init__(
        self, count: int, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.count = count
        self._say = say
        self._workers: list[_Worker] = []

    def run(
        self, tasks: Sequence[Task], lost: Callable[[WorkersLost], Any] | None = None
    ) -> Iterator[Any]:
        while len(self._workers) < min(self.count, len(tasks)):
            self._workers.append(_Worker())
        todo = deque(range(len(tasks)))
        deaths = [0] * len(tasks)
        results = dict[int, Any]()
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
            # abandoned: its result is not needed
            for worker in [w for w in self._workers if w.task is not None]:
                self._workers.remove(worker)
                worker.end()

    def _give(self, tasks: Sequence[Task], todo: deque[int], head: int) -> None:
        """Send tasks to idle workers, at most ``AHEAD`` per worker beyond task
        ``head``.
        """
        for worker in self._workers:
            if worker.task is None and todo and todo[0] < head + AHEAD * self.count:
                worker.task = todo.popleft()
                # a dead worker is detected when its answer is awaited
                with suppress(OSError):
                    worker.pipe.send(tasks[worker.task])

    def _take(self, tasks: Sequence[Task], results: dict[int, Any]) -> Iterator[int]:
        """Wait for results; yields the tasks of workers that died."""
        busy = {
            worker.pipe: worker for worker in self._workers if worker.task is not None
        }
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            task = worker.task
            worker.task = None
            assert task is not None
            try:
                fine, answer = worker.pipe.recv()
            except (EOFError, OSError):
                worker.end()
                code = worker.process.returncode
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                self._say(
                    f"a worker died ({how}) over {tasks[task].name}; another does it"
                    " again"
                )
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
