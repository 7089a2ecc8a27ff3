"""Progress of a run: events, lines with the time left, and step times that survive pauses."""

import collections
import json
import statistics
import sys
import time


def duration(seconds):
    """Returns a duration as text, such as `1 h 05 min`."""
    seconds = int(seconds)
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min {seconds % 60:02} s" if seconds < 3600 else f"{seconds // 3600} h {seconds // 60 % 60:02} min"


class Progress:
    """Reports on standard error, and events as JSON lines on standard output if wanted.

    The time left is that of the median of the last steps, so that a pause of the process hardly changes it.
    """

    LINE_SECONDS = 30.0

    def __init__(self, as_json):
        self.as_json = as_json
        self.terminal = sys.stderr.isatty()
        self.seconds_per_row = collections.deque(maxlen=50)
        self.evaluation = None
        self.shown = time.monotonic()

    def event(self, kind, **fields):
        """Writes an event."""
        if self.as_json:
            print(json.dumps({"event": kind, **fields}), flush=True)

    def say(self, text):
        """Writes a line for people."""
        print(("\r\x1b[K" if self.terminal else "") + text, file=sys.stderr, flush=True)

    def left(self, rows, evaluations):
        """Returns the seconds that so many rows and evaluations will take, or `None` before the first step."""
        if not self.seconds_per_row:
            return None
        return statistics.median(self.seconds_per_row) * rows + (self.evaluation or 0.0) * evaluations

    def count(self, seconds, rows):
        """Counts a step of so many rows, and returns true if it is time for a report."""
        self.seconds_per_row.append(seconds / rows)
        return time.monotonic() - self.shown >= (1.0 if self.terminal else self.LINE_SECONDS)

    def step(self, rows_left, evaluations_left, **fields):
        """Reports a step."""
        self.shown = time.monotonic()
        left = self.left(rows_left, evaluations_left)
        self.event("step", seconds_left=round(left), **fields)
        text = f"{fields['stage']}: step {fields['step']} of {fields['steps']}, loss {fields['loss']:.4f}"
        if fields.get("zeros"):
            text += f", {100 * fields['zeros']:.1f} % zeros"
        text += f", about {duration(left)} left"
        print(f"\r\x1b[K{text}" if self.terminal else text, end="" if self.terminal else "\n", file=sys.stderr, flush=True)
