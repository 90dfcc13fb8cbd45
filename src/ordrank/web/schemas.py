"""Bodies of requests and responses that are not result types of the collection."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ordrank.collection.reports import GradeCount
from ordrank.collection.types import GradeProbability, RankedPicture


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


class GradeBody(BaseModel):
    """The new grade of a picture; null withdraws it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    grade: str | None = Field(max_length=200)


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
