"""What is sent over the wire, as the interface describes it to other programs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ErrorDetail(BaseModel):
    """What went wrong: a word for programs, a sentence for people."""

    code: str
    message: str


class ErrorBody(BaseModel):
    """The shape of every answer that is an error."""

    error: ErrorDetail


class GradeCountBody(BaseModel):
    """A grade, the number behind it, and how many pictures were given it."""

    grade: str
    value: float
    pictures: int


class CollectionBody(BaseModel):
    """What the collection holds."""

    name: str
    pictures: int
    graded: int
    grades: list[GradeCountBody]
    features: str
    model: dict[str, Any] | None
    fitted: str | None
    changed: int
    read_only: bool
    error: float | None


class PictureBody(BaseModel):
    """A picture of the collection: a grade that was given, or an estimated one."""

    id: int
    name: str
    grade: str | None
    estimate: str | None
    value: float | None
    width: int
    height: int


class PicturesBody(BaseModel):
    """Some of the pictures that were asked for, and how many there are in all."""

    total: int
    items: list[PictureBody]


class GradeChange(BaseModel):
    """The grade that a picture shall have; null takes it back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    grade: str | None = Field(max_length=200)


class VoteBody(BaseModel):
    """The part of all votes that a grade received."""

    grade: str
    share: float


class AnswerBody(BaseModel):
    """What the collection says about one picture."""

    kind: Literal["picture", "query"]
    id: int | str
    name: str
    grade: str
    value: float
    known_grade: str | None
    votes: list[VoteBody]
    position: tuple[float, float, float]


class RankedBody(BaseModel):
    """A picture as an answer, distance² = order² + appearance²."""

    id: int
    name: str
    grade: str
    estimated: bool
    distance: float
    order_distance: float
    appearance_distance: float


class RankingBody(BaseModel):
    """Some of the pictures that qualify, nearest first, and how many do."""

    answer: AnswerBody
    total: int
    items: list[RankedBody]


class TrainingBody(BaseModel):
    """How far a training is."""

    state: Literal["idle", "running", "done", "failed"]
    message: str
    done: int
    total: int
