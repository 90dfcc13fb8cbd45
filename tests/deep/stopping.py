"""Fits that are interrupted after a step."""


class Stop(Exception):  # noqa: N818 - not an error
    pass


def stop_at(step):
    """Return a progress callback that raises Stop when this step is done."""

    def stop(stage, done, total):
        if stage.startswith("training") and done == step:
            raise Stop

    return stop
