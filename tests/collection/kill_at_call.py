"""Work on copies of a collection in processes, each of which is killed at another one of its calls that change files.

``python -m tests.collection.kill_at_call LIBRARY COLLECTION PICTURES FOLDER CALL...``, with the library of
``kill_at_call.c`` preloaded, makes one copy for each number of a call, in the folder and named after it. For each it
writes a line with a dot for each step that was acknowledged, and with the number of all calls if it was not killed.
"""

import ctypes
import os
import shutil
import signal
import sys
from pathlib import Path

from ordrank import Collection


def work(directory, pictures):
    """Change a collection in all ways, and yield after each step that is complete."""
    new = sorted(pictures.iterdir())
    with Collection.open(directory) as collection:
        collection.add(new[0], {new[0].name: 1}, n_jobs=1)
        yield
        collection.grade("004.png", 2, grader="Ann")
        yield
        collection.labeling.grade(["004.png", "008.png"], 1, grader="Ben", key="a")
        yield
        collection.labeling.undo(grader="Ben", key="a")
        yield
        collection.labeling.compare("005.png", "006.png", 1, grader="Ann")
        yield
        collection.labeling.confirm("002.png")
        yield
        collection.files.add(new[1].read_bytes(), "own.png")
        yield
        collection.fit(n_jobs=1)
        yield
        collection.remove(["00[1-3].png", "own.png"])
        yield
        collection.add(pictures, {new[2].name: 0}, n_jobs=1)
        yield
        collection.fit(n_jobs=1)
        yield


def _work_until(library, call, directory, pictures, pipe):
    library.count_calls(call)
    for _ in work(directory, pictures):
        os.write(pipe, b".")
    os.write(pipe, b"%d" % library.counted_calls())


def main(library, collection, pictures, folder, *calls):
    loaded = ctypes.CDLL(library)
    for call in map(int, calls):
        copied = shutil.copytree(collection, Path(folder) / str(call))
        readable, writable = os.pipe()
        if not (child := os.fork()):
            _work_until(loaded, call, copied, Path(pictures), writable)
            os._exit(0)
        os.close(writable)
        with open(readable, "rb") as opened:
            sys.stdout.write(f"{opened.read().decode()}\n")
        exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert exit_code in (0, -signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
