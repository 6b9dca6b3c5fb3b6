import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatAddress, HOME, parseAddress, type View } from '../src/data/address.ts';
import { apiBase, refusalOf, seg } from '../src/data/api.ts';
import { layOut } from '../src/story/graph.ts';
import { byPlace, byRevision, lineOf, reaches, stepsOf } from '../src/past/history.ts';
import { asMacro } from '../src/data/holder.ts';
import { Num, preview } from '../src/data/json.ts';
import { EventParser } from '../src/data/live.ts';
import { coursesOf, sampleOf } from '../src/server/metrics.ts';
import { matches, routesOf, targetOf } from '../src/server/openapi.ts';
import type { HistoryItem } from '../src/data/records.ts';
import { flatten, move, type Node, rowOf } from '../src/tree/tree.ts';
import { timeText } from '../src/parts/ui.tsx';

test('an address says what is shown, and leads back to it', () => {
  const views: View[] = [
    HOME,
    { ...HOME, page: 'feed', query: { extension: 'a', filter: 'x y' } },
    { ...HOME, page: 'extension', extension: 'demo' },
    {
      ...HOME,
      page: 'extension',
      extension: 'demo',
      kind: 'instance',
      id: 'a/b?c#d%',
      key: '../é',
      query: { tab: 'history' },
    },
    { ...HOME, page: 'extension', extension: 'demo', kind: 'chat', id: 'Seraphina - <img>', query: { q: 'gold' } },
  ];
  for (const view of views) assert.deepEqual(parseAddress(formatAddress(view)), view);
});

test('an address that means nothing shows the beginning', () => {
  for (const hash of ['', '#', '#/nowhere', '#/extension', '#/%', '#/extension//instance']) {
    assert.equal(parseAddress(hash).page, 'home', hash);
  }
  assert.equal(parseAddress('#/extension/demo/planet/x').kind, '');
});

test('the API lies beside the page, or below the prefix', () => {
  assert.equal(apiBase('/inspector/'), '../api/plugins/valuetracker/');
  assert.equal(apiBase('/api/plugins/valuetracker/inspector/'), '../');
  assert.equal(apiBase('/st/api/plugins/valuetracker/inspector/'), '../');
  assert.equal(apiBase('/tracker/inspector/'), '../api/plugins/valuetracker/');
});

test('a segment of a path is never lost', () => {
  assert.equal(seg('..'), '%2E%2E');
  assert.equal(seg('a/b'), 'a%2Fb');
});

test('an answer that is not ours becomes a refusal, too', () => {
  assert.equal(refusalOf(502, '<html>').code, 'unknown');
  assert.equal(refusalOf(404, '{"code": "instance_not_found", "error": "x", "hint": null}').code, 'instance_not_found');
});

const node = (id: string, opens = false): Node => ({
  id,
  kind: 'key',
  label: id,
  hint: '',
  view: { extension: 'e', kind: 'instance', id },
  opens,
});

test('a tree shows what is open, and keys walk it', () => {
  const roots = [node('a', true), node('b')];
  const children = new Map([['a', [node('a1', true), node('a2')]]]);
  const rows = flatten(roots, new Set(['a']), children);

  assert.deepEqual(
    rows.map((row) => [row.node.id, row.depth, row.position, row.siblings, row.parent]),
    [
      ['a', 0, 1, 2, -1],
      ['a1', 1, 1, 2, 0],
      ['a2', 1, 2, 2, 0],
      ['b', 0, 2, 2, -1],
    ],
  );
  assert.deepEqual(move(rows, 0, 'ArrowDown', 10), { to: 1 });
  assert.deepEqual(move(rows, 3, 'ArrowDown', 10), { to: 3 });
  assert.deepEqual(move(rows, 0, 'PageDown', 10), { to: 3 });
  assert.deepEqual(move(rows, 2, 'ArrowLeft', 10), { to: 0 });
  assert.deepEqual(move(rows, 0, 'ArrowLeft', 10), { toggle: 0 });
  assert.deepEqual(move(rows, 1, 'ArrowRight', 10), { toggle: 1 });
  assert.deepEqual(move(rows, 0, 'ArrowRight', 10), { to: 1 });
  assert.equal(move(rows, 3, 'ArrowRight', 10), null);
  assert.equal(move(rows, 3, 'x', 10), null);
  assert.equal(rowOf(rows, { ...HOME, page: 'extension', extension: 'e', kind: 'instance', id: 'a2' }), 2);
  assert.equal(flatten(roots, new Set(), children).length, 2);
});

test('100,000 rows are laid out at once', () => {
  const many = Array.from({ length: 100_000 }, (_, index) => node(`k${index}`));
  assert.equal(flatten([node('a', true)], new Set(['a']), new Map([['a', many]])).length, 100_001);
});

const item = (revision: number, more: Partial<HistoryItem> = {}): HistoryItem => ({
  revision,
  at: '2026-01-01T00:00:00.000Z',
  actor: 'extension',
  instanceId: 'i',
  key: 'hp',
  op: 'set',
  anchor: null,
  live: true,
  ...more,
});

test('a bulk change is one group', () => {
  const groups = byRevision([item(3), item(3, { key: 'mp' }), item(2)]);
  assert.deepEqual(
    groups.map((each) => [each.revision, each.items.length]),
    [
      [3, 2],
      [2, 1],
    ],
  );
});

test('changes stand at their messages, in the order of the story', () => {
  const at = (messageId: string, swipe = '0') => ({ anchor: { messageId, swipe } });
  const { places, elsewhere } = byPlace([
    item(5, { op: 'reconcile' }),
    item(4, at('m3')),
    item(4, at('m2')),
    item(3, { ...at('m1', '1'), live: false }),
    item(2),
    item(1, at('m1')),
  ]);
  assert.deepEqual(
    places.map((each) => [each.messageId, each.swipe, each.live]),
    [
      ['m1', '0', true],
      ['m1', '1', false],
      ['m2', '0', true],
      ['m3', '0', true],
    ],
  );
  assert.deepEqual(
    elsewhere.map((each) => each.revision),
    [2],
  );
});

test('the past has a step for each revision and each live message, the oldest first', () => {
  const at = (messageId: string) => ({ anchor: { messageId, swipe: '0' } });
  const items = [
    item(4, { ...at('m2'), at: 'fourth' }),
    item(3, { ...at('m1'), at: 'third' }),
    item(3, { ...at('m3'), live: false }),
    item(2, { ...at('m1'), at: 'second' }),
  ];
  const { revisions, messages } = stepsOf(items);
  assert.deepEqual(
    revisions.map((each) => each.at),
    ['2', '3', '4'],
  );
  assert.deepEqual(messages, [
    { at: 'message:m1', time: 'third' },
    { at: 'message:m2', time: 'fourth' },
  ]);
  for (const known of ['', '2', '4', 'yesterday', 'message:m1']) assert.ok(reaches(items, known), known);
  for (const older of ['1', 'message:m0', 'message:m3']) assert.ok(!reaches(items, older), older);
});

test('numbers make a line, other values steps, and dormant changes neither', () => {
  const numbers = lineOf(
    [item(2, { after: new Num('5') }), item(1, { after: new Num('7') }), item(3, { live: false, value: new Num('1') })],
    preview,
  );
  assert.deepEqual(numbers, { revisions: [1, 2], heights: [7, 5], names: null });
  const steps = lineOf(
    [item(1, { after: 'calm' }), item(2, { after: 'angry' }), item(3, { after: 'calm' }), item(4, { before: 'calm' })],
    preview,
  );
  assert.deepEqual(steps, { revisions: [1, 2, 3, 4], heights: [0, 1, 0, null], names: ['calm', 'angry'] });
});

test('events come whole, however the stream is cut', () => {
  const text = ': hello\n\nid: 9\nevent: change\ndata: {"revision":9}\n\nevent: gone\ndata: {}\n\n';
  for (const size of [1, 7, 1000]) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(found, [
      { event: 'change', id: '9', data: '{"revision":9}' },
      { event: 'gone', id: '', data: '{}' },
    ]);
  }
});

test('a family of chats is drawn from left to right', () => {
  const drawing = layOut('a', [
    { id: 'a', parent: null },
    { id: 'b', parent: 'a' },
    { id: 'c', parent: 'a' },
    { id: 'other', parent: null },
  ]);
  assert.deepEqual(drawing.points.map((each) => each.id).sort(), ['a', 'b', 'c']);
  assert.equal(drawing.lines.length, 2);
  for (const { from, to } of drawing.lines) assert.ok(from.x < to.x);
});

test('a route is found by its words and filled with what was given', () => {
  const [route] = routesOf({
    paths: {
      '/api/plugins/valuetracker/instances/{instance}/data': {
        get: {
          tags: ['Data'],
          summary: 'Read all values.',
          parameters: [
            { name: 'x-extension-id', in: 'header' },
            { name: 'instance', in: 'path' },
            { name: 'at', in: 'query' },
          ],
          responses: { 200: { description: 'ok' }, 410: { description: '`compacted`' } },
        },
      },
    },
  });
  assert.ok(route);
  assert.ok(route.needsExtension);
  assert.ok(matches(route, ['get', 'values']));
  assert.ok(matches(route, ['compacted']));
  assert.ok(!matches(route, ['delete']));
  assert.equal(targetOf(route, { 'path instance': 'a/b', 'query at': '3' }), 'instances/a%2Fb/data?at=3');
});

test('a macro names the owner of an instance', () => {
  assert.equal(asMacro('hp', null), '{{vt::hp}}');
  assert.equal(asMacro('hp', 'Seraphina'), '{{vt::Seraphina.hp}}');
});

test('times are said in words', () => {
  const now = Date.parse('2026-01-10T12:00:00Z');
  assert.equal(timeText('2026-01-10T11:59:58Z', now), 'just now');
  assert.equal(timeText('2026-01-10T11:20:00Z', now), '40 min ago');
  assert.equal(timeText('2026-01-09T11:20:00Z', now), 'yesterday');
  assert.match(timeText('2025-01-09T11:20:00Z', now), /2025/);
});

test('metrics become courses per second, over a restart, too', () => {
  const text = (requests: number, memory = '') =>
    `# HELP x\nvaluetracker_requests_total{method="GET",route="/a{b}",status="2xx"} ${requests}.0\nvaluetracker_requests_total{method="GET",route="",status="4xx"} 1.0\nvaluetracker_request_seconds_sum{route="/a"} ${requests / 100}\nvaluetracker_request_seconds_count{route="/a"} ${requests}.0\nvaluetracker_commit_seconds_count 3.0\n${memory}`;
  const first = sampleOf(text(9, 'process_resident_memory_bytes 1.048576e+06\n'), 1000);
  assert.deepEqual(first, { at: 1000, requests: 10, seconds: 0.09, measured: 9, commits: 3, memory: 1048576 });
  const found = coursesOf([first, sampleOf(text(19), 3000), sampleOf(text(0), 4000), sampleOf(text(5), 5000)]);
  assert.deepEqual(found.requests, [5, 5]);
  assert.deepEqual(found.commits, [0, 0]);
  assert.deepEqual(found.memory, [null, null]);
  assert.ok(Math.abs((found.latency[0] ?? 0) - 10) < 1e-6);
});
