"""A child process with one tool, which answers one job after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dperm
from dperm_papers.peers.environments import plain_message

RUNNERS = Path(__file__).with_name("runners")
LIMIT_S = 1800.0
ONE_THREAD = {
    **dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "NUMBA_NUM_THREADS",
            "TF_NUM_INTRAOP_THREADS",
            "TF_NUM_INTEROP_THREADS",
        ),
        "1",
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
"""With more threads, small steps of some tools wait for each other on a busy machine."""


class Worker:
    """``python`` runs the module ``run_NAME``; None is the present Python, which alone can import dperm.

    A job that fails, or takes longer than ``limit`` seconds, is answered with ``{"error": message}``.
    """

    def __init__(self, runner: str, python: Path | None = None, limit: float = LIMIT_S) -> None:
        self.runner, self.limit = runner, limit
        self._command = [str(python or sys.executable), str(RUNNERS / "serving.py"), runner]
        self._environment = {**os.environ, **ONE_THREAD}
        self._environment.pop("PYTHONPATH", None)
        if python is None:
            self._environment["PYTHONPATH"] = str(Path(dperm.__file__).parents[1])
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to one job; the process starts with the first and stays for the next."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self._environment,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        alarm = threading.Timer(self.limit, stop)
        alarm.start()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            self.close()
            why = (
                f"stopped after {self.limit:g} s"
                if late.is_set()
                else f"ended with status {process.returncode}"
            )
            return {"error": f"the process {why}"}
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            answer["error"] = plain_message(answer["error"])
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
