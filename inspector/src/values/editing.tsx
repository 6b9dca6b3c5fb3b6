/** Editing a value as text: checked while it is typed, saved only over what was read. */

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Answer, online, Refusal, seg, write } from '../data/api.ts';
import type { DiffHandle, EditorHandle } from './editor.ts';
import { type Holder, nameOf, type OneValue, pathOf, readValue } from '../data/holder.ts';
import { type Json, JsonError, parse, print } from '../data/json.ts';
import { say, sayFailure } from '../data/session.ts';
import { Button, Failure, Loading } from '../parts/ui.tsx';

const INDENT = '  ';
// A text is checked when the person pauses: an error in the middle of a word is none.
const PAUSE_MS = 400;

interface Draft {
  base: OneValue;
  text: string;
}

/** Texts that are being edited, by the key they belong to: another view does not lose them. */
const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

function draftName(holder: Holder, key: string): string {
  return `${nameOf(holder)}/${key}`;
}

export function draftOf(holder: Holder, key: string): Draft | undefined {
  return drafts.value.get(draftName(holder, key));
}

function setDraft(holder: Holder, key: string, draft: Draft | undefined): void {
  const next = new Map(drafts.value);
  if (draft) next.set(draftName(holder, key), draft);
  else next.delete(draftName(holder, key));
  drafts.value = next;
}

export async function beginEdit(holder: Holder, key: string): Promise<void> {
  const base = await readValue(holder, key);
  setDraft(holder, key, { base, text: base.value === undefined ? '' : print(base.value, INDENT) });
}

export function Editing({ holder, name }: { holder: Holder; name: string }) {
  const draft = draftOf(holder, name);
  const [problem, setProblem] = useState<string>('');
  const [theirs, setTheirs] = useState<OneValue | null>(null);
  const [busy, setBusy] = useState(false);
  const editor = useRef<EditorHandle>(null);
  const typed = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(typed.current), []);
  if (!draft) return null;

  const change = (text: string): void => {
    setDraft(holder, name, { base: draft.base, text });
    setProblem('');
    clearTimeout(typed.current);
    typed.current = setTimeout(() => check(text, setProblem, null), PAUSE_MS);
  };
  const cancel = (): void => setDraft(holder, name, undefined);

  const save = async (text: string, over: OneValue): Promise<void> => {
    const value = check(text, setProblem, editor.current);
    if (value === undefined) return;
    setBusy(true);
    try {
      const done = await setValue(holder, name, value, over.tag);
      setDraft(holder, name, undefined);
      saidAndUndone(holder, name, done, over.value === undefined ? 'Added' : 'Saved');
    } catch (error) {
      if (error instanceof Refusal && error.code === 'revision_conflict') setTheirs(await readValue(holder, name));
      else setProblem(explained(error));
    } finally {
      setBusy(false);
    }
  };

  if (theirs) {
    return (
      <Conflict
        theirs={theirs}
        mine={draft.text}
        busy={busy}
        onMine={(text) => {
          change(text);
          const now = theirs;
          setTheirs(null);
          setDraft(holder, name, { base: now, text });
          void save(text, now);
        }}
        onTheirs={() => {
          setTheirs(null);
          cancel();
          say('Their value was kept.');
        }}
        onBack={(text) => {
          setDraft(holder, name, { base: theirs, text });
          setTheirs(null);
        }}
      />
    );
  }
  return (
    <section class="editing" aria-label={`Edit ${name}`}>
      <Editor
        handle={editor}
        text={draft.text}
        onChange={change}
        label={`Value of ${name}, as JSON`}
        onSave={() => void save(editor.current?.text() ?? draft.text, draft.base)}
      />
      {problem && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
      <p class="buttons">
        <Button kind="main" disabled={busy} onClick={() => void save(draft.text, draft.base)}>
          Save
        </Button>
        <Button onClick={cancel}>Cancel</Button>
        {busy && !online.value && (
          <span role="status">The connection is lost. Your change is kept, and sent when the server is back.</span>
        )}
      </p>
    </section>
  );
}

function explained(error: unknown): string {
  if (error instanceof Refusal) return [error.message, error.hint].filter(Boolean).join(' ');
  return error instanceof Error ? `${error.message} Your text is still here: save it again.` : String(error);
}

/** Parse a text; if it is not JSON, say where. */
function check(text: string, say: (problem: string) => void, editor: EditorHandle | null): Json | undefined {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    say(`Line ${error.line}, column ${error.column}: ${error.message}`);
    editor?.point(error.offset);
    return undefined;
  }
}

/** Set a value; with an ETag, only if the key has not changed since. */
export async function setValue(holder: Holder, key: string, value: Json, over?: string): Promise<Answer> {
  const answer = await write('POST', `${pathOf(holder)}/data`, {
    extension: holder.extension,
    body: `{"key": ${JSON.stringify(key)}, "value": ${print(value)}}`,
    headers: over === undefined ? {} : { 'if-match': over },
  });
  return answer;
}

export async function removeKey(holder: Holder, key: string, over?: string): Promise<void> {
  try {
    const answer = await write('DELETE', `${pathOf(holder)}/data/${seg(key)}`, {
      extension: holder.extension,
      headers: over === undefined ? {} : { 'if-match': over },
    });
    saidAndUndone(holder, key, answer, 'Removed');
  } catch (error) {
    sayFailure(error);
  }
}

/** Say what was done, and offer to undo it as long as nobody has changed the key since. */
export function saidAndUndone(holder: Holder, key: string, written: Answer, done: string): void {
  const { revision } = written;
  const undo = async (): Promise<void> => {
    const answer = await write('POST', `${pathOf(holder)}/data/${seg(key)}/restore`, {
      extension: holder.extension,
      body: JSON.stringify({ revision: revision - 1 }),
      headers: { 'if-match': written.written },
    });
    say(`${key} is as it was before, at revision ${answer.revision}.`);
  };
  say(`${done}: ${key}, revision ${revision}.`, { label: 'Undo', run: undo });
}

interface EditorProps {
  handle: { current: EditorHandle | null };
  text: string;
  label: string;
  onChange: (text: string) => void;
  onSave: () => void;
}

/** The editor; its code comes when it is first needed. */
export function Editor({ handle, text, label, onChange, onSave }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>(null);
  const [ready, setReady] = useState(false);
  const latest = useRef({ onChange, onSave });
  latest.current = { onChange, onSave };
  useEffect(() => {
    let over = false;
    import('./editor.ts').then(
      ({ mountEditor }) => {
        if (over || !host.current) return;
        handle.current = mountEditor(host.current, {
          text,
          label,
          onChange: (now) => latest.current.onChange(now),
          onSave: () => latest.current.onSave(),
        });
        setReady(true);
      },
      (failure) => setError(failure),
    );
    return () => {
      over = true;
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);
  if (error) return <Failure error={error} />;
  return (
    <>
      {!ready && <Loading />}
      <div class="editor" ref={host} />
    </>
  );
}

interface ConflictProps {
  theirs: OneValue;
  mine: string;
  busy: boolean;
  onMine: (text: string) => void;
  onTheirs: () => void;
  onBack: (text: string) => void;
}

function Conflict({ theirs, mine, busy, onMine, onTheirs, onBack }: ConflictProps) {
  const diff = useRef<DiffHandle>(null);
  const text = (): string => diff.current?.text() ?? mine;
  return (
    <section class="editing conflict" aria-label="Two values">
      <p role="alert">
        <strong>Somebody else changed this value while you edited it.</strong> Nothing is lost: choose which one stays.
      </p>
      <div class="two">
        <h3>Theirs: {theirs.value === undefined ? 'removed' : `revision ${theirs.revision ?? ''}`}</h3>
        <h3>Yours</h3>
      </div>
      <Diff
        handle={diff}
        before={theirs.value === undefined ? '' : print(theirs.value, INDENT)}
        after={mine}
        editable
      />
      <p class="buttons">
        <Button kind="main" disabled={busy} onClick={() => onMine(text())}>
          Save mine
        </Button>
        <Button disabled={busy} onClick={onTheirs}>
          Keep theirs
        </Button>
        <Button kind="quiet" onClick={() => onBack(text())}>
          Go on editing
        </Button>
      </p>
    </section>
  );
}

interface DiffProps {
  handle?: { current: DiffHandle | null };
  before: string;
  after: string;
  editable?: boolean;
}

/** Two texts side by side. */
export function Diff({ handle, before, after, editable }: DiffProps) {
  const host = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let over = false;
    let made: DiffHandle | null = null;
    import('./editor.ts').then(
      ({ mountDiff }) => {
        if (over || !host.current) return;
        made = mountDiff(host.current, { before, after, editable: editable ?? false });
        if (handle) handle.current = made;
      },
      (failure) => setError(failure),
    );
    return () => {
      over = true;
      made?.destroy();
      if (handle) handle.current = null;
    };
  }, [before, after, editable, handle]);
  if (error) return <Failure error={error} />;
  return <div class="editor" ref={host} />;
}
