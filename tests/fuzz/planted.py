"""Targets with planted bugs, which the fuzzer must find."""

import os
import signal
import time
from pathlib import Path

from fuzz_harness import SECRET_TEXT, Target

from dperm.errors import InvalidInput


class Planted(Target):
    """Fails at one input in eight, and refuses or accepts the others."""

    share, warm_ups = 1, 0

    def make(self, rng):
        return rng.randbytes(8)

    def run(self, value):
        if value and value[0] < 32:
            self.fail()
        if value and value[0] % 2:
            raise InvalidInput("odd.")

    def fail(self):
        pass


class Sound(Planted):
    name = "sound"


class Crashing(Planted):
    name = "crashing"

    def fail(self):
        raise KeyError("a bug")


class Hanging(Planted):
    name, cpu_seconds = "hanging", 0.3

    def fail(self):
        while True:
            pass


class Waiting(Planted):
    name, wall_seconds = "waiting", 0.5

    def fail(self):
        time.sleep(60)


class Telling(Planted):
    name = "telling"

    def fail(self):
        raise InvalidInput(f"the record {SECRET_TEXT} is wrong.")


class Hiding(Planted):
    """No traceback would show the record, and who looks into the error finds it all the same."""

    name = "hiding"

    def fail(self):
        try:
            raise ValueError(SECRET_TEXT)
        except ValueError:
            raise InvalidInput("a clean message.") from None


class Dying(Planted):
    name = "dying"

    def fail(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Eating(Planted):
    """Asks for a quarter of the address space."""

    name = "eating"

    def fail(self):
        Path(os.devnull).write_bytes(bytes(1 << 44))


TARGETS = (Sound, Crashing, Hanging, Waiting, Telling, Hiding, Dying, Eating)
