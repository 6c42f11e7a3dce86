"""Compiled kernels that fresh clones on one machine share.

numba keeps what it compiles beside the sources and knows it again by their contents, wherever they lie. A clone with
nothing compiled starts with what the tests of another clone with the same kernels left in the user's cache.
"""

import hashlib
import os
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "dperm"
KEPT_SNAPSHOTS = 4


class KernelStore:
    """A snapshot of compiled kernels for each set of sources that they are compiled from."""

    def __init__(self, package=PACKAGE, folder=None):
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.package = package
        self.folder = Path(cache) / "dperm-tests" if folder is None else folder
        self.snapshot = self.folder / self.key()

    def key(self):
        """Of every source that has to do with kernels: numba looks at the file of a kernel, not at what it calls."""
        found = hashlib.sha256(
            f"{platform.machine()} {platform.python_version()} {version('numba')}".encode()
        )
        for path in sorted(self.package.rglob("*.py")):
            text = path.read_bytes()
            if b"compiled" in text or b"kernel" in text.lower():
                found.update(f"{path.relative_to(self.package)} {len(text)}\n".encode() + text)
        return found.hexdigest()[:32]

    def compiled(self, root):
        return [path for path in root.rglob("*.nb[ci]") if path.parent.name == "__pycache__"]

    def restore(self):
        """Give a clone without kernels those of the snapshot. Returns whether the clone had none of its own."""
        if self.compiled(self.package):
            return False
        self._copy(self.snapshot, self.package)
        return True

    def save(self):
        """Keep the kernels of a clone that started without any, where there are more of them than before."""
        if len(self.compiled(self.package)) <= len(self.compiled(self.snapshot)):
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(dir=self.folder))
            self._copy(self.package, new)
            shutil.rmtree(self.snapshot, ignore_errors=True)
            new.rename(self.snapshot)
            oldest = sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_SNAPSHOTS]
            for path in oldest:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # no room, no right to write, or another run was faster: the next one compiles
            return

    def _copy(self, source, target):
        for path in self.compiled(source):
            to = target / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
