"""Read when a note was created and changed, as far as its properties and the name of its file say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from functools import lru_cache
from pathlib import PurePosixPath

from pipelines.model import BY_FILE_NAME, BY_GIT, DateOrder, StatedDate, StatedDates

_FIRST_YEAR, _LAST_YEAR = 1000, 2199
_LONGEST_SHOWN = 80
_LONGEST_FORMAT = 300
# Flags of publishing tools (`published: true`) and of templates are no dates that were meant and missed.
_FLAGS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "~"})
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_FORMS = (
    r"(?P<y>\d{4})(?P<sep>[-/._])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})",
    r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})",
    r"(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})日",
    rf"{_DAY} {_MONTH},? (?P<y>\d{{4}})",
    rf"{_MONTH} {_DAY},? (?P<y>\d{{4}})",
)
_CLOCK = (
    r"(?:,?[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d{1,9})?)?"
    r"(?: ?(?P<half>[ap])m)?(?: ?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?|[+-]\d(?!\d)))?)?"
)
_WRITTEN = tuple(
    re.compile(rf"(?:[a-z]{{3,9}}, )?{form}{_CLOCK}", re.IGNORECASE | re.ASCII) for form in _FORMS
)
_DIGITS = re.compile(r"(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2})?)?", re.ASCII)
_SECONDS, _MILLISECONDS = 10, 13  # digits of the time since 1970 from 2001 to 2286
_ALONE = r"(?<![0-9A-Za-z]){}(?![0-9A-Za-z])"
_NAMED = tuple(re.compile(_ALONE.format(f"(?:{form})"), re.IGNORECASE | re.ASCII) for form in _FORMS)
_NAMED_DIGITS = re.compile(
    _ALONE.format(r"((?:19|20)\d{2})(\d{2})(\d{2})(?:[T_-]?(\d{2})(\d{2})(\d{2})?)?"), re.ASCII
)
_TOKEN = re.compile(r"\[([^\]]*)\]|YYYY|MMMM|MMM|MM|M|Do|DD|D|dddd|ddd|[^A-Za-z]|(.)")
_TOKENS = {
    "YYYY": r"(?P<y>\d{4})",
    "MMMM": _MONTH,
    "MMM": _MONTH,
    "MM": r"(?P<m>\d{2})",
    "M": r"(?P<m>\d{1,2})",
    "Do": r"(?P<d>\d{1,2})(?:st|nd|rd|th)",
    "DD": r"(?P<d>\d{2})",
    "D": r"(?P<d>\d{1,2})",
    "dddd": r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)",
    "ddd": r"(?P<weekday>mon|tue|wed|thu|fri|sat|sun)",
}
_GROUP = re.compile(r"\(\?P<(\w+)>")


def read_dates(path: str, values: Mapping[str, object], order: DateOrder = DateOrder()) -> StatedDates:  # noqa: B008 - frozen
    """Return the first date that the sources of an order state, for each of the two kinds.

    Properties are compared without case, spaces and punctuation: `created_at` is `Created At`. A property that is no
    date, or of an absurd year, is reported in `warnings`, and the next source counts.
    """
    named: dict[str, tuple[str, object]] = {}
    for name, value in values.items():
        named.setdefault(_compared(name), (name, value))
    warnings: list[str] = []
    created = _first(path, named, order.created, order.daily, warnings)
    changed = _first(path, named, order.changed, order.daily, warnings)
    return StatedDates(created, changed, tuple(dict.fromkeys(warnings)))


def _first(
    path: str,
    named: Mapping[str, tuple[str, object]],
    sources: Sequence[str],
    daily: str | None,
    warnings: list[str],
) -> StatedDate | None:
    after_git = False
    for source in sources:
        if source == BY_GIT:
            after_git = True
        elif source == BY_FILE_NAME:
            if at := date_of_name(path, daily):
                return StatedDate(at, BY_FILE_NAME, after_git)
        else:
            name, value = named.get(_compared(source), ("", None))
            text = _text(value)
            if not text:
                continue
            if at := parse_date(text):
                return StatedDate(at, f"property {name}", after_git)
            if text.lower() not in _FLAGS:
                warnings.append(f"{name} is not a date: {text[:_LONGEST_SHOWN]!r}")
    return None


def redated(warnings: Sequence[str], old: StatedDates, new: StatedDates) -> tuple[str, ...]:
    """Return the warnings of a note with those of its new dates in place of those of its old ones."""
    return (*(one for one in warnings if one not in {*old.warnings, *new.warnings}), *new.warnings)


@lru_cache(maxsize=1024)
def _compared(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def _text(value: object) -> str:
    """Return the text of a property that may be a date; the brackets of a link to a daily note are left out."""
    while isinstance(value, list):  # an unquoted `[[2021-03-04]]` is a list in a list
        value = value[0] if value else None
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    text = str(value).strip()
    if text.startswith("[[") and text.endswith("]]"):
        target, _, shown = text[2:-2].partition("|")
        text = (shown or target).strip()
    return text


def parse_date(text: str) -> str | None:
    """Return a date, with its time and zone if they are there, in the form of ISO 8601; None if it is no date.

    Besides ISO 8601 it may be written as `2021/3/4`, `4.3.2021`, `2021年3月4日`, `March 4th, 2021`, as digits alone
    (`20210304`, `20210304093012`), or as the seconds or milliseconds since 1970. The year is from 1000 to 2199.
    """
    if text.isascii() and text.isdecimal():
        return _of_digits(text)
    for parse in (date.fromisoformat, datetime.fromisoformat):
        try:
            moment = parse(text)
        except ValueError:
            continue
        return moment.isoformat() if _FIRST_YEAR <= moment.year <= _LAST_YEAR else None
    return next(
        (at for form in _WRITTEN if (found := form.fullmatch(text)) and (at := _of_match(found))), None
    )


def _of_digits(text: str) -> str | None:
    if found := _DIGITS.fullmatch(text):
        return _moment(*found.groups())
    if len(text) not in (_SECONDS, _MILLISECONDS):
        return None
    moment = datetime.fromtimestamp(int(text[:_SECONDS]), UTC)
    return moment.isoformat() if moment.year <= _LAST_YEAR else None


def _of_match(found: re.Match[str]) -> str | None:
    said = found.groupdict()
    month = said.get("m") or str(_MONTHS.index(said["name"][:3].lower()) + 1)
    hour = said.get("hour")
    if said.get("half") and hour:
        hour = str(int(hour) % 12 + (12 if said["half"] in "pP" else 0))
    return _moment(
        said["y"], month, said["d"], hour, said.get("minute"), said.get("second"), said.get("zone")
    )


def _moment(
    year: str,
    month: str,
    day: str,
    hour: str | None = None,
    minute: str | None = None,
    second: str | None = None,
    zone: str | None = None,
) -> str | None:
    """Return the ISO form of a date's parts; None if there is no such date."""
    if not _FIRST_YEAR <= int(year) <= _LAST_YEAR:
        return None
    try:
        found = date(int(year), int(month), int(day))
        if hour is None:
            return found.isoformat()
        moment = datetime.combine(found, time(int(hour), int(minute or 0), int(second or 0)))
        offset = "" if zone is None else "+00:00" if zone.upper() in ("Z", "UTC") else zone
        if len(offset) == len("-5"):
            offset = f"{offset[0]}0{offset[1]}"
        return datetime.fromisoformat(f"{moment.isoformat()}{offset}").isoformat()
    except ValueError:
        return None


def date_of_name(path: str, daily: str | None = None) -> str | None:
    """Return the first date in the name of a file, or by the format of daily notes; None if there is none.

    Digits alone are a date only in the years 1900 to 2099, because other numbers have eight digits, too.
    """
    if daily and (found := _matches_daily(path, daily)):
        return found
    name = PurePosixPath(path).name
    stem = name[: name.rfind(".")] if "." in name else name
    return next(_in_name(stem), None)


def _in_name(stem: str) -> Iterator[str]:
    for found in _NAMED_DIGITS.finditer(stem):
        if at := _moment(*found.groups()):
            yield at
    for form in _NAMED:
        for found in form.finditer(stem):
            if at := _of_match(found):
                yield at


def _matches_daily(path: str, daily: str) -> str | None:
    form = daily_form(daily)
    found = form.fullmatch(path.rpartition(".")[0]) if form else None
    return _of_match(found) if found else None


@lru_cache(maxsize=64)
def daily_form(daily: str) -> re.Pattern[str] | None:
    """Return a pattern of the paths, without their ending, of daily notes; None unless the format gives whole dates.

    The format is that of Obsidian (moment.js); their folder may precede it in brackets: `[Daily/]DD-MM-YYYY`.
    """
    if len(daily) > _LONGEST_FORMAT:
        return None
    parts: list[str] = []
    groups: set[str] = set()
    for token in _TOKEN.finditer(daily):
        if token[2]:
            return None  # a token for weeks, hours ...
        part = re.escape(token[1]) if token[1] is not None else _TOKENS.get(token[0], re.escape(token[0]))
        if group := _GROUP.search(part):
            part = f"(?P={group[1]})" if group[1] in groups else part
            groups.add(group[1])
        parts.append(part)
    if not ({"y", "d"} <= groups and groups & {"m", "name"}):
        return None
    return re.compile(f"(?:.*/)?{''.join(parts)}", re.IGNORECASE | re.ASCII)
