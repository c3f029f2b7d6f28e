"""Counts the streams and names those that hold the most records.

The count is kept below the plugin's own prefix, as ``report``, and written again
only when it differs. A tick looks at so many streams and no more; what it has
counted until then is kept as ``pass``, so that the next tick goes on there, on
whichever node it runs.
"""

from typing import Optional, Tuple

from aedile_plugin import IDLE, PAGE, Number, Plugin, Report, fields, kv, own_key
from wit_world.imports import job, logging, metrics, state

from census import Census


class Maintenance(Plugin):
    def configure(self, json: str) -> dict:
        return fields(
            json,
            {
                "top": Number(1, 100, default=10),
                "streams-per-tick": Number(1, 100_000, default=20_000),
                "warn-records": Number(0, 2**53 - 1),
            },
        )

    def run(self, config: dict) -> Report:
        key = own_key("pass")
        resumed = Census.read(kv.get(key) or "", config["top"])
        census, after = resumed or (Census(config["top"]), None)
        ended, after, looked = count(census, after, config["streams-per-tick"])
        if not ended:
            kv.put(key, f"after {after}\n{census}")
            return Report(f"{census.streams} streams so far", looked, 0, True)
        metrics.gauge("streams", float(census.streams))
        metrics.gauge("open_streams", float(census.open))
        metrics.gauge("records", float(census.records))
        changed = publish(census, config["warn-records"])
        # Only now: a tick that ends in between counts the rest again, no more.
        if resumed:
            kv.remove(key)
        if not changed:
            return IDLE
        summary = f"{census.streams} streams, {census.open} open, {census.records} records"
        return Report(summary, looked, 0, False)


def count(census: Census, after: Optional[int], most: int) -> Tuple[bool, Optional[int], int]:
    """Count the streams after this one. Says whether there are no more, or the tick
    has looked at as many as it may, or should stop."""
    looked = 0
    while looked < most and not (looked and job.should_stop()):
        page = state.streams(after, min(PAGE, most - looked))
        if not page:
            return True, after, looked
        for stream in page:
            census.add(stream)
        after = page[-1].id
        looked += len(page)
    return False, after, looked


def publish(census: Census, most: Optional[int]) -> bool:
    """Write the report if it differs from the one that is there."""
    key = own_key("report")
    if kv.get(key) == str(census):
        return False
    kv.put(key, str(census))
    for id, records in census.top:
        if most is not None and records > most:
            text = f"stream {id} holds {records} records, more than {most}"
            logging.log(logging.Level.WARN, text)
    return True
