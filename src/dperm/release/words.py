"""What a release says of itself, in plain sentences: the same on the page, in a terminal and in a registry."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from shlex import quote

from dperm.certificate.assumptions import TAKEN, Code, Status, read_assumptions
from dperm.mechanisms.plan_words import rows_counted
from dperm.release.release import Release, is_private
from dperm.render.numbers import written

WORDS = tomllib.loads((files("dperm.release") / "words.toml").read_text(encoding="utf-8"))
POST_PROCESSING = (
    "Predictions, tables, figures and anything else that is computed from the released model alone cost no further "
    "privacy, however often and by whomever. What is computed from the rows again does."
)

_KINDS = {Status.ASSUMED: "", Status.NOT_MET: "unmet", Status.CAUTION: "caution"}
_MODELS = {
    "PrivateLogisticRegression": "logistic regression",
    "PrivateLinearSVC": "a linear support vector machine",
    "PrivateLinearClassifier": "a linear classifier",
    "PrivateLinearRegression": "a linear regression",
}


def guarantee_words(guarantee: Mapping[str, float]) -> str:
    return f"ε = {written(guarantee['epsilon'])}, δ = {written(guarantee['delta'])}"


def model_words(release: Release) -> str:
    """What kind of model it is, and of how many numbers."""
    kind = _MODELS.get(type(release.estimator).__name__, "a linear model")
    targets = release.statement["targets"]
    predicts = (
        f"one of {targets['count']} classes"
        if targets["kind"] == "classes"
        else f"a number from {written(targets['low'])} to {written(targets['high'])}"
    )
    problem = release.problem
    return f"{kind} with {problem['n_coefficients']:,} coefficients that predicts {predicts}"


def unit_words(release: Release) -> str:
    """What two tables differ in that the guarantee cannot tell apart."""
    return str(WORDS[release.unit]["add-remove" if release.hides_count else "replace-one"])


def counting(release: Release) -> list[str]:
    """How the rows of one person count; nothing where rows are on their own."""
    if release.unit != "person":
        return []
    how = release.statement.get("persons")
    told = [] if how is None else [f"Of the persons, {rows_counted(**how)}; rows beyond that were left out."]
    return [
        *told,
        "Which rows are those of one person was told by an id for each row, which is not released.",
    ]


def unprotected(release: Release) -> list[str]:
    """What is public about the table, and is not hidden by any noise."""
    problem, targets, units = release.problem, release.statement["targets"], f"{release.unit}s"
    table = "the table never exceeds" if units == "rows" else "the table never has more than"
    return [
        f"That {table} {problem['n_units']:,} {units}. The number of {units} itself is hidden."
        if release.hides_count
        else f"The number of {units}, {problem['n_units']:,}.",
        "The set of classes"
        + (
            ", which was taken from the labels and is vouched for as public."
            if targets["origin"] == TAKEN
            else ", which was declared."
        )
        if targets["kind"] == "classes"
        else f"The range of the target, {written(targets['low'])} to {written(targets['high'])}, which was declared.",
        "The schema: names, ranges and categories of the columns. They have to be declared without looking at rows."
        if release.schema is not None
        else f"The number of features, {problem['n_features']:,}, and how a record becomes a row of them; no schema is "
        "stored with this model.",
        "Every setting of the training, ε and δ among them.",
    ]


def preprocessing(release: Release) -> list[str]:
    """How rows and settings came about, as the fit could see it."""
    around = read_assumptions("around", release.statement["around"])
    lines = [one.plain for one in around] + counting(release)
    standardised = release.statement.get("standardisation")
    if standardised is not None:
        lines.append(
            "Rows were moved and scaled by means and spreads that were released with noise, within the same budget."
        )
    return lines


def trust(release: Release) -> list[tuple[str, str]]:
    """The trust model: who has to be trusted with what, and what is proven instead."""
    entropy = release.statement["entropy"]
    told = {
        "source": entropy["source"],
        "predictable": "No seed was set, and nobody can draw the same noise again."
        if entropy["secure"]
        else "It can be predicted, so it protects nobody.",
        "floating_point": _floating_point(release),
    }
    return [(name, sentence.format(**told)) for name, sentence in WORDS["trust"].items()]


def _floating_point(release: Release) -> str:
    if release.verdict.guarantee is None:
        return "Of no use to look at: there is no guarantee that it could weaken."
    if not release.statement["certified_arithmetic"]:
        return "Rounding was NOT within what the proof allows for, so nothing is claimed."
    return (
        "Noise is drawn exactly, as whole multiples of a power of two, and added to values rounded to the same "
        "grid, so the last bits of a released number tell nothing. What rounding can add to the influence of one "
        f"{release.unit} is bounded by a proof and covered by the noise."
    )


def composition(release: Release) -> str:
    """How the price of one fit adds up, and with others."""
    groups = release.statement["releases"]
    count = sum(int(group["count"]) for group in groups)
    inner = (
        f"The training makes {count:,} noisy release{'' if count == 1 else 's'}, whose joint price was computed by "
        f"{release.statement['accountant']} and is "
        + (guarantee_words(release.statement["budget"]) if release.thresholds else "the ε and δ stated")
        + "."
    )
    said = [inner, intervals_words(release), threshold_words(release), evaluation_words(release)]
    inner = " ".join(filter(None, said))
    if release.spending is None:
        return inner
    spent, kept = release.spending, kept_for(release)
    return (
        f"{inner} All charges to the data set {spent.dataset!r} are composed in one ledger{kept}{',' if kept else ''} "
        f"under the cap ε = {written(spent.cap.epsilon)} at δ = {written(spent.cap.delta)}; after this release ε = "
        f"{written(spent.after, 4)} of it was spent."
    )


def intervals_words(release: Release) -> str:
    """What of it was bought for intervals."""
    if "inference" not in release.statement:
        return ""
    return f"The last of them, {release.statement['releases'][-1]['name']}, is what confidence intervals are made of."


def threshold_words(release: Release) -> str:
    """What thresholds that were tuned after the fit cost besides."""
    if not release.thresholds:
        return ""
    told = "; ".join(
        guarantee_words(one) if one["private"] else "noise that can be predicted"
        for one in release.thresholds
    )
    many = len(release.thresholds) > 1
    return (
        f"The threshold between the two classes was chosen from noisy counts of margins, {len(release.thresholds)} "
        f"times, of which the last is in force ({told}): each is paid for."
        if many
        else f"The threshold between the two classes was chosen from noisy counts of margins ({told})."
    ) + " The ε and δ stated are those of fit and threshold added up, for rows that are in both."


def kept_for(release: Release) -> str:
    """Whom the ledger's cap protects, where it or the release is about persons."""
    spent = release.spending
    assert spent is not None
    if release.unit == spent.unit == "row":
        return ""
    stays = " that stays with its person" if spent.unit == "row" else ""
    return f", kept for one {spent.unit}{stays}"


def evaluation_words(release: Release) -> str:
    """What a private evaluation cost besides."""
    evaluation = release.evaluation
    if evaluation is None or not is_private(evaluation):
        return ""
    whom = "persons in the test rows" if evaluation.unit == "person" else "test rows"
    besides = f"An evaluation was released besides, with {guarantee_words(evaluation.budget)} for the {whom}."
    if release.unit == "row" or evaluation.unit == "person":
        return besides
    return f"{besides} It protects one of these rows, not one person."


def mechanism_words(release: Release) -> str:
    mechanism = release.statement["mechanism"]
    chosen = str(mechanism["chosen"]["name"])
    rule = ", chosen by a public rule" if mechanism["asked"]["name"] != chosen else ""
    library = release.statement["libraries"]["dperm"]
    return f"{chosen} ({mechanism['family']} perturbation) of dperm {library}{rule}"


def assumed(release: Release) -> list[tuple[str, str]]:
    """Every assumption with its kind: "unmet", "caution" or nothing."""
    declared = release.deployment.most_rows_per_person or 1
    found = []
    for one in read_assumptions("assumptions", release.statement["assumptions"]):
        line, status = one.plain, one.status
        if one.code is Code.ONE_ROW and declared > 1:
            status = Status.CAUTION
            more = f"It is stated that a person has up to {declared:,}: read ε for that number."
            line = f"{status.mark}{one.text} {more}"
        found.append((line, _KINDS[status]))
    return found


def command(release: Release) -> str:
    """The command that must end well for the page to be true."""
    found = release.verdict.guarantee
    limits = (
        ""
        if found is None
        else f" --max-epsilon {found['epsilon']!r} --max-delta {found['delta']!r} --unit {release.unit}"
    )
    return f"dperm verify {quote(release.name)}{limits}"
