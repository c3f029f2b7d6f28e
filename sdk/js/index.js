/// <reference path="./types/plugin.d.ts" />
// Write maintenance plugins for Aedile in JavaScript.
//
// The host functions are modules named after their interfaces, such as
// 'aedile:maintenance/state@0.1.0'; `types/` describes them all. This file adds
// what nearly every plugin needs: a configuration that is checked, failures,
// pages. It imports nothing that needs a grant; `kv.js` does.
//
// Ids, offsets and times are BigInts: a Number loses digits above 2^53.
//
//     import { fields, idle, plugin } from './vendor/aedile-plugin/index.js';
//
//     export const maintenance = plugin({
//       configure: (json) => fields(json, { top: { number: [1, 100], or: 10 } }),
//       tick: (config) => idle(),
//     });
//
// There is no network, no file and no timer, and nothing outlives a tick.

import { config, plugin as pluginName } from 'aedile:maintenance/job@0.1.0';
import { log } from 'aedile:maintenance/logging@0.1.0';

/** Only an operator can help; the text says how. */
export class Reject extends Error {}

/** Try again after a while. */
export class Retry extends Error {
  /**
   * @param {string} reason
   * @param {number} [afterMs] how long to wait at least; 0 leaves it to the host
   */
  constructor(reason, afterMs = 0) {
    super(reason);
    this.afterMs = afterMs;
  }
}

/** The report of a tick that did nothing. It leaves no trace in the run history. */
export const idle = () => report('', 0n);

/**
 * A report.
 * @param {string} summary one line for the run history
 * @param {bigint} done how many things it did
 * @param {{ failed?: bigint, more?: boolean }} [rest] things left because they
 *   failed; whether more is waiting, so that the host ticks again at once
 */
export const report = (summary, done, { failed = 0n, more = false } = {}) => ({
  summary,
  done,
  failed,
  more,
});

/**
 * The two exports that the host calls, from two functions of yours: `configure`
 * turns the configuration's text into what `tick` gets, and throws if the text
 * is wrong.
 * @template C
 * @param {{ configure(json: string): C, tick(config: C): object }} functions
 */
export function plugin({ configure, tick }) {
  return {
    validateConfig(json) {
      try {
        configure(json);
      } catch (error) {
        throw error.message;
      }
    },
    tick() {
      try {
        return tick(configured(configure, config()));
      } catch (error) {
        throw failure(error);
      }
    },
  };
}

function configured(configure, json) {
  try {
    return configure(json);
  } catch (error) {
    throw new Reject(error.message);
  }
}

// What the host is told. A host function throws its error as `payload`; what
// nobody expected goes to the log with the place where it happened.
function failure(error) {
  const retry = (reason, afterMs = 0) => ({ tag: 'retry', val: { afterMs: BigInt(afterMs), reason } });
  if (error instanceof Reject) return { tag: 'reject', val: error.message };
  if (error instanceof Retry) return retry(error.message, error.afterMs);
  const { tag, val } = error?.payload ?? {};
  if (tag === 'invalid-argument') return { tag: 'reject', val: `invalid argument: ${val}` };
  if (tag === 'unavailable') return retry(val);
  log('error', `${error}: ${error?.stack ?? 'no stack'}`);
  return retry(`${error}`);
}

/**
 * Read a configuration: a JSON object with nothing but these keys. A misspelt
 * key is an error, not a default. A field is `{ number: [least, most] }`,
 * `{ text: true }` or `{ bool: true }`, with `or` for what an absent key means.
 * @param {string} json
 * @param {Record<string, { number?: [number, number], text?: true, bool?: true, or?: any }>} known
 * @returns {Record<string, any>}
 */
export function fields(json, known) {
  let found;
  try {
    found = JSON.parse(json);
  } catch (error) {
    throw new Error(`configuration: is not JSON: ${error.message}`);
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found)) {
    throw new Error('configuration: must be a JSON object');
  }
  for (const key of Object.keys(found)) {
    if (!Object.hasOwn(known, key)) throw new Error(`configuration: unknown key \`${key}\``);
  }
  return Object.fromEntries(
    Object.entries(known).map(([key, field]) => [
      key,
      Object.hasOwn(found, key) ? checked(key, found[key], field) : field.or,
    ]),
  );
}

function checked(key, value, { number, text, bool }) {
  const must = (holds, what) => {
    if (!holds) throw new Error(`configuration: ${key} must be ${what}`);
    return value;
  };
  if (number) {
    const [least, most] = number;
    const holds = Number.isSafeInteger(value) && value >= least && value <= most;
    return must(holds, `a whole number from ${least} to ${most}`);
  }
  if (bool) return must(typeof value === 'boolean', 'true or false');
  return must(typeof value === 'string' && text, 'a text');
}

/** Most items that a host gives in one page. */
export const PAGE = 2000;

/**
 * Every item of a paged list, page by page.
 *
 *     for (const stream of each(streams, (stream) => stream.id)) …
 *
 * @template T, K
 * @param {(after: K | undefined, limit: number) => T[]} page the host's function
 * @param {(item: T) => K} key what a page goes on after
 * @param {K} [after] where to begin: after this one
 */
export function* each(page, key, after = undefined) {
  for (;;) {
    const items = page(after, PAGE);
    if (items.length === 0) return;
    yield* items;
    after = key(items.at(-1));
  }
}

/** A key that this plugin may write: `aedile/kv/<plugin>/<name>`. */
export const ownKey = (name) => `aedile/kv/${pluginName()}/${name}`;

/**
 * Take the answers of commands. Throws if one was rejected; what was redundant
 * or is unknown needs nothing done.
 */
export function accepted(answers) {
  const rejected = answers.find(({ tag }) => tag === 'rejected');
  if (rejected) throw new Reject(rejected.val);
}
