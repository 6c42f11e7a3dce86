"""What a schema declares to be predicted."""

from dataclasses import dataclass

from dperm.datasets import toml
from dperm.datasets.declared import (
    Category,
    check_bounds,
    check_categories,
    check_flag,
    check_fold,
    check_name,
    check_number,
    check_text,
    set_field,
    shortest,
)
from dperm.datasets.words import listed, sentence
from dperm.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is predicted: one of ``classes``, or on which side of ``threshold``, or a number in ``range``.

    Of two classes the second is the positive one. ``rest`` makes the last class stand for every value that is not
    listed; ``fold`` leaves the case and the blanks of labels aside. A threshold t makes the two classes "<=t" and
    ">t". ``unit`` is what one step of a number is called; it is shown to people only.
    """

    name: str
    classes: tuple[Category, ...] = ()
    rest: bool = False
    fold: bool = False
    threshold: float | None = None
    range: tuple[float, float] | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        set_field(self, "name", check_name(self.name))
        set_field(self, "unit", check_text("unit", self.unit))
        set_field(self, "rest", check_flag("rest", self.rest))
        if (self.classes != ()) + (self.threshold is not None) + (self.range is not None) != 1:
            raise InvalidInput("exactly one of classes, threshold and range must be given.")
        if self.rest and self.classes == ():
            raise InvalidInput("rest needs classes.")
        if self.fold and self.classes == ():
            raise InvalidInput("fold needs classes.")
        if self.unit and self.range is None:
            raise InvalidInput("unit needs range, a target that is a number.")
        if self.classes != ():
            set_field(self, "classes", check_categories("classes", self.classes))
            set_field(self, "fold", check_fold("classes", self.fold, self.classes))
        elif self.threshold is not None:
            set_field(self, "threshold", check_number("threshold", self.threshold))
        else:
            set_field(self, "range", check_bounds("range", self.range))

    @property
    def labels(self) -> tuple[Category, ...]:
        """The labels that can occur, in the declared order; none for a numeric target."""
        if self.threshold is None:
            return self.classes
        number = toml.scalar(shortest(self.threshold))
        return (f"<={number}", f">{number}")

    def in_words(self) -> str:
        """What is declared, in a line."""
        if self.range is not None:
            low, high = (toml.scalar(shortest(end)) for end in self.range)
            return sentence(
                f"number from {low} to {high}{f' {self.unit}' if self.unit else ''}",
                "values beyond are moved to the nearer end",
            )
        return sentence(
            f"one of {len(self.labels)} classes: {listed(self.labels)}",
            "case and blanks do not count" if self.fold else "",
            f"{listed(self.classes[-1:])} stands for every other label" if self.rest else "",
        )
