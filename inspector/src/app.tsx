/** The page: its bar, the tree, the pane, and what is said to the person. */

import { effect } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { view } from './data/address.ts';
import { online } from './data/api.ts';
import { ExtensionPane, Home } from './server/extension.tsx';
import { FeedPage, feedOf } from './server/feed.tsx';
import type { Holder } from './data/holder.ts';
import { follow, followAgain } from './data/live.ts';
import { CharacterPane, HolderPane, KeyPane } from './values/panes.tsx';
import { ServerPage } from './server/server.tsx';
import {
  begin,
  caller,
  dismiss,
  extensions,
  failure,
  giveToken,
  loadExtensions,
  needsToken,
  notices,
  readOnly,
  sayFailure,
  setTheme,
  type Theme,
  theme,
  version,
} from './data/session.ts';
import { Tree } from './tree/treeview.tsx';
import { Button, Failure, Icon, Link, Loading } from './parts/ui.tsx';

// The feed follows what is shown.
effect(() => {
  const { page, extension, query } = view.value;
  const shown = page === 'feed' ? (query.extension ?? extensions.value[0]?.id ?? '') : extension;
  const known = !needsToken.value && extensions.value.some((each) => each.id === shown);
  feedOf(known ? shown : '');
  follow(known ? shown : '');
});

let wasOnline = true;
effect(() => {
  const now = online.value;
  if (now && !wasOnline) void loadExtensions().catch(() => undefined);
  wasOnline = now;
});

export function App() {
  const [menu, setMenu] = useState(false);
  const now = view.value;
  const address = JSON.stringify([now.page, now.extension, now.kind, now.id, now.key]);
  // On a phone the tree lies over the pane: choosing closes it.
  useEffect(() => setMenu(false), [address]);
  if (needsToken.value) return <AskToken />;
  if (!caller.value) {
    return (
      <main class="alone">
        {failure.value ? (
          <>
            <h1>Value Tracker</h1>
            <p class="failure" role="alert">
              {failure.value}
            </p>
            <Button kind="main" onClick={() => void begin()}>
              Try again
            </Button>
          </>
        ) : (
          <Loading />
        )}
        <Lost />
      </main>
    );
  }
  return (
    <div class={`app ${menu ? 'menu' : ''}`}>
      <Bar onMenu={() => setMenu(!menu)} menu={menu} />
      <nav class="side" aria-label="Contents">
        <Tree />
      </nav>
      <main id="pane" tabIndex={-1}>
        <Pane />
      </main>
      <Lost />
      <Notices />
    </div>
  );
}

function Bar({ menu, onMenu }: { menu: boolean; onMenu: () => void }) {
  const page = view.value.page;
  const next: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
  return (
    <header class="bar">
      <Button kind="quiet" class="menu-button" aria-label="Contents" aria-expanded={menu} onClick={onMenu}>
        <Icon name="menu" />
      </Button>
      <a class="brand" href="#/">
        Value Tracker <small>{version.value}</small>
      </a>
      <nav aria-label="Pages" class="pages">
        <PageLink page="home" icon="extension" label="Extensions" current={page === 'home' || page === 'extension'} />
        <PageLink page="feed" icon="feed" label="Live feed" current={page === 'feed'} />
        <PageLink page="server" icon="server" label="Server" current={page === 'server'} />
        <PageLink page="api" icon="api" label="API" current={page === 'api'} />
      </nav>
      <label class="switch">
        <input
          type="checkbox"
          role="switch"
          checked={readOnly.value}
          onChange={(event) => {
            readOnly.value = event.currentTarget.checked;
          }}
        />
        <span>Read-only</span>
      </label>
      <Button
        kind="quiet"
        title={`Colours: ${theme.value}`}
        aria-label={`Colours: ${theme.value}`}
        onClick={() => setTheme(next[theme.value])}
      >
        <Icon name="theme" />
      </Button>
    </header>
  );
}

function PageLink({ page, icon, label, current }: { page: string; icon: string; label: string; current: boolean }) {
  return (
    <Link to={{ page }} class={current ? 'current' : ''}>
      <Icon name={icon} />
      <span>{label}</span>
    </Link>
  );
}

function Pane() {
  const { page, extension, kind, id, key } = view.value;
  if (page === 'home') return <Home />;
  if (page === 'feed') return <FeedPage />;
  if (page === 'server') return <ServerPage />;
  if (page === 'api') return <Lazy />;
  if (!kind) return <ExtensionPane key={extension} id={extension} />;
  if (kind === 'character') return <CharacterPane key={id} extension={extension} id={id} />;
  const holder: Holder = { extension, kind: kind === 'chat' ? 'chat' : 'instance', id };
  return key === null ? <HolderPane holder={holder} /> : <KeyPane holder={holder} name={key} />;
}

/** The page of the API, whose code comes with it. */
function Lazy() {
  const [page, setPage] = useState<{ show: ComponentType } | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    import('./server/apidocs.tsx').then((module) => setPage({ show: module.ApiPage }), setError);
  }, []);
  if (error) return <Failure error={error} />;
  if (!page) return <Loading />;
  return <page.show />;
}

function Lost() {
  if (online.value) return null;
  return (
    <p class="lost" role="alert">
      The server does not answer. Trying again…
    </p>
  );
}

function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map((each) => (
        <div key={each.id} class={`notice ${each.kind}`}>
          <span>{each.text}</span>
          {each.action && (
            <Button
              onClick={() => {
                const { action } = each;
                dismiss(each.id);
                action?.run().catch(sayFailure);
              }}
            >
              {each.action.label}
            </Button>
          )}
          <Button kind="quiet" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            <Icon name="close" />
          </Button>
        </div>
      ))}
    </div>
  );
}

function AskToken() {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const give = async (event: Event): Promise<void> => {
    event.preventDefault();
    setProblem(await giveToken(text));
    followAgain();
  };
  return (
    <main class="alone">
      <h1>Value Tracker</h1>
      <form onSubmit={(event) => void give(event)}>
        <p>This server wants a token. It is kept in this page only: a new page asks for it again.</p>
        <label>
          Token
          <input
            type="password"
            required
            autocomplete="off"
            value={text}
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
            Open
          </Button>
        </p>
        <p class="faint">
          The admin makes one with <code>valuetracker token create</code>.
        </p>
      </form>
      <Lost />
    </main>
  );
}
