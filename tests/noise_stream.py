"""Bytes that stand in for those of the operating system, so that no test fails by chance.

Only the bytes are replaced: the source keeps its name, calls itself secure, and the exact samplers run as they do for
users. Each test, each shared fixture and each module has a stream of its own, made from its name, so neither the order
of the tests nor the number of processes changes what it draws.
"""

import functools
import os
import random
import re
import subprocess
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import dperm.privacy.entropy as entropy
import dperm.privacy.noise as sampler
import opendp_noise

MARK_IT = "Mark the test with system_noise(failing=...), which says how often it fails by chance."
LEAST_CERTAIN = 1e-9
STARTS_DPERM = re.compile(r"-m dperm\b|\b(import|from) dperm\b")


class NoiseStream:
    """The stream in use: that of a test, that of a shared fixture, the real one, or none at all."""

    def __init__(self):
        self.real, self._bytes, self._owner = True, None, None

    @contextmanager
    def of(self, name):
        """Bytes made from this name."""
        with self._using(False, random.Random(name)):
            yield

    @contextmanager
    def of_the_system(self):
        with self._using(True, None):
            yield

    @contextmanager
    def _using(self, real, stream):
        before = self.real, self._bytes, self._owner
        self.real, self._bytes, self._owner = real, stream, (os.getpid(), threading.get_ident())
        try:
            yield
        finally:
            self.real, self._bytes, self._owner = before

    def seeded(self):
        """The generator in use. Refuses threads and forks, which would draw in no order, or the same twice."""
        if self._bytes is None:
            raise AssertionError(
                "Noise is drawn outside of every test and fixture, in no order that tests agree on."
            )
        if self._owner != (os.getpid(), threading.get_ident()):
            raise AssertionError(f"Another thread or process draws noise. {MARK_IT}")
        return self._bytes

    def urandom(self, size):
        return os.urandom(size) if self.real else self.seeded().randbytes(size)

    def whole_numbers(self):
        return random.SystemRandom() if self.real else self.seeded()


STREAM = NoiseStream()


def kept(make):
    """``functools.cache`` for models of tests: what is kept does not depend on which test asks first."""

    @functools.cache
    @functools.wraps(make)
    def made(*args):
        named = [getattr(arg, "__qualname__", arg) for arg in args]
        with STREAM.of(f"{make.__module__}.{make.__qualname__}{named}"):
            return make(*args)

    return made


def install():
    """From here on nothing is random but what tests with the marker draw."""
    STREAM.real = False
    entropy.os = SimpleNamespace(urandom=STREAM.urandom)
    entropy.SystemRandom = STREAM.whole_numbers
    processors = sampler.available_processors
    sampler.available_processors = lambda: processors() if STREAM.real else 1
    for name in ("opendp_gaussian", "opendp_chooser"):
        setattr(opendp_noise, name, _of_the_system(getattr(opendp_noise, name), "OpenDP draws noise."))
    subprocess.Popen.__init__ = _alone(subprocess.Popen.__init__)


def _of_the_system(draw, what):
    @functools.wraps(draw)
    def checked(*args, **more):
        if not STREAM.real:
            raise AssertionError(f"{what} {MARK_IT}")
        return draw(*args, **more)

    return checked


def _alone(start):
    @functools.wraps(start)
    def checked(self, args, *more, **how):
        words = args if isinstance(args, str) else " ".join(map(str, args))
        if not STREAM.real and STREAM._bytes is not None and STARTS_DPERM.search(words):
            self.returncode = self.pid = None
            raise AssertionError(f"A process of its own draws noise of the system, if any. {MARK_IT}")
        start(self, args, *more, **how)

    return checked
