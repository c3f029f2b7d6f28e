// Counts the streams and names those that hold the most records.
//
// The count is kept below the plugin's own prefix, as `report`, and written
// again only when it differs. A tick looks at so many streams and no more; what
// it has counted until then is kept as `pass`, so that the next tick goes on
// there, on whichever node it runs.

import { shouldStop } from 'aedile:maintenance/job@0.1.0';
import { log } from 'aedile:maintenance/logging@0.1.0';
import { gauge } from 'aedile:maintenance/metrics@0.1.0';
import { streams } from 'aedile:maintenance/state@0.1.0';

import { PAGE, fields, idle, ownKey, plugin, report } from '../../../sdk/js/index.js';
import * as kv from '../../../sdk/js/kv.js';
import { Census } from './census.js';

const configure = (json) =>
  fields(json, {
    top: { number: [1, 100], or: 10 },
    'streams-per-tick': { number: [1, 100000], or: 20000 },
    'warn-records': { number: [0, Number.MAX_SAFE_INTEGER] },
  });

// Count the streams after this one. Says whether there are no more, or the tick
// has looked at as many as it may, or should stop.
function count(census, after, most) {
  let looked = 0;
  while (looked < most && !(looked && shouldStop())) {
    const page = streams(after, Math.min(PAGE, most - looked));
    if (page.length === 0) return { ended: true, after, looked };
    for (const stream of page) census.add(stream);
    after = page.at(-1).id;
    looked += page.length;
  }
  return { ended: false, after, looked };
}

// Write the report if it differs from the one that is there.
function publish(census, most) {
  const key = ownKey('report');
  if (kv.get(key) === `${census}`) return false;
  kv.put(key, `${census}`);
  for (const { id, records } of census.top) {
    if (most !== undefined && records > BigInt(most)) {
      log('warn', `stream ${id} holds ${records} records, more than ${most}`);
    }
  }
  return true;
}

function tick(config) {
  const pass = ownKey('pass');
  const resumed = Census.read(kv.get(pass) ?? '', config.top);
  const census = resumed?.census ?? new Census(config.top);
  const { ended, after, looked } = count(census, resumed?.after, config['streams-per-tick']);
  if (!ended) {
    kv.put(pass, `after ${after}\n${census}`);
    return report(`${census.streams} streams so far`, BigInt(looked), { more: true });
  }
  gauge('streams', Number(census.streams));
  gauge('open_streams', Number(census.open));
  gauge('records', Number(census.records));
  const changed = publish(census, config['warn-records']);
  // Only now: a tick that ends in between counts the rest again, no more.
  if (resumed) kv.remove(pass);
  if (!changed) return idle();
  const { streams: all, open, records } = census;
  return report(`${all} streams, ${open} open, ${records} records`, BigInt(looked));
}

export const maintenance = plugin({ configure, tick });
