"""Other private classifiers on our rows and splits: DP-EBM (interpret) and diffprivlib, each in its own environment.

    python -m benchmarks.rivals prepare FOLDER        with this library: rows, records, folds
    PYTHON benchmarks/rivals.py ebm FOLDER            where interpret is installed
    PYTHON benchmarks/rivals.py diffprivlib FOLDER    where diffprivlib 0.6.6 and scikit-learn < 1.6 are
    python -m benchmarks.rivals ours FOLDER           the default of this library
    python -m benchmarks.rivals show FOLDER           the figures side by side

Folds are those of ``dperm compare``. δ = 1e-8; diffprivlib spends none. What is best of several settings is chosen on
the test rows, which flatters the rival.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

DELTA, FOLDS = 1e-8, 5
EBM_SETS, EBM_EPSILONS = ("adult", "bank"), (0.1, 0.5, 1.0, 4.0)
EBM_SETTINGS = (
    {},
    {"max_rounds": 100, "learning_rate": 0.05},
    {"max_rounds": 300, "learning_rate": 0.05},
    {"max_rounds": 100, "learning_rate": 0.2},
    {"max_rounds": 1000, "learning_rate": 0.05},
)
LINEAR_SETS, LINEAR_EPSILON = ("adult", "bank", "ipums-br", "credit_risk", "hotel_bookings"), 4.0
PENALTIES = (0.1, 0.3, 1.0, 3.0)
OURS = (
    *((name, EBM_EPSILONS if name in EBM_SETS else (LINEAR_EPSILON,), {}) for name in LINEAR_SETS),
    *((name, (0.05, 0.1, 0.5, 1.0), {"neighbours": "add-remove"}) for name in EBM_SETS),
    ("adult", (0.05, 0.1, 0.5, 1.0, 2.0), {"delta": 1e-5}),
)
MOST_ROWS = {"hotel_bookings": 60_000}


def prepare(folder: Path) -> None:
    """Both encodings, labels 0 and 1, the fold of every row, and the raw records with their public types."""
    from dperm.datasets import Schema, dataset_names, encode, encode_target, load_dataset, read_table
    from dperm.datasets.sources import find
    from dperm.experiments.splits import assign_folds, text_code

    folder.mkdir(parents=True, exist_ok=True)
    for name in LINEAR_SETS:
        if name in dataset_names():
            found = load_dataset(name)
            schema, table = found.schema, found.table
        else:
            schema = Schema.from_toml(find(f"more/{name}.toml"))
            table = read_table(find(f"more/{name}.parquet"), schema)
        label = name
        if table.num_rows > MOST_ROWS.get(name, table.num_rows):
            rows = np.random.default_rng(text_code(name)).permutation(table.num_rows)[: MOST_ROWS[name]]
            table, label = table.take(rows), f"{name}, {MOST_ROWS[name]:,} rows"
        y = encode_target(table, schema)
        np.savez(
            folder / f"{name}.npz",
            plain=encode(table, schema.plain()).astype(np.float32),
            spline=encode(table, schema).astype(np.float32),
            y=(y == schema.classes[1]).astype(int),
            fold=assign_folds(label, 0, len(y), FOLDS),
        )
        if name in EBM_SETS:
            _prepare_records(table, schema, folder / name)


def _prepare_records(table, schema, path: Path) -> None:
    """Numbers cut off at their declared ranges, categories as texts; types and ranges as DP-EBM takes them.

    It bins no missing numbers, so they become the lower end of the range.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns, types, bounds = {}, [], {}
    for feature in schema.features:
        values = table[feature.name].to_pylist()
        if hasattr(feature, "range"):
            numbers = np.array(
                [feature.range[0] if v is None or v in feature.missing else float(v) for v in values]
            )
            columns[feature.name] = np.clip(numbers, *feature.range)
            types.append("continuous")
            bounds[feature.name] = feature.range
        else:
            columns[feature.name] = [str(v) for v in values]
            types.append("nominal")
    pq.write_table(pa.table(columns), path.with_suffix(".parquet"))
    path.with_suffix(".json").write_text(json.dumps({"types": types, "bounds": bounds}))


def _splits(folder: Path, name: str):
    with np.load(folder / f"{name}.npz") as found:
        rows = {key: found[key] for key in found.files}
    for fold in range(FOLDS):
        yield fold, rows["fold"] == fold, rows


def _scores(proba, y) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    return {
        "accuracy": float(((proba > 0.5) == y).mean()),
        "auc": float(roc_auc_score(y, proba)),
        "log_loss": float(log_loss(y, proba)),
    }


def _keep(folder: Path, rival: str, rows: list[dict]) -> None:
    (folder / f"{rival}-results.json").write_text(json.dumps(rows, indent=1))


def ebm(folder: Path) -> None:
    import pandas as pd
    from interpret.privacy import DPExplainableBoostingClassifier

    done: list[dict] = []
    for name in EBM_SETS:
        records = pd.read_parquet(folder / f"{name}.parquet")
        public = json.loads((folder / f"{name}.json").read_text())
        for epsilon in EBM_EPSILONS:
            for setting in EBM_SETTINGS:
                for fold, tested, rows in _splits(folder, name):
                    model = DPExplainableBoostingClassifier(
                        feature_types=public["types"],
                        privacy_bounds={key: tuple(value) for key, value in public["bounds"].items()},
                        epsilon=epsilon,
                        delta=DELTA,
                        random_state=fold,
                        n_jobs=1,
                        **setting,
                    )
                    started = time.perf_counter()
                    model.fit(records[~tested], rows["y"][~tested])
                    seconds = time.perf_counter() - started
                    scores = _scores(model.predict_proba(records[tested])[:, 1], rows["y"][tested])
                    done.append(
                        {"rival": "DP-EBM", "set": name, "epsilon": epsilon, "fold": fold, "seconds": seconds}
                        | {"setting": json.dumps(setting), **scores}
                    )
                    _keep(folder, "ebm", done)


def diffprivlib(folder: Path) -> None:
    from diffprivlib.models import LogisticRegression

    done: list[dict] = []
    for name in LINEAR_SETS:
        for encoding in ("plain", "spline"):
            for fold, tested, rows in _splits(folder, name):
                X = rows[encoding].astype(np.float64)
                for C in PENALTIES:
                    model = LogisticRegression(
                        epsilon=LINEAR_EPSILON, data_norm=1.0, C=C, max_iter=400, random_state=fold
                    )
                    started = time.perf_counter()
                    model.fit(X[~tested], rows["y"][~tested])
                    seconds = time.perf_counter() - started
                    scores = _scores(model.predict_proba(X[tested])[:, 1], rows["y"][tested])
                    done.append(
                        {"rival": f"diffprivlib, {encoding}", "set": name, "epsilon": LINEAR_EPSILON}
                        | {"fold": fold, "seconds": seconds, "setting": json.dumps({"C": C}), **scores}
                    )
                _keep(folder, "diffprivlib", done)


def ours(folder: Path) -> None:
    from dperm.experiments.compare import compare
    from dperm.experiments.reproduce.development import read

    done: list[dict] = []
    for name, epsilons, setting in OURS:
        some = read(name)
        for encoding in ("plain", "spline"):
            records = some.records(plain=encoding == "plain")
            found = compare(
                records.X,
                records.y,
                dataset=records.name,
                mechanisms={"default": "auto"},
                epsilons=epsilons,
                folds=FOLDS,
                repeats=1,
                **{"delta": DELTA, **setting},
            )
            columns = ("epsilon", "fold", "seconds", "accuracy", "auc", "log_loss")
            rival = ", ".join(["default", encoding, *map(str, setting.values())])
            done += [
                {"rival": rival, "set": name, "setting": json.dumps(setting)}
                | {key: row[key] for key in columns}
                for row in found.to_pylist()
            ]
            _keep(folder, "ours", done)


def show(folder: Path) -> None:
    """For every set, rival and epsilon the setting with the best mean accuracy on the test rows."""
    cells: dict[tuple, dict[str, list[dict]]] = {}
    for file in sorted(folder.glob("*-results.json")):
        for row in json.loads(file.read_text()):
            cells.setdefault((row["set"], row["rival"], row["epsilon"]), {}).setdefault(
                row["setting"], []
            ).append(row)
    best = []
    for (name, rival, epsilon), settings in cells.items():
        means = [
            {
                key: float(np.mean([row[key] for row in rows]))
                for key in ("accuracy", "auc", "log_loss", "seconds")
            }
            | {"setting": setting, "folds": len(rows)}
            for setting, rows in settings.items()
        ]
        chosen = max(means, key=lambda mean: mean["accuracy"])
        highest = max(mean["auc"] for mean in means)
        best.append({"set": name, "rival": rival, "epsilon": epsilon, "best_auc": highest, **chosen})
        print(
            f"{name:16} {rival:22} ε = {epsilon:<4g} {100 * chosen['accuracy']:5.1f} %  AUC {chosen['auc']:.3f} "
            f"(best {highest:.3f})  log loss {chosen['log_loss']:.3f}  {chosen['setting']}"
        )
    (folder / "rivals.json").write_text(json.dumps(best, indent=1))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    {"prepare": prepare, "ebm": ebm, "diffprivlib": diffprivlib, "ours": ours, "show": show}[sys.argv[1]](
        Path(sys.argv[2])
    )
