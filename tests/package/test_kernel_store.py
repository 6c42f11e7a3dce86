"""A fresh clone starts with kernels of the same sources, and of no others."""

from kernel_store import KEPT_SNAPSHOTS, KernelStore


def clone(root, text="@compiled()\ndef f(x): return x\n", kernels=()):
    """A package with one module of kernels, one without, and what was compiled of it."""
    package = root / "dperm"
    (package / "engine" / "__pycache__").mkdir(parents=True)
    (package / "engine" / "_kernels.py").write_text(text)
    (package / "errors.py").write_text("")
    for name in kernels:
        (package / "engine" / "__pycache__" / name).write_text(f"{name} of {root.name}")
    return package


def names(package):
    return sorted(path.name for path in package.rglob("*.nb[ci]"))


def test_a_fresh_clone_is_given_what_another_compiled(tmp_path):
    store = tmp_path / "store"
    first = clone(tmp_path / "first")
    assert KernelStore(first, store).restore()
    for name in ("f.nbi", "f.1.nbc"):
        (first / "engine" / "__pycache__" / name).write_text(name)
    KernelStore(first, store).save()
    second = clone(tmp_path / "second")
    (second / "errors.py").write_text("# no part of it")
    assert KernelStore(second, store).restore()
    assert names(second) == ["f.1.nbc", "f.nbi"]
    third = clone(tmp_path / "third", text="@compiled()\ndef f(x): return x + 1\n")
    assert KernelStore(third, store).restore()
    assert names(third) == []


def test_a_clone_with_kernels_keeps_its_own(tmp_path):
    store = tmp_path / "store"
    KernelStore(clone(tmp_path / "first", kernels=["f.nbi"]), store).save()
    own = clone(tmp_path / "second", kernels=["f.nbi"])
    assert not KernelStore(own, store).restore()
    assert (own / "engine" / "__pycache__" / "f.nbi").read_text() == "f.nbi of second"


def test_a_snapshot_grows_whole_and_old_ones_go(tmp_path):
    store = tmp_path / "store"
    KernelStore(clone(tmp_path / "few", kernels=["f.nbi"]), store).save()
    KernelStore(clone(tmp_path / "more", kernels=["f.nbi", "f.1.nbc"]), store).save()
    KernelStore(clone(tmp_path / "fewer", kernels=["f.nbi"]), store).save()
    (kept,) = store.iterdir()
    assert {path.read_text().split()[-1] for path in kept.rglob("*.nb[ci]")} == {"more"}
    for number in range(2 * KEPT_SNAPSHOTS):
        KernelStore(clone(tmp_path / str(number), f"compiled = {number}\n", ["f.nbi"]), store).save()
    assert len(list(store.iterdir())) == KEPT_SNAPSHOTS


def test_nowhere_to_write_is_no_error(tmp_path):
    (tmp_path / "store").write_text("a file")
    KernelStore(clone(tmp_path / "first", kernels=["f.nbi"]), tmp_path / "store").save()
