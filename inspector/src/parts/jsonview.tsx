/** A value as a person reads it: folded below a useful depth, each part as text. */

import { useState } from 'preact/hooks';
import { type Json, kindOf, Num, preview } from '../data/json.ts';

const OPEN_DEPTH = 3;
const OPEN_ITEMS = 40;
const SHOWN_ITEMS = 100;
const SHOWN_TEXT = 2000;

export function JsonView({ value }: { value: Json | undefined }) {
  return (
    <div class="json">
      <Part value={value} depth={0} />
    </div>
  );
}

function Part({ value, depth, name }: { value: Json | undefined; depth: number; name?: string }) {
  if (value !== null && typeof value === 'object' && !(value instanceof Num)) {
    return <Container value={value} depth={depth} name={name} />;
  }
  return (
    <div class="part">
      {name !== undefined && <Name name={name} />}
      <Leaf value={value} />
    </div>
  );
}

function Name({ name }: { name: string }) {
  return <span class="name">{name === '' ? '""' : name}: </span>;
}

export function Leaf({ value }: { value: Json | undefined }) {
  const [whole, setWhole] = useState(false);
  if (value === undefined) return <span class="absent">absent</span>;
  if (value === null) return <span class="null">null</span>;
  if (value instanceof Num) return <span class="number">{value.text}</span>;
  if (typeof value === 'boolean') return <span class="boolean">{String(value)}</span>;
  if (value === '') return <span class="absent">"" empty text</span>;
  const text = String(value);
  if (text.length <= SHOWN_TEXT || whole) return <span class="text">{text}</span>;
  return (
    <>
      <span class="text">{text.slice(0, SHOWN_TEXT)}…</span>{' '}
      <button type="button" class="more" onClick={() => setWhole(true)}>
        Show all {text.length.toLocaleString('en')} characters
      </button>
    </>
  );
}

function Container({
  value,
  depth,
  name,
}: {
  value: Exclude<Json, null | boolean | string | Num>;
  depth: number;
  name?: string;
}) {
  const items: [string, Json][] = Array.isArray(value)
    ? value.map((item, index) => [String(index), item])
    : value.entries;
  const [open, setOpen] = useState(depth < OPEN_DEPTH && (depth === 0 || items.length <= OPEN_ITEMS));
  const [shown, setShown] = useState(SHOWN_ITEMS);
  if (items.length === 0) {
    return (
      <div class="part">
        {name !== undefined && <Name name={name} />}
        <span class="absent">
          {Array.isArray(value) ? '[]' : '{}'} {kindOf(value)}
        </span>
      </div>
    );
  }
  return (
    <div class="part">
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {name !== undefined && <Name name={name} />}
        <span class="kind">{kindOf(value)}</span>
        {!open && <span class="peek"> {preview(value, 60)}</span>}
      </button>
      {open && (
        <div class="inner">
          {items.slice(0, shown).map(([key, item], index) => (
            <Part key={index} value={item} depth={depth + 1} name={key} />
          ))}
          {items.length > shown && (
            <button type="button" class="more" onClick={() => setShown(shown + 10 * SHOWN_ITEMS)}>
              {(items.length - shown).toLocaleString('en')} more
            </button>
          )}
        </div>
      )}
    </div>
  );
}
