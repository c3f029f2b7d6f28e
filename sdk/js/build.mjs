#!/usr/bin/env node
// Makes a module of a plugin in JavaScript.
//
//     node vendor/aedile-plugin/build.mjs SOURCE MODULE
//
// Run it in the project's folder: manifest.json and node_modules lie there.

import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { argv, chdir, cwd, exit } from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { cut } from './wit.mjs';

const HERE = dirname(fileURLToPath(import.meta.url));
const COMPILER = '@bytecodealliance/componentize-js';

// What a runtime would take from WASI. A host gives nothing of it, so nothing
// of it is imported.
const WITHOUT = ['random', 'stdio', 'clocks', 'http', 'fetch-event'];

async function build(source, module) {
  const text = await readFile('manifest.json', 'utf8');
  const { grants } = JSON.parse(text);
  if (!Array.isArray(grants)) throw new Error('manifest.json: grants must be a list');
  const { componentize } = await import(await compiler());
  const folder = await mkdtemp(join(tmpdir(), 'aedile-wit-'));
  try {
    await cut(join(HERE, 'wit'), folder, grants);
    const [sourcePath, output] = [resolve(source), resolve(module)];
    // The compiler sees the files below the folder that it runs in.
    chdir(common(cwd(), HERE));
    const { component } = await componentize({
      sourcePath,
      witPath: folder,
      worldName: 'plugin',
      disableFeatures: WITHOUT,
    });
    const bytes = Buffer.concat([component, section('aedile:manifest', Buffer.from(text))]);
    await writeFile(output, bytes);
    console.log(`${module}: ${bytes.length} bytes`);
  } finally {
    await rm(folder, { recursive: true });
  }
}

// The compiler of the project, wherever this file lies.
async function compiler() {
  for (let folder = cwd(); ; folder = dirname(folder)) {
    const found = join(folder, 'node_modules', COMPILER);
    if (await stat(found).catch(() => undefined)) {
      const { exports } = JSON.parse(await readFile(join(found, 'package.json'), 'utf8'));
      return pathToFileURL(join(found, exports.import)).href;
    }
    if (folder === dirname(folder)) throw new Error(`${COMPILER} is not installed: run \`npm ci\``);
  }
}

function common(one, other) {
  let folder = one;
  while (relative(folder, other).startsWith('..')) folder = dirname(folder);
  return folder;
}

// A custom section: its length, its name with the name's length, its bytes.
function section(name, bytes) {
  const body = Buffer.concat([leb(name.length), Buffer.from(name), bytes]);
  return Buffer.concat([Buffer.of(0), leb(body.length), body]);
}

function leb(value) {
  const bytes = [];
  for (; value >= 0x80; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return Buffer.from([...bytes, value]);
}

const [source, module, ...rest] = argv.slice(2);
if (!module || rest.length > 0) {
  console.error('usage: build.mjs SOURCE MODULE');
  exit(2);
}
try {
  await build(source, module);
} catch (error) {
  console.error(`build: ${error.message}`);
  exit(1);
}
