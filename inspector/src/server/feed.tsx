/** The live feed of an extension: every revision as it happens. */

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { setQuery, view } from '../data/address.ts';
import { feedState, onChange } from '../data/live.ts';
import { preview } from '../data/json.ts';
import type { FeedEvent } from '../data/records.ts';
import { extensions } from '../data/session.ts';
import { Button, count, Empty, Icon, Link, Time } from '../parts/ui.tsx';

const MOST = 500;

const events = signal<FeedEvent[]>([]);
let of = '';
onChange((event) => {
  if (!event) return;
  events.value = [event, ...events.value].slice(0, MOST);
});

/** Forget the events of another extension. */
export function feedOf(extension: string): void {
  if (extension === of) return;
  of = extension;
  events.value = [];
}

export function FeedPage() {
  const [held, setHeld] = useState<FeedEvent[] | null>(null);
  const { extension = extensions.value[0]?.id ?? '', filter = '' } = view.value.query;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = held ?? events.value;
  const shown = all.filter((each) => {
    const text = textOf(each);
    return words.every((word) => text.includes(word));
  });
  const missed = held ? events.value.length - held.length : 0;
  const states = { off: 'not connected', connecting: 'connecting…', live: 'live', gone: 'the extension is gone' };
  return (
    <>
      <header class="heading">
        <Icon name="feed" />
        <div>
          <h1>Live feed</h1>
          <p role="status">
            {extension ? `${extension}: ${states[feedState.value]}` : 'No extension is registered.'}
            {held && ` (paused${missed > 0 ? `, ${missed} new` : ''})`}
          </p>
        </div>
      </header>
      <div class="body">
        <p class="buttons">
          <label>
            <span class="offscreen">Extension</span>
            <select value={extension} onChange={(event) => setQuery({ extension: event.currentTarget.value })}>
              {extensions.value.map((each) => (
                <option key={each.id}>{each.id}</option>
              ))}
            </select>
          </label>
          <label>
            <span class="offscreen">Filter</span>
            <input
              type="search"
              placeholder="Filter: key, id, value, actor"
              value={filter}
              onInput={(event) => setQuery({ filter: event.currentTarget.value })}
            />
          </label>
          <Button onClick={() => setHeld(held ? null : events.value)}>{held ? 'Go on' : 'Pause'}</Button>
          <Button
            onClick={() => {
              events.value = [];
              setHeld(null);
            }}
          >
            Clear
          </Button>
        </p>
        {shown.length === 0 && (
          <Empty>Nothing has happened since this page was opened{words.length > 0 && ' that matches'}.</Empty>
        )}
        <ol class="groups">
          {shown.map((each) => (
            <li class="group" key={each.revision}>
              <header>
                <strong>Revision {each.revision}</strong>
                <span>
                  <Time at={each.at} /> by {each.actor}
                  {each.chatId !== null && ` in ${each.chatId}`}
                  {each.anchor && `, at message ${each.anchor.messageId}`}
                </span>
                <span class="faint">{count(each.changes.length, 'change')}</span>
              </header>
              <ul>
                {each.changes.slice(0, 20).map((change, index) => (
                  <li key={`${change.key}/${index}`} class={change.live ? '' : 'dormant'}>
                    {change.instanceId !== null ? (
                      <Link to={{ extension, kind: 'instance', id: change.instanceId, key: change.key }}>
                        {change.instanceId} {change.key}
                      </Link>
                    ) : (
                      <>
                        {change.space ?? ''} {change.key ?? ''}
                      </>
                    )}{' '}
                    {change.op} <span class="peek">{'after' in change ? preview(change.after, 100) : ''}</span>
                  </li>
                ))}
                {each.changes.length > 20 && <li class="faint">{each.changes.length - 20} more</li>}
              </ul>
            </li>
          ))}
        </ol>
      </div>
    </>
  );
}

function textOf(event: FeedEvent): string {
  const parts = event.changes.map(
    (each) => `${each.instanceId ?? ''} ${each.key ?? ''} ${each.op} ${preview(each.after, 200)}`,
  );
  return `${event.revision} ${event.actor} ${event.chatId ?? ''} ${event.anchor?.messageId ?? ''} ${parts.join(' ')}`.toLowerCase();
}
