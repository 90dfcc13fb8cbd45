"""Answers as one page to look at: each query with its grade and votes, and the pictures ranked for it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from ordrank._types import Answer, RankedPicture, Vote
from ordrank.pages import html_page

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
MANY_GRADES = 12  # more get columns without names instead of rows

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --line: #e4e0d9; --ink: #1d1b18; --quiet: #625d55; --bar: #8f8980;
  --order: #0072b2; --appearance: #d55e00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #161514; --card: #201f1d; --line: #3a3733; --ink: #f1eee9; --quiet: #b0aaa0; --bar: #7d776e;
    --order: #56b4e9; --appearance: #e69f00;
  }
}
* { box-sizing: border-box; }
body {
  max-width: 75rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
h1 { margin: 0 0 .25rem; font-size: 1.75rem; line-height: 1.2; letter-spacing: -.01em; }
h2 { margin: 0 0 1.25rem; font-size: 1.125rem; }
h3, .none { margin: 2rem 0 .75rem; font-size: .875rem; font-weight: 500; color: var(--quiet); }
img {
  display: block; width: 100%; aspect-ratio: 1; object-fit: contain;
  border-radius: .5rem; background: var(--line);
}
.quiet, .key { margin: 0; color: var(--quiet); font-size: .875rem; }
.key { margin-top: 1rem; max-width: 60rem; }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

/* One query: picture, grade and votes side by side; on narrow screens the votes go below. */
article { margin-top: 2rem; padding-top: 2rem; border-top: 1px solid var(--line); }
.query { display: grid; grid-template: "picture facts votes" / 15rem 14rem minmax(0, 1fr); gap: 1.5rem 2.5rem; }
.query > img { grid-area: picture; border-radius: .75rem; }
.facts { grid-area: facts; align-self: center; margin: 0; min-width: 0; }
.facts dt { color: var(--quiet); font-size: .875rem; }
.facts dd { margin: 0 0 1rem; font-size: 1.375rem; line-height: 1.2; }
.facts dd.estimate { font-size: clamp(1.75rem, 1rem + 3vw, 3.25rem); font-weight: 650; line-height: 1.1; }
.facts dd.named { font-size: clamp(1.375rem, 1rem + 1.5vw, 1.875rem); }
.votes { grid-area: votes; align-self: center; max-width: 34rem; min-width: 0; }
.votes p { margin-bottom: .5rem; }

/* Votes: one row a grade; many grades are thin columns. */
.rows { display: grid; grid-template-columns: fit-content(45%) minmax(0, 1fr) max-content; gap: .3rem .75rem; }
.vote {
  display: grid; grid-template-columns: subgrid; grid-column: 1 / -1; align-items: center;
  color: var(--quiet); font-size: .875rem; line-height: 1.3;
}
.vote .share { text-align: right; }
.vote .bar { height: .75rem; min-width: 1px; border-radius: 0 .2rem .2rem 0; background: var(--bar); }
.vote.chosen { color: var(--ink); font-weight: 650; }
.vote.chosen .bar { background: var(--ink); }
.columns { display: block; width: 100%; height: 8rem; border-bottom: 1px solid var(--bar); fill: var(--bar); }
.columns .chosen { fill: var(--ink); }
.ends { display: flex; justify-content: space-between; gap: 1rem; color: var(--quiet); font-size: .875rem; }

/* Ranked pictures. */
ol {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(9rem, 45%), 1fr)); gap: 1rem;
  margin: 0; padding: 0; list-style: none;
}
li {
  position: relative; padding: .5rem;
  border: 1px solid var(--line); border-radius: .75rem; background: var(--card);
}
.rank {
  position: absolute; top: .875rem; left: .875rem; min-width: 1.6em; padding: 0 .4em;
  border-radius: 1em; background: var(--card); font-size: .8125rem; font-weight: 600; text-align: center;
}
.line { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 .5rem; margin: .5rem .125rem 0; }
.grade { min-width: 0; font-size: 1.0625rem; font-weight: 650; line-height: 1.2; }
.distance { margin-left: auto; }
.distance, .name { color: var(--quiet); font-size: .8125rem; }
.name {
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden;
  margin: .375rem .125rem 0; line-height: 1.35;
}
.parts { height: .375rem; margin: .375rem .125rem 0; border-radius: .2rem; background: var(--line); overflow: hidden; }
.parts > span { display: flex; gap: 1px; height: 100%; }
.order { background: var(--order); }
.appearance { background: var(--appearance); }
.swatch { display: inline-block; width: .75em; height: .75em; border-radius: .15em; }
.bar, .columns, .order, .appearance { forced-color-adjust: none; print-color-adjust: exact; }

@media (max-width: 52rem) {
  .query { grid-template: "picture facts" "votes votes" / minmax(0, 2fr) minmax(0, 3fr); gap: 1.25rem; }
  .votes { max-width: none; }
}
@media print { li, .query { break-inside: avoid; } }
"""


def answer_sheet(answers: Sequence[Answer], *, collection: str) -> bytes:
    """Return answers as a page that needs nothing beside it: pictures inside, no script, nothing from outside.

    Parameters
    ----------
    answers : sequence of Answer
        One section each, in this order.
    collection : str
        Name of the collection that answered.
    """
    top = f'<p class="quiet">{counted(len(answers), "query", "queries") if answers else "no queries"}</p>'
    body = [top, *_key(answers), "<main>", *map(_section, answers), "</main>"]
    return html_page(f"Answers from {collection}", body, style=STYLE, policy=POLICY)


def counted(number: int, one: str, several: str | None = None) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "picture"), counted(2, "picture"), counted(0, "query", "queries")
    ('1 picture', '2 pictures', '0 queries')
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _key(answers: Sequence[Answer]) -> list[str]:
    """How to read a ranked picture, once for the page; nothing about what the page does not show."""
    shown = [picture for answer in answers for picture in answer.results]
    if not shown:
        return []
    sentences = (
        "A ranked picture shows its rank, its grade and its distance to the query. The bar below is as long as the "
        'distance; its colours are the parts of <span class="swatch order"></span> order and '
        '<span class="swatch appearance"></span> appearance in the squared distance.'
    )
    if any(picture.estimated for picture in shown):
        sentences += " ≈ marks a grade that was estimated, not given."
    return [f'<p class="key">{sentences}</p>']


def _section(answer: Answer) -> str:
    parts = _image(answer.thumbnail, f"query {answer.query}") + _facts(answer) + _votes(answer)
    query = f'<div class="query">{parts}</div>'
    return f"<article><h2><bdi>{escape(answer.query)}</bdi></h2>{query}{_results(answer.results)}</article>"


def _image(jpeg: bytes, alternative: str) -> str:
    data = base64.b64encode(jpeg).decode()
    return f'<img src="data:image/jpeg;base64,{data}" alt="{escape(alternative)}">'


def _facts(answer: Answer) -> str:
    kind = "estimate named" if len(answer.grade) > 4 else "estimate"  # words need more room than numbers
    facts = f'<dt>estimated grade</dt><dd class="{kind}"><bdi>{escape(answer.grade)}</bdi></dd>'
    if answer.known_grade is not None:
        facts += f"<dt>known grade</dt><dd><bdi>{escape(answer.known_grade)}</bdi></dd>"
    return f'<dl class="facts">{facts}</dl>'


def _votes(answer: Answer) -> str:
    heard = ", ".join(f"{vote.grade}: {percent(vote.share)}" for vote in answer.votes)
    spoken = f'role="img" aria-label="{escape(f"Votes for each grade: {heard}")}"'
    most = max((vote.share for vote in answer.votes), default=0.0) or 1.0
    if len(answer.votes) > MANY_GRADES:
        chart = f'<p class="quiet">votes, up to {escape(percent(most))} a grade</p>{_columns(answer, most, spoken)}'
    else:
        rows = "".join(_row(vote, most, chosen=vote.grade == answer.grade) for vote in answer.votes)
        chart = f'<p class="quiet">votes</p><div class="rows" {spoken}>{rows}</div>'
    return f'<div class="votes">{chart}</div>'


def _row(vote: Vote, most: float, *, chosen: bool) -> str:
    return (
        f'<div class="{"vote chosen" if chosen else "vote"}"><bdi>{escape(vote.grade)}</bdi>'
        f'<span class="bar" style="width:{vote.share / most:.1%}"></span>'
        f'<span class="share">{escape(percent(vote.share))}</span></div>'
    )


def _columns(answer: Answer, most: float, spoken: str) -> str:
    """One column a grade, each telling its own under the mouse; below only the first and the last are named."""
    votes = answer.votes
    columns = "".join(_column(i, vote, most, chosen=vote.grade == answer.grade) for i, vote in enumerate(votes))
    ends = f"<bdi>{escape(votes[0].grade)}</bdi><bdi>{escape(votes[-1].grade)}</bdi>"
    return (
        f'<svg class="columns" viewBox="0 0 {len(votes)} 100" preserveAspectRatio="none" {spoken}>{columns}</svg>'
        f'<div class="ends" aria-hidden="true">{ends}</div>'
    )


def _column(place: int, vote: Vote, most: float, *, chosen: bool) -> str:
    height = 100.0 * vote.share / most
    mark = ' class="chosen"' if chosen else ""
    return (
        f'<rect{mark} x="{place + 0.1:.1f}" y="{100.0 - height:.1f}" width="0.8" height="{height:.1f}">'
        f"<title>{escape(f'{vote.grade}: {percent(vote.share)}')}</title></rect>"
    )


def percent(share: float, space: str = "\u00a0") -> str:
    """Return whole per cents; a share that is there is never shown as none."""
    return f"<1{space}%" if 0.0 < share < 0.005 else f"{100 * share:.0f}{space}%"


def _results(results: Sequence[RankedPicture]) -> str:
    if not results:
        return '<p class="none">No picture qualifies.</p>'
    title = "The nearest picture" if len(results) == 1 else f"The {len(results)} nearest pictures"
    furthest = max(picture.distance for picture in results) or 1.0
    cards = "".join(_card(rank, picture, furthest) for rank, picture in enumerate(results, start=1))
    return f"<h3>{title}</h3><ol>{cards}</ol>"


def _card(rank: int, picture: RankedPicture, furthest: float) -> str:
    name = escape(picture.name)
    return (
        f"<li>{_image(picture.thumbnail, picture.name)}"
        f'<span class="rank"><span class="heard">rank </span>{rank}</span>'
        f'<div class="line">{_grade(picture)}<span class="distance"><span class="heard">distance </span>'
        f"{number(picture.distance)}</span></div>{_parts(picture, furthest)}"
        f'<div class="name" title="{name}"><bdi>{name}</bdi></div></li>'
    )


def _grade(picture: RankedPicture) -> str:
    grade = f"<bdi>{escape(picture.grade)}</bdi>"
    if picture.estimated:
        return f'<span class="grade" title="estimated, not given">≈ {grade}</span>'
    return f'<span class="grade">{grade}</span>'


def _parts(picture: RankedPicture, furthest: float) -> str:
    """A bar as long as the distance, divided as the squares of its parts."""
    order, appearance = picture.order_distance**2, picture.appearance_distance**2
    share = order / ((order + appearance) or 1.0)
    told = f"order {number(picture.order_distance)}, appearance {number(picture.appearance_distance)}"
    return (
        f'<div class="parts" role="img" aria-label="{told}" title="{told}">'
        f'<span style="width:{picture.distance / furthest:.1%}"><span class="order" style="width:{share:.1%}"></span>'
        f'<span class="appearance" style="width:{1.0 - share:.1%}"></span></span></div>'
    )


def number(value: float) -> str:
    """Return three digits that count, and no exponent for large numbers."""
    return f"{value:#.3g}" if abs(value) < 99.95 else f"{value:.0f}"
