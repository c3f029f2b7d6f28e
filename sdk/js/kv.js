/// <reference path="./types/plugin.d.ts" />
// Keys and values of the replicated map, as texts. Needs the grants `state` and
// what is called of `commands.put-kv` and `commands.delete-kv`.

import * as commands from 'aedile:maintenance/commands@0.1.0';
import { kvGet } from 'aedile:maintenance/state@0.1.0';

import { Reject, accepted } from './index.js';

const command = (name, grant) => {
  if (!commands[name]) throw new Reject(`the manifest does not ask for the grant ${grant}`);
  return commands[name];
};

/** The text of a key; undefined if it is not there. */
export function get(key) {
  const value = kvGet(key);
  return value === undefined ? undefined : new TextDecoder().decode(value);
}

/** Store a text. */
export function put(key, text) {
  const value = new TextEncoder().encode(text);
  accepted(command('putKv', 'commands.put-kv')([{ key, value }]));
}

/** Remove a key. */
export function remove(key) {
  accepted(command('deleteKv', 'commands.delete-kv')([key]));
}
