"""{{name}}: counts the keys that begin with a prefix, and notes each change.

A plugin to start from. It has what most need: a configuration, a figure, a note
that outlives the leader, and nothing that is proposed twice. PicoMQ names its
streams by keys that begin with ``/``: by default it counts those.
"""

from aedile_plugin import IDLE, Plugin, Report, Text, each, fields, kv, own_key
from wit_world.imports import metrics, state


class Maintenance(Plugin):
    def configure(self, json: str) -> dict:
        """What an operator can set. A misspelt key is an error, not a default."""
        config = fields(json, {"prefix": Text(default="/")})
        if not config["prefix"]:
            raise ValueError("configuration: prefix must not be empty")
        return config

    def run(self, config: dict) -> Report:
        prefix = config["prefix"]
        pages = each(lambda after, limit: state.kv_keys(prefix, after, limit), lambda key: key)
        keys = sum(1 for _ in pages)
        metrics.gauge("keys", float(keys))
        # What is to be remembered lies below the plugin's own prefix. The same
        # note a second time would be a log row for nothing.
        note = own_key("keys")
        if kv.get(note) == str(keys):
            return IDLE
        kv.put(note, str(keys))
        return Report(f"{keys} keys begin with {prefix}", 1, 0, False)
