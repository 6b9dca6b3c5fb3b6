/** The pane: what is shown of the thing that was chosen in the tree. */

import type { CSSProperties, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { go, setQuery, view } from '../data/address.ts';
import { read, seg } from '../data/api.ts';
import { beginEdit, draftOf, Editing, removeKey, setValue, saidAndUndone } from './editing.tsx';
import { download } from '../server/extension.tsx';
import { asFetch, asMacro, concerns, type Holder, nameOf, pathOf, readValue, readValues } from '../data/holder.ts';
import { type Json, JsonError, kindOf, parse, preview, print } from '../data/json.ts';
import { JsonView, Leaf } from '../parts/jsonview.tsx';
import { Compare, HolderHistory, KeyHistory, Slider } from '../past/past.tsx';
import type { Character, Chat, Instance } from '../data/records.ts';
import { errorText, useResource } from '../data/resource.ts';
import { mayWrite, sayFailure } from '../data/session.ts';
import { Branches, Operations, SeriesTab, Story } from '../story/story.tsx';
import { Button, CopyButton, Dialog, Empty, Failure, Icon, Link, Loading, Tabs, Time } from '../parts/ui.tsx';
import { VirtualList } from '../parts/virtual.tsx';

const ROW = 34;

export function CharacterPane({ extension, id }: { extension: string; id: string }) {
  const found = useResource(
    `${extension}/character/${id}`,
    async () => ({
      character: (await read<Character[]>('characters', extension)).find((each) => each.id === id),
      instances: await read<Instance[]>(`instances?characterId=${encodeURIComponent(id)}`, extension),
    }),
    (event) => event.changes.some((each) => each.characterId === id || each.key === null),
  );
  const { data } = found;
  return (
    <>
      <Heading icon="character" title={data?.character?.name || id} sub={`Character ${id}`} />
      {found.error ? <Failure error={found.error} /> : null}
      {!data && found.loading && <Loading />}
      {data && !data.character && <Empty>There is no character {id} now.</Empty>}
      {data && (
        <ul class="cards">
          {data.instances.map((each) => (
            <li key={each.id}>
              <Link to={{ extension, kind: 'instance', id: each.id }}>{each.name || each.id}</Link>
              <small>{each.chatId ? `in ${each.chatId}` : 'in no chat'}</small>
              <small>
                changed <Time at={each.updatedAt} />
              </small>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Heading({ icon, title, sub }: { icon: string; title: string; sub: JSX.Element | string }) {
  return (
    <header class="heading">
      <Icon name={icon} />
      <div>
        <h1>{title}</h1>
        <p>{sub}</p>
      </div>
    </header>
  );
}

const INSTANCE_TABS = [
  { id: 'values', label: 'Values' },
  { id: 'history', label: 'History' },
  { id: 'compare', label: 'Compare' },
  { id: 'past', label: 'Back in time' },
];
const CHAT_TABS = [
  ...INSTANCE_TABS,
  { id: 'story', label: 'Story' },
  { id: 'branches', label: 'Branches' },
  { id: 'series', label: 'Series' },
  { id: 'operations', label: 'Operations' },
];

export function HolderPane({ holder }: { holder: Holder }) {
  const tabs = holder.kind === 'chat' ? CHAT_TABS : INSTANCE_TABS;
  const wanted = view.value.query.tab ?? 'values';
  const tab = tabs.some((each) => each.id === wanted) ? wanted : 'values';
  return (
    <>
      {holder.kind === 'chat' ? <ChatHeading holder={holder} /> : <InstanceHeading holder={holder} />}
      <Tabs tabs={tabs} current={tab} label="Views" onPick={(id) => setQuery({ tab: id === 'values' ? '' : id })} />
      <div
        class="body"
        role="tabpanel"
        aria-label={tabs.find((each) => each.id === tab)?.label}
        key={`${nameOf(holder)}/${tab}`}
      >
        {tab === 'values' && <ValuesTab holder={holder} />}
        {tab === 'history' && <HolderHistory holder={holder} />}
        {tab === 'compare' && <Compare holder={holder} />}
        {tab === 'past' && <Slider holder={holder} />}
        {tab === 'story' && <Story holder={holder} />}
        {tab === 'branches' && <Branches holder={holder} />}
        {tab === 'series' && <SeriesTab holder={holder} />}
        {tab === 'operations' && <Operations holder={holder} />}
      </div>
    </>
  );
}

function InstanceHeading({ holder }: { holder: Holder }) {
  const { extension, id } = holder;
  const found = useResource(`${nameOf(holder)}/record`, () => instanceOf(extension, id), concerns(holder));
  const each = found.data;
  const sub = each ? (
    <>
      Instance {each.id} of <Link to={{ extension, kind: 'character', id: each.characterId }}>{each.characterId}</Link>
      {each.chatId !== null && (
        <>
          {' '}
          in <Link to={{ extension, kind: 'chat', id: each.chatId }}>{each.chatId}</Link>
        </>
      )}
      , changed <Time at={each.updatedAt} />
    </>
  ) : (
    `Instance ${id}${found.loading || found.error ? '' : ': there is none now; its past may still be read'}`
  );
  return <Heading icon="instance" title={each?.name || id} sub={sub} />;
}

async function instanceOf(extension: string, id: string): Promise<Instance | null> {
  const all = await read<Instance[]>('instances', extension);
  return all.find((each) => each.id === id) ?? null;
}

function ChatHeading({ holder }: { holder: Holder }) {
  const { extension, id } = holder;
  const found = useResource(
    `${nameOf(holder)}/record`,
    () => read<Chat | null>(pathOf(holder), extension),
    concerns(holder),
  );
  const each = found.data;
  const sub = each ? (
    <>
      Chat{each.archived && <strong> (archived: it cannot be changed)</strong>}
      {each.parent !== null && (
        <>
          , a branch of <Link to={{ extension, kind: 'chat', id: each.parent }}>{each.parent}</Link>
        </>
      )}
      , revision {each.revision}, changed <Time at={each.updatedAt} />
    </>
  ) : (
    `Chat${found.loading || found.error ? '' : ': there is none now; its past may still be read'}`
  );
  return <Heading icon="chat" title={id} sub={sub} />;
}

function ValuesTab({ holder }: { holder: Holder }) {
  const found = useResource(`${nameOf(holder)}/values`, (signal) => readValues(holder, '', signal), concerns(holder));
  const [filter, setFilter] = useState('');
  const [adding, setAdding] = useState(false);
  if (found.error && !found.data) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const words = filter.toLowerCase();
  const shown = words
    ? found.data.entries.filter(
        ([key, value]) => key.toLowerCase().includes(words) || print(value).toLowerCase().includes(words),
      )
    : found.data.entries;
  const row = (index: number, style: CSSProperties) => {
    const [key, value] = shown[index] as [string, Json];
    return (
      <div class="pair" role="row" key={key} style={style} aria-rowindex={index + 1}>
        <span role="cell" class="name">
          <Link to={{ ...holder, key }}>{key}</Link>
        </span>
        <span role="cell" class="value">
          <Short value={value} />
        </span>
      </div>
    );
  };
  return (
    <>
      <p class="buttons">
        <label class="filter">
          <span class="offscreen">Filter keys and values</span>
          <input
            type="search"
            placeholder="Filter keys and values"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </label>
        <span class="faint" role="status">
          {shown.length.toLocaleString('en')} of {found.data.entries.length.toLocaleString('en')} keys
        </span>
        {mayWrite(holder.extension) && <Button onClick={() => setAdding(true)}>Add a key</Button>}
        <Button
          onClick={() =>
            void download(holder.extension, 'ndjson', `&${holder.kind}Id=${encodeURIComponent(holder.id)}`)
          }
        >
          Export this {holder.kind}
        </Button>
        <CopyButton what="Values" label="Copy all" text={() => JSONof(found.data?.entries ?? [])} />
      </p>
      {shown.length === 0 && <Empty>{words ? 'No key matches.' : 'Nothing is kept here yet.'}</Empty>}
      <VirtualList
        class="pairs"
        count={shown.length}
        height={ROW}
        row={row}
        attributes={{ role: 'table', 'aria-label': 'Keys and values', 'aria-rowcount': shown.length, tabIndex: 0 }}
      />
      {adding && <AddKey holder={holder} onClose={() => setAdding(false)} />}
    </>
  );
}

function JSONof(entries: [string, Json][]): string {
  return `{\n${entries.map(([key, value]) => `  ${JSON.stringify(key)}: ${print(value)}`).join(',\n')}\n}`;
}

/** A value on one line, with its type in colour. */
export function Short({ value }: { value: Json | undefined }) {
  if (
    value === undefined ||
    value === null ||
    typeof value !== 'object' ||
    (!Array.isArray(value) && 'text' in value)
  ) {
    return typeof value === 'string' && value.length > 200 ? (
      <Leaf value={`${value.slice(0, 200)}…`} />
    ) : (
      <Leaf value={value} />
    );
  }
  return (
    <>
      <span class="kind">{kindOf(value)}</span> <span class="peek">{preview(value, 140)}</span>
    </>
  );
}

function AddKey({ holder, onClose }: { holder: Holder; onClose: () => void }) {
  const [key, setKey] = useState('');
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const add = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const value = parse(text);
      const now = await readValue(holder, key);
      if (now.value !== undefined) {
        setProblem('There is such a key already. Open it to edit it.');
        return;
      }
      saidAndUndone(holder, key, await setValue(holder, key, value), 'Added');
      onClose();
      go({ ...holder, key });
    } catch (error) {
      setProblem(
        error instanceof JsonError
          ? `The value, line ${error.line}, column ${error.column}: ${error.message}`
          : errorText(error),
      );
    }
  };
  return (
    <Dialog title="Add a key" onClose={onClose}>
      <form onSubmit={(event) => void add(event)}>
        <label>
          Key
          <input required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <label>
          Value, as JSON
          <textarea
            rows={5}
            spellcheck={false}
            value={text}
            placeholder={'"text", 12, true, null, ["a list"], {"an": "object"}'}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        {problem && (
          <p class="failure" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <Button kind="main" type="submit">
            Add
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </p>
      </form>
    </Dialog>
  );
}

const KEY_TABS = [
  { id: 'value', label: 'Value' },
  { id: 'history', label: 'History' },
];

export function KeyPane({ holder, name }: { holder: Holder; name: string }) {
  const found = useResource(
    `${nameOf(holder)}/key/${name}`,
    (signal) => readValue(holder, name, '', signal),
    concerns(holder, name),
  );
  const tab = view.value.query.tab === 'history' ? 'history' : 'value';
  const editing = draftOf(holder, name) !== undefined;
  const { data } = found;
  const pick = (id: string): void => setQuery({ tab: id === 'value' ? '' : id });
  return (
    <>
      <Heading
        icon="key"
        title={name}
        sub={
          <>
            <Link to={{ ...holder }}>
              {holder.kind} {holder.id}
            </Link>
            {data && `, ${kindOf(data.value)}`}
            {data?.revision !== undefined && data.value !== undefined && `, since revision ${data.revision}`}
          </>
        }
      />
      <Tabs tabs={KEY_TABS} current={tab} label="Views" onPick={pick} />
      <div
        class="body"
        role="tabpanel"
        aria-label={tab === 'history' ? 'History' : 'Value'}
        key={`${nameOf(holder)}/${name}/${tab}`}
      >
        {tab === 'history' && <KeyHistory holder={holder} name={name} />}
        {tab === 'value' && editing && <Editing holder={holder} name={name} />}
        {tab === 'value' && !editing && (
          <>
            {found.error ? <Failure error={found.error} /> : null}
            {!data && found.loading && <Loading />}
            {data && (
              <>
                <KeyButtons holder={holder} name={name} value={data.value} tag={data.tag} />
                <JsonView value={data.value} />
              </>
            )}
          </>
        )}
      </div>
    </>
  );
}

function KeyButtons({
  holder,
  name,
  value,
  tag,
}: {
  holder: Holder;
  name: string;
  value: Json | undefined;
  tag: string | undefined;
}) {
  const write = mayWrite(holder.extension);
  const who = useResource(`${nameOf(holder)}/who`, () => whoOf(holder));
  return (
    <p class="buttons">
      {write && (
        <Button kind="main" onClick={() => beginEdit(holder, name).catch(sayFailure)}>
          {value === undefined ? 'Set a value' : 'Edit'}
        </Button>
      )}
      <Button onClick={() => setQuery({ tab: 'history' })}>History</Button>
      {value !== undefined && (
        <CopyButton what="Value" text={() => (typeof value === 'string' ? value : print(value, '  '))} />
      )}
      <CopyButton what="Path" text={() => `/${pathOf(holder)}/data/${seg(name)}`} />
      <CopyButton
        what="Request"
        label="Copy as fetch"
        text={() => asFetch('GET', `${pathOf(holder)}/data/${seg(name)}`, holder.extension)}
      />
      <CopyButton what="Macro" label="Copy as macro" text={() => asMacro(name, who.data ?? null)} />
      {write && value !== undefined && (
        <Button kind="danger" onClick={() => void removeKey(holder, name, tag)}>
          Remove
        </Button>
      )}
    </p>
  );
}

/** The name that a macro calls the owner of an instance by; null for a chat. */
async function whoOf(holder: Holder): Promise<string | null> {
  if (holder.kind === 'chat') return null;
  const instance = await instanceOf(holder.extension, holder.id);
  if (!instance) return holder.id;
  const characters = await read<Character[]>('characters', holder.extension);
  return characters.find((each) => each.id === instance.characterId)?.name || instance.characterId;
}
