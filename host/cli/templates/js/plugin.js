// {{name}}: counts the keys that begin with a prefix, and notes each change.
//
// A plugin to start from. It has what most need: a configuration, a figure, a
// note that outlives the leader, and nothing that is proposed twice. PicoMQ
// names its streams by keys that begin with `/`: by default it counts those.

import { gauge } from 'aedile:maintenance/metrics@0.1.0';
import { kvKeys } from 'aedile:maintenance/state@0.1.0';

import { each, fields, idle, ownKey, plugin, report } from './vendor/aedile-plugin/index.js';
import * as kv from './vendor/aedile-plugin/kv.js';

// What an operator can set. A misspelt key is an error, not a default.
function configure(json) {
  const config = fields(json, { prefix: { text: true, or: '/' } });
  if (config.prefix === '') throw new Error('configuration: prefix must not be empty');
  return config;
}

function tick({ prefix }) {
  let keys = 0n;
  for (const _ of each((after, limit) => kvKeys(prefix, after, limit), (key) => key)) keys += 1n;
  gauge('keys', Number(keys));
  // What is to be remembered lies below the plugin's own prefix. The same note a
  // second time would be a log row for nothing.
  const note = ownKey('keys');
  if (kv.get(note) === `${keys}`) return idle();
  kv.put(note, `${keys}`);
  return report(`${keys} keys begin with ${prefix}`, 1n);
}

export const maintenance = plugin({ configure, tick });
