/** The past: histories, comparisons, the values of then, and the way back. */

import { useEffect, useMemo, useState } from 'preact/hooks';
import { setQuery, view } from '../data/address.ts';
import { read, seg, write } from '../data/api.ts';
import { Chart } from '../parts/chart.tsx';
import { Diff } from '../values/editing.tsx';
import { byRevision, deed, type Group, lineOf, reaches, stepsOf } from './history.ts';
import { concerns, type Holder, nameOf, pathOf, readValues } from '../data/holder.ts';
import { type Json, preview, print } from '../data/json.ts';
import { Short } from '../values/panes.tsx';
import type { ChatState, Difference, History, HistoryItem, Restored } from '../data/records.ts';
import { useResource } from '../data/resource.ts';
import { mayWrite, say } from '../data/session.ts';
import { Button, count, Dialog, Empty, exactTime, Failure, Link, Loading, Time } from '../parts/ui.tsx';

const PAGE = 200;
const CHART = 240;
const MOST_STEPS = 12;

/** Read a history page by page, and on until what is asked for is among it. */
function usePages(
  holder: Holder,
  key: string | null,
  size = PAGE,
  has: (items: HistoryItem[]) => boolean = () => true,
) {
  const [pages, setPages] = useState(1);
  const found = useResource(
    `${nameOf(holder)}/history/${key ?? ''}/${pages}`,
    async (signal) => {
      const items: HistoryItem[] = [];
      let next: string | null = null;
      for (let page = 0; page < pages || !has(items); page++) {
        const query = new URLSearchParams({ limit: String(size) });
        if (key !== null) query.set('key', key);
        if (next !== null) query.set('cursor', next);
        const got: History = await read<History>(`${pathOf(holder)}/history?${query}`, holder.extension, signal);
        items.push(...got.items);
        next = got.next;
        if (next === null) break;
      }
      return { items, next };
    },
    concerns(holder, key ?? undefined),
  );
  return { ...found, more: () => setPages(pages + 5) };
}

export function KeyHistory({ holder, name }: { holder: Holder; name: string }) {
  const found = usePages(holder, name);
  const [picked, setPicked] = useState<HistoryItem | null>(null);
  const [back, setBack] = useState<number | null>(null);
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const { items, next } = found.data;
  if (items.length === 0) return <Empty>This key was never changed, or its past has been folded.</Empty>;
  const line = lineOf(items, (value) => preview(value, 40));
  const names = line.names;
  return (
    <>
      {line.revisions.length > 1 && (names === null || names.length <= MOST_STEPS) && (
        <Chart
          label={`The course of ${name}`}
          xs={line.revisions}
          lines={[{ label: name, ys: line.heights }]}
          height={CHART}
          stepped={names !== null}
          name={
            names === null ? undefined : (height) => (names[height] === undefined ? '' : preview(names[height], 18))
          }
        />
      )}
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Revision</th>
              <th>When</th>
              <th>Who</th>
              <th>Message</th>
              <th>Change</th>
              <th>Value</th>
              <th />
            </tr>
          </thead>
          <tbody>
            {items.map((each, index) => (
              <tr key={`${each.revision}/${index}`} class={each.live && !each.superseded ? '' : 'dormant'}>
                <td>{each.revision}</td>
                <td>
                  <Time at={each.at} />
                </td>
                <td>{each.actor}</td>
                <td>{each.anchor ? `${each.anchor.messageId} · swipe ${each.anchor.swipe}` : '–'}</td>
                <td>
                  {deed(each)} <State item={each} />
                </td>
                <td class="value">
                  <Short value={'after' in each ? each.after : each.value} />
                </td>
                <td class="buttons">
                  <Button kind="quiet" onClick={() => setPicked(each)}>
                    Compare
                  </Button>
                  {mayWrite(holder.extension) && (
                    <Button kind="quiet" onClick={() => setBack(each.revision)}>
                      Restore
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {next !== null && <Button onClick={found.more}>Show older changes</Button>}
      {picked && (
        <Dialog wide title={`${name}, revision ${picked.revision}: before and after`} onClose={() => setPicked(null)}>
          <SideBySide before={picked.before} after={'after' in picked ? picked.after : picked.value} />
        </Dialog>
      )}
      {back !== null && <Restore holder={holder} name={name} revision={back} onClose={() => setBack(null)} />}
    </>
  );
}

function State({ item }: { item: HistoryItem }) {
  if (item.superseded) return <span class="badge">superseded</span>;
  return item.live ? <span class="badge good">live</span> : <span class="badge">dormant</span>;
}

function textOf(value: Json | undefined): string {
  return value === undefined ? '' : print(value, '  ');
}

function SideBySide({ before, after }: { before: Json | undefined; after: Json | undefined }) {
  return (
    <>
      <div class="two">
        <h3>Before{before === undefined && ': absent'}</h3>
        <h3>After{after === undefined && ': absent'}</h3>
      </div>
      <Diff before={textOf(before)} after={textOf(after)} />
    </>
  );
}

export function HolderHistory({ holder }: { holder: Holder }) {
  const found = usePages(holder, null);
  const [back, setBack] = useState<number | null>(null);
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const groups = byRevision(found.data.items);
  return (
    <>
      {groups.length === 0 && <Empty>Nothing has changed here.</Empty>}
      <ol class="groups">
        {groups.map((each) => (
          <GroupRow key={each.revision} group={each} holder={holder} onRestore={() => setBack(each.revision)} />
        ))}
      </ol>
      {found.data.next !== null && <Button onClick={found.more}>Show older changes</Button>}
      {back !== null && <Restore holder={holder} revision={back} onClose={() => setBack(null)} />}
    </>
  );
}

const FEW = 4;

function GroupRow({ group, holder, onRestore }: { group: Group; holder: Holder; onRestore: () => void }) {
  const [open, setOpen] = useState(group.items.length <= FEW);
  const anchors = [
    ...new Set(
      group.items.flatMap((each) => (each.anchor ? [`${each.anchor.messageId} · swipe ${each.anchor.swipe}`] : [])),
    ),
  ];
  return (
    <li class="group">
      <header>
        <strong>Revision {group.revision}</strong>
        <span>
          <Time at={group.at} /> by {group.actor}
          {anchors.length === 1 && `, at message ${anchors[0]}`}
        </span>
        {group.items.length > FEW && (
          <Button kind="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
            {count(group.items.length, 'change')}
          </Button>
        )}
        <Button
          kind="quiet"
          onClick={() =>
            setQuery({ tab: 'compare', from: String(group.revision - 1), to: String(group.revision) }, 'push')
          }
        >
          Compare
        </Button>
        {mayWrite(holder.extension) && (
          <Button kind="quiet" onClick={onRestore}>
            Restore
          </Button>
        )}
      </header>
      {open && (
        <ul>
          {group.items.map((each, index) => (
            <li key={`${each.key}/${index}`} class={each.live && !each.superseded ? '' : 'dormant'}>
              <ChangeText holder={holder} item={each} />
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

export function ChangeText({ holder, item }: { holder: Holder; item: HistoryItem }) {
  const owner: Holder = item.instanceId !== null ? { ...holder, kind: 'instance', id: item.instanceId } : holder;
  const isValue = item.key !== null && item.space === undefined;
  return (
    <>
      {holder.kind === 'chat' && item.instanceId !== null && <span class="faint">{item.instanceId} </span>}
      {item.space && <span class="faint">{item.space} </span>}
      {isValue ? <Link to={{ ...owner, key: item.key }}>{item.key}</Link> : <strong>{item.key ?? ''}</strong>}{' '}
      {deed(item)}{' '}
      {item.key !== null && (
        <span class="change">
          {'before' in item && (
            <>
              <Short value={item.before} /> →{' '}
            </>
          )}
          <Short value={'after' in item ? item.after : item.value} />
        </span>
      )}{' '}
      {(!item.live || item.superseded) && <State item={item} />}
    </>
  );
}

/** Two revisions beside each other. */
export function Compare({ holder }: { holder: Holder }) {
  const now = useResource(`${nameOf(holder)}/now`, () => readValues(holder), concerns(holder));
  const { from: asked = '', to = '' } = view.value.query;
  const newest = now.data?.revision ?? 0;
  const from = asked || (newest ? String(newest - 1) : '');
  const [typed, setTyped] = useState({ from: '', to: '' });
  useEffect(() => setTyped({ from, to }), [from, to]);
  const found = useResource(`${nameOf(holder)}/diff/${from}/${to}/${newest}`, (signal) =>
    from
      ? read<Difference[]>(
          `${pathOf(holder)}/diff?from=${encodeURIComponent(from)}${to ? `&to=${encodeURIComponent(to)}` : ''}`,
          holder.extension,
          signal,
        )
      : Promise.resolve([]),
  );
  const show = (event: Event): void => {
    event.preventDefault();
    setQuery(typed);
  };
  const set = (change: { from: string; to: string }): void => setQuery(change);
  return (
    <>
      <form class="inline" onSubmit={show}>
        <label>
          From revision or time
          <input value={typed.from} onInput={(event) => setTyped({ ...typed, from: event.currentTarget.value })} />
        </label>
        <label>
          To (empty: now)
          <input value={typed.to} onInput={(event) => setTyped({ ...typed, to: event.currentTarget.value })} />
        </label>
        <Button type="submit" kind="main">
          Compare
        </Button>
        <Button
          disabled={!Number(from)}
          onClick={() => set({ from: String(Number(to || newest) - 1), to: to || String(newest) })}
        >
          With the one before
        </Button>
        <Button onClick={() => set({ from, to: '' })}>With now</Button>
      </form>
      {found.error ? <Failure error={found.error} /> : null}
      {found.data && <Differences list={found.data} holder={holder} />}
      {!found.data && found.loading && <Loading />}
    </>
  );
}

export function Differences({ list, holder }: { list: Difference[]; holder: Holder }) {
  const [picked, setPicked] = useState<Difference | null>(null);
  if (list.length === 0) return <Empty>Nothing differs.</Empty>;
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            {holder.kind === 'chat' && <th>Of</th>}
            <th>Key</th>
            <th>Before</th>
            <th>After</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {list.map((each) => (
            <tr key={`${each.instanceId ?? ''}/${each.space ?? ''}/${each.key}`}>
              {holder.kind === 'chat' && <td>{each.instanceId ?? each.space ?? 'the chat'}</td>}
              <td>{each.key}</td>
              <td class="value">
                <Short value={each.before} />
              </td>
              <td class="value">
                <Short value={each.after} />
              </td>
              <td>
                <Button kind="quiet" onClick={() => setPicked(each)}>
                  Side by side
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {picked && (
        <Dialog wide title={picked.key} onClose={() => setPicked(null)}>
          <SideBySide before={picked.before} after={picked.after} />
        </Dialog>
      )}
    </div>
  );
}

const WAIT_MS = 150;
const STEPS = 1000;

/** A slider through the revisions; for a chat also through its messages. */
export function Slider({ holder }: { holder: Holder }) {
  const { at: asked = '', by = '' } = view.value.query;
  const past = usePages(holder, null, STEPS, (items) => reaches(items, asked));
  const all = useMemo(() => stepsOf(past.data?.items ?? []), [past.data]);
  const steps = by === 'message' ? all.messages : all.revisions;
  const found = steps.findIndex((each) => each.at === asked);
  const position = found < 0 ? steps.length - 1 : found;
  const { at, time } = steps[position] ?? { at: '', time: '' };
  const [shown, setShown] = useState(at);
  useEffect(() => {
    const timer = setTimeout(() => setShown(at), WAIT_MS);
    return () => clearTimeout(timer);
  }, [at]);
  const values = useResource(`${nameOf(holder)}/at/${shown}`, (signal) =>
    // Until the steps are known there is nothing to ask for.
    shown ? readThen(holder, shown, signal) : Promise.resolve([]),
  );
  const [back, setBack] = useState(false);
  if (past.error && !past.data) return <Failure error={past.error} />;
  if (!past.data) return <Loading />;
  if (steps.length === 0) return <Empty>There is no past to read.</Empty>;
  const label = at.startsWith('message:') ? `message ${at.slice(8)}` : `revision ${at}`;
  return (
    <>
      {holder.kind === 'chat' && all.messages.length > 0 && (
        <fieldset class="choice">
          <legend class="offscreen">Steps</legend>
          <label>
            <input type="radio" name="by" checked={by !== 'message'} onChange={() => setQuery({ by: '', at: '' })} /> by
            revision
          </label>
          <label>
            <input
              type="radio"
              name="by"
              checked={by === 'message'}
              onChange={() => setQuery({ by: 'message', at: '' })}
            />{' '}
            by message
          </label>
        </fieldset>
      )}
      <label class="slider">
        <span>
          The values at <strong>{label}</strong>, <Time at={time} exact /> (step {position + 1} of{' '}
          {past.data.next === null ? '' : 'the newest '}
          {steps.length})
        </span>
        <input
          type="range"
          min={0}
          max={steps.length - 1}
          value={position}
          aria-valuetext={`${label}, ${exactTime(time)}`}
          onInput={(event) => setQuery({ at: steps[Number(event.currentTarget.value)]?.at ?? '' })}
        />
      </label>
      {past.data.next !== null && <Button onClick={past.more}>Show older changes</Button>}
      {!at.startsWith('message:') && mayWrite(holder.extension) && (
        <p class="buttons">
          <Button onClick={() => setBack(true)}>Restore revision {at}…</Button>
        </p>
      )}
      {values.error ? <Failure error={values.error} /> : null}
      {values.data?.map((part) => (
        <section key={part.name} aria-label={part.name || 'Values of then'}>
          {part.name && <h2>{part.name}</h2>}
          <dl class="values">
            {part.entries.map(([key, value]) => (
              <div key={key}>
                <dt>{key}</dt>
                <dd>
                  <Short value={value} />
                </dd>
              </div>
            ))}
          </dl>
          {part.entries.length === 0 && <Empty>Nothing was kept here then.</Empty>}
        </section>
      ))}
      {back && <Restore holder={holder} revision={Number(at)} onClose={() => setBack(false)} />}
    </>
  );
}

interface Part {
  name: string;
  entries: [string, Json][];
}

/** Read the values of then: those of an instance, or of a chat and its instances. */
async function readThen(holder: Holder, at: string, signal: AbortSignal): Promise<Part[]> {
  if (holder.kind === 'instance') return [{ name: '', entries: (await readValues(holder, at, signal)).entries }];
  const path = `${pathOf(holder)}/state?at=${encodeURIComponent(at)}`;
  const state = await read<ChatState | null>(path, holder.extension, signal);
  return [
    { name: '', entries: state?.data.entries ?? [] },
    ...(state?.instances ?? []).map((each) => ({
      name: each.instance.name || each.instance.id,
      entries: each.data.entries,
    })),
  ];
}

/** Go back to a revision: first what would change, then the change, which can be undone. */
export function Restore({
  holder,
  name,
  revision,
  onClose,
}: {
  holder: Holder;
  name?: string;
  revision: number;
  onClose: () => void;
}) {
  const path = name === undefined ? `${pathOf(holder)}/restore` : `${pathOf(holder)}/data/${seg(name)}/restore`;
  const send = (to: number, dryRun: boolean) =>
    write('POST', path, {
      extension: holder.extension,
      body: JSON.stringify(dryRun ? { revision: to, dryRun } : { revision: to }),
    });
  const found = useResource(`${path}/${revision}`, async () => (await send(revision, true)).record<Restored>());
  const [error, setError] = useState<unknown>(null);
  const restore = async (): Promise<void> => {
    try {
      const done = (await send(revision, false)).record<Restored>();
      const undo = async (): Promise<void> => {
        await send(done.revision - 1, false);
        say('The restore was undone.');
      };
      say(`Restored revision ${revision}: ${count(done.changed, 'value')} changed.`, { label: 'Undo', run: undo });
      onClose();
    } catch (failure) {
      setError(failure);
    }
  };
  const changes = found.data?.changes ?? [];
  return (
    <Dialog wide title={`Restore ${name ?? holder.id} to revision ${revision}`} onClose={onClose}>
      {found.error ? <Failure error={found.error} /> : null}
      {!found.data && found.loading && <Loading />}
      {found.data && (
        <>
          <p>{changes.length === 0 ? 'Nothing would change.' : `${count(changes.length, 'value')} would change:`}</p>
          {changes.length > 0 && <Differences list={changes} holder={holder} />}
          {found.data.warnings.map((each) => (
            <p class="failure" key={each}>
              {each}
            </p>
          ))}
        </>
      )}
      {error ? <Failure error={error} /> : null}
      <p class="buttons">
        <Button kind="main" disabled={changes.length === 0} onClick={() => void restore()}>
          Restore
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </p>
    </Dialog>
  );
}
