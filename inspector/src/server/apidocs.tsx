/** The API itself: every route, tried against this server. This module comes with its page. */

import { useState } from 'preact/hooks';
import { setQuery, view } from '../data/address.ts';
import { Away, open, request } from '../data/api.ts';
import { asCurl, asFetch } from '../data/holder.ts';
import { parse, print } from '../data/json.ts';
import { matches, type OpenApi, type Route, routesOf, targetOf } from './openapi.ts';
import { errorText, useResource } from '../data/resource.ts';
import { extensions, readOnly } from '../data/session.ts';
import { Button, CopyButton, count, Failure, Icon, Loading } from '../parts/ui.tsx';

const MOST_SHOWN = 200_000;

export function ApiPage() {
  const found = useResource('openapi', async () =>
    routesOf(JSON.parse((await request('GET', 'openapi.json')).text) as OpenApi),
  );
  const { filter = '', route = '' } = view.value.query;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (found.data ?? []).filter((each) => matches(each, words));
  const sections = [...new Set(shown.map((each) => each.section))];
  return (
    <>
      <header class="heading">
        <Icon name="api" />
        <div>
          <h1>API</h1>
          <p role="status">{found.data ? `${count(shown.length, 'route')}` : 'All routes of this server'}</p>
        </div>
      </header>
      <div class="body">
        <p class="buttons">
          <label>
            <span class="offscreen">Search routes</span>
            <input
              type="search"
              placeholder="Search routes, fields, errors"
              value={filter}
              onInput={(event) => setQuery({ filter: event.currentTarget.value })}
            />
          </label>
        </p>
        {found.error ? <Failure error={found.error} /> : null}
        {!found.data && found.loading && <Loading />}
        {sections.map((section) => (
          <section key={section} aria-label={section}>
            <h2>{section}</h2>
            {shown
              .filter((each) => each.section === section)
              .map((each) => {
                const name = `${each.method} ${each.path}`;
                return (
                  <details
                    key={name}
                    class="route"
                    open={route === name}
                    onToggle={(event) => {
                      if (event.currentTarget.open && route !== name) setQuery({ route: name });
                      else if (!event.currentTarget.open && route === name) setQuery({ route: '' });
                    }}
                  >
                    <summary>
                      <b class={`method ${each.method.toLowerCase()}`}>{each.method}</b> <code>/{each.path}</code>{' '}
                      <span class="faint">{each.summary}</span>
                    </summary>
                    {route === name && <RouteView route={each} />}
                  </details>
                );
              })}
          </section>
        ))}
      </div>
    </>
  );
}

interface Received {
  status: number;
  took: number;
  text: string;
}

function RouteView({ route }: { route: Route }) {
  const example = route.bodies[0]?.value;
  const [extension, setExtension] = useState(extensions.value[0]?.id ?? '');
  const [given, setGiven] = useState<Record<string, string>>({});
  const [body, setBody] = useState(
    example === undefined ? '' : typeof example === 'string' ? example : JSON.stringify(example, null, 2),
  );
  const [answer, setAnswer] = useState<Received | null>(null);
  const [problem, setProblem] = useState('');
  const of = route.needsExtension ? extension : '';
  const target = targetOf(route, given);
  const sent = route.bodyType !== null && body.trim() ? body : undefined;
  const blocked = readOnly.value && route.method !== 'GET';
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setProblem('');
    const started = performance.now();
    const control = new AbortController();
    try {
      const got = await open(route.method, target, {
        extension: of,
        body: sent,
        type: typeOf(route),
        signal: control.signal,
      });
      const isStream = (got.headers.get('content-type') ?? '').startsWith('text/event-stream');
      const text = isStream ? 'The stream is open: the page “Live feed” shows it.' : await got.text();
      if (isStream) control.abort();
      setAnswer({ status: got.status, took: performance.now() - started, text: pretty(text) });
    } catch (error) {
      setProblem(error instanceof Away ? error.message : errorText(error));
    }
  };
  const asked = route.parameters.filter((each) => each.in === 'path' || each.in === 'query');
  return (
    <div class="try">
      {route.description && <p class="prose">{route.description}</p>}
      <form onSubmit={(event) => void send(event)}>
        {route.needsExtension && (
          <label>
            Extension
            <select value={extension} onChange={(event) => setExtension(event.currentTarget.value)}>
              {extensions.value.map((each) => (
                <option key={each.id}>{each.id}</option>
              ))}
            </select>
          </label>
        )}
        {asked.map((each) => {
          const name = `${each.in} ${each.name}`;
          return (
            <label key={name} title={each.description}>
              {each.name} {each.in === 'query' && <small class="faint">{each.description}</small>}
              <input
                required={each.in === 'path'}
                value={given[name] ?? ''}
                onInput={(event) => setGiven({ ...given, [name]: event.currentTarget.value })}
              />
            </label>
          );
        })}
        {route.bodyType !== null && (
          <label>
            Body
            <textarea
              rows={6}
              spellcheck={false}
              value={body}
              onInput={(event) => setBody(event.currentTarget.value)}
            />
          </label>
        )}
        <p class="buttons">
          <Button kind="main" type="submit" disabled={blocked}>
            Send
          </Button>
          {blocked && <span class="faint">Switch Read-only off to send this.</span>}
          <CopyButton what="Request" label="Copy as curl" text={() => asCurl(route.method, target, of, sent)} />
          <CopyButton what="Request" label="Copy as fetch" text={() => asFetch(route.method, target, of, sent)} />
        </p>
      </form>
      {problem && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
      {answer && (
        <section aria-label="Answer" role="status">
          <p>
            <span class={`badge ${answer.status < 400 ? 'good' : 'bad'}`}>{answer.status}</span> in{' '}
            {Math.round(answer.took)} ms
          </p>
          <pre>{answer.text.length > MOST_SHOWN ? `${answer.text.slice(0, MOST_SHOWN)}…` : answer.text}</pre>
        </section>
      )}
      <Answers route={route} />
    </div>
  );
}

function typeOf(route: Route): string | undefined {
  // SillyTavern rounds the numbers of `application/json`, so the page sends JSON by its own name.
  return route.bodyType === 'application/json' || route.bodyType === null ? undefined : route.bodyType;
}

function pretty(text: string): string {
  try {
    return print(parse(text), '  ');
  } catch {
    return text;
  }
}

function Answers({ route }: { route: Route }) {
  return (
    <dl class="answers">
      {route.answers.map((each) => (
        <div key={each.status}>
          <dt>
            <span class={`badge ${Number(each.status) < 400 ? 'good' : ''}`}>{each.status}</span>
          </dt>
          <dd>
            {each.description}
            {each.examples.map((one, index) => (
              <figure key={`${each.status}/${index}`}>
                <figcaption>{one.summary}</figcaption>
                <pre>{typeof one.value === 'string' ? one.value : JSON.stringify(one.value, null, 2)}</pre>
              </figure>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}
