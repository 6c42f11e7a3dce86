"""What the model does and how well: evaluation, effects of the features, and the schema."""

from __future__ import annotations

from dperm.models.effects import effects_section
from dperm.models.summary import summary_of
from dperm.release.html import Html, paragraph, section, table
from dperm.release.judged import NOT_PRIVATE, is_private, judged_section
from dperm.release.release import Release

MOST_FEATURES = 200


def evaluation(release: Release) -> Html:
    """The evaluation's own section, behind an alarm if it is not private."""
    if release.evaluation is None:
        return section(
            "How good the model is",
            paragraph(
                "No evaluation was given. A private one costs a budget of its own on held-out rows: dperm "
                "evaluate, then dperm report ... --evaluation FILE.",
                "note",
            ),
        )
    loud = "" if is_private(release.evaluation) else paragraph(NOT_PRIVATE, "alarm")
    return Html(f"{loud}{judged_section(release.evaluation)}")


def effects(release: Release) -> Html:
    """What each feature does: curves and bars by the schema."""
    if release.estimator is None or release.schema is None:
        return Html("")
    return Html(f"<section>{effects_section(release.estimator, release.schema)}</section>")


def coefficients(release: Release) -> Html:
    """Every coefficient by name, with the noise beside it, where the curves do not say it all."""
    if release.estimator is None:
        return Html("")
    return Html(summary_of(release.estimator, release.schema).section())


def columns(release: Release) -> Html:
    """The schema in readable form."""
    schema = release.schema
    if schema is None:
        return section(
            "The columns",
            paragraph(
                f"No schema is stored with this model. It takes rows of {release.problem['n_features']:,} numbers; "
                "how a record becomes such a row is not part of the file.",
                "note",
            ),
        )
    features = [(feature.name, feature.in_words()) for feature in schema.features[:MOST_FEATURES]]
    more = len(schema.features) - len(features)
    crossed = [(f"{left} × {right}", "combinations of the two") for left, right in schema.cross]
    return section(
        "The columns",
        paragraph(
            "What was declared about the table before any row was read. Ranges and categories are public: they "
            "have to come from knowledge of the subject, never from rows.",
            "dim",
        ),
        table(
            ("column", "declared as"),
            [(f"{schema.target.name} (predicted)", schema.target.in_words()), *features, *crossed],
            style="words",
        ),
        paragraph(f"and {more:,} more", "dim") if more else "",
    )
