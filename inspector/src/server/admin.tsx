/** The parts of the server's page that are for admins: metrics, tokens, settings. */

import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { read, request, seg } from '../data/api.ts';
import { Chart } from '../parts/chart.tsx';
import { coursesOf, type Sample, sampleOf } from './metrics.ts';
import { errorText, useResource } from '../data/resource.ts';
import { begin, readOnly, say, sayFailure } from '../data/session.ts';
import { Button, CopyButton, Dialog, Empty, Failure, Loading, Time } from '../parts/ui.tsx';

const EVERY_MS = 2000;
const MOST_SAMPLES = 300;
const CHART = 130;

/** They outlive the page of the server, so that its charts go on where they were. */
const samples = signal<Sample[]>([]);

export function Metrics() {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const ask = async (): Promise<void> => {
      try {
        const { text } = await request('GET', 'metrics');
        if (over) return;
        samples.value = [...samples.value, sampleOf(text, Date.now())].slice(-MOST_SAMPLES);
        setError(null);
      } catch (failure) {
        if (!over) setError(failure);
      }
      if (!over) timer = setTimeout(() => void ask(), EVERY_MS);
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);
  const { times, requests, latency, commits, memory } = coursesOf(samples.value);
  const charts = [
    { label: 'Requests per second', ys: requests },
    { label: 'Milliseconds per request', ys: latency },
    { label: 'Commits per second', ys: commits },
    { label: 'Memory in MB', ys: memory },
  ];
  return (
    <section aria-labelledby="metrics">
      <h2 id="metrics">Metrics</h2>
      {error ? <Failure error={error} /> : null}
      {times.length < 2 && <p class="faint">Measuring…</p>}
      {times.length >= 2 && (
        <div class="charts">
          {charts.map((each) => (
            <Chart key={each.label} label={each.label} xs={times} times lines={[each]} height={CHART} />
          ))}
        </div>
      )}
    </section>
  );
}

interface Token {
  id: string;
  name: string;
  extensions: string[];
  readOthers: boolean;
  admin: boolean;
  createdAt: string;
}

export function Tokens() {
  const found = useResource('tokens', () => read<Token[]>('tokens'));
  const [making, setMaking] = useState(false);
  const revoke = async (each: Token): Promise<void> => {
    try {
      await request('DELETE', `tokens/${seg(each.id)}`);
      say(`The token of ${each.name} was revoked.`);
    } catch (error) {
      sayFailure(error);
    }
    found.reload();
  };
  return (
    <section aria-labelledby="tokens">
      <h2 id="tokens">Tokens</h2>
      {found.error ? <Failure error={found.error} /> : null}
      {!found.data && found.loading && <Loading />}
      {found.data?.length === 0 && (
        <Empty>No token exists: whoever can reach this server may use it. The first token must be an admin's.</Empty>
      )}
      {!readOnly.value && (
        <p class="buttons">
          <Button onClick={() => setMaking(true)}>Make a token…</Button>
        </p>
      )}
      {found.data && found.data.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>For</th>
                <th>May</th>
                <th>Made</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {found.data.map((each) => (
                <tr key={each.id}>
                  <td>{each.name}</td>
                  <td>{rights(each)}</td>
                  <td>
                    <Time at={each.createdAt} />
                  </td>
                  <td class="buttons">
                    {!readOnly.value && (
                      <Button kind="danger" onClick={() => void revoke(each)}>
                        Revoke
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making && (
        <MakeToken
          first={found.data?.length === 0}
          onClose={() => {
            setMaking(false);
            found.reload();
          }}
        />
      )}
    </section>
  );
}

function rights(token: Token): string {
  if (token.admin) return 'do everything';
  const parts = token.extensions.length ? [`use ${token.extensions.join(', ')}`] : [];
  if (token.readOthers) parts.push('read all extensions');
  return parts.join('; ') || 'nothing';
}

function MakeToken({ first, onClose }: { first: boolean; onClose: () => void }) {
  const [name, setName] = useState('');
  const [extensions, setExtensions] = useState('');
  const [readOthers, setReadOthers] = useState(false);
  const [admin, setAdmin] = useState(first);
  const [made, setMade] = useState('');
  const [problem, setProblem] = useState('');
  const make = async (event: Event): Promise<void> => {
    event.preventDefault();
    const listed = extensions.split(/[\s,]+/).filter(Boolean);
    try {
      const body = JSON.stringify({ name, extensions: listed, readOthers, admin });
      setMade((await request('POST', 'tokens', { body })).record<{ token: string }>().token);
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  const close = (): void => {
    onClose();
    // From the first token on, this page needs one, too.
    if (made && first) void begin();
  };
  return (
    <Dialog title="Make a token" onClose={close}>
      {made ? (
        <>
          <p>Copy the token now: it is shown this once.</p>
          <pre class="token">{made}</pre>
          <p class="buttons">
            <CopyButton what="Token" text={() => made} />
            <Button onClick={close}>Done</Button>
          </p>
        </>
      ) : (
        <form onSubmit={(event) => void make(event)}>
          <label>
            Who it is for
            <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <label>
            Extensions it may read and write
            <input
              value={extensions}
              disabled={admin}
              placeholder="ids, with commas between them"
              onInput={(event) => setExtensions(event.currentTarget.value)}
            />
          </label>
          <p>
            <label>
              <input
                type="checkbox"
                checked={readOthers}
                disabled={admin}
                onChange={(event) => setReadOthers(event.currentTarget.checked)}
              />{' '}
              It may read all extensions
            </label>
          </p>
          <p>
            <label>
              <input type="checkbox" checked={admin} onChange={(event) => setAdmin(event.currentTarget.checked)} /> It
              may do everything (admin)
            </label>
          </p>
          {first && <p class="faint">From the first token on, every client needs one, this page included.</p>}
          {problem && (
            <p class="failure" role="alert">
              {problem}
            </p>
          )}
          <p class="buttons">
            <Button kind="main" type="submit">
              Make
            </Button>
            <Button onClick={close}>Cancel</Button>
          </p>
        </form>
      )}
    </Dialog>
  );
}

interface Setting {
  name: string;
  value: unknown;
  default: unknown;
  secret: boolean;
  isSet: boolean;
  flag: string;
  variable: string;
  help: string;
}

export function Settings() {
  const found = useResource('settings', async () => JSON.parse((await request('GET', 'settings')).text) as Setting[]);
  return (
    <section aria-labelledby="settings">
      <h2 id="settings">Settings in force</h2>
      {found.error ? <Failure error={found.error} /> : null}
      {!found.data && found.loading && <Loading />}
      {found.data && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Setting</th>
                <th>Value</th>
                <th>What it does</th>
              </tr>
            </thead>
            <tbody>
              {found.data.map((each) => (
                <tr key={each.name}>
                  <td>
                    <code title={each.variable}>{each.flag}</code>
                  </td>
                  <td class="value">
                    {settingText(each)} {each.isSet && <span class="badge">set</span>}
                  </td>
                  <td>{each.help}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function settingText(setting: Setting): string {
  if (setting.secret) return setting.isSet ? 'hidden' : 'not set';
  if (Array.isArray(setting.value)) return setting.value.join(', ') || '–';
  return setting.value === null || setting.value === '' ? '–' : String(setting.value);
}
