"""Days, weeks and months of a time zone, as the core's calendar has them."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Calendar:
    unit: str
    zone: str
    week_starts: str
    day_of_month: int

    def edges_us(self, now_us):
        """Four edges: of the window before that of `now_us`, its own two, and the end of the next."""
        zone = ZoneInfo(self.zone)
        around = (EPOCH + timedelta(microseconds=now_us)).astimezone(zone).date()
        first = self.first_date(around)
        for _ in range(3):
            first = self.first_date(first - timedelta(days=1))
        edges = []
        for _ in range(9):
            edges.append(beginning_us(first, zone))
            first = self.next_first_date(first)
        # A date that a zone left out is an empty window: its edge is that of the next.
        edges = sorted(set(edges))
        after = next(at for at, edge in enumerate(edges) if edge > now_us)
        # Windows that began before the epoch begin with it.
        return [max(0, edge) for edge in edges[after - 2 : after + 2]]

    def first_date(self, day):
        if self.unit == "day":
            return day
        if self.unit == "week":
            return day - timedelta(days=(day.weekday() - WEEKDAYS.index(self.week_starts)) % 7)
        first = day_of_month(day, self.day_of_month)
        return first if first <= day else day_of_month(day.replace(day=1) - timedelta(days=1), self.day_of_month)

    def next_first_date(self, first):
        if self.unit == "day":
            return first + timedelta(days=1)
        if self.unit == "week":
            return first + timedelta(days=7)
        return day_of_month(last_of_month(first) + timedelta(days=1), self.day_of_month)


def last_of_month(day):
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def day_of_month(day, number):
    last = last_of_month(day)
    return last.replace(day=min(number, last.day))


def beginning_us(day: date, zone):
    """The first instant at which the zone's clock shows this date or a later one, by bisection."""
    midnight = datetime.combine(day, time(), tzinfo=timezone.utc)
    low, high = int((midnight - EPOCH).total_seconds()) - 2 * 86400, int((midnight - EPOCH).total_seconds()) + 2 * 86400
    shows = lambda second: (EPOCH + timedelta(seconds=second)).astimezone(zone).date() >= day
    # A clock that was set back over midnight shows the date twice, so the first is looked for hour by hour.
    step = next(second for second in range(low, high, 900) if shows(second))
    low, high = step - 900, step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high * 1_000_000
