"""Grades and groups of pictures as the user gives them: a CSV file or a mapping."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ordrank._format import pluralize
from ordrank.collection.ingest.grades_csv import GradeTable, read_grades
from ordrank.collection.ingest.groups_csv import read_groups
from ordrank.collection.types import Header
from ordrank.errors import InputError

LabelsLike: TypeAlias = str | os.PathLike[str] | Mapping[str, float | str]


@dataclass(frozen=True)
class Labels:
    """Grades by name, and perhaps groups: a CSV file with named columns, or a mapping of grades."""

    source: LabelsLike
    file_column: str = "file"
    grade_column: str = "grade"
    group_column: str | None = None

    def read(
        self,
        known: Collection[str],
        header: Header,
        *,
        in_folder: Collection[str] | None = None,
        at_least_two: bool,
        skip_missing: bool,
    ) -> GradeTable:
        """Return the grades of known pictures; parameters are those of :func:`read_grades`.

        Raise InputError if the source names others, or wrong grades.
        """
        if isinstance(self.source, Mapping):
            return _read_mapping(self.source, known, header, at_least_two=at_least_two, skip_missing=skip_missing)
        return read_grades(
            Path(self.source),
            known,
            in_folder=in_folder,
            file_column=self.file_column,
            grade_column=self.grade_column,
            order=header.order,
            at_least_two=at_least_two,
            skip_missing=skip_missing,
        )

    def read_groups(self, known: Collection[str], in_folder: Collection[str] | None = None) -> dict[str, str]:
        """Return the groups of known pictures by name, if a column of the CSV file names them."""
        if self.group_column is None:
            return {}
        if isinstance(self.source, Mapping):
            raise InputError("groups are a column of a CSV file with the grades: give that file instead of a mapping")
        if self.group_column in (self.file_column, self.grade_column):
            raise InputError(f"column {self.group_column!r} cannot hold the groups too; name another column")
        return read_groups(
            Path(self.source),
            known,
            in_folder=in_folder,
            file_column=self.file_column,
            group_column=self.group_column,
        )


def _read_mapping(
    source: Mapping[str, float | str],
    known: Collection[str],
    header: Header,
    *,
    at_least_two: bool,
    skip_missing: bool,
) -> GradeTable:
    unknown = tuple(name for name in source if name not in known)
    if unknown and (not skip_missing or len(unknown) == len(source)):
        counted = pluralize(len(unknown), "picture that is", "pictures that are")
        raise InputError(f"labels name {counted} not in the folder or the collection, first {unknown[0]!r}")
    grades = {name: header.parse_grade(str(grade)) for name, grade in source.items() if name in known}
    if at_least_two and len(set(grades.values())) < 2:
        raise InputError("an order needs two different grades; labels hold fewer")
    return GradeTable(grades, unknown)
