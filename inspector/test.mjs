/** Runs the unit tests: bundles each of them, because Node 20 reads no TypeScript. */

import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
// Inside of the folder, so that the packages are found.
const folder = await mkdtemp(path.join(here, 'node_modules', '.test-'));
try {
  const names = (await readdir(path.join(here, 'test'))).filter((name) => name.endsWith('.test.ts'));
  await build({
    absWorkingDir: here,
    entryPoints: names.map((name) => path.join('test', name)),
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'warning',
  });
  const files = names.map((name) => path.join(folder, name.replace('.ts', '.mjs')));
  process.exitCode = spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
