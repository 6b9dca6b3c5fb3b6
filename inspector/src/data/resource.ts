/** Something that is read from the server, and read again when it changes. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { explain } from './api.ts';
import { onChange } from './live.ts';
import type { FeedEvent } from './records.ts';

export interface Resource<T> {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

const GATHER_MS = 120;

/**
 * Read something while a component is shown.
 *
 * `name` says what it is: another name is another thing. `concerns` says which changes matter to it;
 * without it, none does.
 */
export function useResource<T>(
  name: string,
  load: (signal: AbortSignal) => Promise<T>,
  concerns?: (event: FeedEvent) => boolean,
): Resource<T> {
  const [state, setState] = useState<{ name: string; data?: T; error?: unknown }>({ name });
  const [turn, setTurn] = useState(0);
  const [busy, setBusy] = useState(true);
  const latest = useRef(load);
  latest.current = load;

  useEffect(() => {
    const control = new AbortController();
    setBusy(true);
    latest.current(control.signal).then(
      (data) => {
        if (control.signal.aborted) return;
        setState({ name, data });
        setBusy(false);
      },
      (error) => {
        if (control.signal.aborted) return;
        setState((before) => ({ name, data: before.name === name ? before.data : undefined, error }));
        setBusy(false);
      },
    );
    return () => control.abort();
  }, [name, turn]);

  const reload = (): void => setTurn((before) => before + 1);
  const matters = useRef(concerns);
  matters.current = concerns;
  const listens = concerns !== undefined;
  useEffect(() => {
    if (!listens) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onChange((event) => {
      if (event && !matters.current?.(event)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        reload();
      }, GATHER_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [name, listens]);

  const shown = state.name === name ? state : { name };
  return { data: shown.data, error: shown.error, loading: busy, reload };
}

export function errorText(error: unknown): string {
  const { message, hint } = explain(error);
  return hint ? `${message} ${hint}` : message;
}
