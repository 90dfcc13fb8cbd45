"""Numbers as text, the same in tables and pages."""


def pluralize(count: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> pluralize(1, "picture"), pluralize(2, "picture"), pluralize(0, "query", "queries")
    ('1 picture', '2 pictures', '0 queries')
    """
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def format_percent(share: float, space: str = "\u00a0") -> str:
    """Return a share as whole per cent; one that is above 0 but rounds to it is shown as <1 %."""
    return f"<1{space}%" if 0.0 < share < 0.005 else f"{100 * share:.0f}{space}%"


def format_number(value: float) -> str:
    """Return a number with three significant digits, without an exponent for large ones."""
    return f"{value:#.3g}" if abs(value) < 99.95 else f"{value:.0f}"


def format_duration(seconds: float) -> str:
    """Return a time in whole seconds, minutes or hours.

    Examples
    --------
    >>> format_duration(0.2), format_duration(61), format_duration(600), format_duration(9000)
    ('1 second', '61 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 120:
        return pluralize(max(1, round(seconds)), "second")
    return pluralize(round(seconds / 60), "minute") if seconds < 2 * 3600 else f"{seconds / 3600:.1f} hours"
