"""The files from which an interrupted training continues."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from ordrank._io import write_files

_PLAN = "plan.json"
_MAX_PLAN = 100  # bytes


class Checkpoints:
    """A folder with a file for each network, and the number of steps that was chosen for a limit of time.

    Parameters
    ----------
    directory : path, optional
        None keeps nothing.
    n_networks : int
    """

    def __init__(self, directory: str | Path | None, n_networks: int) -> None:
        self._directory = None if directory is None else Path(directory)
        self._n_networks = n_networks

    def file(self, number: int) -> Path | None:
        """Return the file of a network."""
        return None if self._directory is None else self._directory / f"network-{number}.safetensors"

    def candidate(self, number: int) -> Path | None:
        """Return the folder of a network among whose parameters is chosen."""
        return None if self._directory is None else self._directory / f"candidate-{number}"

    def read_steps(self, minutes: float) -> int | None:
        """Return the number of steps, of all networks together, that an interrupted fit could afford in this time."""
        if self._directory is None:
            return None
        try:
            with (self._directory / _PLAN).open("rb") as stream:
                plan = json.loads(stream.read(_MAX_PLAN))  # a file of a stranger may be huge, or nested deeply
            steps = plan["steps"] if plan["minutes"] == minutes else None
        except (OSError, ValueError, KeyError, TypeError):  # none, or another file: measured again
            return None
        return steps if isinstance(steps, int) and steps > 0 else None

    def write_steps(self, minutes: float, steps: int) -> None:
        """Record the number of steps, of all networks together, for this limit."""
        if self._directory is not None:
            write_files(self._directory, {_PLAN: json.dumps({"minutes": minutes, "steps": steps}).encode()})

    def delete(self) -> None:
        """Delete these files, and the folder if nothing else is in it."""
        if self._directory is None:
            return
        for name in (_PLAN, *(f"network-{number}.safetensors" for number in range(self._n_networks))):
            for file in (self._directory / name, *self._directory.glob(f".{name}.*")):  # also of interrupted writes
                file.unlink(missing_ok=True)
        for folder in self._candidates():
            Checkpoints(folder, 1).delete()
        with suppress(OSError):  # other files
            self._directory.rmdir()

    def exist(self) -> bool:
        """Return whether a network, or a part of its training, is there to continue with."""
        files = map(self.file, range(self._n_networks))
        return any(file is not None and file.exists() for file in files) or any(
            Checkpoints(folder, 1).exist() for folder in self._candidates()
        )

    def _candidates(self) -> list[Path]:
        return [] if self._directory is None else sorted(self._directory.glob("candidate-[0-9]*"))
