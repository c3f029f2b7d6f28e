"""What is known of the streams so far."""

import re
from typing import List, Optional, Tuple

# The largest sum that is kept: what a u64 of the contract holds.
MOST = 2**64 - 1

PASS = re.compile(
    r"after (\d+)\nstreams (\d+)\nopen (\d+)\nrecords (\d+)\n((?:top \d+ \d+\n)*)", re.ASCII
)


class Census:
    """The count: begin with how many streams are to be named."""

    def __init__(self, most: int):
        self.most = most
        self.streams = 0
        self.open = 0
        self.records = 0
        # The largest streams: most records first, lowest id first among equals.
        self.top: List[Tuple[int, int]] = []

    def add(self, stream) -> None:
        """Count one more stream."""
        records = max(stream.end_offset - stream.start_offset, 0)
        self.streams += 1
        self.open += stream.opened
        self.records = min(self.records + records, MOST)
        self.rank(stream.id, records)

    def rank(self, id: int, records: int) -> None:
        """Put a stream in its place among the largest."""
        if len(self.top) == self.most and self.top[-1][1] > records:
            return
        self.top.append((id, records))
        self.top.sort(key=lambda entry: (-entry[1], entry[0]))
        del self.top[self.most :]

    def __str__(self) -> str:
        """The count as text, a line for each figure."""
        top = "".join(f"top {id} {records}\n" for id, records in self.top)
        return f"streams {self.streams}\nopen {self.open}\nrecords {self.records}\n{top}"

    @staticmethod
    def read(text: str, most: int) -> Optional[Tuple["Census", int]]:
        """Read back an unfinished count: ``after`` and the id of the last stream,
        then what ``str`` gives. None if the text is not one."""
        found = PASS.fullmatch(text)
        if found is None or any(int(number) > MOST for number in re.findall(r"\d+", text)):
            return None
        census = Census(most)
        after, census.streams, census.open, census.records = map(int, found.groups()[:4])
        for line in found[5].splitlines():
            _, id, records = line.split()
            census.rank(int(id), int(records))
        return census, after
