/**
 * JSON without losses: numbers keep their text, objects keep the order of their keys.
 *
 * `JSON.parse` would round 18446744073709551615, sort the keys "2" and "1", and lose `__proto__`.
 * So the page keeps values in these classes, from the answer of the server to the text on the screen.
 */

/** A number as it was written. */
export class Num {
  constructor(readonly text: string) {}
}

/** An object as a list of its entries, in their order. */
export class Obj {
  constructor(readonly entries: [string, Json][]) {}

  get(key: string): Json | undefined {
    for (let index = this.entries.length - 1; index >= 0; index--) {
      const entry = this.entries[index];
      if (entry?.[0] === key) return entry[1];
    }
    return undefined;
  }
}

export type Json = null | boolean | string | Num | Json[] | Obj;

/** A text that is not JSON, and the place where it stops being so. */
export class JsonError extends Error {
  constructor(
    message: string,
    readonly offset: number,
    readonly line: number,
    readonly column: number,
  ) {
    super(message);
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const BLANKS = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES: Record<string, string> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};
/** As deep as the server allows, and more: deeper text would exhaust the stack. */
const DEEPEST = 1000;

export function parse(text: string): Json {
  return new Parser(text).document();
}

class Parser {
  #at = 0;

  constructor(readonly text: string) {}

  document(): Json {
    this.#blanks();
    if (this.#at === this.text.length) throw this.#error('The text is empty: a value is expected');
    const value = this.#value(0);
    this.#blanks();
    if (this.#at < this.text.length) throw this.#error(`${this.#here()} after the end of the value`);
    return value;
  }

  #value(depth: number): Json {
    if (depth > DEEPEST) throw this.#error('The value is nested too deeply');
    const first = this.text[this.#at];
    if (first === '{') return this.#object(depth);
    if (first === '[') return this.#list(depth);
    if (first === '"') return this.#string();
    if (first === 't') return this.#word('true', true);
    if (first === 'f') return this.#word('false', false);
    if (first === 'n') return this.#word('null', null);
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.text);
    if (!found) throw this.#error(`A value is expected, not ${this.#here()}`);
    this.#at += found[0].length;
    return new Num(found[0]);
  }

  #word<T extends Json>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.#at)) {
      throw this.#error(`A value is expected, not ${this.#here()}: text stands in double quotes`);
    }
    this.#at += word.length;
    return value;
  }

  #object(depth: number): Obj {
    const entries: [string, Json][] = [];
    this.#at++;
    this.#blanks();
    if (this.#take('}')) return new Obj(entries);
    for (;;) {
      if (this.text[this.#at] !== '"') throw this.#error(`A key in double quotes is expected, not ${this.#here()}`);
      const key = this.#string();
      this.#blanks();
      if (!this.#take(':')) throw this.#error(`“:” is expected, not ${this.#here()}`);
      this.#blanks();
      entries.push([key, this.#value(depth + 1)]);
      this.#blanks();
      if (this.#take('}')) return new Obj(entries);
      if (!this.#take(',')) throw this.#error(`“,” or “}” is expected, not ${this.#here()}`);
      this.#blanks();
    }
  }

  #list(depth: number): Json[] {
    const items: Json[] = [];
    this.#at++;
    this.#blanks();
    if (this.#take(']')) return items;
    for (;;) {
      items.push(this.#value(depth + 1));
      this.#blanks();
      if (this.#take(']')) return items;
      if (!this.#take(',')) throw this.#error(`“,” or “]” is expected, not ${this.#here()}`);
      this.#blanks();
    }
  }

  #string(): string {
    let found = '';
    this.#at++;
    for (;;) {
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.text)?.[0] ?? '';
      this.#at += plain.length;
      found += plain;
      const next = this.text[this.#at];
      if (next === '"') {
        this.#at++;
        return found;
      }
      if (next === undefined) throw this.#error('The text ends inside of double quotes');
      if (next !== '\\') throw this.#error('A line break or control character inside of double quotes: write \\n');
      found += this.#escape();
    }
  }

  #escape(): string {
    const name = this.text[this.#at + 1] ?? '';
    if (name === 'u') {
      const digits = this.text.slice(this.#at + 2, this.#at + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#error('Four hexadecimal digits are expected after \\u');
      this.#at += 6;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    const meant = ESCAPES[name];
    if (meant === undefined) throw this.#error(`\\${name} means nothing: write \\\\ for a backslash`);
    this.#at += 2;
    return meant;
  }

  #blanks(): void {
    BLANKS.lastIndex = this.#at;
    this.#at += BLANKS.exec(this.text)?.[0].length ?? 0;
  }

  #take(character: string): boolean {
    if (this.text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #here(): string {
    const code = this.text.codePointAt(this.#at);
    return code === undefined ? 'the end' : `“${String.fromCodePoint(code)}”`;
  }

  #error(message: string): JsonError {
    const before = this.text.slice(0, this.#at);
    const line = before.split('\n').length;
    const column = this.#at - before.lastIndexOf('\n');
    return new JsonError(`${message}.`, this.#at, line, column);
  }
}

/** Write a value; with an indent, over several lines. */
export function print(value: Json, indent = ''): string {
  const parts: string[] = [];
  write(value, indent, '\n', parts);
  return parts.join('');
}

function write(value: Json, indent: string, newline: string, parts: string[]): void {
  if (value instanceof Num) parts.push(value.text);
  else if (value === null || typeof value !== 'object') parts.push(JSON.stringify(value));
  else {
    const isList = Array.isArray(value);
    const length = isList ? value.length : value.entries.length;
    if (length === 0) {
      parts.push(isList ? '[]' : '{}');
      return;
    }
    const inner = indent ? newline + indent : '';
    parts.push(isList ? '[' : '{');
    for (let index = 0; index < length; index++) {
      if (index) parts.push(indent ? ',' : ', ');
      parts.push(inner);
      if (isList) write(value[index] as Json, indent, inner, parts);
      else {
        const [key, item] = value.entries[index] as [string, Json];
        parts.push(JSON.stringify(key), ': ');
        write(item, indent, inner, parts);
      }
    }
    if (indent) parts.push(newline);
    parts.push(isList ? ']' : '}');
  }
}

/** Return the beginning of a value on one line. */
export function preview(value: Json | undefined, most = 80): string {
  if (value === undefined) return 'absent';
  const parts: string[] = [];
  let left = most;
  const put = (text: string): void => {
    parts.push(text.length > left ? text.slice(0, Math.max(left, 0)) : text);
    left -= text.length;
  };
  const show = (each: Json): void => {
    if (left <= 0) return;
    if (each instanceof Num) put(each.text);
    else if (typeof each === 'string') put(JSON.stringify(each.length > left ? each.slice(0, left) : each));
    else if (each === null || typeof each === 'boolean') put(String(each));
    else if (Array.isArray(each)) {
      put('[');
      for (let index = 0; index < each.length && left > 0; index++) {
        if (index) put(', ');
        show(each[index] as Json);
      }
      put(']');
    } else {
      put('{');
      for (let index = 0; index < each.entries.length && left > 0; index++) {
        const [key, item] = each.entries[index] as [string, Json];
        put(`${index ? ', ' : ''}${key}: `);
        show(item);
      }
      put('}');
    }
  };
  show(value);
  return left < 0 ? `${parts.join('')}…` : parts.join('');
}

export function equal(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (one === undefined || other === undefined) return false;
  if (one instanceof Num) return other instanceof Num && one.text === other.text;
  if (one === null || other === null || typeof one !== 'object' || typeof other !== 'object') return false;
  if (other instanceof Num || Array.isArray(one) !== Array.isArray(other)) return false;
  return print(one) === print(other);
}

/** Return the word for what a value is. */
export function kindOf(value: Json | undefined): string {
  if (value === undefined) return 'absent';
  if (value === null) return 'null';
  if (value instanceof Num) return 'number';
  if (typeof value === 'string') return value === '' ? 'empty text' : 'text';
  if (typeof value === 'boolean') return 'true or false';
  if (Array.isArray(value)) return value.length === 0 ? 'empty list' : `list of ${value.length}`;
  const count = value.entries.length;
  return count === 0 ? 'empty object' : `object of ${count}`;
}

/** Return a value as plain JavaScript, for records of the API, whose numbers are small. */
export function lift(value: Json, kept: ReadonlySet<string> = NOTHING): unknown {
  if (value instanceof Num) return Number(value.text);
  if (Array.isArray(value)) return value.map((item) => lift(item, kept));
  if (value instanceof Obj) {
    const made: Record<string, unknown> = Object.create(null);
    for (const [key, item] of value.entries) made[key] = kept.has(key) ? item : lift(item, kept);
    return made;
  }
  return value;
}

const NOTHING: ReadonlySet<string> = new Set();

/** Return plain JavaScript as a value. */
export function fromPlain(value: unknown): Json {
  return parse(JSON.stringify(value));
}
