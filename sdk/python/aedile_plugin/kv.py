"""Keys and values of the replicated map, as texts. Needs the grants ``state`` and
what is called of ``commands.put-kv`` and ``commands.delete-kv``."""

from typing import Optional

from wit_world.imports import commands, state

from . import Reject, accepted


def get(key: str) -> Optional[str]:
    """The text of a key; None if it is not there."""
    value = state.kv_get(key)
    return None if value is None else value.decode("utf-8", "replace")


def put(key: str, text: str) -> None:
    """Store a text."""
    put_kv = _command("put_kv", "commands.put-kv")
    accepted(put_kv([commands.Put(key, text.encode())]))


def remove(key: str) -> None:
    """Remove a key."""
    accepted(_command("delete_kv", "commands.delete-kv")([key]))


def _command(name: str, grant: str):
    function = getattr(commands, name, None)
    if function is None:
        raise Reject(f"the manifest does not ask for the grant {grant}")
    return function
