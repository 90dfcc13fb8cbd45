"""Bodies of requests and responses that are not result types of the collection."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ordrank.collection.annotations import ComparedPicture, SuggestedPair, Suggestion
from ordrank.collection.reports import GradeCount
from ordrank.collection.types import GradeProbability, Picture, RankedPicture

MAX_ID = 2**31 - 1
MAX_PICTURES = 10_000  # in one request


class ErrorDetail(BaseModel):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


class CollectionBody(BaseModel):
    """Summary of the collection."""

    name: str
    pictures: int
    graded: int
    grades: list[GradeCount]
    features: str
    model: dict[str, Any] | None
    fitted: str | None
    changed: int
    read_only: bool
    max_table_rows: int
    error: float | None


class RequestBody(BaseModel):
    """The body of a request: nothing but the declared fields, of their types."""

    model_config = ConfigDict(extra="forbid", strict=True)


PictureIds = Annotated[list[Annotated[int, Field(ge=0, le=MAX_ID)]], Field(min_length=1, max_length=MAX_PICTURES)]
Key = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=64,
        description="A name for this change alone: it is not made again, and can be undone.",
    ),
]
Grader = Annotated[str | None, Field(max_length=100, description="Name of the person who says so.")]


class GradeBody(RequestBody):
    """The new grade of a picture; null withdraws it."""

    grade: Annotated[str | None, Field(max_length=200)]
    grader: Grader = None
    accept_new: Annotated[bool, Field(description="Accept a grade that is not on the scale.")] = False
    key: Key = None


class GradesBody(GradeBody):
    """The new grade of several pictures."""

    pictures: PictureIds


class UndoBody(RequestBody):
    """Whose change to undo: that with a key, else the last."""

    grader: Grader = None
    key: Key = None


class ConfirmationBody(RequestBody):
    """Whether someone has looked at the grade of a picture and kept it."""

    confirmed: bool
    grade: Annotated[str | None, Field(max_length=200, description="The grade that was looked at.")] = None


class SelectionBody(RequestBody):
    """Some pictures."""

    pictures: PictureIds


class ComparisonBody(RequestBody):
    """Which of two pictures is higher: the first (1), the second (-1), or neither (0); null withdraws it."""

    first: Annotated[int, Field(ge=0, le=MAX_ID)]
    second: Annotated[int, Field(ge=0, le=MAX_ID)]
    outcome: Literal[-1, 0, 1] | None
    grader: Grader = None


class NextPair(BaseModel):
    """The pair to compare next, and the number of comparisons so far."""

    pair: SuggestedPair | None
    comparisons: int


class ComparisonCount(BaseModel):
    """The number of comparisons so far."""

    comparisons: int


class ComparedPage(BaseModel):
    """A page of the compared pictures, lowest first, and how many there are."""

    total: int
    items: list[ComparedPicture]


class AddedBody(BaseModel):
    """A picture, and whether it is new in the collection."""

    picture: Picture
    is_new: bool


class EstimateBody(BaseModel):
    """Estimated grade of a query, which is a picture of the collection or an uploaded one."""

    kind: Literal["picture", "query"]
    id: int | str
    name: str
    grade: str
    value: float
    lowest: str
    highest: str
    shown_grade: str
    explanation: str
    known_grade: str | None
    probabilities: list[GradeProbability]
    novelty: float | None
    is_novel: bool
    position: tuple[float, float, float]


class RankingBody(BaseModel):
    """The estimate of a query, a page of the ranked pictures, and how many match in all."""

    query: EstimateBody
    total: int
    items: list[RankedPicture]


class SuggestionsBody(BaseModel):
    """Pictures to grade next, most useful first, and how many have no grade."""

    items: list[Suggestion]
    total: int
