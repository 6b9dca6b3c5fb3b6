/** The pages about extensions: all of them, and one of them with its size, health and care. */

import { useState } from 'preact/hooks';
import { go } from '../data/address.ts';
import { open, read, refusalOf, request, write } from '../data/api.ts';
import { JobView } from '../parts/jobs.tsx';
import type { Backup, Extension } from '../data/records.ts';
import { errorText, useResource } from '../data/resource.ts';
import { caller, extensions, isAdmin, loadExtensions, mayWrite, readOnly, say, sayFailure } from '../data/session.ts';
import { Button, bytesText, count, Dialog, Empty, Failure, Icon, Link, Time } from '../parts/ui.tsx';

const SOUND = new Set(['ok', 'verifying']);

export function Home() {
  const [registering, setRegistering] = useState(false);
  const list = extensions.value;
  const backups = useBackups();
  const mayRegister = !readOnly.value && isAdmin.value;
  return (
    <>
      <header class="heading">
        <Icon name="extension" />
        <div>
          <h1>Extensions</h1>
          <p>{count(list.length, 'extension')} on this server</p>
        </div>
        {mayRegister && (
          <Button kind="main" onClick={() => setRegistering(true)}>
            Register
          </Button>
        )}
      </header>
      {list.length === 0 && (
        <Empty>No extension is registered yet. Extensions register themselves when SillyTavern loads them.</Empty>
      )}
      <ul class="cards">
        {list.map((each) => (
          <li key={each.id}>
            <Link to={{ extension: each.id }}>{each.title || each.id}</Link>
            <Health status={each.status} />
            <small>
              {each.keys === undefined
                ? ''
                : `${count(each.keys, 'key')}, ${count(each.instances, 'instance')}, ${count(each.characters, 'character')}`}
            </small>
            <small>
              {each.bytes === undefined ? '' : `${bytesText(each.bytes)}, `}
              {each.revision === undefined ? '' : `revision ${each.revision.toLocaleString('en')}`}
            </small>
            <small>
              <LastBackup of={each} backups={backups} />
            </small>
          </li>
        ))}
      </ul>
      {registering && <Register onClose={() => setRegistering(false)} />}
    </>
  );
}

export function Health({ status }: { status: string }) {
  if (status === 'ok') return <span class="badge good">healthy</span>;
  if (status === 'verifying') return <span class="badge">being verified</span>;
  return <span class="badge bad">{status.replaceAll('_', ' ')}</span>;
}

function useBackups(): Backup[] | undefined {
  const admin = isAdmin.value;
  return useResource(`backups/${admin}`, () => (admin ? read<Backup[]>('backup') : Promise.resolve([]))).data;
}

function LastBackup({ of, backups }: { of: Extension; backups: Backup[] | undefined }) {
  if (!isAdmin.value || !backups) return null;
  if (of.backupError) return <span class="bad">not in the newest backup: {of.backupError}</span>;
  const found = backups.find((each) =>
    each.extensions.some((one) => one.id === of.id && one.user === caller.value?.user),
  );
  return found ? (
    <>
      last backup <Time at={found.createdAt} />
    </>
  ) : (
    <>no backup yet</>
  );
}

function Register({ onClose }: { onClose: () => void }) {
  const [id, setId] = useState('');
  const [problem, setProblem] = useState('');
  const register = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await request('POST', 'register', { body: JSON.stringify({ extensionId: id }) });
      await loadExtensions();
      say(`${id} is registered.`);
      onClose();
      go({ extension: id });
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  return (
    <Dialog title="Register an extension" onClose={onClose}>
      <form onSubmit={(event) => void register(event)}>
        <label>
          Id
          <input required value={id} onInput={(event) => setId(event.currentTarget.value)} />
        </label>
        {problem && (
          <p class="failure" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <Button kind="main" type="submit">
            Register
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </p>
      </form>
    </Dialog>
  );
}

export function ExtensionPane({ id }: { id: string }) {
  const known = extensions.value.find((each) => each.id === id);
  const admin = isAdmin.value;
  const found = useResource(
    `extension/${id}/${admin}`,
    () => (admin ? read<Extension>(`extensions/${encodeURIComponent(id)}`) : Promise.resolve(known)),
    () => true,
  );
  const backups = useBackups();
  const [dialog, setDialog] = useState<'' | 'deregister' | 'purge' | 'import' | 'compact'>('');
  const [job, setJob] = useState('');
  const each = found.data ?? known;
  const verify = async (): Promise<void> => {
    try {
      setJob((await request('POST', 'verify', { extension: id })).record<{ job: string }>().job);
    } catch (error) {
      sayFailure(error);
    }
  };
  return (
    <>
      <header class="heading">
        <Icon name="extension" />
        <div>
          <h1>{each?.title || id}</h1>
          <p>
            Extension {id} {each && <Health status={each.status} />}
          </p>
        </div>
      </header>
      <div class="body">
        {found.error ? <Failure error={found.error} /> : null}
        {!each && !found.loading && <Empty>{id} is not registered on this server.</Empty>}
        {each && admin && (
          <dl class="facts">
            <Fact name="Keys" value={each.keys?.toLocaleString('en') ?? '–'} />
            <Fact name="Instances" value={each.instances?.toLocaleString('en') ?? '–'} />
            <Fact name="Characters" value={each.characters?.toLocaleString('en') ?? '–'} />
            <Fact name="Size" value={bytesText(each.bytes)} />
            <Fact name="Revision" value={each.revision?.toLocaleString('en') ?? '–'} />
            <div>
              <dt>Registered</dt>
              <dd>
                <Time at={each.registeredAt} />
              </dd>
            </div>
            <div>
              <dt>Backup</dt>
              <dd>
                <LastBackup of={each} backups={backups} />
              </dd>
            </div>
            {each.path && <Fact name="File" value={each.path} />}
          </dl>
        )}
        {each && !SOUND.has(each.status) && (
          <p class="failure" role="alert">
            The database cannot be used ({each.status.replaceAll('_', ' ')}). Put a good copy in its place, or restore a
            backup; or give the data up with Purge.
          </p>
        )}
        {each && (
          <p class="buttons">
            {SOUND.has(each.status) && (
              <>
                <Button onClick={() => void download(id, 'ndjson')}>Export</Button>
                <Button onClick={() => void download(id, 'csv')}>Export as CSV</Button>
                <Button onClick={() => void verify()}>Verify</Button>
              </>
            )}
            {mayWrite(id) && SOUND.has(each.status) && (
              <>
                <Button onClick={() => setDialog('import')}>Import…</Button>
                <Button onClick={() => setDialog('compact')}>Compact…</Button>
              </>
            )}
            {admin && !readOnly.value && (
              <>
                <Button kind="danger" onClick={() => setDialog('deregister')}>
                  Deregister…
                </Button>
                <Button kind="danger" onClick={() => setDialog('purge')}>
                  Purge…
                </Button>
              </>
            )}
          </p>
        )}
        {job && <JobView id={job} />}
        {each && SOUND.has(each.status) && (
          <p class="faint">Open this extension in the tree to see its chats, characters and values.</p>
        )}
      </div>
      {(dialog === 'deregister' || dialog === 'purge') && (
        <Leave id={id} purge={dialog === 'purge'} onClose={() => setDialog('')} />
      )}
      {dialog === 'import' && <Import id={id} onClose={() => setDialog('')} />}
      {dialog === 'compact' && <Compact id={id} onClose={() => setDialog('')} />}
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Save an export as a file. */
export async function download(extension: string, format: string, query = ''): Promise<void> {
  try {
    const answer = await open('GET', `export?format=${format}${query}`, { extension });
    if (!answer.ok) throw refusalOf(answer.status, await answer.text());
    const named = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '');
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await answer.blob());
    link.download = named?.[1] ?? `${extension}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    sayFailure(error);
  }
}

function Leave({ id, purge, onClose }: { id: string; purge: boolean; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const [problem, setProblem] = useState('');
  const leave = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await request('DELETE', 'register', { body: JSON.stringify({ extensionId: id, purge }) });
      await loadExtensions();
      say(purge ? `${id} was purged: its file is in the folder “trash”.` : `${id} was deregistered. Its file stays.`);
      onClose();
      go({ page: 'home' });
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  return (
    <Dialog title={purge ? `Purge ${id}` : `Deregister ${id}`} onClose={onClose}>
      <form onSubmit={(event) => void leave(event)}>
        <p>
          {purge
            ? 'The extension is deregistered, and its database file is moved to the folder “trash” of the data directory.'
            : 'The server closes the database. The file stays, and a new registration finds its data.'}
        </p>
        <label>
          Type <strong>{id}</strong> to confirm
          <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
        {problem && (
          <p class="failure" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <Button kind="danger" type="submit" disabled={typed !== id}>
            {purge ? 'Purge' : 'Deregister'}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </p>
      </form>
    </Dialog>
  );
}

interface Imported {
  mode: string;
  revision: number;
  characters: number;
  instances: number;
  chats: number;
  values: number;
  skipped: number;
  clashes?: unknown[];
  warnings: string[];
}

function Import({ id, onClose }: { id: string; onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [mode, setMode] = useState('merge');
  const [tried, setTried] = useState<Imported | null>(null);
  const [problem, setProblem] = useState('');
  const send = async (dryRun: boolean): Promise<void> => {
    if (!file) return;
    setProblem('');
    const query = new URLSearchParams(mode ? { mode } : {});
    if (dryRun) query.set('dryRun', 'true');
    try {
      const answer = await write('POST', `import?${query}`, {
        extension: id,
        body: file,
        type: 'application/x-ndjson',
      });
      const done = answer.record<Imported>();
      if (dryRun) setTried(done);
      else {
        say(`Imported ${count(done.values, 'value')} of ${count(done.instances, 'instance')}.`);
        onClose();
      }
    } catch (error) {
      setTried(null);
      setProblem(errorText(error));
    }
  };
  return (
    <Dialog title={`Import into ${id}`} onClose={onClose}>
      <label>
        File of an export
        <input
          type="file"
          onChange={(event) => {
            setFile(event.currentTarget.files?.[0] ?? null);
            setTried(null);
          }}
        />
      </label>
      <label>
        What becomes of what is there
        <select
          value={mode}
          onChange={(event) => {
            setMode(event.currentTarget.value);
            setTried(null);
          }}
        >
          <option value="merge">Keep it; where both have a key, the file wins</option>
          <option value="skip">Keep it; where both have a key, it stays as it is here</option>
          <option value="replace">Replace all of it by the file, with its history</option>
          <option value="">Nothing is there yet: take the file with its history</option>
        </select>
      </label>
      {tried && (
        <p role="status">
          The file would bring {count(tried.characters, 'character')}, {count(tried.instances, 'instance')},{' '}
          {count(tried.chats, 'chat')} and {count(tried.values, 'value')}
          {tried.skipped > 0 && `; ${tried.skipped} would be skipped`}. {tried.warnings.join(' ')}
        </p>
      )}
      {problem && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
      <p class="buttons">
        <Button disabled={!file} onClick={() => void send(true)}>
          Try without changing anything
        </Button>
        <Button kind="main" disabled={!file || !tried} onClick={() => void send(false)}>
          Import
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </p>
    </Dialog>
  );
}

function Compact({ id, onClose }: { id: string; onClose: () => void }) {
  const [days, setDays] = useState('30');
  const [problem, setProblem] = useState('');
  const compact = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const done = (
        await request('POST', 'compact', { extension: id, body: JSON.stringify({ keep: { days: Number(days) } }) })
      ).record<{ oldest: number; removed: number }>();
      say(`${count(done.removed, 'change')} folded. The past is readable from revision ${done.oldest} on.`);
      onClose();
    } catch (error) {
      setProblem(errorText(error));
    }
  };
  return (
    <Dialog title={`Compact ${id}`} onClose={onClose}>
      <form onSubmit={(event) => void compact(event)}>
        <p>
          Values stay as they are. Changes that are older are folded into their result: that part of the past can no
          longer be read or restored.
        </p>
        <label>
          Keep the changes of the last days
          <input type="number" min="0" required value={days} onInput={(event) => setDays(event.currentTarget.value)} />
        </label>
        {problem && (
          <p class="failure" role="alert">
            {problem}
          </p>
        )}
        <p class="buttons">
          <Button kind="danger" type="submit">
            Compact
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </p>
      </form>
    </Dialog>
  );
}
