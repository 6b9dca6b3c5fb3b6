/** The page about the server: its health, backups and SillyTavern. */

import { useState } from 'preact/hooks';
import { Metrics, Settings, Tokens } from './admin.tsx';
import { read, request, seg } from '../data/api.ts';
import { JobView } from '../parts/jobs.tsx';
import type { Backup } from '../data/records.ts';
import { useResource } from '../data/resource.ts';
import { caller, isAdmin, readOnly, say, sayFailure } from '../data/session.ts';
import { Button, bytesText, count, Dialog, Empty, Failure, Icon, Loading, Time } from '../parts/ui.tsx';

interface ServerHealth {
  status: string;
  version: string;
  engine: string;
  engineVersion: string;
  extensions: number;
  openDatabases: number;
}

interface BridgeHealth {
  status: string;
  enabled: boolean;
  base_url: string;
  alerts: string[];
  versions: {
    extension: { source: string | null; installed: string | null };
    plugin: { bundled: string | null; installed: string | null; remote: string | null };
  };
}

const ALERTS: Record<string, string> = {
  extension_mismatch:
    'The extension in SillyTavern is of another version than this server. Run `valuetracker sillytavern install` again.',
  extension_missing: 'The extension is not installed in SillyTavern. Run `valuetracker sillytavern install`.',
  plugin_mismatch:
    'The plugin in SillyTavern is of another version than this server. Run `valuetracker sillytavern install` again.',
  plugin_missing: 'The plugin is not installed in SillyTavern. Run `valuetracker sillytavern install`.',
  plugin_health_error:
    'The plugin in SillyTavern does not answer. Is SillyTavern running, and are server plugins enabled?',
  plugin_remote_mismatch: 'SillyTavern still runs an older plugin. Restart SillyTavern.',
  feature_disabled: 'The bridge to SillyTavern is switched off in the settings.',
};

export function alertText(alert: string): string {
  return ALERTS[alert] ?? alert.replaceAll('_', ' ');
}

export function ServerPage() {
  const health = useResource('healthz', () => read<ServerHealth>('healthz'));
  return (
    <>
      <header class="heading">
        <Icon name="server" />
        <div>
          <h1>Server</h1>
          <p>
            {health.data
              ? `Value Tracker ${health.data.version} on ${health.data.engine} ${health.data.engineVersion}`
              : 'Value Tracker'}
          </p>
        </div>
      </header>
      <div class="body">
        {health.error ? <Failure error={health.error} /> : null}
        {health.data && (
          <dl class="facts">
            <div>
              <dt>Extensions</dt>
              <dd>{health.data.extensions}</dd>
            </div>
            <div>
              <dt>Open databases</dt>
              <dd>{health.data.openDatabases}</dd>
            </div>
          </dl>
        )}
        {isAdmin.value && <Metrics />}
        {isAdmin.value && <Backups />}
        <SillyTavern />
        <Syncs />
        {isAdmin.value && <Tokens />}
        {isAdmin.value && <Settings />}
      </div>
    </>
  );
}

function Backups() {
  const found = useResource('backups', () => read<Backup[]>('backup'));
  const [job, setJob] = useState('');
  const [restoring, setRestoring] = useState<Backup | null>(null);
  const begin = async (method: string, path: string, body?: string): Promise<void> => {
    try {
      setJob((await request(method, path, { body })).record<{ job: string }>().job);
    } catch (error) {
      sayFailure(error);
    }
  };
  const remove = async (name: string): Promise<void> => {
    try {
      await request('DELETE', `backup/${seg(name)}`);
      say(`The backup ${name} was deleted.`);
    } catch (error) {
      sayFailure(error);
    }
    found.reload();
  };
  return (
    <section aria-labelledby="backups">
      <h2 id="backups">Backups</h2>
      {!readOnly.value && (
        <p class="buttons">
          <Button kind="main" onClick={() => void begin('POST', 'backup')}>
            Back up now
          </Button>
        </p>
      )}
      {job && <JobView key={job} id={job} onEnd={found.reload} />}
      {found.error ? <Failure error={found.error} /> : null}
      {!found.data && found.loading && <Loading />}
      {found.data?.length === 0 && <Empty>There is no backup yet.</Empty>}
      {found.data && found.data.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Made</th>
                <th>Kind</th>
                <th>Holds</th>
                <th>Size</th>
                <th />
              </tr>
            </thead>
            <tbody>
              {found.data.map((each) => (
                <tr key={each.name}>
                  <td>
                    <Time at={each.createdAt} />
                  </td>
                  <td>{each.kind}</td>
                  <td>
                    {count(each.extensions.length, 'extension')}
                    {each.failed.length > 0 && <span class="badge bad">{each.failed.length} failed</span>}
                  </td>
                  <td>{bytesText(each.bytes)}</td>
                  <td class="buttons">
                    <Button kind="quiet" onClick={() => void begin('POST', `backup/${seg(each.name)}/verify`)}>
                      Verify
                    </Button>
                    {!readOnly.value && (
                      <Button kind="quiet" onClick={() => setRestoring(each)}>
                        Restore…
                      </Button>
                    )}
                    {!readOnly.value && (
                      <Button kind="danger" onClick={() => void remove(each.name)}>
                        Delete
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {restoring && (
        <RestoreBackup
          backup={restoring}
          onClose={() => setRestoring(null)}
          onRestore={(extensionId) => {
            setRestoring(null);
            const body = JSON.stringify(extensionId ? { extensionId, force: true } : { force: true });
            void begin('POST', `backup/${seg(restoring.name)}/restore`, body);
          }}
        />
      )}
    </section>
  );
}

interface RestoreBackupProps {
  backup: Backup;
  onClose: () => void;
  onRestore: (extensionId: string) => void;
}

function RestoreBackup({ backup, onClose, onRestore }: RestoreBackupProps) {
  const [of, setOf] = useState('');
  const [typed, setTyped] = useState('');
  const word = of || 'everything';
  const own = backup.extensions.filter((each) => each.user === caller.value?.user);
  return (
    <Dialog title={`Restore the backup ${backup.name}`} onClose={onClose}>
      <p>What is there now is replaced, and kept in the folder “trash” of the data directory.</p>
      <label>
        Restore
        <select value={of} onChange={(event) => setOf(event.currentTarget.value)}>
          <option value="">everything in the backup</option>
          {own.map((each) => (
            <option key={each.id} value={each.id}>
              {each.id}, revision {each.revision}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>
          Type <strong>{word}</strong> to confirm
        </span>
        <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <p class="buttons">
        <Button kind="danger" disabled={typed !== word} onClick={() => onRestore(of)}>
          Restore
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </p>
    </Dialog>
  );
}

function SillyTavern() {
  const found = useResource('st/health', () => read<BridgeHealth>('st/health'));
  return (
    <section aria-labelledby="sillytavern">
      <h2 id="sillytavern">SillyTavern</h2>
      {found.error ? <Failure error={found.error} /> : null}
      {!found.data && found.loading && <Loading />}
      {found.data && (
        <>
          <p>
            <span class={`badge ${found.data.status === 'ok' ? 'good' : ''}`}>{found.data.status}</span>{' '}
            {found.data.base_url}
          </p>
          <ul class="alerts">
            {found.data.alerts.map((each) => (
              <li key={each}>{alertText(each)}</li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

interface Sync {
  timestamp: string;
  session_id: string;
  message_count: number;
  ok: boolean;
  status: string;
  error: string | null;
  latency_ms: number;
}

function Syncs() {
  const found = useResource('st/session/sync', () => read<{ items: Sync[] }>('st/session/sync'));
  if (!found.data || found.data.items.length === 0) return null;
  return (
    <section aria-labelledby="syncs">
      <h2 id="syncs">Session syncs</h2>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>When</th>
              <th>Session</th>
              <th>Messages</th>
              <th>Result</th>
              <th>Took</th>
            </tr>
          </thead>
          <tbody>
            {found.data.items.map((each) => (
              <tr key={`${each.timestamp}/${each.session_id}`}>
                <td>
                  <Time at={each.timestamp} />
                </td>
                <td>{each.session_id}</td>
                <td>{each.message_count}</td>
                <td>{each.ok ? 'sent' : (each.error ?? each.status)}</td>
                <td>{Math.round(each.latency_ms)} ms</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
