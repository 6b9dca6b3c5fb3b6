/** The story of a chat: its messages, branches, series, processed ids and operations. */

import type { CSSProperties } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { formatAddress, HOME, setQuery, view } from '../data/address.ts';
import { read, seg, write } from '../data/api.ts';
import { Diff } from '../values/editing.tsx';
import type { Drawing } from './graph.ts';
import { byPlace, type Place } from '../past/history.ts';
import { concerns, type Holder, nameOf, pathOf } from '../data/holder.ts';
import { type Json, Num, Obj, print } from '../data/json.ts';
import { JsonView } from '../parts/jsonview.tsx';
import { ChangeText } from '../past/past.tsx';
import type { Chat, ChatState, History, HistoryItem, Lineage, Operation } from '../data/records.ts';
import { useResource } from '../data/resource.ts';
import { mayWrite, say, sayFailure } from '../data/session.ts';
import { Button, count, Empty, Failure, Loading, Time } from '../parts/ui.tsx';
import { VirtualList } from '../parts/virtual.tsx';

const ROW = 40;
const PAGE = 1000;
const MOST_PAGES = 50;

/** Read all changes of a chat. */
async function readAll(holder: Holder, signal: AbortSignal): Promise<HistoryItem[]> {
  const items: HistoryItem[] = [];
  let cursor = '';
  for (let page = 0; page < MOST_PAGES; page++) {
    const got = await read<History>(`${pathOf(holder)}/history?limit=${PAGE}${cursor}`, holder.extension, signal);
    items.push(...got.items);
    if (got.next === null) break;
    cursor = `&cursor=${encodeURIComponent(got.next)}`;
  }
  return items;
}

export function Story({ holder }: { holder: Holder }) {
  const found = useResource(
    `${nameOf(holder)}/story`,
    async (signal) => byPlace(await readAll(holder, signal)),
    concerns(holder),
  );
  const picked = view.value.query.place ?? '';
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const { places, elsewhere } = found.data;
  const nameOfPlace = (each: Place): string => JSON.stringify([each.messageId, each.swipe]);
  const at = places.findIndex((each) => nameOfPlace(each) === picked);
  const chosen = places[at];
  const row = (index: number, style: CSSProperties) => {
    const each = places[index] as Place;
    const keys = [...new Set(each.items.map((item) => item.key ?? item.op))];
    return (
      <div
        key={nameOfPlace(each)}
        id={`place-${index}`}
        class={`row place ${each.live ? '' : 'dormant'}`}
        role="option"
        aria-selected={index === at}
        style={style}
        onClick={() => setQuery({ place: nameOfPlace(each) })}
      >
        <strong class="label">{each.messageId}</strong>
        <span class="faint">swipe {each.swipe}</span>
        <span class={each.live ? 'badge good' : 'badge'}>{each.live ? 'live' : 'dormant'}</span>
        <span class="hint">{keys.join(', ')}</span>
      </div>
    );
  };
  const walk = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -places.length, End: places.length }[
      event.key
    ];
    if (!step) return;
    event.preventDefault();
    const next = places[Math.max(0, Math.min(places.length - 1, (at < 0 ? -1 : at) + step))];
    if (next) setQuery({ place: nameOfPlace(next) });
  };
  return (
    <>
      <p class="faint">
        {count(places.length, 'place')} with changes; a change is live while its message is visible with that swipe.{' '}
        {count(elsewhere.length, 'change')} without a message.
      </p>
      {places.length === 0 && <Empty>No change of this chat was made at a message.</Empty>}
      <VirtualList
        class="places"
        count={places.length}
        height={ROW}
        row={row}
        active={at}
        onKeyDown={walk}
        attributes={{
          role: 'listbox',
          'aria-label': 'Messages and swipes',
          tabIndex: 0,
          'aria-activedescendant': at >= 0 ? `place-${at}` : undefined,
        }}
      />
      {chosen && (
        <section aria-label={`Changes at ${chosen.messageId}`}>
          <h2>
            {chosen.messageId}, swipe {chosen.swipe}
          </h2>
          <ul class="changes">
            {chosen.items.map((each, index) => (
              <li key={`${each.revision}/${index}`} class={each.live && !each.superseded ? '' : 'dormant'}>
                <span class="faint">{each.revision} </span>
                <ChangeText holder={holder} item={each} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

interface Family {
  drawing: Drawing;
  notes: Map<string, string[]>;
}

export function Branches({ holder }: { holder: Holder }) {
  const { extension } = holder;
  const found = useResource(`${nameOf(holder)}/family`, () => readFamily(holder), concerns(holder));
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const { drawing, notes } = found.data;
  return (
    <>
      <p class="faint">From left to right: where each chat branched off. Looking changes nothing.</p>
      <div class="scroll">
        <svg
          class="graph"
          width={drawing.width}
          height={drawing.height}
          role="group"
          aria-label="Branches of this chat"
        >
          {drawing.lines.map(({ from, to }) => (
            <path
              key={to.id}
              class="line"
              d={`M${from.x},${from.y} C${from.x + 90},${from.y} ${to.x - 90},${to.y} ${to.x},${to.y}`}
            />
          ))}
          {drawing.points.map((each) => (
            <a
              key={each.id}
              href={formatAddress({
                ...HOME,
                page: 'extension',
                extension,
                kind: 'chat',
                id: each.id,
                query: { tab: 'branches' },
              })}
              class={each.id === holder.id ? 'here' : ''}
              aria-current={each.id === holder.id ? 'true' : undefined}
            >
              <circle cx={each.x} cy={each.y} r="7" />
              <text x={each.x + 12} y={each.y - 8}>
                {each.id.length > 26 ? `${each.id.slice(0, 25)}…` : each.id}
              </text>
              <text class="note" x={each.x + 12} y={each.y + 14}>
                {noteOf(notes.get(each.id) ?? [])}
              </text>
              <title>{[each.id, ...(notes.get(each.id) ?? [])].join('\n')}</title>
            </a>
          ))}
        </svg>
      </div>
      <Checkpoints holder={holder} />
    </>
  );
}

const MOST_NOTED = 40;
const NOTE = 34;

/** The notes of a chat in a few words; all of them are in its title. */
function noteOf(notes: string[]): string {
  const saved = notes.filter((each) => each.startsWith('save point '));
  const others = notes.filter((each) => !each.startsWith('save point '));
  const text = [...others, ...(saved.length > 1 ? [`${saved.length} save points`] : saved)].join(' · ');
  return text.length > NOTE ? `${text.slice(0, NOTE - 1)}…` : text;
}

async function readFamily(holder: Holder): Promise<Family> {
  const { extension, id } = holder;
  const [chats, lineage, { layOut }] = await Promise.all([
    read<Chat[]>('chats', extension),
    read<Lineage | null>(`${pathOf(holder)}/lineage`, extension),
    import('./graph.ts'),
  ]);
  const parents = new Map(chats.map((each) => [each.chatId, each.parent]));
  // Archived chats are not in the list, but they are in the lineage.
  let below = id;
  for (const each of lineage?.ancestors ?? []) {
    parents.set(below, each.chatId);
    if (!parents.has(each.chatId)) parents.set(each.chatId, null);
    below = each.chatId;
  }
  for (const each of lineage?.branches ?? []) parents.set(each.chatId, id);
  const root = lineage?.ancestors.at(-1)?.chatId ?? id;
  const all = [...parents].map(([chat, parent]) => ({ id: chat, parent: chat === root ? null : parent }));
  const drawing = layOut(root, all);
  const notes = new Map<string, string[]>();
  for (const each of drawing.points.slice(0, MOST_NOTED)) {
    const [found, saved] = await Promise.all([
      read<Lineage | null>(`chats/${seg(each.id)}/lineage`, extension),
      read<{ name: string }[]>(`chats/${seg(each.id)}/checkpoints`, extension),
    ]);
    const own = notes.get(each.id) ?? [];
    notes.set(each.id, [...own, ...saved.map((one) => `save point ${one.name}`)]);
    for (const one of found?.branches ?? []) {
      const from = one.checkpoint
        ? `from save point ${one.checkpoint}`
        : one.messageId
          ? `from message ${one.messageId}`
          : 'from its end';
      notes.set(one.chatId, [from, ...(notes.get(one.chatId) ?? [])]);
    }
  }
  return { drawing, notes };
}

function Checkpoints({ holder }: { holder: Holder }) {
  const found = useResource(
    `${nameOf(holder)}/checkpoints`,
    () => read<ChatState['checkpoints']>(`${pathOf(holder)}/checkpoints`, holder.extension),
    concerns(holder),
  );
  if (!found.data || found.data.length === 0) return null;
  return (
    <div class="scroll">
      <table>
        <caption>Save points (checkpoints) of this chat</caption>
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th>Revision</th>
            <th>Message</th>
            <th>Made</th>
          </tr>
        </thead>
        <tbody>
          {found.data.map((each) => (
            <tr key={each.name}>
              <td>{each.name}</td>
              <td>{each.status}</td>
              <td>{each.revision ?? '–'}</td>
              <td>{each.messageId ?? '–'}</td>
              <td>
                <Time at={each.createdAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface VersionRecord {
  version: number;
  content: Json;
  createdAt: string;
}

export function SeriesTab({ holder }: { holder: Holder }) {
  const found = useResource(
    `${nameOf(holder)}/series`,
    () => read<ChatState | null>(`${pathOf(holder)}/state`, holder.extension),
    concerns(holder),
  );
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (found.data === undefined) return <Loading />;
  const series = Object.entries(found.data?.series ?? {});
  const processed = Object.entries(found.data?.processed ?? {});
  return (
    <>
      {series.length + processed.length === 0 && <Empty>This chat has no series and no processed ids.</Empty>}
      {series.map(([name, each]) => (
        <details key={name} open={series.length === 1}>
          <summary>
            Series <strong>{name}</strong>: {count(each.count, 'version')}, current {each.currentVersion ?? 'none'}
          </summary>
          <Versions holder={holder} name={name} />
        </details>
      ))}
      {processed.map(([name, number]) => (
        <details key={name}>
          <summary>
            Processed ids <strong>{name}</strong>: {number}
          </summary>
          <ProcessedIds holder={holder} name={name} />
        </details>
      ))}
    </>
  );
}

function Versions({ holder, name }: { holder: Holder; name: string }) {
  const path = `${pathOf(holder)}/series/${seg(name)}`;
  const found = useResource(
    `${nameOf(holder)}/series/${name}`,
    () => readSeries(path, holder.extension),
    concerns(holder),
  );
  const [picked, setPicked] = useState<number[]>([]);
  const versions = found.data?.versions ?? [];
  const last = versions.slice(-2).map((each) => each.version);
  const chosen = picked.length ? picked : last;
  const [one, other] = [...chosen]
    .sort((a, b) => a - b)
    .map((number) => versions.find((each) => each.version === number));
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const toggle = (version: number): void =>
    setPicked([...chosen.filter((each) => each !== version), version].slice(-2));
  return (
    <>
      <ul class="versions">
        {versions.map((each) => (
          <li key={each.version}>
            <label>
              <input type="checkbox" checked={chosen.includes(each.version)} onChange={() => toggle(each.version)} />{' '}
              Version {each.version}
              {each.version === found.data?.currentVersion && <span class="badge good">current</span>}{' '}
              <Time at={each.createdAt} />
            </label>
          </li>
        ))}
      </ul>
      {one && other && one !== other && (
        <>
          <div class="two">
            <h3>Version {one.version}</h3>
            <h3>Version {other.version}</h3>
          </div>
          <Diff before={contentText(one.content)} after={contentText(other.content)} />
        </>
      )}
      {one && (!other || one === other) && <JsonView value={one.content} />}
    </>
  );
}

function contentText(content: Json): string {
  return typeof content === 'string' ? content : print(content, '  ');
}

async function readSeries(
  path: string,
  extension: string,
): Promise<{ currentVersion: number | null; versions: VersionRecord[] }> {
  const found = await read<{ currentVersion: number | null; versions: VersionRecord[] }>(path, extension);
  return { currentVersion: found.currentVersion, versions: found.versions };
}

function ProcessedIds({ holder, name }: { holder: Holder; name: string }) {
  const found = useResource(
    `${nameOf(holder)}/processed/${name}`,
    () => read<{ ids: string[] }>(`${pathOf(holder)}/processed/${seg(name)}`, holder.extension),
    concerns(holder),
  );
  if (found.error) return <Failure error={found.error} />;
  return (
    <ul class="ids">
      {(found.data?.ids ?? []).map((each) => (
        <li key={each}>{each}</li>
      ))}
    </ul>
  );
}

const CANCELLED_FROM = new Set(['pending', 'in_progress', 'retrying']);

export function Operations({ holder }: { holder: Holder }) {
  const found = useResource(
    `${nameOf(holder)}/operations`,
    () => read<Operation[]>(`${pathOf(holder)}/operations`, holder.extension),
    () => false,
  );
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const act = async (each: Operation, method: string, verb: string, done: string): Promise<void> => {
    try {
      const path = `${pathOf(holder)}/operations/${seg(each.id)}${verb && `/${verb}`}`;
      await write(method, path, { extension: holder.extension });
      say(`${done}: ${each.id}.`);
    } catch (error) {
      sayFailure(error);
    }
    found.reload();
  };
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  if (found.data.length === 0) return <Empty>No work waits, and none is being done.</Empty>;
  const may = mayWrite(holder.extension);
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>Operation</th>
            <th>Type</th>
            <th>Status</th>
            <th>Attempts</th>
            <th>Lease</th>
            <th>At</th>
            <th>Changed</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {found.data.map((each) => (
            <tr key={each.id}>
              <td>
                {each.id}
                {each.dependsOn.length > 0 && <small class="faint"> after {each.dependsOn.join(', ')}</small>}
              </td>
              <td>
                {each.type}
                {each.stage && ` · ${each.stage}`}
              </td>
              <td>
                <span class={`badge ${each.status === 'failed' ? 'bad' : each.status === 'completed' ? 'good' : ''}`}>
                  {each.status.replaceAll('_', ' ')}
                </span>
                <Reason data={each.data} />
              </td>
              <td>
                {each.attempts} of {each.maxAttempts}
              </td>
              <td>{leaseText(each.leaseUntil, now)}</td>
              <td>{each.anchor ? `${each.anchor.messageId} · swipe ${each.anchor.swipe}` : '–'}</td>
              <td>
                <Time at={each.updatedAt} />
              </td>
              <td class="buttons">
                {may && CANCELLED_FROM.has(each.status) && (
                  <Button kind="quiet" onClick={() => void act(each, 'POST', 'cancel', 'Cancelled')}>
                    Cancel
                  </Button>
                )}
                {may && each.status === 'failed' && (
                  <Button kind="quiet" onClick={() => void act(each, 'POST', 'retry', 'Queued again')}>
                    Retry
                  </Button>
                )}
                {may && (
                  <Button kind="danger" onClick={() => void act(each, 'DELETE', '', 'Deleted')}>
                    Delete
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Why an operation failed, if it says so. */
function Reason({ data }: { data: Json }) {
  const reason = data instanceof Obj ? (data.get('reason') ?? data.get('error')) : undefined;
  if (reason === undefined || reason === null) return null;
  return (
    <small class="faint">
      {' '}
      {reason instanceof Num ? reason.text : typeof reason === 'string' ? reason : print(reason)}
    </small>
  );
}

function leaseText(until: string | null, now: number): string {
  if (!until) return '–';
  const seconds = Math.round((Date.parse(until) - now) / 1000);
  return seconds > 0 ? `${seconds} s left` : 'has ended';
}
