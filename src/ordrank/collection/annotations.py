"""What people and the model say about single pictures: grades by grader, agreement, and what to look at next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ordrank.collection.types import Picture

Reason: TypeAlias = Literal["uncertain", "representative", "novel"]


@dataclass(frozen=True)
class GivenGrade:
    """The grade that someone gave, and when; an empty name stands for graders without one."""

    grader: str
    grade: str
    time: str


@dataclass(frozen=True)
class GraderSummary:
    """A grader, compared with the consensus of the others.

    Attributes
    ----------
    name : str
    graded, compared : int
        Pictures, and those of them that others have graded too.
    error, bias : float or None
        Mean absolute and mean difference from the others; None if no picture can be compared.
    weight : float
        In the consensus; 1 on average.
    """

    name: str
    graded: int
    compared: int
    error: float | None
    bias: float | None
    weight: float


@dataclass(frozen=True)
class GraderPair:
    """Two graders: the number of pictures that both have graded, and their quadratically weighted κ, if it exists."""

    first: str
    second: str
    pictures: int
    kappa: float | None


@dataclass(frozen=True)
class Disagreement:
    """A picture with different grades, and the one that counts."""

    id: int
    name: str
    grades: tuple[GivenGrade, ...]
    consensus: str | None


@dataclass(frozen=True)
class GradersReport:
    """Who graded how much, how far graders agree, and where they differ, the largest differences first."""

    graders: tuple[GraderSummary, ...]
    pairs: tuple[GraderPair, ...]
    disagreements: tuple[Disagreement, ...]
    total_disagreements: int


@dataclass(frozen=True)
class Suggestion:
    """A picture to grade next, why in one word, and in a sentence."""

    picture: Picture
    reason: Reason
    explanation: str


@dataclass(frozen=True)
class SuggestedPair:
    """Two pictures to compare next, and why."""

    first: Picture
    second: Picture
    explanation: str


@dataclass(frozen=True)
class ComparedPicture:
    """The position of a picture that was compared with others.

    Attributes
    ----------
    picture : Picture
    value, deviation : float
        On the scale of the grades, or standardised if there are none; and its standard deviation.
    grade : str or None
        The grade that the comparisons imply, which the next training uses; None if it is open, or was given.
    comparisons : int
    """

    picture: Picture
    value: float
    deviation: float
    grade: str | None
    comparisons: int
