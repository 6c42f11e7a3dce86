"""Which cells the study of scale has: rows of a kind and size, and what is fitted to them."""

from collections.abc import Iterator
from dataclasses import dataclass

DENSE, CODED, SPARSE, SHARDS = "dense", "coded", "sparse", "shards"
LOGISTIC, SGD = "LogisticRegression", "SGDClassifier"
SCIKIT_LEARN = (LOGISTIC, SGD)
DASK, SPARK, TORCH = "Dask", "Spark", "torch"
PACKAGES = {DASK: "distributed", SPARK: "pyspark", TORCH: "torch"}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Rows of a kind: ``n`` of them with ``p`` columns."""

    kind: str
    n: int
    p: int


@dataclass(frozen=True)
class Method:
    """A mechanism of this library or an estimator of scikit-learn, on the engine of its rows unless one is named."""

    name: str
    engine: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} on {self.engine}" if self.engine else self.name

    @property
    def is_private(self) -> bool:
        return self.name not in SCIKIT_LEARN


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fit to measure."""

    shape: Shape
    method: Method


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The same methods on rows of growing ``over``, "n" or "p"; the other one is ``fixed``.

    ``larger`` sizes are for ``few`` of the methods.
    """

    kind: str
    over: str
    sizes: tuple[int, ...]
    fixed: int
    methods: tuple[Method, ...]
    larger: tuple[int, ...] = ()
    few: tuple[Method, ...] = ()

    @property
    def all_sizes(self) -> tuple[int, ...]:
        return self.sizes + self.larger

    @property
    def setting(self) -> str:
        """What is fixed."""
        return f"{'p' if self.over == 'n' else 'n'} = {self.fixed:,}"

    @property
    def reference(self) -> Method:
        """The estimator of scikit-learn that times are compared with."""
        theirs = [method for method in self.methods if not method.is_private]
        return Method(LOGISTIC) if Method(LOGISTIC) in theirs else theirs[0]

    def shape(self, size: int) -> Shape:
        n, p = (size, self.fixed) if self.over == "n" else (self.fixed, size)
        return Shape(kind=self.kind, n=n, p=p)

    def cells(self) -> Iterator[Cell]:
        """By size, so that all methods meet the same rows one after the other."""
        for size in self.all_sizes:
            for method in self.methods if size in self.sizes else self.few:
                yield Cell(shape=self.shape(size), method=method)


def _methods(*names: str) -> tuple[Method, ...]:
    return tuple(Method(*name.split(" on ")) for name in names)


_EVERY = _methods(
    "auto", "objective", "output", "ssp", "rsgd-ar", "dp-gd", "dp-sgd", f"auto on {TORCH}", LOGISTIC, SGD
)
_SOME = _methods("auto", "rsgd-ar", "dp-gd", LOGISTIC)
_WIDE = _methods("auto", "ssp", "rsgd-ar", "dp-gd", LOGISTIC)
_ON_DISK = _methods("auto", "dp-gd", f"auto on {DASK}", f"auto on {SPARK}", SGD)
_BOTH = _methods("auto", LOGISTIC)

FULL = (
    Sweep(
        kind=DENSE,
        over="n",
        sizes=(10_000, 100_000, 1_000_000, 5_000_000),
        fixed=30,
        methods=_EVERY,
        larger=(20_000_000,),
        few=_BOTH,
    ),
    Sweep(
        kind=CODED,
        over="n",
        sizes=(10_000, 100_000, 1_000_000),
        fixed=100,
        methods=_SOME,
        larger=(10_000_000,),
        few=_BOTH,
    ),
    Sweep(
        kind=SHARDS,
        over="n",
        sizes=(1_000_000, 5_000_000),
        fixed=100,
        methods=_ON_DISK,
        larger=(20_000_000,),
        few=_methods("auto", SGD),
    ),
    Sweep(
        kind=SPARSE,
        over="n",
        sizes=(10_000, 100_000),
        fixed=10_000,
        methods=_SOME,
        larger=(1_000_000,),
        few=_BOTH,
    ),
    Sweep(
        kind=DENSE,
        over="p",
        sizes=(10, 100, 1_000),
        fixed=20_000,
        methods=_WIDE,
        larger=(10_000,),
        few=_methods("auto", "dp-gd", LOGISTIC),
    ),
    Sweep(
        kind=CODED,
        over="p",
        sizes=(10, 100, 1_000),
        fixed=100_000,
        methods=_methods("auto", "dp-gd", LOGISTIC),
    ),
    Sweep(kind=SPARSE, over="p", sizes=(1_000, 10_000, 100_000), fixed=100_000, methods=_SOME),
)
QUICK = (
    Sweep(kind=DENSE, over="n", sizes=(10_000, 30_000, 100_000), fixed=30, methods=_BOTH),
    Sweep(kind=CODED, over="n", sizes=(100_000,), fixed=100, methods=_BOTH),
    Sweep(kind=SHARDS, over="n", sizes=(100_000,), fixed=100, methods=_methods("auto", SGD)),
    Sweep(kind=DENSE, over="p", sizes=(10, 1_000), fixed=2_000, methods=_BOTH),
    Sweep(kind=SPARSE, over="p", sizes=(1_000,), fixed=10_000, methods=_BOTH),
)
