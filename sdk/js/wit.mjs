// The contract, cut down to what a manifest asks for.
//
// A component made of JavaScript imports all of its world, whatever it calls.
// What it imports is what an operator has to grant, so the world that it is
// built for holds the functions of its manifest's grants and no others.

import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Interfaces in which each function is a grant of its own. */
const BY_FUNCTION = ['commands', 'storage'];
/** Interfaces that are one grant. */
const WHOLE = ['state', 'metrics'];

/** Write the WIT files of `from` to `into`, with what is granted. */
export async function cut(from, into, grants) {
  await mkdir(into, { recursive: true });
  const known = new Set(WHOLE);
  const granted = (name) => known.add(name) && grants.includes(name);
  const names = (await readdir(from)).filter((name) => name.endsWith('.wit'));
  for (const name of names.sort()) {
    const text = await readFile(join(from, name), 'utf8');
    const part = name.slice(0, -'.wit'.length);
    await writeFile(
      join(into, name),
      part === 'world' ? world(text, grants) : functions(text, part, granted),
    );
  }
  const unknown = grants.find((grant) => !known.has(grant));
  if (unknown) throw new Error(`manifest.json: there is no grant ${unknown}`);
}

function world(text, grants) {
  return lines(text, (line) => {
    const [, name] = /^\s*import ([a-z-]+);/.exec(line) ?? [];
    if (WHOLE.includes(name)) return grants.includes(name);
    if (BY_FUNCTION.includes(name)) return grants.some((grant) => grant.startsWith(`${name}.`));
    return true;
  });
}

function functions(text, part, granted) {
  if (!BY_FUNCTION.includes(part)) return text;
  return lines(text, (line) => {
    const [, name] = /^\s*%?([a-z0-9-]+): func\(/.exec(line) ?? [];
    return name === undefined || granted(`${part}.${name}`);
  });
}

// The lines that are kept. What describes an item goes with it.
function lines(text, keep) {
  const kept = [];
  let before = [];
  for (const line of text.split('\n')) {
    if (/^\s*(\/\/\/|@)/.test(line)) {
      before.push(line);
      continue;
    }
    if (keep(line)) kept.push(...before, line);
    before = [];
  }
  return [...kept, ...before].join('\n');
}
