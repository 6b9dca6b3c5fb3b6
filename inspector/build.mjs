/**
 * Builds the page into `valuetracker/inspector/`, where the server finds it.
 *
 * The names of scripts and styles have a digest of their content. Each file is there a second time,
 * packed with gzip, so that the server need not pack it.
 */

import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, '..', 'valuetracker', 'inspector');

const result = await build({
  absWorkingDir: here,
  entryPoints: { main: 'src/main.tsx', style: 'src/style.css' },
  outdir: 'out',
  bundle: true,
  splitting: true,
  format: 'esm',
  minify: true,
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  legalComments: 'none',
  metafile: true,
  write: false,
  logLevel: 'warning',
});

const files = new Map(result.outputFiles.map((file) => [path.basename(file.path), file.contents]));
const find = (name) => {
  const [found] = [...files.keys()].filter((each) => each.startsWith(`${name}-`) && !each.endsWith('.map'));
  return found;
};
const outputs = Object.entries(result.metafile.outputs);
const script = path.basename(outputs.find(([, each]) => each.entryPoint === 'src/main.tsx')[0]);
const html = await readFile(path.join(here, 'src', 'index.html'), 'utf8');
files.set('index.html', Buffer.from(html.replace('SCRIPT', `./${script}`).replace('STYLE', `./${find('style')}`)));

// The old files go and `index.html` comes last: whoever asks meanwhile gets a whole page or none.
await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
for (const [name, content] of files) {
  if (name === 'index.html') continue;
  await writeFile(path.join(target, name), content);
  await writeFile(path.join(target, `${name}.gz`), gzipSync(content, { level: 9 }));
}
const index = files.get('index.html');
await writeFile(path.join(target, 'index.html.gz'), gzipSync(index, { level: 9 }));
await writeFile(path.join(target, 'index.new'), index);
await rename(path.join(target, 'index.new'), path.join(target, 'index.html'));
